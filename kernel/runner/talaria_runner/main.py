"""The kernel: it puts the parts together and serves the host until the process ends."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins
import os
import sys
from _thread import allocate_lock, get_ident
from posix import _exit, urandom
from time import monotonic

from talaria_runner.engines.plain import PlainEngine
from talaria_runner.errors import warned
from talaria_runner.errors.tracebacks import Tracebacks
from talaria_runner.introspection.classes import qualified_name
from talaria_runner.ipython import comms, shim
from talaria_runner.ipython.comm_inbox import Inbox
from talaria_runner.own import threads, workspace
from talaria_runner.own.hooks import Hooks
from talaria_runner.own.reserve import Reserve
from talaria_runner.packages import installs, layer
from talaria_runner.packages.installs import Installs
from talaria_runner.packages.pip_server import Programs, pass_by
from talaria_runner.parallel import talaria_module
from talaria_runner.questions import Requests
from talaria_runner.rendering import display as display_module
from talaria_runner.rendering import libraries
from talaria_runner.rendering.display import Display
from talaria_runner.rendering.figures import Figures
from talaria_runner.run import execution as executions
from talaria_runner.run.deadline import Deadline
from talaria_runner.run.debugger import Debugger
from talaria_runner.run.eventloop import EventLoop
from talaria_runner.run.execution import Execution
from talaria_runner.run.guard import Guard
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.run.sources import Sources
from talaria_runner.saves import settings
from talaria_runner.streams.children import Children
from talaria_runner.streams.commands import Commands
from talaria_runner.streams.cstdio import flusher
from talaria_runner.streams.output import TextOut
from talaria_runner.streams.stdin import Stdin
from talaria_runner.tools.finder import Finder
from talaria_runner.tools.rpc import Rpc
from talaria_runner.wire import frames
from talaria_runner.wire.asks import Asks
from talaria_runner.wire.descriptors import Descriptors
from talaria_runner.wire.outbox import Outbox, printable
from talaria_runner.wire.reader import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import NoReturn

    from talaria_runner.engines.plain import Engine
    from talaria_runner.parallel.maps import Maps

_UNREAD = "not enough memory to read this cell, so none of it ran"
_INTERNAL = "TALARIA_INTERNAL_"
_NO_INSTALLS = _INTERNAL + "NO_INSTALLS"  # why nobody may install packages
_LOSS = _INTERNAL + "LOSS"  # when and why the variables of an earlier kernel were lost
_PACKAGES = "TALARIA_PACKAGES"  # where those of the session are
_INSTALLS = "TALARIA_INSTALLS"  # where programs ask for some


def run(control_fd: int, engine: str = "stdlib") -> NoReturn:
    """Serves the host on control_fd, a stream socket. Called once, in the main thread of a dedicated process."""
    prepare(engine)(control_fd)


def prepare(engine: str = "stdlib") -> Callable[[int], NoReturn]:
    """The part of run that does not need the control socket. It returns the rest, which may be called in a
    process that was forked in between. Text printed between the two is lost."""
    _refuse_free_threading()
    main = _make_main()
    _prepare_interpreter()
    before = set(sys.modules)
    make_engine = _engine(engine)
    layer.keep(sys.modules.keys() - before)
    if "" not in sys.path:
        # After all our own imports: the workspace may have files of the same names.
        sys.path.insert(0, "")
    return _Kernel(main, make_engine).begin


class _Kernel:
    """Its methods run in the main thread, except for accept."""

    def __init__(self, main: ModuleType, make_engine: type[PlainEngine]) -> None:
        self._given = allocate_lock()
        self._given.acquire()
        self._descriptors = Descriptors()
        self._outbox = Outbox(self._descriptors)
        self._interrupts = Interrupts()
        self._guard = Guard(self._interrupts)
        self._loop = EventLoop(self._interrupts, self._kick)
        self._asks = Asks(self._outbox, self._interrupts)
        self._stdin = Stdin(self._asks)
        self._installs = Installs(self._asks)
        installs.shared.append(self._installs)
        self._sources = Sources()
        self._reserve = Reserve()
        self._deadline = Deadline(self._interrupts)
        self._tracebacks = Tracebacks(self._sources, self._deadline, self._reserve)
        self._display = Display(self._outbox, self._interrupts, self._tracebacks, self._deadline)
        self._figures = Figures(self._display)
        manager = comms.CommManager(self._outbox, self._interrupts, self._display)
        self._messages = Inbox(
            manager, self._outbox, self._guard, self._interrupts, self._display, self._figures
        )
        self._loop.handle_message = self._messages.handle_while_awaiting
        self._due = 0  # messages that came before the job
        self._flush_c = flusher()
        self._job: Execution | None = None
        self._wanted: dict[str, object] | None = None  # what the host wants when no cell runs
        self._fresh = True  # no cell has run, and nothing was loaded
        self._forked = False
        self._maps: Maps | None = None  # once there was one
        self._main = get_ident()
        self._namespace = vars(main)
        self._streams = (
            TextOut(1, self._outbox, self._interrupts),
            TextOut(2, self._outbox, self._interrupts),
        )
        self._display.errors = self._streams[1]
        self._install(make_engine)
        self.engine: Engine = make_engine(
            main, vars(builtins), self._guard, self._outbox, self._display, self._figures, self._loop,
            self._sources, self._tracebacks, Commands(self._interrupts),
        )  # fmt: skip
        comms.kernels.append(comms.Kernel(manager, self.engine.shell))
        self.engine.shell.kernel = comms.kernels[0]

    def begin(self, control_fd: int) -> NoReturn:
        self._installs.off = os.environ.get(_NO_INSTALLS, "")
        self._tracebacks.loss = os.environ.get(_LOSS, "")
        for name in [name for name in os.environ if name.startswith(_INTERNAL)]:
            del os.environ[name]
        workspace.remember()
        self._descriptors.take(control_fd)
        self._interrupts.install()
        layer.begin(os.environ.get(_PACKAGES, ""))
        self._programs = Programs(self._installs, self._interrupts, self._descriptors, threads.start)
        self._programs.begin(os.environ.get(_INSTALLS, ""))
        self._rpc = Rpc(self._tools.calls, self._descriptors, threads.start)
        self._rpc.begin(os.environ.get(_INSTALLS, ""))
        if self._installs.off:
            pass_by()
        settings.remember()
        self._attach()
        self.serve()

    def _attach(self, again: bool = False) -> None:
        """Begins to talk to the host; again in a copy that has become the interpreter."""
        mark = urandom(16).hex()
        magics = getattr(self.engine, "magics", None)
        requests = Requests(self._namespace, self._sources, magics, self._outbox, threads.start)
        self._reader = reader = Reader(
            self._descriptors.control, self._interrupts, self._asks, requests, (self._programs, self._rpc), self.accept,
            self._reserve, self.take_message, self.take_wish,
        )  # fmt: skip
        self._interrupts.catch_up = reader.catch_up
        self._outbox.open(mark, again)
        threads.start(self._outbox.run)
        threads.start(reader.run)
        self._outbox.put(frames.ready(mark))

    def _install(self, engine: type[PlainEngine]) -> None:
        sys.stdout = sys.__stdout__ = self._streams[0]
        sys.stderr = sys.__stderr__ = self._streams[1]
        self._stdin.install(vars(builtins))
        builtins.display = self._display.display
        display_module.shared.append(self._display)
        self._interrupts.install()
        self._interrupts.keep_unraisable()
        hooks = Hooks()
        hooks.after("threading", executions.follow_threads)
        hooks.after("warnings", warned.adopt)
        hooks.after("concurrent.futures.thread", executions.follow_pools)
        hooks.after("asyncio", self._loop.adopt)
        debugger = Debugger(self._interrupts)
        hooks.after("bdb", debugger.adopt_bdb)
        hooks.after("pdb", debugger.adopt_pdb)
        hooks.after("getpass", self._stdin.adopt_getpass)
        hooks.after("linecache", self._sources.fill)
        hooks.after("inspect", self._sources.find_classes)
        for name in ("matplotlib_inline.backend_inline", "IPython.display"):
            hooks.after(name, self._figures.adopt_inline)
        libraries.follow(hooks, self._display)
        hooks.after("matplotlib.pyplot", self._figures.adopt)
        for name in ("comm", "ipykernel.comm"):
            hooks.after(name, comms.adopt)
        if engine is PlainEngine:
            hooks.after("IPython", shim.adopt_class)
            hooks.after("IPython.core.getipython", shim.adopt_shell)
            hooks.after("IPython.core.display_functions", shim.adopt)
        hooks.install()
        shim.install()
        self._tools = Finder(self._asks, self._interrupts)
        self._tools.install()
        talaria_module.shared.append(self._get_maps)
        talaria_module.Module(self._get_maps, self._get_checkpoints).install()
        self._children = Children(self._outbox, self._interrupts)
        self._children.watch(self._become_child)

    def accept(self, execution: Execution) -> None:
        """Takes the next execution. Called by the reader, and called again if there was no memory for all of it."""
        if not execution.started:
            self._due = self._messages.received
            if self._due > self._messages.handled:
                self._interrupts.following = execution
            else:
                self._interrupts.execution = execution
            self._job = execution
        self._kick()
        self._loop.wake()

    def take_wish(self, frame: dict[str, object]) -> None:
        """Takes what the host wants to be done when no cell runs. Called by the reader, like accept."""
        self._wanted = frame
        self._kick()
        self._loop.wake()

    def take_message(self, frame: dict[str, object]) -> None:
        """Takes a front end's message to a comm. Called by the reader, like accept."""
        self._messages.put(frame)
        self._kick()
        self._loop.wake()
        self._loop.offer_message()

    def _kick(self) -> None:
        """Makes the main thread, if it waits, look for work. Called in any thread."""
        try:
            self._given.release()
        except RuntimeError:
            pass  # it is awake

    def serve(self) -> NoReturn:
        """Runs executions, one after another. Signal handlers of user code may raise anywhere in here, so
        each step can be repeated, except running the code."""
        while True:
            try:
                self._serve_on()
            except BaseException:
                pass  # raised while another one was being handled

    def _serve_on(self) -> NoReturn:
        while True:
            try:
                self._serve_one()
            except BaseException as e:
                self._survive(e)

    def _serve_one(self) -> None:
        if self._forked:
            self._leave(None)
        self._outbox.write()  # how the last cell ended
        job = self._job
        if job is None:
            if self._messages.handled < self._messages.received:
                self._messages.handle()
                self._interrupts.install()
            elif self._wanted is not None:
                self._grant()
            elif not self._loop.idle_until(self._has_work):
                self._given.acquire()
            return
        if self._wanted is not None:
            frame, self._wanted = self._wanted, None
            self._outbox.put(frames.answer(frame["request_id"], "later", {}))
        if not job.started:
            if self._messages.handled < self._due:
                self._messages.handle()
                self._interrupts.install()
                return
            self._interrupts.execution, self._interrupts.following = job, None
            executions.begin(job)
            self._outbox.begin()
            job.started = True
            self._fresh = False
            if job.unread:
                raise MemoryError(_UNREAD)
            self.engine.run(job)
        elif job.status is None:
            job.status = "error"
        self._finish(job)

    def _has_work(self) -> bool:
        return self._job is not None or self._wanted is not None or self._messages.handled < self._messages.received

    def _grant(self) -> None:
        """Does what the host wants. The host waits for the answer, so there is one whatever happens."""
        frame, self._wanted = self._wanted, None
        kind, request = frame["type"], frame["request_id"]
        try:
            answer = self._do(frame, kind, request)
        except BaseException as e:  # of the system, or of a signal handler of the user
            self._outbox.put(frames.answer(request, *_failed(kind, e)))
            raise
        if answer is None:
            self._revive()
        else:
            self._outbox.put(answer)

    def _do(self, frame: dict[str, object], kind: str, request: str) -> str | None:
        """Returns the answer; None in a copy that is to be the interpreter."""
        self._outbox.flush()
        self._flush_c()
        if kind == "aside" and monotonic() > frame["until"]:  # the host has given up, and would not have it resume
            return frames.answer(request, "later", {})
        # Imported when they are first needed: a kernel that starts from nothing does without them.
        from talaria_runner.checkpoints import copies, states

        if kind == "copy" or kind == "aside":
            ours = (*self._descriptors.all(), *self._loop.descriptors())
            quietly = self._children.fork_a_copy

            def save() -> None:
                states.answer_letter(self._namespace, quietly)

            def said(made: copies.Made) -> str:
                losses = [{"name": printable(loss.name), "reason": loss.reason} for loss in made.losses]
                return frames.answer(request, "copied", {"pid": made.pid, "reason": made.reason, "losses": losses})

            def leave(made: copies.Made) -> None:
                self._reader.leave()
                self._outbox.put(said(made))
                self._outbox.flush()
                self._outbox.leave()
                self._deadline.leave()
                threads.leave()

            if kind == "copy":
                made = copies.take(self._namespace, ours, quietly, save)
            else:
                made = copies.step_aside(self._namespace, ours, self._is_alone, leave, save)
            return None if made is None else said(made)
        if kind == "save":
            fields = states.save(
                self._namespace, frame["path"], frame["seconds"], frame["max_bytes"], self._children.fork_a_copy, self._fresh
            )  # fmt: skip
            return frames.answer(request, "saved", fields)
        self._fresh = False
        fields, restored = states.load(self._namespace, frame["path"], frame["digest"])
        if restored is not None:
            self._tracebacks.gone = restored.gone()
        self._interrupts.install()
        return frames.answer(request, "loaded", fields)

    def _is_alone(self) -> bool:
        """Whether the reader, the outbox and the deadline have the only threads besides this one, and nothing is left to do."""
        from talaria_runner.checkpoints import losses

        return not self._reader.is_stuck and losses.is_alone(3 if self._deadline.started else 2)

    def _revive(self) -> None:
        """Makes this process, a copy that waited, the interpreter: everything that belonged to threads begins anew."""
        self._job = None
        self._messages.forget()
        for part in (self._interrupts, self._deadline, self._asks, self._loop, self._programs, self._rpc, self._outbox):
            part.revive()
        self._stdin.free()
        self._interrupts.install()
        self._attach(again=True)

    def _finish(self, job: Execution) -> None:
        if self._forked:
            self._leave(None)
        if self._maps is not None:
            self._maps.end()
        self._outbox.settle()
        self._flush_c()
        self._descriptors.restore_standard()
        self._restore_streams(job)
        self._interrupts.install()
        self._interrupts.reach_children()
        # From here on no interrupt applies to this execution, and the host may give the next one.
        if self._interrupts.execution is job:
            self._interrupts.execution = None
        self._stdin.free()
        if self._job is job:
            self._outbox.add(frames.done(job))
            if self._job is job:
                self._job = None

    def _survive(self, error: BaseException) -> None:
        """Reports an exception that came between two cells, or out of the runner itself."""
        try:
            if self._forked:
                self._leave(error)
            job = self._job
            if job is not None and job.started and job.status is None:
                self.engine.fail(job, error)
            else:
                self._display.report(error)
        except BaseException:
            pass  # one more of the same; the next round goes on

    def _restore_streams(self, job: Execution) -> None:
        for name, stream in (("stdout", self._streams[0]), ("stderr", self._streams[1])):
            present = getattr(sys, name, None)
            if present is stream:
                continue
            # Asking a stream of the user runs the user's code.
            writable: list[bool] = []
            self._guard.run(job, lambda: writable.append(_can_be_written(present)))
            if writable != [True]:
                setattr(sys, name, stream)

    def _get_maps(self) -> Maps:
        if self._maps is None:
            from talaria_runner.parallel.job import Parts
            from talaria_runner.parallel.maps import Maps

            self._maps = Maps(
                Parts(self._asks, self._interrupts, self._display, self._figures, self._tracebacks, self._flush_c),
                self._outbox, self._main,
            )  # fmt: skip
        return self._maps

    def _get_checkpoints(self) -> tuple[talaria_module.Checkpoints, type[Exception]]:
        from talaria_runner.checkpoints import asking

        return asking.Checkpoints(self._asks, self._main), asking.CheckpointError

    def _become_child(self) -> None:
        threads.forget()
        if self._children.copying:
            self._outbox.forked = True  # until the copy is the interpreter
            return
        self._forked = True
        self._outbox.become_child()
        self._interrupts.become_child()
        self._asks.become_child()
        self._stdin.free()
        self._loop.become_child()

    def _leave(self, error: BaseException | None) -> NoReturn:
        """Ends a forked child that reached the end of the cell."""
        status = 0 if error is None else 1
        try:
            if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
                status = error.code or 0
            elif error is not None:
                self._display.report(error)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            _exit(status & 0xFF)


