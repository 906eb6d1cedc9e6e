"""Top-level await: one event loop for the life of the kernel, which runs while a cell awaits and while none runs."""

from __future__ import annotations

from talaria_runner.pristine import builtins as __builtins__  # noqa: F401

from _thread import get_ident
from sys import _getframe, modules

from talaria_runner.execution import disguise
from talaria_runner.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine


_MOST_FAILURES = 1000  # of the loop while one cell awaits


async def _nothing() -> None:
    pass


_sample = _nothing()
_Coroutine = type(_sample)
_sample.close()


class EventLoop:
    """The loop does not run while a plain cell does, so that asyncio.run works in it."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: asyncio.AbstractEventLoop | None = None  # the loop, while it runs between cells
        self._main = get_ident()
        self._module: object = None  # asyncio, once it is imported

    def adopt(self, asyncio: object) -> None:
        """Has asyncio, the module, use the kernel's loop in plain cells: create_task needs no running one there."""
        self._module = asyncio
        original = asyncio.create_task

        def create_task(coro: Coroutine, **kwargs: object) -> asyncio.Task:
            if asyncio._get_running_loop() is None and get_ident() == self._main:
                return self._open().create_task(coro, **kwargs)
            return original(coro, **kwargs)

        disguise(create_task, original)
        asyncio.create_task = asyncio.tasks.create_task = create_task

    def prepare(self) -> None:
        """Before each cell: what get_event_loop gives is the kernel's loop. asyncio.run takes it away."""
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
                coroutine.close()  # where it could not even begin

        return run

    def _run(self, coroutine: Coroutine) -> object:
        interrupts = self._interrupts
        loop = self._open()
        asyncio = self._module
        task = loop.create_task(coroutine)
        task.add_done_callback(lambda _: loop.stop())
        cancelled = False

        def cancel() -> bool:
            nonlocal cancelled
            if cancelled:
                return False
            cancelled = True
            loop.call_soon_threadsafe(task.cancel)
            return True

        stray: BaseException | None = None
        failures = 0
        while not task.done():
            try:
                interrupts.cancel = cancel
                loop.run_forever()
            except BaseException as e:
                # Raised by another task, or by a signal handler inside the loop's own code.
                failures += 1
                if loop.is_closed() or isinstance(e, OSError) or failures > _MOST_FAILURES:
                    # User code closed it or its descriptors, or broke what it is made of.
                    self._loop = None
                    _abandon(loop, task)
                    raise
                stray = e
                task.cancel()
            finally:
                interrupts.cancel = None
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
                loop.run_forever()
        except OSError:
            # Its descriptors are gone: user code closed them.
            self._loop = None
        finally:
            self._interrupts.idle = None
            self._idle = None
        return True

    def wake(self) -> None:
        """Ends idle_until. Called by another thread after ready would say True."""
        loop = self._idle
        if loop is not None:
            try:
                loop.call_soon_threadsafe(loop.stop)
            except RuntimeError:
                pass  # closed in this moment

    def become_child(self) -> None:
        self._loop = self._idle = None

    def _open(self) -> asyncio.AbstractEventLoop:
        asyncio = self._module or __import__("asyncio")  # user code may have thrown it out of sys.modules
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        if asyncio._get_running_loop() is None:
            asyncio.set_event_loop(self._loop)
        return self._loop


def _abandon(loop: asyncio.AbstractEventLoop, task: asyncio.Task) -> None:
    """Leaves a loop that cannot run any more, and the cell's task in it, without their complaints."""
    try:
        task._log_destroy_pending = False
        loop.close()
    except Exception:
        pass


def _has_work(loop: asyncio.AbstractEventLoop, asyncio: object) -> bool:
    if getattr(loop, "_ready", True) or getattr(loop, "_scheduled", True):
        return True
    return bool(asyncio.all_tasks(loop))
