"""Runs one file of Python as a program, in an interpreter that was made ready before the file was known.

It behaves like python -I FILE, except that the folder of the file is on sys.path, as without -I.
"""

import atexit
import builtins
import contextlib
import gc
import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from . import linux

# The interpreter itself clears these last.
_CLEARED = ("sys", "builtins", "__main__")


def run(path: str, arguments: list[str]) -> NoReturn:
    """The caller has unwound its stack: what this raises ends the interpreter."""
    _open_streams()
    sys.argv[:] = [path, *arguments]
    sys.orig_argv[:] = [sys.executable, "-I", *sys.argv]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    end = _End()
    atexit.register(end.prepare)  # the first to be registered is the last to run
    main = sys.modules["__main__"].__dict__
    main.update(__builtins__=builtins, __file__=path, __cached__=None, __annotations__={})
    try:
        with io.open_code(path) as f:
            source = f.read()
        exec(compile(source, path, "exec", dont_inherit=True), main)
    except SystemExit as e:
        end.note(e)
        raise
    except BaseException as e:
        traceback = e.__traceback__ and e.__traceback__.tb_next  # without the frame of this function
        sys.excepthook(type(e), e.with_traceback(traceback), traceback)
        end.status = 130 if isinstance(e, KeyboardInterrupt) else 1
        raise SystemExit(end.status) from None
    end.status = 0
    raise SystemExit(0)


class _End:
    """Leaves out the part of the interpreter's end that no program notices: to free what was there before the program. It
    would take longer than a short program, since in a forked process each page must be copied before it can be freed.

    Threads, exit functions, and what the program has made end as always. The interpreter clears sys after all other
    modules, entry by entry. The last entry is this object, whose end is that of the process."""

    def __init__(self) -> None:
        self.status: int | None = None  # of the process; None if this is too special a case
        self._modules = {name: module for name, module in sys.modules.items() if name not in _CLEARED}
        self._stdout = sys.__stdout__

    def note(self, error: SystemExit) -> None:
        """Takes the status from there if it is an ordinary one."""
        code = error.code if type(error) is SystemExit else -1
        if code is None:
            self.status = 0
        elif type(code) is int and 0 <= code <= 255:
            self.status = code

    def prepare(self) -> None:
        """Hides the modules that are to be left alone."""
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:
            return  # the interpreter reports that, also by its status
        if gc.isenabled():
            gc.collect()  # now, since finalizers of garbage may still import modules
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
        sys.talaria_end = self  # pyright: ignore[reportAttributeAccessIssue]

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.status is None or not is_finalizing():
            return
        gc.collect()  # for what attributes of sys have kept until now
        with contextlib.suppress(Exception):
            self._stdout.flush()  # in case that something which is left alone refers to it
        linux.exit(self.status)


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
