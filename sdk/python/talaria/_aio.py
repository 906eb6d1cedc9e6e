"""The asyncio client: the synchronous one in threads, one for each call that waits."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import threading
import uuid
from typing import (
    IO, Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, TypeVar, Union,
)

from ._approvals import Approval
from ._checkpoints import Checkpoint, Rollback
from ._client import Data, Session, Talaria, dispatch, execution_body
from ._errors import TalariaError
from ._execution import Collector, Event, Execution, Result
from ._http import Stop
from ._map import Code, MapCollector, MapItem, MapResult, map_body
from ._pending import PendingCalls
from ._tools import Tool, as_tools

T = TypeVar("T")


async def _thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Runs a function in its own thread, so that no pool limits how many cells may be awaited."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        def settled() -> None:
            if not answer.done():
                set_it(value)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settled)

    def work() -> None:
        try:
            result = function(*args, **kwargs)
        except BaseException as e:
            settle(answer.set_exception, e)
        else:
            settle(answer.set_result, result)

    threading.Thread(target=work, daemon=True, name="talaria").start()
    return await answer


async def _iterate(make: Callable[[Stop], Iterator[Event]], failure: Optional[asyncio.Queue[Any]] = None,
                   ) -> AsyncIterator[Event]:
    """Yields what a blocking iterator yields, and ends its connection when the caller leaves.

    An exception that the caller puts into ``failure`` is raised here.
    """
    loop = asyncio.get_running_loop()
    stop = Stop()
    taken = threading.Semaphore(256)  # how far the thread may be ahead
    queue: asyncio.Queue[Any] = asyncio.Queue() if failure is None else failure

    def put(item: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def work() -> None:
        try:
            for event in make(stop):
                taken.acquire()
                if stop.event.is_set():
                    return
                put(event)
            put(None)
        except BaseException as e:
            put(e)

    threading.Thread(target=work, daemon=True, name="talaria-events").start()
    try:
        while True:
            item = await queue.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            taken.release()
            yield item
    finally:
        stop.set()
        taken.release()


class AsyncTalaria:
    """A server, for asyncio; see ``Talaria``."""

    def __init__(self, url: str, token: str, *, outage: float = 60.0,
                 ssl_context: Optional[ssl.SSLContext] = None) -> None:
        self._client = Talaria(url, token, outage=outage, ssl_context=ssl_context)

    async def session(self, id: Optional[str] = None, *, client_id: Optional[str] = None,
                      if_exists: Optional[str] = None, **options: Any) -> AsyncSession:
        """Gets the session with this id, or creates it; see ``Talaria.session``."""
        return AsyncSession(await _thread(self._client.session, id, client_id=client_id, if_exists=if_exists, **options))

    async def sessions(self, **query: str) -> List[Dict[str, Any]]:
        """Lists sessions, newest first."""
        return await _thread(self._client.sessions, **query)

    async def tokens(self) -> List[Dict[str, Any]]:
        """Lists your tokens; see ``Talaria.tokens``."""
        return await _thread(self._client.tokens)

    async def revoke_token(self, id: str) -> None:
        """Revokes one of your tokens by its id; see ``Talaria.revoke_token``."""
        await _thread(self._client.revoke_token, id)


class AsyncSession:
    """A session, for asyncio; see ``Session``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._new: List[Tool] = []  # the server does not have them yet
        self.id = session.id
        self.files = AsyncFiles(session)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    @property
    def info(self) -> Dict[str, Any]:
        """The session as the server last described it."""
        return self._session.info

    async def run(self, code: str, *, id: Optional[str] = None, timeout: Optional[float] = None, silent: bool = False,
                  stop_on_error: bool = False, checkpoint: bool = False,
                  on_stdout: Optional[Callable[[str], Any]] = None, on_stderr: Optional[Callable[[str], Any]] = None,
                  on_display: Optional[Callable[[Result], Any]] = None,
                  on_event: Optional[Callable[[Event], Any]] = None,
                  on_input: Optional[Callable[[str, bool], Union[str, Awaitable[str]]]] = None,
                  tools: Sequence[Union[Tool, Callable[..., Any]]] = ()) -> Execution:
        """Runs a cell; see ``Session.run``. Callbacks run in the event loop; ``on_input`` may be a coroutine function.

        Cancelling the task interrupts the cell.
        """
        await self.provide()
        cell = id or str(uuid.uuid4())
        own = as_tools(tools, asyncio.get_running_loop())
        body = execution_body(cell, code, timeout, silent, stop_on_error, checkpoint, on_input is not None, own)
        collector = Collector(cell)
        calls = PendingCalls(self._session._http, self.id, body, own)
        calls.start()
        failure: asyncio.Queue[Any] = asyncio.Queue()
        events = _iterate(lambda stop: self._session.execution_events(body, stop), failure)
        answers: List[asyncio.Task[None]] = []

        def failed(answer: asyncio.Task[None]) -> bool:
            return answer.done() and not answer.cancelled() and answer.exception() is not None

        def answered(answer: asyncio.Task[None]) -> None:
            if failed(answer):
                failure.put_nowait(answer.exception())

        try:
            async for event in events:
                calls.take(event)
                dispatch(event, collector.take(event), on_stdout, on_stderr, on_display, on_event)
                if event["type"] == "input_request" and on_input is not None:
                    answers.append(asyncio.ensure_future(self._answer(event, on_input)))
                    answers[-1].add_done_callback(answered)
                if collector.done:
                    break
        except asyncio.CancelledError:
            await asyncio.shield(_thread(self._session._abandon, cell))
            raise
        except Exception:
            if any(failed(answer) for answer in answers):  # nobody else answers: the cell would wait for good
                await _thread(self._session._abandon, cell)
            raise
        finally:
            calls.end()
            for answer in answers:
                answer.cancel()
            await events.aclose()  # type: ignore[attr-defined]
        for answer in answers:
            if failed(answer):
                raise answer.exception()  # type: ignore[misc]
        return collector.execution

    async def map(self, code: Optional[Code] = None, inputs: Iterable[Any] = (), *, function: Optional[str] = None,
                  id: Optional[str] = None, concurrency: Optional[int] = None, timeout: Optional[float] = None,
                  on_error: str = "continue", on_item: Optional[Callable[[MapItem], Any]] = None) -> MapResult:
        """Runs a cell or a function for each of the inputs; see ``Session.map``. ``on_item`` runs in the event loop.

        Cancelling the task interrupts the map.
        """
        body = map_body(id or str(uuid.uuid4()), code, inputs, function, concurrency, timeout, on_error)
        collector = MapCollector()
        lines = _iterate(lambda stop: self._session.map_lines(body, collector, stop))
        try:
            async for line in lines:
                item = collector.take(line)
                if item is not None and on_item is not None:
                    on_item(item)
                if collector.result is not None:
                    return collector.result
        except asyncio.CancelledError:
            await asyncio.shield(_thread(self._session._abandon, body["id"]))
            raise
        finally:
            await lines.aclose()  # type: ignore[attr-defined]
        raise AssertionError("a stream of a map ends with its summary")

    async def checkpoint(self, name: Optional[str] = None, *, level: Optional[str] = None) -> Checkpoint:
        """Makes a checkpoint of the variables and files as they are now; see ``Session.checkpoint``."""
        return await _thread(self._session.checkpoint, name, level=level)

    async def checkpoints(self) -> List[Checkpoint]:
        """Lists the session's checkpoints, newest first."""
        return await _thread(self._session.checkpoints)

    async def diff(self, checkpoint: Union[Checkpoint, str], to: Union[Checkpoint, str, None] = None) -> Dict[str, Any]:
        """Returns what changed between checkpoints, or since one; see ``Session.diff``."""
        return await _thread(self._session.diff, checkpoint, to)

    async def delete_checkpoint(self, checkpoint: Union[Checkpoint, str]) -> None:
        """Deletes a checkpoint, given as an object or by its id. It is not an error if it no longer exists."""
        await _thread(self._session.delete_checkpoint, checkpoint)

    async def rollback(self, to: Union[Checkpoint, Execution, str], *, what: str = "all",
                       keep_user_edits: bool = False) -> Rollback:
        """Takes the session back to a checkpoint, or to the state right after an execution; see ``Session.rollback``."""
        return await _thread(self._session.rollback, to, what=what, keep_user_edits=keep_user_edits)

    async def fork(self, count: int = 1, name: Optional[str] = None, *,
                   checkpoint: Union[Checkpoint, str, None] = None) -> List[AsyncSession]:
        """Creates sessions with the variables and files of this one; see ``Session.fork``."""
        return [AsyncSession(fork) for fork in await _thread(self._session.fork, count, name, checkpoint=checkpoint)]

    async def token(self, rights: Sequence[str] = (), *, expires: Optional[float] = None) -> Dict[str, Any]:
        """Creates a token for this session only; see ``Session.token``."""
        return await _thread(self._session.token, rights, expires=expires)

    async def hibernate(self) -> List[Dict[str, Any]]:
        """Saves the variables and ends the interpreter; see ``Session.hibernate``."""
        return await _thread(self._session.hibernate)

    async def wake(self) -> List[Dict[str, Any]]:
        """Starts an interpreter with the saved variables; see ``Session.wake``."""
        return await _thread(self._session.wake)

    def tool(self, function: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
        """Lets the session's cells call a function of this program; see ``Session.tool``. A decorator.

        A coroutine function runs as a task of the running event loop, other functions in threads. The server has the
        tool once ``provide`` returns, which ``run`` and ``serve`` call.
        """
        def collect(f: Callable[..., Any]) -> Callable[..., Any]:
            self._new.append(Tool(f, **options, loop=asyncio.get_running_loop()))
            return f
        return collect if function is None else collect(function)

    async def provide(self) -> None:
        """Hands new tools to the server. It raises TalariaError (``tool_rejected``) if the server rejects one."""
        tools, self._new = self._new, []
        if not tools:
            return
        try:
            await _thread(self._session._attached.add, tools)
        except TalariaError as e:
            if e.code != "tool_rejected":
                self._new = tools + self._new  # the server got none of them
            raise

    async def remove_tool(self, name: str) -> None:
        """Withdraws a tool that ``tool`` provided. It is not an error if it is no longer provided."""
        self._new = [t for t in self._new if t.name != name]
        await _thread(self._session.remove_tool, name)

    async def on_approval(self, callback: Callable[[Approval], Any]) -> None:
        """Lets a function or a coroutine function decide what the session asks approval for.

        See ``Session.on_approval``.
        """
        loop = asyncio.get_running_loop()

        async def ask(approval: Approval) -> Any:
            decision = callback(approval)
            return await decision if inspect.isawaitable(decision) else decision

        await _thread(self._session.on_approval,
                      lambda approval: asyncio.run_coroutine_threadsafe(ask(approval), loop).result())

    async def serve(self) -> None:
        """Answers calls until ``close`` or the session's end; see ``Session.serve``. Cancelling it closes nothing."""
        await self.provide()
        await _thread(self._session.serve)

    async def close(self) -> None:
        """Withdraws the tools and the callback for approvals; see ``Session.close``."""
        await _thread(self._session.close)

    async def _answer(self, event: Event, on_input: Callable[[str, bool], Any]) -> None:
        value = on_input(event["prompt"], event["password"])
        if inspect.isawaitable(value):
            value = await value
        await _thread(self._session._answer, event, value)

    def events(self, after: int = 0, *, follow: bool = True, log_id: Optional[str] = None) -> AsyncIterator[Event]:
        """Yields the events of the session's log; see ``Session.events``."""
        return _iterate(lambda stop: self._session.events(after, follow=follow, log_id=log_id, stop=stop))

    async def refresh(self) -> Dict[str, Any]:
        """Fetches the current state of the session from the server."""
        return await _thread(self._session.refresh)

    async def interrupt(self, execution_id: Optional[str] = None) -> None:
        """Interrupts one execution, or everything that runs or waits."""
        await _thread(self._session.interrupt, execution_id)

    async def input(self, value: str, request_id: Optional[str] = None) -> None:
        """Answers the question that a cell is asking."""
        await _thread(self._session.input, value, request_id)

    async def reset(self, *, keep_files: bool = True, keep_packages: bool = True) -> None:
        """Starts a fresh interpreter."""
        await _thread(self._session.reset, keep_files=keep_files, keep_packages=keep_packages)

    async def delete(self) -> None:
        """Deletes the session with its files and log."""
        await _thread(self._session.delete)

    async def artifact(self, artifact: Dict[str, Any]) -> bytes:
        """Downloads the bytes of one of ``Execution.artifacts``."""
        return await _thread(self._session.artifact, artifact)


class AsyncFiles:
    """The files of a session, for asyncio; see ``Files``."""

    def __init__(self, session: Session) -> None:
        self._files = session.files

    async def list(self, folder: str = "") -> List[Dict[str, Any]]:
        """Lists one folder by name."""
        return await _thread(self._files.list, folder)

    async def read(self, name: str) -> bytes:
        """Downloads a file."""
        return await _thread(self._files.read, name)

    async def download(self, name: str, target: IO[bytes]) -> None:
        """Downloads a file into a file object, piece by piece."""
        await _thread(self._files.download, name, target)

    async def write(self, name: str, data: Data) -> Dict[str, Any]:
        """Uploads a file in one step."""
        return await _thread(self._files.write, name, data)

    async def delete(self, name: str) -> None:
        """Deletes a file or a folder."""
        await _thread(self._files.delete, name)
