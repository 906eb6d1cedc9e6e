"""The sources of all cells, each under a file name that is never used again, for tracebacks and inspect."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.execution import Execution, disguise


class Sources:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._silent = 0

    def add(self, execution: Execution) -> str:
        """Keeps the source and returns its file name: "<cell 3>" for the cell with that number."""
        if execution.count:
            name = f"<cell {execution.count}>"
        else:
            self._silent += 1
            name = f"<silent {self._silent}>"
        again = 1
        while name in self._texts:
            again += 1
            name = f"<cell {execution.count}.{again}>"
        self._texts[name] = execution.code
        linecache = modules.get("linecache")
        if linecache is not None:
            self._enter(linecache, name)
        return name

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def names(self) -> list[str]:
        """The file names of all cells, the last one first."""
        return list(reversed(self._texts))

    def text(self, name: str) -> str | None:
        """The source of the cell with that file name."""
        return self._texts.get(name)

    def fill(self, linecache: object) -> None:
        """Makes all sources known to linecache, the module, and again those that user code threw out of it."""
        for name in self._texts:
            if name not in linecache.cache:
                self._enter(linecache, name)

    def find_classes(self, inspect: object) -> None:
        """Has inspect, the module, find classes of cells. It looks for their module's file, and __main__ has none."""
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

    def _enter(self, linecache: object, name: str) -> None:
        text = self._texts[name].replace("\r\n", "\n").replace("\r", "\n")
        lines = [line + "\n" for line in text.split("\n")]
        # No time of change: checkcache leaves such entries alone.
        linecache.cache[name] = (len(text), None, lines, name)
