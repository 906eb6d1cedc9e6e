"""What a forked child of pid 1 does to become the runner or a command."""

import contextlib
import errno
import fcntl
import gc
import marshal
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

import _signal
import posix

from . import interpreter, limits, linux, places, preload, script, tier
from .interpreter import Serve, forget_init, make_ordinary
from .limits import Limits
from .step import StepError
from .wire import Channel

_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 64 << 10  # the size of a pipe unless it is enlarged
_TIOCSCTTY = 0x540E
_RESET_FOR_COMMANDS = ("SIGPIPE", "SIGXFSZ")
_START_OVER = "import sys; sys.path.insert(0, {!r}); from talaria_init.child import start_over; start_over()()"
LISTEN = b"listen"
# As the host starts pid 1.
VARIABLES = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "MALLOC_ARENA_MAX": "2"}


@dataclass
class Start:
    """A process to start: a command; with a script, an interpreter that runs this file of Python; without
    arguments and script, the runner. A third descriptor is the standard input of the first two, and the
    control socket of the runner."""

    args: list[str]
    script: str
    environment: dict[str, str]  # in addition to the sandbox's own
    directory: str
    terminal: bool  # it runs in the foreground of the terminal that both descriptors belong to
    group: bool  # signals to a command go to its process group, which ends with it
    beside: bool  # a runner beside the first one: it may begin in the workspace, and what it has started ends with it


class Runner:
    """A child on its way to become the runner. It takes the steps in this order."""

    def __init__(self) -> None:
        self._serve: Serve | None = None

    def prepare(self) -> None:
        """Does everything that can be done before the session is known, in a process that was forked from a
        fork server. In other processes, this would run code of the environment while there are privileges."""
        if preload.serve:
            preload.renew()
            self._become_interpreter()
            # A first time for nothing: by the second time, the memory that these write to is this process's
            # own.
            set_variables(dict(os.environ))
            preload.conflicts((), Limits())

    def dress(self, environment: dict[str, str]) -> None:
        self._environment = environment
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.setsid()
        set_variables(environment)

    def bound(self, session: Iterable[str], limits_: Limits) -> None:
        """Continues once the directories exist and the privileges are gone. session has the names of the
        session's own variables."""
        self._fresh = preload.conflicts(session, limits_)
        os.chdir(places.workspace)
        limits_.apply()
        if not self._serve:
            self._become_interpreter()

    def begin(self, start: Start, fds: list[int]) -> Callable[[], None]:
        """The caller unwinds its stack and calls the returned function."""
        if start.directory:
            with contextlib.suppress(OSError if start.beside else ()):
                os.chdir(start.directory)
        if start.beside:  # the first runner serves the usual folder
            start.environment["TALARIA_INSTALLS"] = f"{places.installs()}-{os.urandom(8).hex()}"
        if start.environment:
            self._fresh = self._fresh or preload.conflicts(start.environment, Limits())
            self._environment.update(start.environment)
            set_variables(self._environment)
        if start.script:
            return self._begin_script(start, fds)
        control = _take_descriptors(*fds)
        if self._fresh:
            _replace(self._environment, control)
        if preload.serve:
            preload.allow_threads(int(self._environment["OMP_NUM_THREADS"]))
        return lambda: self._serve(control)

    def _begin_script(self, start: Start, fds: list[int]) -> Callable[[], None]:
        _take_standard(*fds)
        os.closerange(3, limits.max_control_fd() + 1)
        if self._fresh or interpreter.engine != interpreter.SCRIPT:
            arguments = [sys.executable, start.script, *start.args]
            os.execve(sys.executable, arguments, self._environment)
        return lambda: script.run(start.script, start.args)

    def _become_interpreter(self) -> None:
        linux.set_name("python")
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        self._serve = preload.serve or make_ordinary()
        forget_init()
        gc.enable()


def start_over() -> Callable[[], None]:
    """The runner, in an interpreter of its own that has replaced a child."""
    control = limits.max_control_fd()
    with open(control - 1, "rb") as f:
        variables, interpreter.engine, tier_name, where = marshal.load(f)
    tier.use(tier_name)
    tier.current.hide()
    places.change(**where)
    os.set_inheritable(control, False)
    set_variables(variables)
    runner = Runner()
    runner._become_interpreter()
    return lambda: runner._serve(control)


def set_variables(environment: dict[str, str]) -> None:
    """Sets the environment to these variables, and changes only what differs: most of it is the same in each
    kernel."""
    variables = os.environ
    for name in variables.keys() - environment.keys():
        del variables[name]
    for name, value in environment.items():
        if variables.get(name) != value:
            variables[name] = value
    time.tzset()


def run_command(start: Start, environment: dict[str, str], limits_: Limits, fds: list[int], report: Channel) -> NoReturn:
    """Turns this child into a command. It sends pid 1 the descriptors to listen to through report; on failure
    it sends the error number and exits."""
    try:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.setsid()
        tell(report, tier.current.enter())
        os.chdir(start.directory or places.workspace)
        limits_.apply()
        stdout, stderr, *stdin = fds
        number = _take_descriptors(stdout, stderr, report.fileno(), *stdin)
        report.forget()
        report = Channel(number)
        if start.terminal:
            os.dup2(1, 0)
            fcntl.ioctl(0, _TIOCSCTTY, 0)
        for name in _RESET_FOR_COMMANDS:
            _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
        os.execvpe(start.args[0], start.args, {**environment, **start.environment})
    except (OSError, StepError) as e:
        report.send(str(e.errno or errno.EIO).encode())
    finally:
        os._exit(127)


def tell(channel: Channel, listeners: list[int]) -> None:
    """Sends pid 1 the descriptors to listen to."""
    if listeners:
        channel.send(LISTEN, listeners)
    for fd in listeners:
        os.close(fd)


def give_up(error: BaseException) -> NoReturn:
    """Ends a process that nobody needs. sys.stderr may be the runner's."""
    text = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError):
        posix.write(2, text.encode("utf-8", "replace"))
    posix._exit(1)


def _take_descriptors(stdout: int, stderr: int, extra: int, *stdin: int) -> int:
    """Takes the standard descriptors and the extra one, which gets the highest possible number."""
    highest = limits.max_control_fd()
    os.dup2(extra, highest, inheritable=False)
    _take_standard(stdout, stderr, *stdin)
    os.closerange(3, highest)
    return highest


def _take_standard(stdout: int, stderr: int, stdin: int = -1) -> None:
    if stdin < 0:
        stdin = os.open("/dev/null", os.O_RDWR)
    for fd, target in ((stdin, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, target)


def _replace(environment: dict[str, str], control: int) -> NoReturn:
    said = marshal.dumps((environment, interpreter.engine, tier.current.name, places.all()))
    read, write = os.pipe()
    if len(said) > _PIPE_BYTES:
        fcntl.fcntl(write, _F_SETPIPE_SZ, len(said))
    os.set_blocking(write, False)
    if os.write(write, said) < len(said):
        raise OSError(errno.E2BIG, "the environment variables are too long")
    os.dup2(read, control - 1)
    os.closerange(3, control - 1)
    os.set_inheritable(control, True)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", _START_OVER.format(places.library)], VARIABLES)
