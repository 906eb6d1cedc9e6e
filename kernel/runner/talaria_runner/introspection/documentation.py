"""Docstrings, read without asking the objects that have them."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.introspection import lookup

LONGEST = 100_000  # characters


def documentation(value: object) -> str:
    """The docstring without its indentation; empty if there is none."""
    if lookup.is_a(value, type):
        if lookup.is_heap_class(value):
            text = lookup.names_of_class(value).get("__doc__")
        else:
            text = type.__dict__["__doc__"].__get__(value)
    else:
        found = lookup.attribute(lookup.function_of(value), "__doc__")
        text = None if found is None else found.value
    if type(text) is not str:
        return ""
    first, *rest = text[:LONGEST].expandtabs().strip("\n").split("\n")
    indent = min([len(line) - len(line.lstrip()) for line in rest if line.strip()], default=0)
    return "\n".join([first.strip(), *[line[indent:].rstrip() for line in rest]]).strip()
