"""The synchronous client."""

from __future__ import annotations

import contextlib
import json
import ssl
import uuid
from typing import IO, Any, Callable, Dict, Generator, Iterable, List, Optional, Sequence, Union
from urllib.parse import quote

from ._approvals import Decide
from ._attached import Attached
from ._checkpoints import Checkpoint, Rollback, rollback_body
from ._errors import TalariaError
from ._execution import Collector, Event, Execution, Result
from ._http import Stop, Transport, path
from ._map import Code, MapCollector, MapItem, MapResult, map_body
from ._pending import PendingCalls
from ._tools import Tool, as_tools, run_in_thread

ABANDON = 3.0  #: a call that was cancelled ends so soon, though its cell may not be interrupted yet

Data = Union[bytes, str, IO[bytes]]


class Talaria:
    """A server. It is safe for concurrent use.

    ``outage`` is how many seconds a call keeps trying to reach a server that it has reached before.
    """

    def __init__(self, url: str, token: str, *, outage: float = 60.0,
                 ssl_context: Optional[ssl.SSLContext] = None) -> None:
        self._http = Transport(url, token, outage, ssl_context)

    def session(self, id: Optional[str] = None, *, client_id: Optional[str] = None, if_exists: Optional[str] = None,
                **options: Any) -> Session:
        """Gets the session with this id, or creates it; without an id, creates one.

        ``options`` are the fields of ``PUT /v1/sessions/{id}``, such as ``limits``, ``network`` or ``packages``. If the
        session exists and they differ, it raises TalariaError (``session_conflict``), unless ``if_exists`` is ``keep``,
        which takes the session as it is, or ``apply``, which changes it. With a token for one session, pass the id of
        that session and no options.
        ``client_id`` names this program as a provider of tools, so that it keeps its idempotent calls when it is
        restarted within 30 s; only one program may use it at a time. Without it, calls survive only lost connections.
        """
        name = id or str(uuid.uuid4())
        return Session(self._http, self._ensure(path("sessions", name), options, if_exists), client_id)

    def _ensure(self, target: str, options: Dict[str, Any], if_exists: Optional[str]) -> Dict[str, Any]:
        query = None if if_exists is None else {"if_exists": if_exists}
        try:
            info: Dict[str, Any] = self._http.call("PUT", target, query, options)
        except TalariaError as e:
            if e.code != "forbidden" or options:
                raise
            info = self._http.call("GET", target)  # a token for this session alone may not create it, and needs not
        return info

    def sessions(self, **query: str) -> List[Dict[str, Any]]:
        """Lists sessions, newest first; ``query`` filters them as ``GET /v1/sessions`` does."""
        return _pages(self._http, path("sessions"), query)

    def tokens(self) -> List[Dict[str, Any]]:
        """Lists your tokens that have not expired, including session tokens, without the tokens themselves."""
        return _pages(self._http, path("tokens"), {})

    def revoke_token(self, id: str) -> None:
        """Revokes one of your tokens by its id, and ends its logins, sockets and streams.

        An id that is not one of yours raises TalariaError (``not_found``).
        """
        self._http.send("DELETE", path("tokens", id))


