"""Rich display: an object's MIME bundle, and the functions that user code calls to show one."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from binascii import b2a_base64
from math import isfinite
from posix import urandom

from talaria_runner.errors.tracebacks import Tracebacks
from talaria_runner.rendering.pretty import cut, pretty
from talaria_runner.run.deadline import Deadline
from talaria_runner.run.execution import owner
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire import frames
from talaria_runner.wire.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.streams.output import TextOut

    Bundle = dict[str, object]

LARGEST = 32 << 20  # bytes of one display, encoded

_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("application/pdf", "_repr_pdf_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
# An object that claims to have this method claims to have any.
_CANARY = "_ipython_canary_method_should_not_exist_"
_PLAIN = frozenset((int, float, bool, str, bytes, complex, list, tuple, dict, set, frozenset, type(None)))


class Display:
    """Shows objects. Its methods are safe in every thread."""

    def __init__(
        self, outbox: Outbox, interrupts: Interrupts, tracebacks: Tracebacks, deadline: Deadline
    ) -> None:
        self._outbox = outbox
        self._interrupts = interrupts
        self._tracebacks = tracebacks
        self._deadline = deadline
        self.errors: TextOut | None = None  # where reports go when sys.stderr cannot be written
        self.formatters: list[Callable[[object], tuple[Bundle, Bundle] | None]] = []
        self.plain = set(_PLAIN)  # types that none of the formatters is asked about
        self.sinks: list[Callable[[Bundle, Bundle, str, bool], None]] = []  # the last one receives what is shown

    def __reduce__(self) -> tuple[Callable[[], Display], tuple[()]]:
        """A variable that refers to it, such as one of its methods or a handle, is saved with a reference to that of the interpreter."""
        return the_one, ()

    def display(
        self,
        *objects: object,
        include: object = None,
        exclude: object = None,
        metadata: Bundle | None = None,
        transient: Bundle | None = None,
        display_id: str | bool | None = None,
        raw: bool = False,
        clear: bool = False,
        update: bool = False,
        **further: object,
    ) -> DisplayHandle | None:
        """Shows the objects. With raw they are MIME bundles. With a display_id, or True for a new one, the
        output can be updated, and a handle is returned."""
        if display_id is None and transient:
            display_id = transient.get("display_id")
        if display_id is True or (update and not display_id):
            if update:
                raise TypeError("display_id required for update_display")
            display_id = urandom(16).hex()
        if clear:
            self.clear_output(wait=True)
        for object in objects:
            bundle = (object, {}) if raw else self.bundle(object)
            if bundle is not None:
                data, own_metadata = bundle
                data = _chosen(data, include, exclude)
                self._send(data, {**own_metadata, **(metadata or {})}, str(display_id or ""), update)
        self._interrupts.deliver()
        return DisplayHandle(str(display_id), self) if display_id else None

    def update_display(self, object: object, *, display_id: str, **settings: object) -> None:
        """Replaces the output with that display_id."""
        self.display(object, display_id=display_id, update=True, **settings)

    def clear_output(self, wait: bool = False) -> None:
        """Clears the cell's output; with wait, only when the next output comes."""
        if self.sinks:
            return
        self._outbox.put(frames.clear(owner(), wait), marked=True)
        self._outbox.flush()
        self._interrupts.deliver()

    def show_result(self, value: object) -> None:
        """Shows value as the result of the cell, which is written with the cell's end, or by write_out."""
        bundle = self.bundle(value)
        if bundle is None:
            return
        data, metadata = self._encoded(*bundle)
        if data and self._fits(bundle[0], data):
            self._outbox.add(frames.result(owner(), data, metadata))
        self._interrupts.deliver()

    def write_out(self) -> None:
        """Writes what was shown, before something that may take long."""
        self._outbox.write()

    def encoded(self, value: object) -> tuple[str, str]:
        """The MIME bundle of value and its metadata, as JSON. Nothing is shown."""
        data, metadata = self._encoded(*(self.bundle(value) or ({}, {})))
        return data or "{}", metadata

    def bundle(self, value: object) -> tuple[Bundle, Bundle] | None:
        """The MIME bundle of value and its metadata; None if value showed itself, or cannot be shown.
        Exceptions in its methods go to stderr as tracebacks."""
        self._interrupts.deliver()
        data: Bundle = {}
        metadata: Bundle = {}
        if type(value) not in self.plain and not isinstance(value, type):
            if self._shows_itself(value):
                return None
            for formatter in self.formatters:
                self._merge(data, metadata, self._attempt(formatter, value))
            if not data:
                self.ask(value, data, metadata)
        if "text/plain" not in data:
            text = self._attempt(lambda value: pretty(value, self._deadline), value)
            if text is not None:
                data = {"text/plain": text, **data}
        elif type(data["text/plain"]) is str:
            data["text/plain"] = cut(data["text/plain"])
        return (data, metadata) if data else None

    def report(self, error: BaseException) -> None:
        """Writes the traceback of an exception that does not end the cell to stderr."""
        self._complain("\n".join(self._tracebacks.describe(error)[2]))

    def _complain(self, text: str) -> None:
        """Writes to sys.stderr, which may be any object."""
        stream = getattr(sys, "stderr", None)
        if stream is not self.errors and stream is not None:
            try:
                print(text, file=stream)
                return
            except Exception:
                pass
        if self.errors is not None:
            self.errors.write(text + "\n")

    def _shows_itself(self, value: object) -> bool:
        method = _method(value, "_ipython_display_")
        if method is None:
            return False
        try:
            method()
        except NotImplementedError:
            return False
        except Exception as e:
            self.report(e)
        return True

    def ask(self, value: object, data: Bundle, metadata: Bundle) -> None:
        """Adds what value's own methods return, for the MIME types that are still missing."""
        method = _method(value, "_repr_mimebundle_")
        if method is not None:
            bundle = self._attempt(lambda _: method(include=None, exclude=None), value)
            self._merge(data, metadata, bundle)
        for mime, name in _METHODS:
            method = None if mime in data else _method(value, name)
            if method is None:
                continue
            found = self._attempt(lambda _, method=method: method(), value)
            if isinstance(found, tuple) and len(found) == 2:
                found, about = found
                if about:
                    metadata[mime] = about
            if found is not None:
                data[mime] = found

    def _merge(self, data: Bundle, metadata: Bundle, bundle: object) -> None:
        if isinstance(bundle, tuple) and len(bundle) == 2:
            bundle, about = bundle
            metadata.update(about or {})
        if isinstance(bundle, dict):
            data.update(bundle)

    def _attempt(self, function: Callable, value: object) -> object:
        self._interrupts.deliver()
        try:
            return function(value)
        except Exception as e:
            self.report(e)
            return None

    def _send(self, data: Bundle, metadata: Bundle, display_id: str, update: bool) -> None:
        if self.sinks:
            self.sinks[-1](data, metadata, display_id, update)
            return
        encoded = self.encode(data, metadata)
        if encoded is None:
            return
        if self._outbox.forked:
            print(data.get("text/plain", ""))
            return
        self._outbox.put(frames.display(owner(), *encoded, display_id, update), marked=True)
        self._outbox.flush()

    def encode(self, data: Bundle, metadata: Bundle) -> tuple[str, str] | None:
        """Both as JSON, as a frame takes them. None, with the reason on stderr, if nothing of it can be shown."""
        encoded, about = self._encoded(data, metadata)
        return (encoded, about) if encoded and self._fits(data, encoded) else None

    def _encoded(self, data: Bundle, metadata: Bundle) -> tuple[str, str]:
        """Both as JSON; values that cannot be encoded are left out, with their tracebacks on stderr."""
        parts = []
        for mime, value in data.items():
            text = self._attempt(lambda value, mime=mime: _encode(mime, value), value)
            if text is not None:
                parts.append(f"{frames.quoted(str(mime))}:{text}")
        about = self._attempt(encode_json, metadata)
        return ("{" + ",".join(parts) + "}" if parts else ""), about or "{}"

    def _fits(self, data: Bundle, encoded: str) -> bool:
        if len(encoded) <= LARGEST:
            return True
        names = ", ".join(map(str, data))
        size = f"{len(encoded) / (1 << 20):.1f} MiB"
        self._complain(f"not shown: a display of {size} ({names}); the limit is {LARGEST >> 20} MiB")
        return False


