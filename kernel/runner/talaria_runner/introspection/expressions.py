"""The expression before a position in source, as text, whatever the rest of the source looks like."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection.scanner import Scanner

_OPENING = {")": "(", "]": "[", "}": "{"}
_LONGEST = 5000  # characters that are examined
_CALLS = 5  # open calls
KEYWORDS = (
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
)  # fmt: skip


def word_start(text: str, end: int) -> int:
    """Where the name that ends at end begins."""
    while end and (text[end - 1].isalnum() or text[end - 1] == "_"):
        end -= 1
    return end


def before(text: str, end: int) -> str:
    """The names, attributes, calls and subscripts that end there; empty if none does."""
    least = max(0, end - _LONGEST)
    start = end
    while True:
        at = _atom(text, start, least)
        if at < 0 or at == start:
            return ""
        start = at
        dot = start
        while dot > least and text[dot - 1] in " \t\n\\":
            dot -= 1
        if dot <= least or text[dot - 1] != ".":
            break
        start = dot - 1
        while start > least and text[start - 1] in " \t\n\\":
            start -= 1
    found = text[start:end].strip()
    return f"({found})" if "\n" in found else found


def _atom(text: str, end: int, least: int) -> int:
    """Where the name, literal or bracket that ends there begins, including what it calls or subscripts."""
    while end > least:
        last = text[end - 1]
        if last in _OPENING:
            end = _bracket(text, end, least)
            if end < 0:
                return -1
            if end > least and (text[end - 1] in ")]}'\"_" or text[end - 1].isalnum()):
                start = word_start(text, end)
                if start < end:
                    return end if text[start:end] in KEYWORDS else start
                continue
            return end
        if last in "'\"":
            return _string(text, end, least)
        return word_start(text, end)
    return end


def _bracket(text: str, end: int, least: int) -> int:
    """Where the bracket that closes right before end opens; -1 if there is none."""
    wanted = []
    while end > least:
        last = text[end - 1]
        if last in _OPENING:
            wanted.append(_OPENING[last])
        elif last in "([{":
            if not wanted or wanted.pop() != last:
                return -1
            if not wanted:
                return end - 1
        elif last in "'\"":
            end = _string(text, end, least)
            if end < 0:
                return -1
            continue
        end -= 1
    return -1


def _string(text: str, end: int, least: int) -> int:
    """Where the string that ends there begins, including its prefix; it is on one line, or between triple quotes."""
    quote = text[end - 1]
    if text[max(least, end - 3):end] == quote * 3:
        start = text.rfind(quote * 3, least, end - 3)
    else:
        start = end - 2
        while start >= least and text[start] != "\n":
            if text[start] == quote:
                slashes = start
                while slashes > least and text[slashes - 1] == "\\":
                    slashes -= 1
                if (start - slashes) % 2 == 0:
                    break
            start -= 1
        else:
            return -1
    while start > least and text[start - 1] in "rbfuRBFU":
        start -= 1
    return start


def at(code: str, cursor: int) -> list[str]:
    """What somebody may ask about at a position in code: the name there with everything it is an attribute
    of, then the functions whose calls are open there, the innermost first."""
    cursor = max(0, min(cursor, len(code)))
    first = 0 if cursor <= 10 * _LONGEST else cursor - 10 * _LONGEST
    end = cursor
    while end < len(code) and (code[end].isalnum() or code[end] == "_"):
        end += 1
    text = code[first:cursor]
    scanner = Scanner()
    scanner.feed(text)
    found = []
    if not scanner.quote and not scanner.comment:
        text += code[cursor:end]
        word = before(text, len(text))
        if word and word not in KEYWORDS:
            found.append(word)
    for bracket, opened in scanner.brackets[:-_CALLS - 1:-1]:
        if bracket == "(" and (callee := before(text, opened)):
            found.append(callee)
    return found
