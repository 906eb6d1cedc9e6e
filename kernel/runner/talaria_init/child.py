"""What a forked child of pid 1 does to become the runner or a command."""

import os
import signal
import site
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from . import limits, linux, root
from .limits import Limits

_RESET_FOR_COMMANDS = ("SIGPIPE", "SIGXFSZ")


@dataclass
class Start:
    """A process to start. Without arguments it is the runner, which has a third descriptor."""

    id: int
    args: list[str]
    environment: dict[str, str]
    directory: str
    limits: Limits


def become_runner(start: Start, stdout: int, stderr: int, control: int) -> Callable[[], None]:
    """Makes this child the runner. The caller unwinds its stack and calls what is returned."""
    control = _prepare(start, stdout, stderr, control)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    linux.set_name("python")
    os.environ.clear()
    os.environ.update(start.environment)
    time.tzset()
    limits.shrink_thread_stacks()
    _make_ordinary_interpreter()
    # Only here: importing it may take memory, which is to count as the session's.
    from talaria_runner.main import run

    _forget_init()
    return lambda: run(control)


def run_command(start: Start, stdout: int, stderr: int, report: int) -> NoReturn:
    """Makes this child a command. Where that fails, it writes the error number to report, and ends."""
    try:
        report = _prepare(start, stdout, stderr, report)
        for name in _RESET_FOR_COMMANDS:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.execvpe(start.args[0], start.args, start.environment)
    except OSError as e:
        os.write(report, str(e.errno).encode())
    finally:
        os._exit(127)


def _prepare(start: Start, stdout: int, stderr: int, extra: int) -> int:
    """Own session, own limits, three standard descriptors and the extra one, which is the highest possible."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(start.directory or root.WORKSPACE)
    start.limits.apply()
    highest = limits.max_control_fd()
    os.dup2(extra, highest, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    for fd, target in ((null, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, target)
    os.closerange(3, highest)
    return highest


def _make_ordinary_interpreter() -> None:
    """Undoes what pid 1 went without: site-packages, and the marks of its own start."""
    sys.path.remove(root.LIBRARY)
    site.main()
    first = next((i for i, p in enumerate(sys.path) if p.endswith(("site-packages", "dist-packages"))), len(sys.path))
    sys.path.insert(first, root.PACKAGES)
    sys.path.append(root.LIBRARY)
    sys.argv[:] = [""]
    sys.orig_argv[:] = [sys.executable]
    sys.dont_write_bytecode = True
    sys.modules["__main__"] = types.ModuleType("__main__")


def _forget_init() -> None:
    sys.path.remove(root.LIBRARY)
    package = __name__.partition(".")[0]
    for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
        del sys.modules[name]
