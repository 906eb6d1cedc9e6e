"""Runs one file of Python as a program, in an interpreter that was made ready before the file was known.

It behaves like python -I FILE, except that the folder of the file is on sys.path, as without -I.
"""

import builtins
import io
import os
import sys
from typing import NoReturn


def run(path: str, arguments: list[str]) -> NoReturn:
    """The caller has unwound its stack: what this raises ends the interpreter."""
    _open_streams()
    sys.argv[:] = [path, *arguments]
    sys.orig_argv[:] = [sys.executable, "-I", *sys.argv]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    main = sys.modules["__main__"].__dict__
    main.update(__builtins__=builtins, __file__=path, __cached__=None, __annotations__={})
    try:
        with io.open_code(path) as f:
            source = f.read()
        exec(compile(source, path, "exec", dont_inherit=True), main)
    except SystemExit:
        raise
    except BaseException as e:
        traceback = e.__traceback__ and e.__traceback__.tb_next  # without the frame of this function
        sys.excepthook(type(e), e.with_traceback(traceback), traceback)
        raise SystemExit(130 if isinstance(e, KeyboardInterrupt) else 1) from None
    raise SystemExit(0)


def _open_streams() -> None:
    """The streams that the interpreter began with belong to other files."""
    for name, fd, mode, errors in (
        ("stdin", 0, "rb", "surrogateescape"),
        ("stdout", 1, "wb", "surrogateescape"),
        ("stderr", 2, "wb", "backslashreplace"),
    ):
        stream = io.TextIOWrapper(
            open(fd, mode, closefd=False),
            encoding="utf-8",
            errors=errors,
            line_buffering=name == "stderr",
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
