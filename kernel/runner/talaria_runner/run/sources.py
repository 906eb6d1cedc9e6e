"""The sources of all cells, each under a file name that is never used again, for tracebacks and inspect."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from posix import stat
from sys import modules

from talaria_runner.run.execution import Execution, disguise

MOST = 10_000  # cells whose source is kept,
MOST_TEXT = 16 << 20  # and characters of them; the oldest go first
_LARGEST_FILE = 8 << 20  # bytes of a file that is read to get a line of it


class Sources:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._cells: dict[str, str] = {}  # file name -> id of the execution
        self._size = 0  # characters of all texts
        self._silent = 0

    def add(self, execution: Execution) -> str:
        """Keeps the source and returns its file name: "<cell 3>" for the cell with that number."""
        if execution.count:
            name = f"<cell {execution.count}>"
        else:
            self._silent += 1
            name = f"<silent {self._silent}>"
        again = 1
        while name in self._cells:
            again += 1
            name = f"<cell {execution.count}.{again}>"
        self._texts[name] = execution.code
        self._cells[name] = execution.id
        self._size += len(execution.code)
        while len(self._texts) > MOST or (self._size > MOST_TEXT and len(self._texts) > 1):
            self._drop(next(iter(self._texts)))
        linecache = modules.get("linecache")
        if linecache is not None:
            self._enter(linecache, name)
        return name

    def line(self, name: str, number: int) -> str:
        """That line of a source; empty where there is none."""
        lines = _split(self._texts.get(name, ""))
        return lines[number - 1] if number <= len(lines) else ""

    def cell(self, name: str) -> str | None:
        """The id of the execution whose file has that name."""
        return self._cells.get(name)

    def lines(self, name: str) -> list[str]:
        """The lines of a cell or of any other file, as far as they can be had without running anything."""
        text = self._texts.get(name)
        if text is None:
            return _cached_lines(name) or _file_lines(name)
        return _split(text)

    def __contains__(self, name: str) -> bool:
        return name in self._cells

    def names(self) -> list[str]:
        """The file names of all cells, the last one first."""
        return list(reversed(self._texts))

    def text(self, name: str) -> str | None:
        """The source of the cell with that file name."""
        return self._texts.get(name)

    def fill(self, linecache: object) -> None:
        """Makes all sources known to linecache, the module, and restores those that user code removed from it."""
        for name in self._texts:
            self._enter(linecache, name)

    def find_classes(self, inspect: object) -> None:
        """Makes inspect, the module, find classes of cells. It looks for their module's file, and __main__
        has none."""
        getfile = inspect.getfile

        def getfile_of_cell(object: object) -> str:
            if isinstance(object, type) and object.__module__ == "__main__":
                name = self._file_of_class(object)
                if name is not None:
                    self.fill(modules["linecache"])
                    return name
            return getfile(object)

        disguise(getfile_of_cell, getfile)
        inspect.getfile = getfile_of_cell

    def _file_of_class(self, cls: type) -> str | None:
        for value in vars(cls).values():
            value = getattr(value, "__func__", getattr(value, "fget", value))
            code = getattr(value, "__code__", None)
            if code is not None and code.co_filename in self._texts and cls.__qualname__ in code.co_qualname:
                return code.co_filename
        for name in reversed(self._texts):
            for line in self._texts[name].splitlines():
                words = line.replace("(", " ").replace(":", " ").split()
                if words[:2] == ["class", cls.__name__]:
                    return name
        return None

    def _drop(self, name: str) -> None:
        """Forgets the source. That the file is a cell's stays known: its frames are still the user's."""
        self._size -= len(self._texts.pop(name))
        cache = getattr(modules.get("linecache"), "cache", None)
        if type(cache) is dict:
            cache.pop(name, None)
        while len(self._cells) > 2 * MOST:
            del self._cells[next(iter(self._cells))]

    def _enter(self, linecache: object, name: str) -> None:
        cache = getattr(linecache, "cache", None)
        if type(cache) is dict and name not in cache:
            text = self._texts[name]
            lines = [line + "\n" for line in _split(text)]
            # No time of change: checkcache leaves such entries alone.
            cache[name] = (len(text), None, lines, name)


def _split(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _cached_lines(name: str) -> list[str]:
    """The lines that libraries that generate code store in linecache."""
    cache = getattr(modules.get("linecache"), "cache", None)
    entry = cache.get(name) if type(cache) is dict else None
    if type(entry) is not tuple or len(entry) != 4 or type(entry[2]) is not list:
        return []
    return [line.rstrip("\n") for line in entry[2] if type(line) is str]


def _file_lines(name: str) -> list[str]:
    if name.startswith("<") or not name.endswith((".py", ".pyw", ".pyi")):
        return []
    try:
        about = stat(name)
        if about.st_mode & 0o170000 != 0o100000 or about.st_size > _LARGEST_FILE:
            return []
        with open(name, "rb") as file:
            data = file.read(_LARGEST_FILE)
    except (OSError, ValueError):
        return []
    try:
        return _split(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return _split(data.decode("latin-1"))
