"""How values of a type are shown, if user code or a library decides that: get_ipython().display_formatter."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.rendering.display import Display

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Bundle = dict[str, object]

_METHODS = {
    "text/plain": "_repr_pretty_",
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "application/pdf": "_repr_pdf_",
    "image/jpeg": "_repr_jpeg_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}


class Formatter:
    """The functions for one MIME type."""

    def __init__(self, mime: str, owner: DisplayFormatter) -> None:
        self.format_type = mime
        self.print_method = _METHODS.get(mime, "")
        self.enabled = True
        self.type_printers: dict[type, Callable[..., object]] = {}
        self.deferred_printers: dict[tuple[str, str], Callable[..., object]] = {}
        self._owner = owner

    def for_type(self, kind: type | str, function: Callable[..., object] | None = None) -> object:
        """Registers function to make this MIME type of values of the type, a class or "module.name". Returns
        the previous one."""
        if isinstance(kind, str):
            module, _, name = kind.rpartition(".")
            return self.for_type_by_name(module, name, function)
        before = self.type_printers.get(kind)
        if function is not None:
            self.type_printers[kind] = function
            self._owner.cares_for(kind)
        return before

    def for_type_by_name(self, module: str, name: str, function: Callable[..., object] | None = None) -> object:
        """Like for_type, for a class that need not be imported yet."""
        before = self.deferred_printers.get((module, name))
        if function is not None:
            self.deferred_printers[module, name] = function
            self._owner.cares_for(None)
        return before

    def lookup_by_type(self, kind: type) -> Callable[..., object]:
        """The function for a type or a base of it. Raises KeyError if there is none."""
        for cls in type.mro(kind):
            name = (getattr(cls, "__module__", ""), getattr(cls, "__name__", ""))
            for found in (self.type_printers.get(cls), self.deferred_printers.get(name)):
                if found is not None:
                    return found
        raise KeyError(kind)

    def lookup(self, value: object) -> Callable[..., object]:
        return self.lookup_by_type(type(value))

    def __contains__(self, kind: type) -> bool:
        return kind in self.type_printers

    def pop(self, kind: type, default: object = KeyError) -> object:
        """Forgets the function for the type and returns it."""
        if kind not in self.type_printers and default is KeyError:
            raise KeyError(kind)
        return self.type_printers.pop(kind, default)

    def __call__(self, value: object) -> object:
        """What the function for value's type returns; None if there is none."""
        try:
            function = self.lookup(value)
        except KeyError:
            return None
        if self.format_type != "text/plain":
            return function(value)
        from talaria_runner.rendering.pretty import pretty_with

        return pretty_with(function, value)


class DisplayFormatter:
    """All formatters. They cost nothing until somebody registers a function."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self.formatters = {mime: Formatter(mime, self) for mime in _METHODS}
        self.active_types = list(self.formatters)
        self.mimebundle_formatter = Formatter("mimebundle", self)
        self.ipython_display_formatter = Formatter("ipython_display", self)
        self._used = False

    @property
    def format_types(self) -> list[str]:
        return list(self.formatters)

    def format(self, value: object, include: object = None, exclude: object = None) -> tuple[Bundle, Bundle]:
        """The MIME bundle of value, and its metadata."""
        data, metadata = self._display.bundle(value) or ({}, {})
        return {m: v for m, v in data.items() if (not include or m in include) and m not in (exclude or ())}, metadata

    def cares_for(self, kind: type | None) -> None:
        if kind is not None:
            self._display.plain.discard(kind)
        if not self._used:
            self._used = True
            self._display.formatters.append(self._bundle)

    def _bundle(self, value: object) -> tuple[Bundle, Bundle] | None:
        """What registered functions return, with the rest as value itself shows it; None if there is none for
        its type."""
        data: Bundle = {}
        metadata: Bundle = {}
        try:
            made = self.mimebundle_formatter.lookup(value)(value)
            made, about = made if isinstance(made, tuple) else (made, None)
            data.update(made or {})
            metadata.update(about or {})
        except KeyError:
            pass
        for mime, formatter in self.formatters.items():
            try:
                found = formatter(value) if formatter.enabled else None
            except Exception as e:
                self._display.report(e)
                continue
            if isinstance(found, tuple) and len(found) == 2:
                found, metadata[mime] = found
            if found is not None:
                data[mime] = found
        if not data:
            return None
        own, about = dict(data), dict(metadata)
        self._display.ask(value, own, about)
        return {**own, **data}, {**about, **metadata}
