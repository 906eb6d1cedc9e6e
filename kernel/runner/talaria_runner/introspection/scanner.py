"""Where in Python source a position is: inside which brackets, in a string or in a comment. It accepts any
text, even what no parser would, and needs no tokenizer, which would have to be imported first."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

_OPENING = {")": "(", "]": "[", "}": "{"}
_PREFIX = frozenset("rbfuRBFUtT")


class Scanner:
    """What is open after all the text fed so far. Positions count from the beginning of the first text."""

    __slots__ = ("at", "brackets", "quote", "prefix", "content", "comment", "statement", "_continued")

    def __init__(self) -> None:
        self.at = 0  # characters fed
        self.brackets: list[tuple[str, int]] = []  # open ones, and their positions
        self.quote = ""  # of the open string
        self.prefix = ""  # its letters, in lower case
        self.content = 0  # where its content begins
        self.comment = False  # the text ends in one
        self.statement = 0  # where the open logical line begins
        self._continued = False  # the last line ends with a backslash

    @property
    def is_open(self) -> bool:
        """Whether the next line belongs to the same logical line. It is known at the end of a line."""
        return bool(self.brackets or self.quote) or self._continued

    def feed(self, text: str) -> None:
        i, size, base = 0, len(text), self.at
        self.comment = self._continued = False
        while i < size:
            c = text[i]
            if self.quote:
                i = self._inside(text, i, c)
            elif c == "'" or c == '"':
                self.quote = c * 3 if text.startswith(c * 3, i) else c
                self.prefix = _prefix(text, i)
                i += len(self.quote)
                self.content = base + i
            elif c == "#":
                end = text.find("\n", i)
                self.comment = end < 0
                i = size if end < 0 else end
            else:
                if c in "([{":
                    self.brackets.append((c, base + i))
                elif c in ")]}":
                    if self.brackets and self.brackets[-1][0] == _OPENING[c]:
                        self.brackets.pop()
                elif c == "\\":
                    self._continued = i + 2 >= size and text[i + 1:] in ("", "\n")
                    i += 1
                elif (c == "\n" or c == ";") and not self.brackets:
                    self.statement = base + i + 1
                i += 1
        self.at = base + size

    def _inside(self, text: str, i: int, c: str) -> int:
        if c == "\\":
            return i + 2
        if text.startswith(self.quote, i):
            i += len(self.quote)
            self.quote = ""
            return i
        if c == "\n" and len(self.quote) == 1:
            self.quote = ""  # it was never closed
            return i
        return i + 1


def _prefix(text: str, quote: int) -> str:
    start = quote
    while start and quote - start < 2 and text[start - 1] in _PREFIX:
        start -= 1
    if start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        return ""
    return text[start:quote].lower()


def block(lines: list[str], start: int, most: int = 3000) -> list[str]:
    """The lines of the function or class whose first line, or that of its first decorator, is lines[start]."""
    indent = _indent(lines[start])
    scanner = Scanner()
    headed = False
    end = start
    for i in range(start, min(len(lines), start + most)):
        line = lines[i]
        words = line.split(None, 1)
        deeper = _indent(line) > indent
        if not scanner.is_open and words and not words[0].startswith("#"):
            if headed and not deeper:
                break
            headed = headed or not words[0].startswith("@")
        if words and (deeper or scanner.is_open or not words[0].startswith("#")):
            end = i
        scanner.feed(line + "\n")
    return [line[indent:] if not line[:indent].strip() else line for line in lines[start:end + 1]]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
