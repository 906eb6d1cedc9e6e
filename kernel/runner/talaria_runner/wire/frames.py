"""The format of frames to the host. A frame is made without its closing brace: the outbox adds the mark."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from _json import encode_basestring_ascii as quoted
from _json import make_encoder, make_scanner

from talaria_runner.run.execution import Execution

MAX_EVALUE = 4 << 20  # bytes of UTF-8, which is also what the host keeps
_DEEPEST = 500  # levels of a text: each takes some of the thread's stack, which Python 3.13 does not check
_DEEPEST_SENT = 197  # levels of a text that is part of a display: the host takes 200, with the three around it
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


class Shown:
    """A frame of a traceback that is shown. first and behind are its range of the traceback's lines."""

    __slots__ = ("file", "line", "function", "user", "cell", "first", "behind")

    def __init__(self, file: str, line: int, function: str, user: bool, cell: str | None) -> None:
        self.file = file
        self.line = line
        self.function = function
        self.user = user
        self.cell = cell
        self.first = self.behind = 0


def encode(value: object, default: object = None) -> str:
    """JSON of value in ASCII. Raises TypeError or ValueError for what JSON cannot express, including NaN."""
    encoder = make_encoder({}, default or _refuse, quoted, None, ":", ",", False, False, False)
    return "".join(encoder(value, 0))


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def ready(mark: str) -> str:
    return f'{{"type":"ready","mark":{quoted(mark)}'


def stream(execution: Execution, name: str, text: str) -> str:
    return f'{{"type":"stream","id":{quoted(execution.id)},"name":"{name}","text":{quoted(text)}'


def display(execution: Execution, data: str, metadata: str, display_id: str, update: bool) -> str:
    """data and metadata are JSON already."""
    return (
        f'{{"type":"display","id":{quoted(execution.id)},"data":{data},"metadata":{metadata},'
        f'"display_id":{quoted(display_id)},"update":{_flag(update)}'
    )


def result(execution: Execution, data: str, metadata: str) -> str:
    """data and metadata are JSON already."""
    return f'{{"type":"result","id":{quoted(execution.id)},"data":{data},"metadata":{metadata}'


def error(
    execution: Execution, ename: str, evalue: str, lines: list[str], stack: list[Shown] | None = None, hint: str = ""
) -> str:
    traceback = ",".join([quoted(line) for line in lines])
    return (
        f'{{"type":"error","id":{quoted(execution.id)},"ename":{quoted(ename)},'
        f'"evalue":{quoted(_cut(evalue))},"traceback":[{traceback}],'
        f'"frames":[{",".join(map(_frame, stack or ()))}],"hint":{quoted(hint)}'
    )


def _cut(evalue: str) -> str:
    if len(evalue) <= MAX_EVALUE // 4:
        return evalue
    return evalue.encode("utf-8", "surrogatepass")[:MAX_EVALUE].decode("utf-8", "ignore")


def _frame(frame: Shown) -> str:
    cell = "" if frame.cell is None else f'"cell":{quoted(frame.cell)},'
    return (
        f'{{"file":{quoted(frame.file)},"line":{frame.line},"function":{quoted(frame.function)},'
        f'"user":{_flag(frame.user)},{cell}"traceback_start":{frame.first},"traceback_end":{frame.behind}}}'
    )


def clear(execution: Execution, wait: bool) -> str:
    return f'{{"type":"clear","id":{quoted(execution.id)},"wait":{_flag(wait)}'


def ask(execution: Execution | None, id: str, kind: str, body: dict[str, object]) -> str:
    """body is of builtin types."""
    of = "" if execution is None else f'"id":{quoted(execution.id)},'
    return f'{{"type":"ask",{of}"ask":{quoted(id)},"kind":"{kind}","body":{encode(body)}'


def ask_end(id: str) -> str:
    return f'{{"type":"ask_end","ask":{quoted(id)}'


def tool_end(execution: Execution, id: str, error: tuple[str, str] | None, duration_ms: int) -> str:
    """error is the code and the message of a call that failed."""
    code, message = error or ("", "")
    return (
        f'{{"type":"tool_end","id":{quoted(execution.id)},"ask":{quoted(id)},"ok":{_flag(error is None)},'
        f'"code":{quoted(code)},"message":{quoted(message)},"duration_ms":{duration_ms}'
    )


