"""HTTP/1.1 to one server: problems as exceptions, retries of what may be repeated, event streams that resume."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, Generator, Iterator, Optional
from urllib.parse import quote, urlencode, urlsplit

from ._errors import TalariaError
from ._execution import Event
from ._websocket import WebSocket, handshake

SILENCE = 60.0  #: a stream without a byte for so long is broken: the server sends a comment every 15 s
CONNECT = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 3.0
# A peer that vanished, such as behind a NAT that forgot the connection, is noticed after a minute. Platforms name these
# options differently, and some lack them.
KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPALIVE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
MAX_LINE = 24 << 20
PIECE = 64 << 10
SUBPROTOCOL = "talaria.v1"

# Answers of a server that is starting, ending or busy, or of a proxy in front of it.
_PASSING_CODES = {"not_ready", "shutting_down", "too_many_requests"}
_PASSING_STATUSES = {502, 503, 504}


class Broken(Exception):
    """The connection failed. ``sent`` says whether the server may have received the request."""

    def __init__(self, cause: BaseException, sent: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.sent = sent


class Stop:
    """Ends the blocking calls of another thread: closes their connection, and keeps further ones from starting."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None

    def watch(self, connected: Optional[socket.socket]) -> None:
        with self._lock:
            self._socket = connected
        if self.event.is_set():
            self.set()

    def set(self) -> None:
        self.event.set()
        with self._lock:
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)


class Backoff:
    """Spaces the attempts to reconnect, and gives up after ``outage`` seconds without a successful one."""

    def __init__(self, outage: float) -> None:
        self._outage = outage
        self.reset()

    def reset(self) -> None:
        self._since: Optional[float] = None
        self._pause = 0.0

    def wait(self, stop: Optional[Stop]) -> bool:
        """Returns whether to try again."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since >= self._outage:
            return False
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        if stop is None:
            time.sleep(self._pause)
            return True
        return not stop.event.wait(self._pause)


def path(*segments: str) -> str:
    """Joins segments below /v1, each escaped."""
    return "/v1" + "".join("/" + quote(s, safe=":") for s in segments)


class Transport:
    """Makes requests, each on a connection of its own. It is safe for concurrent use."""

    def __init__(self, url: str, token: str, outage: float, context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the URL of a server; it looks like http://127.0.0.1:8765")
        self.url = url.rstrip("/")
        self.outage = outage
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._headers = {"Authorization": "Bearer " + token} if token else {}
        self._reached = False  # a server that never answered is reported at once

    def call(self, method: str, target: str, query: Optional[Dict[str, str]] = None, body: Any = None,
             repeatable: Optional[bool] = None) -> Any:
        """Sends JSON and returns the JSON of the answer. ``repeatable`` defaults to whether the method is idempotent."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        return json.loads(self.send(method, target, query, data, headers, repeatable).decode() or "null")

    def send(self, method: str, target: str, query: Optional[Dict[str, str]] = None, body: Any = None,
             headers: Optional[Dict[str, str]] = None, repeatable: Optional[bool] = None) -> bytes:
        """Sends a request and returns the body of the answer."""
        with self.open(method, target, query, body, headers, repeatable) as response:
            try:
                return response.read()
            except (OSError, http.client.HTTPException) as e:
                raise self.unreachable(e) from e

    @contextlib.contextmanager
    def open(self, method: str, target: str, query: Optional[Dict[str, str]] = None, body: Any = None,
             headers: Optional[Dict[str, str]] = None, repeatable: Optional[bool] = None,
             stop: Optional[Stop] = None) -> Iterator[http.client.HTTPResponse]:
        """Sends a request, and again after a failure that allows it, and yields the answer, whose body is open."""
        if repeatable is None:
            repeatable = method in ("GET", "PUT", "DELETE")
        backoff = Backoff(self.outage)
        while True:
            try:
                connection = self._request(method, target, query, body, headers or {}, stop)
                break
            except Broken as e:
                again = self._reached and (repeatable or not e.sent) and backoff.wait(stop)
                if not again:
                    raise self.unreachable(e) from e
            except TalariaError as e:
                # A file object was read by the first attempt; a second one would send nothing, and succeed.
                if not passing(e) or not isinstance(body, (bytes, type(None))) or not backoff.wait(stop):
                    raise
        response = connection.response
        try:
            yield response
        finally:
            response.close()
            connection.close()

    def _request(self, method: str, target: str, query: Optional[Dict[str, str]], body: Any,
                 headers: Dict[str, str], stop: Optional[Stop]) -> Any:
        connection = self._connect()
        try:
            try:
                connection.connect()
            except OSError as e:
                raise Broken(e, sent=False) from e
            _keep_alive(connection.sock)
            if stop is not None:
                stop.watch(connection.sock)
            connection.sock.settimeout(SILENCE)
            target = self._prefix + target + ("?" + urlencode(query) if query else "")
            try:
                try:
                    _send(connection, method, target, body, {**self._headers, **headers})
                except ConnectionError:
                    # A server that refuses a long body has answered, and cut the connection without reading it all.
                    connection.sock.settimeout(CONNECT)
                else:
                    # A call such as reset answers late; only streams say that they are alive.
                    connection.sock.settimeout(SILENCE if headers.get("Accept") == "text/event-stream" else None)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as e:
                raise Broken(e, sent=True) from e
            self._reached = True
            if response.status >= 400:
                raise problem(response)
            connection.response = response  # type: ignore[attr-defined]
            return connection
        except BaseException:
            connection.close()
            raise

    def download(self, target: str) -> Iterator[bytes]:
        """Yields the bytes of a file piece by piece. If the connection is lost, it continues with the rest."""
        done, tag = 0, ""
        backoff = Backoff(self.outage)
        while True:
            headers = {"Range": f"bytes={done}-", "If-Range": tag} if done else {}
            cause: BaseException
            try:
                with self.open("GET", target, headers=headers) as response:
                    if done and response.status != 206:
                        raise TalariaError("file_changed", "the file was changed during its download; download it again")
                    tag = response.headers.get("ETag", "")
                    size = response.headers.get("Content-Length")
                    end = None if size is None else done + int(size)
                    for piece in iter(lambda: response.read(PIECE), b""):
                        done += len(piece)
                        backoff.reset()
                        yield piece
                    if end is None or done == end:
                        return
                    cause = ConnectionError("the connection was cut")
            except (OSError, http.client.HTTPException) as e:
                cause = e
            if not tag or not backoff.wait(None):
                raise self.unreachable(cause) from cause

    def websocket(self, target: str, stop: Stop) -> WebSocket:
        """Opens a WebSocket. It tries once, and raises Broken if another try may succeed."""
        headers = handshake(SUBPROTOCOL)
        connection = self._request("GET", target, None, None, headers, stop)
        try:
            connection.sock.settimeout(SILENCE)
            return WebSocket(connection, connection.response, headers)
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise Broken(e, sent=True) from e

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT)

    @property
    def reached(self) -> bool:
        """Whether the server has answered before."""
        return self._reached

    def unreachable(self, cause: BaseException) -> TalariaError:
        return TalariaError("unreachable", f"cannot reach {self.url}: {cause}")

    def events(self, first: Callable[[], Dict[str, Any]], resume: Callable[[int], Dict[str, Any]], after: int,
               stop: Optional[Stop] = None, follow: bool = True) -> Generator[Event, None, None]:
        """Yields events, each once and in order, over one connection after the other.

        ``first`` gives the arguments of the request while no event has come, ``resume`` those after an event. The
        caller ends it by leaving the loop.
        """
        last = after

        def request() -> Dict[str, Any]:
            asked = resume(last) if last > after else first()
            return {**asked, "headers": {"Accept": "text/event-stream", **asked.get("headers", {})}}

        def fresh(event: Event) -> bool:
            nonlocal last
            if event["seq"] <= last:
                return False
            last = event["seq"]
            return True

        return self._resumed(request, _events, fresh, stop, follow=follow)

    def lines(self, target: str, body: Any, fresh: Callable[[Dict[str, Any]], bool],
              stop: Optional[Stop] = None) -> Generator[Dict[str, Any], None, None]:
        """Sends JSON and yields the lines of the answer, over one connection after the other.

        The same request again gives the lines from the first on: those that are not ``fresh`` are left out. The caller
        ends it by leaving the loop.
        """
        sent = json.dumps(body).encode()
        headers = {"Accept": "application/x-ndjson", "Content-Type": "application/json"}
        return self._resumed(lambda: {"method": "POST", "target": target, "body": sent, "headers": headers},
                             _lines, fresh, stop, silent=True)

    def _resumed(self, request: Callable[[], Dict[str, Any]],
                 read: Callable[[http.client.HTTPResponse], Iterator[Dict[str, Any]]],
                 fresh: Callable[[Dict[str, Any]], bool], stop: Optional[Stop], *, follow: bool = True,
                 silent: bool = False) -> Generator[Dict[str, Any], None, None]:
        """Yields what is fresh. A ``silent`` stream sends nothing while nothing happens: a proxy may cut it any number of times."""
        backoff = Backoff(self.outage)
        while True:
            cause: BaseException = ConnectionError("the server ended the stream")
            opened = float("inf")
            try:
                with self.open(repeatable=True, stop=stop, **request()) as response:
                    opened = time.monotonic()
                    for part in read(response):
                        if fresh(part):
                            backoff.reset()
                            yield part
                if not follow:
                    return
            except (OSError, http.client.HTTPException, ValueError) as e:
                cause = e
            if silent and time.monotonic() - opened > LONGEST_PAUSE:
                backoff.reset()
            if not backoff.wait(stop):
                raise self.unreachable(cause) from cause


