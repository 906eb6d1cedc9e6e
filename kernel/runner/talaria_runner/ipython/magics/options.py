"""The options in the text of a magic."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.stdlib import load


def parse(magic: str, text: str, known: str, long: str = "") -> tuple[dict[str, str], str]:
    """The options at the beginning of text, and the rest of it, unchanged. known has the letters as getopt
    does: a colon after those with a value. long has whole words, with "=" after those with a value. Raises
    UsageError for others."""
    words = long.split()
    options: dict[str, str] = {}
    rest = text.lstrip()
    while rest.startswith("-") and len(rest) > 1 and not rest[1].isspace():
        word, _, behind = rest.partition(" ")
        if word == "--":
            return options, behind.lstrip()
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if name + "=" in words and not equals:
                value, behind = first_word(behind)
            elif name not in words and name + "=" not in words:
                raise UsageError(_unknown(magic, word, known, words))
            options[name] = value
        else:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter + ":" in known:
                    if letters:
                        options[letter], letters = letters, ""
                    else:
                        options[letter], behind = first_word(behind)
                    if not options[letter]:
                        raise UsageError(f"%{magic}: the option -{letter} needs a value")
                elif letter in known and letter != ":":
                    options[letter] = ""
                else:
                    raise UsageError(_unknown(magic, f"-{letter}", known, words))
        rest = behind.lstrip()
    return options, rest


def number(magic: str, option: str, text: str) -> int:
    """The value of an option as a whole number above 0."""
    if not text.isdecimal() or not int(text):
        raise UsageError(f"%{magic}: the option -{option} needs a whole number above 0, not {text!r}")
    return int(text)


def first_word(text: str) -> tuple[str, str]:
    """The first word of text, without its quotes; and the rest of the text."""
    text = text.lstrip()
    if text[:1] in ('"', "'"):
        end = text.find(text[0], 1)
        if end > 0:
            return text[1:end], text[end + 1:].lstrip()
    word, _, rest = text.partition(" ")
    return word, rest.lstrip()


def words(magic: str, text: str) -> list[str]:
    """The words of text, split as a shell does."""
    try:
        return load("shlex").split(text)
    except ValueError as e:
        raise UsageError(f"%{magic}: {e}: {text}") from None


def _unknown(magic: str, option: str, known: str, words: list[str]) -> str:
    there = [f"-{letter}" for letter in known if letter != ":"] + [f"--{word.rstrip('=')}" for word in words]
    return f"%{magic} has no option {option}" + (f"; it has {', '.join(there)}" if there else "")
