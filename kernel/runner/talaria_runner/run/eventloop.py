"""Top-level await: one event loop for the life of the kernel, which runs while a cell awaits and while none runs."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _thread import get_ident
from sys import _getframe, modules

from talaria_runner.own.ours import OURS
from talaria_runner.run.execution import current, disguise, owner
from talaria_runner.run.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from types import FrameType, ModuleType, TracebackType


_MOST_FAILURES = 1000  # of the loop while one cell awaits


async def _nothing() -> None:
    pass


_sample = _nothing()
_Coroutine = type(_sample)
_sample.close()


class EventLoop:
    """The loop does not run while a plain cell does, so that asyncio.run works in it; in a cell that awaits,
    asyncio.run stops it for a while. kick wakes the main thread; it is called in any thread, when the loop
    has something to do."""

    def __init__(self, interrupts: Interrupts, kick: Callable[[], None]) -> None:
        self._interrupts = interrupts
        self._kick = kick
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awaiting: asyncio.AbstractEventLoop | None = None  # the loop, while it runs because a cell awaits
        self.handle_message: Callable[[], bool] = lambda: False  # of a front end; True if there are more
        self._idle: asyncio.AbstractEventLoop | None = None  # the loop, while it runs between cells
        self._stopped: asyncio.Task | None = None  # the task for which the loop is suspended
        self._main = get_ident()
        self._run_forever: Callable[[asyncio.AbstractEventLoop], None] | None = None  # asyncio's own
        self._module: ModuleType | None = None  # asyncio, once it is imported

    def adopt(self, asyncio: ModuleType) -> None:
        """Makes asyncio, the module, use the kernel's loop in plain cells, and run other loops while that one
        runs."""
        self._module = asyncio
        original = asyncio.create_task

        def create_task(coro: Coroutine, **kwargs: object) -> asyncio.Task:
            if asyncio._get_running_loop() is None and get_ident() == self._main:
                return self._open().create_task(coro, **kwargs)
            return original(coro, **kwargs)

        disguise(create_task, original)
        asyncio.create_task = asyncio.tasks.create_task = create_task

        running = asyncio.get_running_loop

        def get_running_loop() -> asyncio.AbstractEventLoop:
            """Like asyncio's, except that the code of a cell itself, not what it calls, always has a loop
            that it may use."""
            if asyncio._get_running_loop() is None and get_ident() == self._main and self._is_cell(_getframe(1)):
                return self._open()
            return running()

        disguise(get_running_loop, running)
        asyncio.get_running_loop = get_running_loop

        loops = asyncio.BaseEventLoop
        self._run_forever = loops.run_forever
        asyncio.run = asyncio.runners.run = self._aside(asyncio, asyncio.run)
        for holder, name in ((asyncio.Runner, "run"), (loops, "run_until_complete"), (loops, "run_forever")):
            setattr(holder, name, self._aside(asyncio, getattr(holder, name)))

    def _aside(self, asyncio: ModuleType, function: Callable[..., object]) -> Callable[..., object]:
        """function, which runs a loop, for code that may be running in the kernel's loop: that one is
        suspended meanwhile."""

        def run(*args: object, **kwargs: object) -> object:
            if get_ident() != self._main:
                return function(*args, **kwargs)
            loop = asyncio._get_running_loop()
            if loop is None or loop is not self._loop or args[:1] == (loop,):
                try:
                    return function(*args, **kwargs)
                finally:
                    if loop is None and self._loop is not None:
                        self._open()  # asyncio.run leaves none behind
            task = asyncio.current_task(loop)
            if task is not None:
                asyncio.tasks._leave_task(loop, task)
            asyncio._set_running_loop(None)
            before, self._stopped = self._stopped, task
            try:
                return function(*args, **kwargs)
            finally:
                self._stopped = before
                asyncio.set_event_loop(loop)
                asyncio._set_running_loop(loop)
                if task is not None:
                    asyncio.tasks._enter_task(loop, task)

        disguise(run, function)
        run.__wrapped__ = function
        self._interrupts.nested.add(run.__code__)
        return run

    def _is_cell(self, frame: FrameType) -> bool:
        return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"

    def prepare(self) -> None:
        """Before each cell: makes get_event_loop return the kernel's loop. asyncio.run removes it."""
        if self._loop is not None or "asyncio" in modules:
            try:
                self._open()
            except Exception:
                pass  # the user's asyncio is broken; cells that await say so

    def awaiting(self, *functions: Callable[[], object]) -> Callable[[], object]:
        """A function for the guard that calls each of these, in one task, and returns the last one's value."""

        async def cell() -> object:
            value = None
            for function in functions:
                value = function()
                if type(value) is _Coroutine and value.cr_code is function.__code__:
                    value = await value
            return value

        def run() -> object:
            coroutine = cell()
            try:
                return self._run(coroutine)
            finally:
                coroutine.close()  # if it could not even begin

        return run

    def _run(self, coroutine: Coroutine) -> object:
        interrupts = self._interrupts
        loop = self._open()
        asyncio = self._module
        task = loop.create_task(coroutine)
        task.add_done_callback(lambda _: loop.stop())
        cancelled = False
        execution = interrupts.execution

        def cancel() -> bool:
            nonlocal cancelled
            if cancelled:
                return False
            cancelled = True
            loop.call_soon_threadsafe(reach)
            return True

        def reach() -> None:
            if execution is not None:
                interrupts.delivered(execution)
            task.cancel()

        def elsewhere() -> bool:
            return self._stopped is not task and asyncio.current_task(loop) is not task

        stray: BaseException | None = None
        failures = 0
        self._awaiting = loop
        loop.call_soon(self._handle_messages)
        while not task.done():
            try:
                interrupts.elsewhere = elsewhere
                interrupts.cancel = cancel
                self._forever(loop)
            except BaseException as e:
                # Raised by another task, or by a signal handler inside the loop's own code.
                failures += 1
                if loop.is_closed() or isinstance(e, OSError) or failures > _MOST_FAILURES:
                    # User code closed it or its descriptors, or broke its parts.
                    self._loop = None
                    _abandon(loop, task)
                    raise
                if isinstance(e, SystemExit) and not task.done():
                    e.__traceback__ = _from_user_code(e.__traceback__)
                    loop.call_exception_handler({"message": "A background task wants to exit", "exception": e})
                    continue
                stray = e
                task.cancel()
            finally:
                interrupts.cancel = None
                if task.done() or self._loop is not loop:
                    self._awaiting = None
        value = None
        try:
            value = task.result()
        except asyncio.CancelledError as e:
            if stray is None:
                stray = e
                if cancelled:
                    stray = KeyboardInterrupt()
                    stray.__traceback__ = e.__traceback__
        if stray is not None:
            raise stray
        return value

    def idle_until(self, ready: Callable[[], bool]) -> bool:
        """Runs the loop until wake is called, if there is anything for it to run. ready is asked once before."""
        loop = self._loop
        if loop is None or loop.is_closed() or not _has_work(loop, self._module):
            return False
        try:
            self._interrupts.idle = _getframe()
            self._idle = loop
            if not ready():
                self._forever(loop)
        except OSError:
            # Its descriptors are gone: user code closed them.
            self._loop = None
        finally:
            self._interrupts.idle = None
            self._idle = None
        return True

    def wake(self) -> None:
        """Ends idle_until. Called by another thread once ready would return True."""
        loop = self._idle
        if loop is not None:
            try:
                loop.call_soon_threadsafe(loop.stop)
            except RuntimeError:
                pass  # it was closed at this moment

    def offer_message(self) -> None:
        """Has messages of front ends handled if a cell awaits. Called by another thread."""
        loop = self._awaiting
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._handle_messages)
            except RuntimeError:
                pass  # it was closed at this moment

    def _handle_messages(self) -> None:
        loop = self._awaiting
        if loop is not None and self.handle_message():
            loop.call_soon(self._handle_messages)

    def descriptors(self) -> list[int]:
        """Those of the loop itself, and of what wakes it."""
        selector = getattr(self._loop, "_selector", None)
        found = [getattr(self._loop, "_ssock", None), getattr(self._loop, "_csock", None), selector]
        fds = []
        for one in found:
            try:
                fds.append(one.fileno())
            except (AttributeError, OSError, ValueError):
                pass  # there is none, or it is closed
        return [fd for fd in fds if fd >= 0]

    def revive(self) -> None:
        """In a copy that has become the interpreter: the loop gets a selector of its own. The one that it has inherited is
        also that of the process that it was copied from, which may have changed what it waits for."""
        self._idle = self._awaiting = None
        selector = getattr(self._loop, "_selector", None)
        if selector is None:
            return
        try:
            own = type(selector)()
            for key in list(selector.get_map().values()):
                try:
                    own.register(key.fd, key.events, key.data)
                except (OSError, ValueError):
                    pass  # a connection that the copy does not have
            self._loop._selector = own
            selector.close()
        except (AttributeError, OSError):
            self._loop = None  # the next cell that awaits makes another

    def become_child(self) -> None:
        self._loop = self._idle = self._awaiting = None

    def _open(self) -> asyncio.AbstractEventLoop:
        asyncio = self._module or __import__("asyncio")  # user code may have removed it from sys.modules
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            self._attend(self._loop)
        if asyncio._get_running_loop() is None:
            asyncio.set_event_loop(self._loop)
        return self._loop

    def _forever(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._run_forever is not None and isinstance(loop, self._module.BaseEventLoop):
            self._run_forever(loop)
        else:
            loop.run_forever()

    def _attend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Makes the loop say whose task failed, and wake us when another thread calls something in it."""
        create, report, call = loop.create_task, loop.call_exception_handler, loop.call_soon_threadsafe

        def create_task(coro: Coroutine, **kwargs: object) -> asyncio.Task:
            task = create(coro, **kwargs)
            try:
                task._started_in = owner()
            except AttributeError:
                pass  # a task of a factory of the user's
            return task

        def call_exception_handler(context: dict[str, object]) -> None:
            task = context.get("task") or context.get("future")
            before = current.set(getattr(task, "_started_in", None) or owner())
            try:
                report(context)
            finally:
                current.reset(before)

        def call_soon_threadsafe(callback: Callable[..., object], *args: object, **kwargs: object) -> object:
            handle = call(callback, *args, **kwargs)
            self._kick()
            return handle

        for wrapper, original in (
            (create_task, create), (call_exception_handler, report), (call_soon_threadsafe, call),
        ):  # fmt: skip
            disguise(wrapper, original)
            setattr(loop, wrapper.__name__, wrapper)


def _abandon(loop: asyncio.AbstractEventLoop, task: asyncio.Task) -> None:
    """Abandons a loop that cannot run any more, and the cell's task in it, without their complaints."""
    try:
        task._log_destroy_pending = False
        loop.close()
    except Exception:
        pass


def _from_user_code(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not name.startswith(OURS) and "/asyncio/" not in name:
            break
        traceback = traceback.tb_next
    return traceback


def _has_work(loop: asyncio.AbstractEventLoop, asyncio: ModuleType) -> bool:
    """Whether the loop would do something by itself: timers, tasks, descriptors other than its own, signals."""
    if getattr(loop, "_ready", True) or getattr(loop, "_scheduled", True) or getattr(loop, "_signal_handlers", True):
        return True
    return len(loop._selector.get_map() or ()) > 1 or bool(asyncio.all_tasks(loop))