class Session:
    """A session: live Python, a workspace and a log. It is safe for concurrent use.

    ``info`` is the session as the server last described it; ``refresh`` updates it. Used as a context manager, it calls
    ``close`` at the end.
    """

    def __init__(self, transport: Transport, info: Dict[str, Any], client_id: Optional[str] = None) -> None:
        self._http = transport
        self.info = info
        self.id: str = info["id"]
        self.files = Files(transport, self.id)
        self._attached = Attached(transport, self.id, client_id)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def run(self, code: str, *, id: Optional[str] = None, timeout: Optional[float] = None, silent: bool = False,
            stop_on_error: bool = False, checkpoint: bool = False, on_stdout: Optional[Callable[[str], Any]] = None,
            on_stderr: Optional[Callable[[str], Any]] = None, on_display: Optional[Callable[[Result], Any]] = None,
            on_event: Optional[Callable[[Event], Any]] = None,
            on_input: Optional[Callable[[str, bool], str]] = None,
            tools: Sequence[Union[Tool, Callable[..., Any]]] = ()) -> Execution:
        """Runs a cell and returns it once it has finished; a cell that raised has ``error`` set.

        The callbacks get output as it is printed. ``on_input(prompt, password)`` answers ``input()``, which raises
        without it. ``timeout`` is in seconds; 0 means none. A lost connection is reopened; the cell runs only once. A
        call with the ``id`` of an earlier execution returns that execution. KeyboardInterrupt interrupts the cell.
        ``checkpoint`` makes a checkpoint right before the cell runs.
        ``tools`` are functions that only this cell may call, over plain HTTP; see ``tool`` for those of the session.
        """
        cell = id or str(uuid.uuid4())
        own = as_tools(tools)
        body = execution_body(cell, code, timeout, silent, stop_on_error, checkpoint, on_input is not None, own)
        collector = Collector(cell)
        calls = PendingCalls(self._http, self.id, body, own)
        try:
            with contextlib.closing(self.execution_events(body)) as events:
                calls.start()
                for event in events:
                    calls.take(event)
                    shown = collector.take(event)
                    dispatch(event, shown, on_stdout, on_stderr, on_display, on_event)
                    if event["type"] == "input_request" and on_input is not None:
                        try:
                            self._answer(event, on_input(event["prompt"], event["password"]))
                        except Exception:  # nobody else answers: the cell would wait for good
                            self._abandon(cell)
                            raise
                    if collector.done:
                        break
        except KeyboardInterrupt:
            self._abandon(cell)
            raise
        finally:
            calls.end()
        return collector.execution

    def map(self, code: Optional[Code] = None, inputs: Iterable[Any] = (), *, function: Optional[str] = None,
            id: Optional[str] = None, concurrency: Optional[int] = None, timeout: Optional[float] = None,
            on_error: str = "continue", on_item: Optional[Callable[[MapItem], Any]] = None) -> MapResult:
        """Runs a cell or a function for each of the inputs, in copies of the interpreter, and returns all items in order.

        ``code`` is a cell that sees ``item`` and ``index``, or a function of this program: its source is sent, and
        called with the item. ``function`` names a function of the session instead. ``inputs`` are JSON values.
        ``concurrency`` is how many copies run at a time, by default the session's CPUs; ``timeout`` is in seconds for
        each item. With ``on_error="stop"`` the first item that fails cancels the others. ``on_item`` gets each item as
        it ends. A lost connection is reopened; nothing runs twice. KeyboardInterrupt interrupts the map.
        """
        body = map_body(id or str(uuid.uuid4()), code, inputs, function, concurrency, timeout, on_error)
        collector = MapCollector()
        try:
            with contextlib.closing(self.map_lines(body, collector)) as lines:
                for line in lines:
                    item = collector.take(line)
                    if item is not None and on_item is not None:
                        on_item(item)
                    if collector.result is not None:
                        return collector.result
        except KeyboardInterrupt:
            self._abandon(body["id"])
            raise
        raise AssertionError("a stream of a map ends with its summary")

    def map_lines(self, body: Dict[str, Any], collector: MapCollector,
                  stop: Optional[Stop] = None) -> Generator[Dict[str, Any], None, None]:
        """Sends a map, with an id, and yields its items as they end, then the summary."""
        return self._http.lines(path("sessions", self.id, "map"), body, collector.fresh, stop)

    def checkpoint(self, name: Optional[str] = None, *, level: Optional[str] = None) -> Checkpoint:
        """Makes a checkpoint of the variables and files as they are now, while no cell runs or waits.

        Checkpoints without a ``name`` make room for newer ones. ``level`` is ``live`` for variables in memory, exactly as they
        are; ``saved`` for variables on disk, which survive the kernel and can be forked; or ``files``. By default it is
        the first of these that is possible.
        """
        body = {k: v for k, v in (("name", name), ("level", level)) if v is not None}
        return Checkpoint.of(self._http.call("POST", path("sessions", self.id, "checkpoints"), body=body))

    def checkpoints(self) -> List[Checkpoint]:
        """Lists the session's checkpoints, newest first."""
        return [Checkpoint.of(raw) for raw in _pages(self._http, path("sessions", self.id, "checkpoints"), {})]

    def diff(self, checkpoint: Union[Checkpoint, str], to: Union[Checkpoint, str, None] = None) -> Dict[str, Any]:
        """Returns what changed between a checkpoint and another one, or since a checkpoint.

        ``files`` is a list of dicts with ``path``, ``change`` and ``size``, and ``variables`` a list of dicts with
        ``name`` and ``change``; a change is ``created``, ``modified`` or ``deleted``. If there are more changes than are
        listed, ``truncated`` is true; otherwise it is absent.
        """
        query = {} if to is None else {"to": to if isinstance(to, str) else to.id}
        id = checkpoint if isinstance(checkpoint, str) else checkpoint.id
        changes: Dict[str, Any] = self._http.call("GET", path("sessions", self.id, "checkpoints", id, "diff"), query)
        return changes

    def delete_checkpoint(self, checkpoint: Union[Checkpoint, str]) -> None:
        """Deletes a checkpoint, given as an object or by its id. It is not an error if it no longer exists."""
        id = checkpoint if isinstance(checkpoint, str) else checkpoint.id
        _delete(self._http, path("sessions", self.id, "checkpoints", id), "checkpoint_not_found")

    def rollback(self, to: Union[Checkpoint, Execution, str], *, what: str = "all",
                 keep_user_edits: bool = False) -> Rollback:
        """Takes the session back to a checkpoint, as an object or by its id, or to the state right after an execution.

        ``what`` is ``all``, ``variables`` or ``files``. ``keep_user_edits`` leaves alone the files that no cell has
        changed since. If the checkpoint does not have what is requested, it raises TalariaError (``checkpoint_gone``)
        and changes nothing.
        """
        body = rollback_body(to, what, keep_user_edits)
        return Rollback.of(self._http.call("POST", path("sessions", self.id, "rollback"), body=body))

    def fork(self, count: int = 1, name: Optional[str] = None, *,
             checkpoint: Union[Checkpoint, str, None] = None) -> List[Session]:
        """Creates up to 64 sessions with the variables, files, packages and settings that this one has now.

        This one continues undisturbed; while a cell runs or waits it raises TalariaError (``kernel_busy``). ``name`` is
        their display name. With a ``checkpoint``, variables and files come from the checkpoint.
        ``info["not_restored"]`` of a fork names what could not be copied. If only some forks can be created, for
        example because of a limit, it returns those; if none can, it raises.
        """
        body: Dict[str, Any] = {"count": count}
        if name is not None:
            body["name"] = name
        if checkpoint is not None:
            body["checkpoint_id"] = checkpoint if isinstance(checkpoint, str) else checkpoint.id
        items = self._http.call("POST", path("sessions", self.id, "fork"), body=body)["items"]
        made = [Session(self._http, item) for item in items if "id" in item]
        if not made:
            problem = items[0]
            raise TalariaError(problem["code"], problem["detail"], problem["status"])
        return made

    def token(self, rights: Sequence[str] = (), *, expires: Optional[float] = None) -> Dict[str, Any]:
        """Creates a token for this session only, for a program that must not have yours, such as a page.

        ``rights`` are some of ``read`` (which every token has), ``run``, ``write`` and ``terminal``; by default, only
        ``read``. ``expires`` is in seconds, by default an hour. It returns a dict with the ``token``, its ``id`` for
        ``revoke_token``, ``rights``, ``created_at`` and ``expires_at``.
        """
        body: Dict[str, Any] = {"rights": list(rights)}
        if expires is not None:
            body["expires_s"] = expires
        made: Dict[str, Any] = self._http.call("POST", path("sessions", self.id, "tokens"), body=body)
        return made

    def hibernate(self) -> List[Dict[str, Any]]:
        """Saves the variables to disk and ends the interpreter; the next cell, or ``wake``, restores them.

        It returns what could not be saved, each with ``name``, ``type`` and ``reason``. While a cell runs or waits it
        raises TalariaError (``kernel_busy``).
        """
        reply = self._http.call("POST", path("sessions", self.id, "hibernate"), repeatable=True)
        lost: List[Dict[str, Any]] = reply.pop("not_saved")
        self.info = reply
        return lost

    def wake(self) -> List[Dict[str, Any]]:
        """Starts an interpreter with the saved variables, if none is running.

        It returns what could not be restored, each with ``name`` and ``reason``.
        """
        reply = self._http.call("POST", path("sessions", self.id, "wake"))
        lost: List[Dict[str, Any]] = reply.pop("not_restored")
        self.info = reply
        return lost

    def tool(self, function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None,
             description: Optional[str] = None, parameters: Optional[Dict[str, Any]] = None,
             timeout_s: Optional[float] = None, idempotent: bool = False, read_only: bool = False,
             requires_approval: bool = False) -> Any:
        """Lets the session's cells call a function of this program: ``from hermes_tools import NAME``. A decorator.

        The JSON Schema is made from the signature, the annotations and the docstring, unless ``parameters`` gives one.
        Each call runs in its own thread, any number at once; a coroutine function gets its own event loop. A
        parameter annotated with ``ToolCall`` gets the call, for its progress and its cancellation. What the function
        returns is converted to JSON; what it raises becomes a ``ToolError`` in the cell, with the code of a
        ``talaria.ToolError``.

        It returns once the server has the tool, and raises TalariaError (``tool_rejected``) if the server rejects it. A
        lost connection is reopened; only a call of an ``idempotent`` tool continues meanwhile, and no call is carried
        out or answered twice. The function itself is returned unchanged.
        """
        def provide(f: Callable[..., Any]) -> Callable[..., Any]:
            self._attached.add([Tool(
                f, name=name, description=description, parameters=parameters, timeout_s=timeout_s,
                idempotent=idempotent, read_only=read_only, requires_approval=requires_approval)])
            return f
        return provide if function is None else provide(function)

    def remove_tool(self, name: str) -> None:
        """Withdraws a tool that ``tool`` provided. It is not an error if it is no longer provided."""
        self._attached.remove(name)

    def on_approval(self, callback: Decide) -> Decide:
        """Lets a function decide what the session asks approval for. A decorator.

        The function gets an ``Approval`` and returns ``once``, ``session`` or ``deny``, or None to leave the answer to
        somebody else. It runs in its own thread. If it raises, the answer is ``deny``.
        """
        self._attached.on_approval(callback)
        return callback

    def serve(self) -> None:
        """Answers calls until ``close`` or the session's end. Raises an error if the connection is lost for good."""
        self._attached.wait()

    def close(self) -> None:
        """Withdraws the tools and the callback for approvals. The session itself stays. It is idempotent."""
        self._attached.close()

    def execution_events(self, body: Dict[str, Any], stop: Optional[Stop] = None) -> Generator[Event, None, None]:
        """Sends an execution, with an id, and yields its events as they happen."""
        base = path("sessions", self.id, "executions")
        sent = json.dumps(body).encode()
        return self._http.events(
            lambda: {"method": "POST", "target": base, "body": sent,
                     "headers": {"Content-Type": "application/json"}},
            lambda after: {"method": "GET", "target": base + "/" + quote(body["id"], safe=":"),
                           "query": {"after": str(after)}},
            0, stop)

    def _answer(self, event: Event, value: str) -> None:
        try:
            self.input(value, event["request_id"])
        except TalariaError as e:
            if e.code != "no_input_pending":  # somebody else answered, or the cell was interrupted
                raise

    def events(self, after: int = 0, *, follow: bool = True, log_id: Optional[str] = None,
               stop: Optional[Stop] = None) -> Generator[Event, None, None]:
        """Yields the events of the session's log after a position, then live unless ``follow`` is false.

        Each event arrives once and in order, even if the connection is lost. If the log was replaced, it raises
        TalariaError (``log_changed``).
        """
        log = log_id or self.info["log_id"]

        def request(position: int) -> Dict[str, Any]:
            query = {"after": str(position), "log_id": log}
            if not follow:
                query["follow"] = "false"
            return {"method": "GET", "target": path("sessions", self.id, "events"), "query": query}

        return self._http.events(lambda: request(after), request, after, stop, follow)

    def refresh(self) -> Dict[str, Any]:
        """Fetches the current state of the session from the server."""
        self.info = self._http.call("GET", path("sessions", self.id))
        return self.info

    def interrupt(self, execution_id: Optional[str] = None) -> None:
        """Interrupts one execution; without an id, interrupts the running one and cancels those that wait."""
        body = {} if execution_id is None else {"execution_id": execution_id}
        self._http.call("POST", path("sessions", self.id, "interrupt"), body=body, repeatable=execution_id is not None)

    def _abandon(self, execution_id: str) -> None:
        """Interrupts an execution that the caller leaves. While the server is away, a thread goes on trying."""
        def interrupt() -> None:
            with contextlib.suppress(TalariaError):
                self.interrupt(execution_id)

        run_in_thread("talaria-interrupt", interrupt).join(ABANDON)

    def input(self, value: str, request_id: Optional[str] = None) -> None:
        """Answers the question that a cell is asking."""
        body = {"value": value}
        if request_id is not None:
            body["request_id"] = request_id
        self._http.call("POST", path("sessions", self.id, "input"), body=body, repeatable=request_id is not None)

    def reset(self, *, keep_files: bool = True, keep_packages: bool = True) -> None:
        """Starts a fresh interpreter. Variables are lost; files and packages stay by default."""
        body = {"keep_files": keep_files, "keep_packages": keep_packages}
        self.info = self._http.call("POST", path("sessions", self.id, "reset"), body=body)

    def delete(self) -> None:
        """Deletes the session with its files and log. It is not an error if it no longer exists."""
        _delete(self._http, path("sessions", self.id), "session_not_found")
        self._attached.close()

    def artifact(self, artifact: Dict[str, Any]) -> bytes:
        """Downloads the bytes of one of ``Execution.artifacts``, as the cell left them."""
        return b"".join(self._http.download(artifact["url"]))