class DisplayHandle:
    """An output that was shown with a display_id."""

    def __init__(self, display_id: str | None = None, display: Display | None = None) -> None:
        self.display_id = display_id or urandom(16).hex()
        self._display = display or shared[0]

    def __repr__(self) -> str:
        return f"<DisplayHandle display_id={self.display_id}>"

    def display(self, object: object, **settings: object) -> None:
        """Shows object as a new output with this display_id."""
        self._display.display(object, display_id=self.display_id, **settings)

    def update(self, object: object, **settings: object) -> None:
        """Replaces what was shown with this display_id."""
        self._display.update_display(object, display_id=self.display_id, **settings)


shared: list[Display] = []  # the kernel's one


def the_one() -> Display:
    """The kernel's one. Saved variables name this function."""
    return shared[0]


def _method(value: object, name: str) -> Callable | None:
    try:
        method = getattr(value, name, None)
        if callable(method) and getattr(value, _CANARY, None) is None:
            return method
    except Exception:
        pass
    return None


def _chosen(data: Bundle, include: object, exclude: object) -> Bundle:
    if include:
        data = {mime: value for mime, value in data.items() if mime in include}
    if exclude:
        data = {mime: value for mime, value in data.items() if mime not in exclude}
    return data


def _encode(mime: str, value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = b2a_base64(value, newline=False).decode("ascii")
    is_json = mime.partition(";")[0].rstrip().endswith(("/json", "+json"))
    if not is_json and isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "".join(value)
    if not is_json and not isinstance(value, str):
        value = str(value)
    return frames.quoted(value) if isinstance(value, str) else encode_json(value)


def encode_json(value: object) -> str:
    """JSON of value, with what JSON cannot express as the nearest that it can."""
    try:
        return frames.encode(value, _as_json)
    except (TypeError, ValueError):
        return frames.encode(_clean(value, 0))


def _as_json(value: object) -> object:
    """numpy's scalars and arrays convert themselves to plain Python, except for those that are too precise for that."""
    convert = getattr(value, "tolist", None)
    if callable(convert):
        plain = convert()
        if type(plain) is not type(value):
            return plain
    if isinstance(value, (set, frozenset)):
        return list(value)
    return str(value)


def _clean(value: object, depth: int) -> object:
    """value with NaN and infinities as null, and all keys strings."""
    if depth > 150:
        raise ValueError("nested too deeply, or circular, for JSON")
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, dict):
        return {str(k): _clean(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(v, depth + 1) for v in value]
    return _clean(_as_json(value), depth + 1)