def _engine(name: str) -> type[PlainEngine]:
    if name == "stdlib":
        return PlainEngine
    try:
        from talaria_runner.engines.ipython_engine import IPythonEngine
    except ImportError as e:
        raise RuntimeError(
            f"engine ipython: IPython cannot be imported ({e}); "
            "install it in this environment, or configure engine: stdlib"
        ) from None
    return IPythonEngine


def _refuse_free_threading() -> None:
    """Raises RuntimeError if threads run in parallel: the outbox and the streams rely on the GIL."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise RuntimeError(
            "this Python runs without the global interpreter lock; configure one that is not built free-threaded"
        )


def _make_main() -> ModuleType:
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    return module


def _prepare_interpreter() -> None:
    if not hasattr(builtins, "quit"):
        import site

        site.main()
    sys.argv = [""]
    _forget_boot_code()
    # No __pycache__ in the workspace. Not pycache_prefix: that would ignore the files compiled at
    # installation.
    sys.dont_write_bytecode = True
    # An interrupt arrives through a thread, which a busy cell lets run after this time. The default is 5 ms.
    sys.setswitchinterval(0.001)


def _forget_boot_code() -> None:
    """Removes the code given with -c from linecache, where Python 3.13 and later put it as the source of <string>."""
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        linecache.cache.pop("<string>", None)
        getattr(linecache, "_interactive_cache", {}).clear()


def _failed(kind: str, error: BaseException) -> tuple[str, dict[str, object]]:
    """The kind and the fields of the answer to a wish of the host that an error has cut off."""
    why = printable(error.strerror or "") if type(error) is OSError else ""
    reason = f"an error came in between: {qualified_name(type(error))}{why and f': {why}'}"
    if kind == "save" or kind == "load":
        fields = {"reason": reason, "count": 0, "lost": [], "bytes": 0, "digest": ""}
        return "saved" if kind == "save" else "loaded", fields
    return "copied", {"pid": 0, "reason": reason, "losses": []}


def _can_be_written(stream: object) -> bool:
    return callable(stream.write) and not getattr(stream, "closed", False)