class Files:
    """The files of a session. Paths are relative to its workspace."""

    def __init__(self, transport: Transport, session_id: str) -> None:
        self._http = transport
        self._base = path("sessions", session_id, "files")

    def _path(self, name: str) -> str:
        return self._base + "/" + "/".join(quote(s, safe="") for s in name.split("/"))

    def list(self, folder: str = "") -> List[Dict[str, Any]]:
        """Lists one folder by name: ``name``, ``path``, ``kind``, ``size``, ``modified_at``, ``media_type``."""
        return _pages(self._http, self._base, {"path": folder} if folder else {})

    def read(self, name: str) -> bytes:
        """Downloads a file. A lost download is resumed; if the file changes meanwhile, it fails with ``file_changed``."""
        return b"".join(self._http.download(self._path(name)))

    def download(self, name: str, target: IO[bytes]) -> None:
        """Downloads a file into a file object, piece by piece; see ``read``."""
        for piece in self._http.download(self._path(name)):
            target.write(piece)

    def write(self, name: str, data: Data) -> Dict[str, Any]:
        """Uploads a file in one step, with its folders, and returns its entry. Text is written as UTF-8."""
        body = data.encode() if isinstance(data, str) else data
        # A file object cannot be read twice; bytes can.
        return json.loads(self._http.send("PUT", self._path(name), body=body,
                                          headers={"Content-Type": "application/octet-stream"},
                                          repeatable=isinstance(body, bytes)) or b"{}")

    def delete(self, name: str) -> None:
        """Deletes a file, a link itself, or a folder with everything in it. It is not an error if it no longer exists."""
        _delete(self._http, self._path(name), "file_not_found")


