"""Whether a cell is complete, for somebody who types it line by line."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection.scanner import Scanner
from talaria_runner.introspection.syntax import INCOMPLETE_ALLOWED, parse

_LONGEST = 32 << 10  # characters: parsing more would delay the running cell
_ENDS = ("return", "pass", "break", "continue", "raise")
_STEP = "    "


def check(code: str) -> tuple[str, str]:
    """complete, incomplete, invalid or unknown; and with incomplete the indentation of the next line. A block
    is complete when an empty line follows."""
    if len(code) > _LONGEST:
        return "unknown", ""
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    if code.startswith("%%"):
        return ("complete", "") if code.endswith("\n") and code.count("\n") > 1 else ("incomplete", _indent(code))
    python, is_open = _without_magics(code)
    try:
        tree = parse(python, "exec", INCOMPLETE_ALLOWED)
    except SyntaxError as e:
        if "incomplete input" in str(e.msg) or is_open and _is_fine_so_far(e):
            return "incomplete", _next_indent(python)
        return "invalid", ""
    except (ValueError, OverflowError):
        return "invalid", ""
    except (RecursionError, MemoryError):
        return "unknown", ""
    if tree.body and not python.endswith("\n") and hasattr(tree.body[-1], "body"):
        lines = python.split("\n")
        if _indent(lines[-1]) or lines[-1].rstrip().endswith(":") or _is_in_block(tree.body[-1], lines):
            return "incomplete", _next_indent(python)
    return "complete", ""


def _is_fine_so_far(error: SyntaxError) -> bool:
    return "EOF" in str(error.msg) or "never closed" in str(error.msg) or "unterminated triple" in str(error.msg)


def _is_in_block(node: object, lines: list[str]) -> bool:
    """Whether the last line belongs to a block that could have more lines."""
    return len(lines) > 1 and bool(node.body) and node.body[0].lineno != node.lineno and bool(lines[-1].strip())


def _without_magics(code: str) -> tuple[str, bool]:
    """The code with its magics, commands and questions as Python, and whether its last logical line is open."""
    scanner = Scanner()
    if not any([sign in code for sign in "%!?"]):
        scanner.feed(code if code.endswith("\n") else code + "\n")
        return code, scanner.is_open
    lines = []
    for line in code.split("\n"):
        lines.append(line if scanner.is_open else _python(line))
        scanner.feed(lines[-1] + "\n")
    return "\n".join(lines), scanner.is_open


def _python(line: str) -> str:
    text = line.strip()
    indent = line[:len(line) - len(line.lstrip())]
    asked = text.rstrip("?").rstrip().replace(".", "") if text.endswith("?") else ""
    if text.startswith(("%", "!", "?")) or asked.isidentifier():
        return indent + ("0\\" if text.endswith("\\") else "0")
    target, sign, value = line.partition("=")
    if sign and value.lstrip().startswith(("!", "%")) and target.strip().isidentifier():
        return f"{target}= None"
    return line


def _next_indent(code: str) -> str:
    scanner = Scanner()
    lines = code.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    scanner.feed(code)
    indent = _indent(last)
    if scanner.is_open:
        return indent
    if last.partition("#")[0].rstrip().endswith(":"):
        return indent + _STEP
    words = last.split()
    if words and words[0] in _ENDS:
        return indent[:-len(_STEP)] if indent.endswith(_STEP) else indent[:-1]
    return indent


def _indent(text: str) -> str:
    line = text[text.rfind("\n") + 1:]
    return line[:len(line) - len(line.lstrip())]