def comm(
    execution: Execution, action: str, id: str, target: str, data: str, metadata: str, buffers: list[str]
) -> str:
    """data and metadata are JSON already, and the buffers base64."""
    quoted_buffers = ",".join([f'"{buffer}"' for buffer in buffers])
    return (
        f'{{"type":"comm","id":{quoted(execution.id)},"action":"{action}","comm":{quoted(id)},'
        f'"target":{quoted(target)},"data":{data},"metadata":{metadata},"buffers":[{quoted_buffers}]'
    )


def expressions(execution: Execution, values: dict[str, str]) -> str:
    """values are JSON already."""
    members = ",".join([f"{quoted(name)}:{value}" for name, value in values.items()])
    return f'{{"type":"expressions","id":{quoted(execution.id)},"values":{{{members}}}'


def value(data: str, metadata: str) -> str:
    """The value of an expression. data and metadata are JSON already."""
    return f'{{"status":"ok","data":{data},"metadata":{metadata}}}'


def failure(ename: str, evalue: str, lines: list[str]) -> str:
    """The exception of an expression."""
    return encode({"status": "error", "ename": ename, "evalue": evalue, "traceback": lines})


def comm_end(execution: Execution) -> str:
    return f'{{"type":"comm_end","id":{quoted(execution.id)}'


def done(execution: Execution) -> str:
    return (
        f'{{"type":"done","id":{quoted(execution.id)},"status":"{execution.status}",'
        f'"interrupted":{_flag(execution.interrupted)}'
    )


def answer(request_id: str, kind: str, fields: dict[str, object]) -> str:
    """fields are JSON values of builtin types."""
    return encode({"type": kind, "request_id": request_id, **fields})[:-1]


def _flag(value: object) -> str:
    return "true" if value else "false"


class _Settings:
    """The settings that the scanner asks for."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}


_scan = make_scanner(_Settings)


class _Lenient(_Settings):
    strict = False


_scan_leniently = make_scanner(_Lenient)


def parse(text: str) -> object:
    """The single JSON value in a text; control characters in strings may be unescaped. Raises ValueError or
    StopIteration."""
    if _depth(text, _DEEPEST) > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    text = text.removeprefix("\ufeff").strip(" \t\n\r")
    value, end = _scan_leniently(text, 0)
    if end != len(text):
        raise ValueError("more follows the JSON value")
    return value


def _depth(text: str, limit: int) -> int:
    """How deeply the lists and objects of a JSON text are nested, at most; 0 if that is clearly within a limit."""
    if text.count("[") + text.count("{") <= limit:
        return 0
    outside = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]  # without the strings
    depth = deepest = 0
    for byte in "".join(outside).encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest


def is_sound(text: str) -> bool:
    """Whether the host takes a JSON text as part of a display: it refuses objects with two members of one name, and deep nesting."""

    class Unique(_Settings):
        @staticmethod
        def object_pairs_hook(pairs: list[tuple[str, object]]) -> None:
            if len({name.encode("utf-8", "replace") for name, _ in pairs}) < len(pairs):
                raise ValueError

    if _depth(text, _DEEPEST_SENT) > _DEEPEST_SENT:
        return False
    try:
        make_scanner(Unique)(text, 0)
    except ValueError:
        return False
    return True


def decode(line: bytes | bytearray) -> dict[str, object]:
    """The object in a line of JSON. Raises TypeError, ValueError or StopIteration for anything else."""
    value, _ = _scan(line.decode("utf-8").strip(), 0)
    if not isinstance(value, dict):
        raise TypeError("a frame is an object")
    return value


def short_field(head: bytearray, name: str) -> str:
    """A field that is a short string, from the first bytes of a frame; "" if it is not there."""
    _, _, rest = head.partition(f'"{name}"'.encode("ascii"))
    parts = rest.split(b'"', 2)
    return parts[1].decode("ascii", "replace") if len(parts) == 3 and parts[0].strip() == b":" else ""
