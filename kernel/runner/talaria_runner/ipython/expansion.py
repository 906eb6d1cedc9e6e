"""$name and {expression} in the text of commands and magics."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _string import formatter_parser

from talaria_runner.own.stdlib import load

_NAME = r"\$(\$)?([^\W\d]\w*(?:\.[^\W\d]\w*)*)"


def expand(text: str, globals: dict[str, object], locals: dict[str, object]) -> str:
    """The text with each braced expression, and each name after a dollar sign, replaced by its value. $$name
    and {{…}} lose the second character. The text stays unchanged if something in braces is not an expression
    or fails, as in awk '{print}', and so does a name that is not a variable here, such as $HOME."""
    if "$" not in text and "{" not in text:
        return text
    try:
        return "".join(_pieces(text, globals, locals))
    except Exception:
        return text


def _pieces(text: str, globals: dict[str, object], locals: dict[str, object]) -> list[str]:
    pieces = []
    for literal, field, form, conversion in formatter_parser(text):
        pieces.append(_dollars(literal, globals, locals))
        if field is None:
            continue
        if not field.strip():
            raise ValueError("{} is not an expression")
        value = eval(field, globals, locals)
        if conversion:
            value = {"r": repr, "s": str, "a": ascii}[conversion](value)
        pieces.append(format(value, form or ""))
    return pieces


def _dollars(text: str, globals: dict[str, object], locals: dict[str, object]) -> str:
    if "$" not in text:
        return text

    def value(match: object) -> str:
        escaped, name = match.groups()
        if escaped:
            return f"${name}"
        first, *attributes = name.split(".")
        try:
            found = locals[first] if first in locals else globals[first]
        except KeyError:
            return match[0]
        taken = len(first)
        for attribute in attributes:
            try:
                found = getattr(found, attribute)
            except AttributeError:
                break
            taken += 1 + len(attribute)
        return f"{found}{name[taken:]}"

    return load("re").sub(_NAME, value, text)