def _send(connection: http.client.HTTPConnection, method: str, target: str, body: Any, headers: Dict[str, str]) -> None:
    if isinstance(body, bytes):
        # A socket's timeout bounds a whole sendall; a file object is sent in pieces, and the timeout bounds each.
        headers["Content-Length"] = str(len(body))
        body = io.BytesIO(body)
    connection.request(method, target, body, headers)


def _keep_alive(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _lines(response: http.client.HTTPResponse) -> Iterator[Dict[str, Any]]:
    while True:
        line = response.readline(MAX_LINE)
        if not line:
            return
        if not line.endswith(b"\n"):
            raise ConnectionError("the stream was cut within a line")
        yield json.loads(line)


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    while True:
        line = response.readline(MAX_LINE)
        if not line:
            return
        if line.startswith(b"data:"):
            if not line.endswith(b"\n"):
                raise ConnectionError("the stream was cut within an event")
            yield json.loads(line[5:])


def passing(e: TalariaError) -> bool:
    """Whether the same request may succeed in a moment, and was not carried out."""
    return e.code in _PASSING_CODES or not e.code and e.status in _PASSING_STATUSES


def problem(response: http.client.HTTPResponse) -> TalariaError:
    """Reads the error out of an answer."""
    try:
        body = response.read(64 << 10)
        document = json.loads(body)
        return TalariaError(document["code"], document["detail"], response.status)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return TalariaError("", f"the server answered {response.status} {response.reason}", response.status)
