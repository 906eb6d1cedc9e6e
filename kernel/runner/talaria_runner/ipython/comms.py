"""Comms: channels between objects of cells and their counterparts in a front end, as widgets use them. The API is that
of the package comm and of ipykernel.comm."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from binascii import b2a_base64
from posix import urandom

from talaria_runner.rendering.display import Display, encode_json
from talaria_runner.run.execution import Execution, owner
from talaria_runner.run.interrupts import Interrupts
from talaria_runner.wire import frames
from talaria_runner.wire.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Message = dict[str, object]

MOST = 16 << 20  # bytes of one message, as JSON
MOST_BUFFERS = 1024
_MOST_NAME = 256  # bytes of an id or of the name of a target
FRONT_END = "comm~"  # begins the ids of front ends' messages among those of executions


class Comm:
    """One channel. Its methods may be called in any thread."""

    def __init__(
        self,
        target_name: str = "comm",
        data: object = None,
        metadata: Message | None = None,
        buffers: Iterable[object] | None = None,
        comm_id: str | None = None,
        primary: bool = True,
        target_module: str | None = None,
        **further: object,
    ) -> None:
        """Opens the channel, unless a front end did: then primary is False."""
        self.comm_id = comm_id or urandom(16).hex()
        self.target_name = target_name
        self.target_module = target_module
        self.primary = primary
        self.kernel = kernels[0]
        self._on_msg: Callable[[Message], object] | None = None
        self._on_close: Callable[[Message], object] | None = None
        self._closed = True
        if primary:
            self.open(data=data, metadata=metadata, buffers=buffers)
        else:
            self._closed = False

    def open(self, data: object = None, metadata: Message | None = None, buffers: Iterable[object] | None = None) -> None:
        """Opens the channel at the front end."""
        manager = self.kernel.comm_manager
        manager.send("open", self, data, metadata, buffers)
        manager.register_comm(self)
        self._closed = False

    def close(
        self,
        data: object = None,
        metadata: Message | None = None,
        buffers: Iterable[object] | None = None,
        deleting: bool = False,
    ) -> None:
        """Closes the channel at the front end. The second time it does nothing."""
        if self._closed:
            return
        self._closed = True
        manager = self.kernel.comm_manager
        manager.send("close", self, data, metadata, buffers)
        manager.unregister_comm(self)

    def send(self, data: object = None, metadata: Message | None = None, buffers: Iterable[object] | None = None) -> None:
        """Sends a message. Buffers are bytes or what has their interface."""
        self.kernel.comm_manager.send("msg", self, data, metadata, buffers)

    def on_msg(self, callback: Callable[[Message], object] | None) -> None:
        """Registers a callback for each message from the front end."""
        self._on_msg = callback

    def on_close(self, callback: Callable[[Message], object] | None) -> None:
        """Registers a callback for when the front end closes the channel."""
        self._on_close = callback

    def handle_msg(self, msg: Message) -> None:
        if self._on_msg is not None:
            self._on_msg(msg)

    def handle_close(self, msg: Message) -> None:
        self._closed = True
        if self._on_close is not None:
            self._on_close(msg)


class CommManager:
    """get_ipython().kernel.comm_manager, and what comm.get_comm_manager returns."""

    def __init__(self, outbox: Outbox, interrupts: Interrupts, display: Display) -> None:
        self._outbox = outbox
        self._interrupts = interrupts
        self._display = display
        self.comms: dict[str, Comm] = {}
        self.targets: dict[str, Callable[[Comm, Message], object]] = {}

    @property
    def kernel(self) -> Kernel:
        return kernels[0]

    def register_target(self, target_name: str, f: Callable[[Comm, Message], object] | str) -> None:
        """Registers a function for a target. It is called with each channel that a front end opens, and with the opening message."""
        if isinstance(f, str):
            module, _, name = f.rpartition(".")
            f = getattr(__import__(module, fromlist=[name]), name)
        self.targets[target_name] = f

    def unregister_target(self, target_name: str, f: object = None) -> object:
        return self.targets.pop(target_name)

    def register_comm(self, comm: Comm) -> str:
        self.comms[comm.comm_id] = comm
        return comm.comm_id

    def unregister_comm(self, comm: Comm) -> None:
        self.comms.pop(comm.comm_id, None)

    def get_comm(self, comm_id: str) -> Comm | None:
        return self.comms.get(comm_id)

    def send(
        self, action: str, comm: Comm, data: object, metadata: Message | None, buffers: Iterable[object] | None
    ) -> None:
        """Sends a message of comm to all front ends. Raises ValueError for one that is too large."""
        id, target = str(comm.comm_id), str(comm.target_name)
        for name in (id, target):
            if len(name.encode("utf-8", "replace")) > _MOST_NAME:
                raise ValueError(f"comm_id and target_name may have at most {_MOST_NAME} bytes")
        encoded, about = encode_json({} if data is None else data), encode_json(metadata or {})
        attached = [_encoded(buffer) for buffer in buffers or ()]
        size = len(encoded) + len(about) + sum(map(len, attached))
        if size > MOST or len(attached) > MOST_BUFFERS:
            raise ValueError(
                f"the message has {len(attached)} buffers and takes {size} bytes; "
                f"the limits are {MOST_BUFFERS} buffers and {MOST >> 20} MiB: send it in parts"
            )
        self._outbox.put(frames.comm(owner(), action, id, target, encoded, about, attached), marked=True)
        self._outbox.flush()
        self._interrupts.deliver()

    def take(self, action: str, comm_id: str, target: str, msg: Message) -> None:
        """Gives a message of a front end to the code that waits for it."""
        if action == "open":
            self._take_open(comm_id, target, msg)
            return
        comm = self.comms.get(comm_id)
        if comm is None:
            return  # it was closed meanwhile
        if action == "msg":
            comm.handle_msg(msg)
        else:
            del self.comms[comm_id]
            comm.handle_close(msg)

    def _take_open(self, comm_id: str, target: str, msg: Message) -> None:
        comm = Comm(target, comm_id=comm_id, primary=False)
        self.register_comm(comm)
        function = self.targets.get(target)
        if function is None:
            comm.close()
            return
        try:
            function(comm, msg)
        except Exception as e:
            self._display.report(e)
            comm.close()

    # As ipykernel names what takes messages.

    def comm_open(self, stream: object, ident: object, msg: Message) -> None:
        content = msg["content"]
        self.take("open", content["comm_id"], content.get("target_name", ""), msg)

    def comm_msg(self, stream: object, ident: object, msg: Message) -> None:
        self.take("msg", msg["content"]["comm_id"], "", msg)

    def comm_close(self, stream: object, ident: object, msg: Message) -> None:
        self.take("close", msg["content"]["comm_id"], "", msg)


class Kernel:
    """get_ipython().kernel: as much of ipykernel's as widgets use."""

    implementation = "talaria"

    def __init__(self, comm_manager: CommManager, shell: object) -> None:
        self.comm_manager = comm_manager
        self.shell = shell

    def get_parent(self, channel: str | None = None) -> Message:
        """The request that runs: the message of a front end, or the one that the cell came in."""
        return parent_of(owner())

    @property
    def _parent_header(self) -> Message:
        return self.get_parent()