def execution_body(id: str, code: str, timeout: Optional[float], silent: bool, stop_on_error: bool, checkpoint: bool,
                   allow_stdin: bool, tools: Dict[str, Tool]) -> Dict[str, Any]:
    """The body of ``POST /v1/sessions/{id}/executions``."""
    body: Dict[str, Any] = {"id": id, "code": code, "allow_stdin": allow_stdin}
    if timeout is not None:
        body["timeout_s"] = timeout
    if silent:
        body["silent"] = True
    if stop_on_error:
        body["stop_on_error"] = True
    if checkpoint:
        body["checkpoint"] = True
    if tools:
        body["tools"] = [t.declaration for t in tools.values()]
    return body


def dispatch(event: Event, shown: Optional[Result], on_stdout: Any, on_stderr: Any, on_display: Any,
             on_event: Any) -> None:
    """Hands an event to the callbacks that want it."""
    if on_event is not None:
        on_event(event)
    if event["type"] == "stream":
        callback = on_stdout if event["name"] == "stdout" else on_stderr
        if callback is not None:
            callback(event["text"])
    elif shown is not None and on_display is not None:
        on_display(shown)


def _delete(transport: Transport, target: str, gone: str) -> None:
    try:
        transport.send("DELETE", target)
    except TalariaError as e:
        if e.code != gone:
            raise


def _pages(transport: Transport, target: str, query: Dict[str, str]) -> List[Dict[str, Any]]:
    items: List[Dict[str, Any]] = []
    query = dict(query)
    while True:
        page = transport.call("GET", target, query)
        items += page["items"]
        if not page.get("next_cursor"):
            return items
        query["cursor"] = page["next_cursor"]
