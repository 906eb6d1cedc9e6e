"""PIL images as pictures that a page can hold, however large they are."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from io import BytesIO

from talaria_runner.own.hooks import made_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    Bundle = dict[str, object]

DOTS = 2_000_000  # of the picture shown; the image itself stays unchanged
BYTES = 4 << 20  # a photograph that would be larger as PNG is shown as JPEG
_SHOWN = frozenset(("1", "L", "LA", "P", "RGB", "RGBA", "I;16"))  # modes that PNG has


def show_image(value: object) -> tuple[Bundle, Bundle] | None:
    """The formatter for PIL.Image."""
    if not made_by(value, "PIL.Image", "Image"):
        return None
    width, height = value.size
    text = repr(value)
    if not width or not height:
        return {"text/plain": text}, {}
    picture = value
    factor = -(-((width * height) ** 0.5) // DOTS**0.5)
    if factor > 1:
        picture = _reduced(value, int(factor))
        text += f", shown at {picture.size[0]}x{picture.size[1]}"
    if picture.mode not in _SHOWN:
        picture = picture.convert("I;16" if picture.mode == "I" else "RGB")
    mime, data = "image/png", _encoded(picture, "PNG")
    if len(data) > BYTES:
        mime, data = "image/jpeg", _encoded(picture.convert("RGB"), "JPEG")
    size = {"width": picture.size[0], "height": picture.size[1]}
    return {"text/plain": text, mime: data}, {mime: size}


def _reduced(image: object, factor: int) -> object:
    if image.mode in ("P", "1"):
        image = image.convert("RGBA" if image.mode == "P" else "L")
    if image.mode.startswith("I;"):  # modes that reduce does not accept
        return image.resize((max(1, image.size[0] // factor), max(1, image.size[1] // factor)))
    return image.reduce(factor)


def _encoded(picture: object, format: str) -> bytes:
    out = BytesIO()
    picture.save(out, format)
    return out.getvalue()
