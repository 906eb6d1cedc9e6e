"""The objects of IPython.display: data of one MIME type, and the functions that show them."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _json import encode_basestring_ascii as _quoted

from talaria_runner.rendering.display import DisplayHandle, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

__all__ = [
    "Audio", "Code", "DisplayHandle", "DisplayObject", "FileLink", "GeoJSON", "HTML", "IFrame", "Image", "JSON",
    "Javascript", "Latex", "Markdown", "Math", "Pretty", "SVG", "TextDisplayObject", "Video", "YouTubeVideo",
    "clear_output", "display", "display_html", "display_jpeg", "display_json", "display_latex", "display_markdown",
    "display_png", "display_pretty", "display_svg", "publish_display_data", "update_display",
]  # fmt: skip

display = shared[0].display
update_display = shared[0].update_display
clear_output = shared[0].clear_output


def publish_display_data(
    data: dict[str, object],
    metadata: dict[str, object] | None = None,
    *,
    transient: dict[str, object] | None = None,
    update: bool = False,
    **further: object,
) -> None:
    """Shows a MIME bundle."""
    display(data, raw=True, metadata=metadata, transient=transient, update=update)


class DisplayObject:
    """Data given as such, or read from a file. A URL is not fetched: the page that shows it does that."""

    _binary = False

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | PathLike[str] | None = None,
        metadata: dict[str, object] | None = None,
    ) -> None:
        if data is not None and _is_path(data):
            data, filename = None, str(data)
        if isinstance(data, str) and url is None and data.startswith(("http://", "https://")) and self._binary:
            data, url = None, data
        elif isinstance(data, str) and filename is None and self._binary:
            data, filename = None, data
        self.data = data
        self.url = url
        self.filename = None if filename is None else str(filename)
        self.metadata = dict(metadata or {})
        self.reload()

    def reload(self) -> None:
        """Reads the file again."""
        if self.filename is not None:
            with open(self.filename, "rb") as file:
                content = file.read()
            self.data = content if self._binary else content.decode("utf-8")

    def __repr__(self) -> str:
        return f"<IPython.core.display.{type(self).__name__} object>"

    def _bundle(self, mime: str) -> tuple[dict[str, object], dict[str, object]]:
        data = {"text/plain": repr(self)}
        if self.data is not None:
            data[mime] = self.data
        return data, {mime: self.metadata} if self.metadata else {}


class TextDisplayObject(DisplayObject):
    """Text of one MIME type."""

    _mime = "text/plain"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return self._bundle(self._mime)


class HTML(TextDisplayObject):
    _mime = "text/html"

    def _repr_html_(self) -> object:
        return self.data

    def __html__(self) -> object:
        return self.data


class Markdown(TextDisplayObject):
    _mime = "text/markdown"

    def _repr_markdown_(self) -> object:
        return self.data


class Latex(TextDisplayObject):
    _mime = "text/latex"

    def _repr_latex_(self) -> object:
        return self.data


class Math(Latex):
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        data, metadata = self._bundle(self._mime)
        return {**data, self._mime: self._repr_latex_()}, metadata

    def _repr_latex_(self) -> object:
        return r"$\displaystyle {}$".format(str(self.data).strip("$"))


class SVG(TextDisplayObject):
    _mime = "image/svg+xml"

    def reload(self) -> None:
        super().reload()
        if isinstance(self.data, bytes):
            self.data = self.data.decode("utf-8")
        if isinstance(self.data, str) and "<svg" in self.data:
            self.data = self.data[self.data.index("<svg"):]

    def _repr_svg_(self) -> object:
        return self.data


class Javascript(TextDisplayObject):
    _mime = "application/javascript"

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | None = None,
        lib: str | list[str] | None = None,
        css: str | list[str] | None = None,
    ) -> None:
        super().__init__(data, url, filename)
        self.lib = [lib] if isinstance(lib, str) else list(lib or ())
        self.css = [css] if isinstance(css, str) else list(css or ())

    def _repr_javascript_(self) -> object:
        return self.data


class Pretty(TextDisplayObject):
    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return {"text/plain": str(self.data)}


class Code(TextDisplayObject):
    """Source text, in a Markdown fence of its language."""

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | PathLike[str] | None = None,
        language: str | None = None,
    ) -> None:
        self.language = language or ""
        super().__init__(data, url, filename)

    def __repr__(self) -> str:
        return str(self.data)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        text = str(self.data)
        return {"text/plain": text, "text/markdown": f"```{self.language}\n{text}\n```"}


class JSON(DisplayObject):
    _mime = "application/json"

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | None = None,
        expanded: bool = False,
        metadata: dict[str, object] | None = None,
        root: str = "root",
        **further: object,
    ) -> None:
        super().__init__(data, url, filename, {"expanded": expanded, "root": root, **(metadata or {}), **further})
        if isinstance(self.data, str):
            import json

            self.data = json.loads(self.data)

    def _repr_json_(self) -> object:
        return self.data, self.metadata

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return self._bundle(self._mime)


class GeoJSON(JSON):
    _mime = "application/geo+json"


class Image(DisplayObject):
    """A picture: bytes, the name of a file, or a URL that the page loads."""

    _binary = True

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | PathLike[str] | None = None,
        format: str | None = None,
        embed: bool | None = None,
        width: int | None = None,
        height: int | None = None,
        retina: bool = False,
        unconfined: bool = False,
        metadata: dict[str, object] | None = None,
        alt: str | None = None,
    ) -> None:
        super().__init__(data, url, filename, metadata)
        self.format = _picture_type(self.data, format, self.filename)
        self.width = width
        self.height = height
        self.alt = alt
        for name, value in (("width", width), ("height", height), ("alt", alt)):
            if value is not None:
                self.metadata[name] = value

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        if self.data is not None:
            return self._bundle(f"image/{self.format}")
        size = "".join(f" {n}={_quoted(str(v))}" for n, v in self.metadata.items())
        return {"text/plain": repr(self), "text/html": f'<img src="{_attribute(self.url)}"{size}/>'}

    def _repr_png_(self) -> object:
        return self.data if self.format == "png" else None

    def _repr_jpeg_(self) -> object:
        return self.data if self.format == "jpeg" else None


class Audio(DisplayObject):
    """A recording as bytes of a WAV, MP3 or OGG file, or the name or URL of one."""

    _binary = True

    def __init__(
        self,
        data: object = None,
        filename: str | PathLike[str] | None = None,
        url: str | None = None,
        embed: bool | None = None,
        rate: int | None = None,
        autoplay: bool = False,
        normalize: bool = True,
    ) -> None:
        if rate is not None:
            data = _wave(data, rate, normalize)
        self.autoplay = autoplay
        super().__init__(data, url, filename)

    def _repr_html_(self) -> str:
        source = self.url
        if self.data is not None:
            kind = "wav" if self.data[:4] == b"RIFF" else "ogg" if self.data[:4] == b"OggS" else "mpeg"
            source = _data_url(f"audio/{kind}", self.data)
        play = " autoplay" if self.autoplay else ""
        return f'<audio controls{play} src="{_attribute(source)}"></audio>'


class Video(DisplayObject):
    """A video as the name of a file or its bytes, which become part of the output, or a URL that the page loads."""

    _binary = True

    def __init__(
        self,
        data: object = None,
        url: str | None = None,
        filename: str | PathLike[str] | None = None,
        embed: bool = False,
        mimetype: str | None = None,
        width: int | None = None,
        height: int | None = None,
        html_attributes: str = "controls",
    ) -> None:
        super().__init__(data, url, filename)
        self.mimetype = mimetype
        self.width = width
        self.height = height
        self.html_attributes = html_attributes

    def _repr_html_(self) -> str:
        source = self.url
        if self.data is not None:
            from mimetypes import guess_type

            source = _data_url(self.mimetype or guess_type(self.filename or "")[0] or "video/mp4", self.data)
        size = "".join(f' {name}="{_attribute(v)}"' for name, v in (("width", self.width), ("height", self.height)) if v)
        return f'<video {self.html_attributes}{size} src="{_attribute(source)}"></video>'


class IFrame:
    """A page in a frame."""

    def __init__(self, src: str, width: object, height: object, extras: object = None, **params: object) -> None:
        self.src = src
        self.width = width
        self.height = height
        self.params = params

    def _repr_html_(self) -> str:
        from urllib.parse import urlencode

        source = f"{self.src}?{urlencode(self.params)}" if self.params else self.src
        return (
            f'<iframe width="{_attribute(self.width)}" height="{_attribute(self.height)}" '
            f'src="{_attribute(source)}" frameborder="0" allowfullscreen></iframe>'
        )


class YouTubeVideo(IFrame):
    """A video of YouTube, by its id. The page loads it; further parameters, such as start, are the player's."""

    def __init__(self, id: str, width: object = 400, height: object = 300, allow_autoplay: bool = False, **params: object) -> None:
        self.id = id
        super().__init__(f"https://www.youtube.com/embed/{id}", width, height, **params, **({"autoplay": 1} if allow_autoplay else {}))


