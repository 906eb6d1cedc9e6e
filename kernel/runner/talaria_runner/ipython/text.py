"""The output of a command, as x = !cmd returns it."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class LSString(str):
    """Text that is also a list of lines, and of the files that they name."""

    @property
    def l(self) -> SList:  # noqa: E743
        return SList(self.splitlines())

    list = l

    @property
    def s(self) -> str:
        return " ".join(self.splitlines())

    spstr = s

    @property
    def n(self) -> str:
        return str(self)

    nlstr = n

    @property
    def p(self) -> list[object]:
        return self.l.p

    paths = p


class SList(list):
    """Lines, which are also one text with newlines (n) or blanks (s), and the files that they name (p)."""

    @property
    def l(self) -> SList:  # noqa: E743
        return self

    list = l

    @property
    def s(self) -> str:
        return " ".join(self)

    spstr = s

    @property
    def n(self) -> str:
        return "\n".join(self)

    nlstr = n

    @property
    def p(self) -> list[object]:
        from os.path import exists
        from pathlib import Path

        return [Path(line) for line in self if exists(line)]

    paths = p

    def grep(
        self, pattern: str | Callable[[str], object], prune: bool = False, field: int | None = None
    ) -> SList:
        """The lines, or those whose field, that the pattern, or a function, matches; with prune the others."""
        matches = pattern if callable(pattern) else load("re").compile(pattern, load("re").IGNORECASE).search

        def wanted(line: str) -> bool:
            words = line.split()
            text = line if field is None else words[field] if -len(words) <= field < len(words) else ""
            return bool(matches(text)) != prune

        return SList(filter(wanted, self))

    def fields(self, *fields: int) -> SList:
        """These fields of each line, which blanks part; without any, the lists of all of them."""
        if not fields:
            return [line.split() for line in self]
        rows = [line.split() for line in self]
        return SList([" ".join([row[i] for i in fields if -len(row) <= i < len(row)]) for row in rows])

    def sort(self, field: int | None = None, nums: bool = False) -> SList:
        """The lines sorted, by a field, and by the digits in it with nums."""

        def key(line: str) -> object:
            words = line.split()
            text = line if field is None else words[field] if field < len(words) else ""
            if not nums:
                return text
            digits = "".join([c for c in text if c.isdigit()])
            return int(digits) if digits else 0

        return SList(sorted(self, key=key))


LSString.__module__ = SList.__module__ = "IPython.utils.text"