def shell() -> object:
    """The kernel's shell. Saved variables name this function."""
    return kernels[0].shell


def parent_of(execution: Execution) -> Message:
    """The request for an execution, as far as it is known here."""
    kind = "comm_msg" if execution.id.startswith(FRONT_END) else "execute_request"
    return request(execution.id.removeprefix(FRONT_END), kind, {}, {}, [])


def request(id: str, kind: str, content: Message, metadata: Message, buffers: list[memoryview]) -> Message:
    """A message as ipykernel has it."""
    header = {"msg_id": id, "msg_type": kind, "username": "", "session": "", "date": "", "version": "5.3"}
    return {
        "header": header, "msg_id": id, "msg_type": kind, "parent_header": {},
        "metadata": metadata, "content": content, "buffers": buffers,
    }  # fmt: skip


def create_comm(*args: object, **kwargs: object) -> Comm:
    """comm.create_comm."""
    return Comm(*args, **kwargs)


def get_comm_manager() -> CommManager:
    """comm.get_comm_manager."""
    return kernels[0].comm_manager


def adopt(module: object) -> None:
    """Makes an installed comm or ipykernel.comm use this kernel's channels. module is either."""
    for name in __all__:
        if hasattr(module, name):
            setattr(module, name, globals()[name])


def _encoded(buffer: object) -> str:
    view = memoryview(buffer)
    return b2a_base64(view if view.c_contiguous else view.tobytes(), newline=False).decode("ascii")


kernels: list[Kernel] = []  # the one that this process is
__all__ = ["Comm", "CommManager", "create_comm", "get_comm_manager"]
for _class in (Comm, CommManager):
    _class.__module__ = "ipykernel.comm"