class FileLink:
    """A link to a file."""

    def __init__(
        self, path: str | PathLike[str], url_prefix: str = "", result_html_prefix: str = "", result_html_suffix: str = "<br>"
    ) -> None:
        from os.path import isdir

        if isdir(path):
            raise ValueError(f"{path} is a folder; FileLink takes a file")
        self.path = str(path)
        self.url_prefix = url_prefix
        self.result_html_prefix = result_html_prefix
        self.result_html_suffix = result_html_suffix

    def __repr__(self) -> str:
        from os.path import abspath

        return abspath(self.path)

    def _repr_html_(self) -> str:
        from os.path import exists

        name = _attribute(self.path)
        if not exists(self.path):
            return f"There is no file <tt>{name}</tt>, or not yet."
        link = f'<a href="{_attribute(self.url_prefix)}{name}" target="_blank">{name}</a>'
        return f"{self.result_html_prefix}{link}{self.result_html_suffix}"


def _shower(mime: str) -> object:
    def show(*objects: object, raw: bool = False, metadata: dict[str, object] | None = None) -> None:
        if raw:
            for value in objects:
                display({mime: value}, raw=True, metadata=metadata)
        else:
            display(*objects, include=("text/plain", mime), metadata=metadata)

    return show


display_html = _shower("text/html")
display_jpeg = _shower("image/jpeg")
display_json = _shower("application/json")
display_latex = _shower("text/latex")
display_markdown = _shower("text/markdown")
display_png = _shower("image/png")
display_pretty = _shower("text/plain")
display_svg = _shower("image/svg+xml")


def _is_path(data: object) -> bool:
    return hasattr(data, "__fspath__")


def _attribute(value: object) -> str:
    text = str(value)
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;")):
        text = text.replace(character, entity)
    return text


def _data_url(mime: str, data: bytes) -> str:
    from base64 import b64encode

    return f"data:{mime};base64,{b64encode(data).decode()}"


def _picture_type(data: object, given: str | None, filename: str | None) -> str:
    if given:
        given = given.lower()
        return "jpeg" if given == "jpg" else given
    start = bytes(data[:12]) if data is not None else b""
    if start.startswith(b"\xff\xd8"):
        return "jpeg"
    if start.startswith(b"GIF8"):
        return "gif"
    if start.startswith(b"RIFF") and start.endswith(b"WEBP"):
        return "webp"
    return "png"


def _wave(samples: object, rate: int, normalize: bool) -> bytes:
    """Samples between -1 and 1, one list or one for each channel, as a WAV file of 16 bits."""
    import array
    import io
    import wave

    rows = [list(row) if hasattr(row, "__iter__") else row for row in samples]
    channels = rows if rows and isinstance(rows[0], list) else [rows]
    peak = max((abs(v) for row in channels for v in row), default=0) or 1
    scale = 32767 / (peak if normalize else 1)
    flat = array.array("h", (int(v * scale) for frame in zip(*channels) for v in frame))
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(len(channels))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(flat.tobytes())
    return out.getvalue()


for _class in (DisplayObject, TextDisplayObject, HTML, Markdown, Latex, Math, SVG, Javascript, Pretty, Code, JSON,
               GeoJSON, Image, Audio, Video, IFrame, YouTubeVideo, FileLink):  # fmt: skip
    _class.__module__ = "IPython.core.display"
