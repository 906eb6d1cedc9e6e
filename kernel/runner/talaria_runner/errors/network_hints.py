"""The hint that a session without a network gives when code tries to reach one."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from errno import EACCES, EAFNOSUPPORT, EHOSTUNREACH, ENETDOWN, ENETUNREACH, EPERM
from os import environ
from sys import modules

_LINKS = 20  # exceptions of a chain that are examined
_UNREACHABLE = (ENETUNREACH, ENETDOWN, EHOSTUNREACH)
_REFUSED = (EACCES, EPERM, EAFNOSUPPORT)
_NONE = (
    "this session has no network: its code cannot reach other machines. Put what it needs into the workspace, "
    "or ask the owner of the session to add the address to network.allow"
)
_PROXY = "this session reaches the network only through the proxy in https_proxy and all_proxy"


def find(error: BaseException) -> str | None:
    link: BaseException | None = error
    for _ in range(_LINKS):
        if link is None:
            return None
        if issubclass(type(link), OSError) and _is_of_network(link) and _has_none(link):
            return _PROXY if environ.get("all_proxy") else _NONE
        link = _origin(link)
    return None


def _origin(error: BaseException) -> BaseException | None:
    base = vars(BaseException)
    return base["__cause__"].__get__(error) or base["__context__"].__get__(error)


def _is_of_network(error: OSError) -> bool:
    socket = modules.get("_socket")
    resolver = getattr(socket, "gaierror", None)
    if type(resolver) is type and issubclass(type(error), resolver):
        return True
    code = vars(OSError)["errno"].__get__(error)
    return code in _UNREACHABLE or code in _REFUSED and _is_of_socket(error)


def _is_of_socket(error: OSError) -> bool:
    """Whether a socket could not be created or connected."""
    if vars(OSError)["filename"].__get__(error) is not None:
        return False
    entry = vars(BaseException)["__traceback__"].__get__(error)
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry is not None and entry.tb_frame.f_code.co_filename.endswith("/socket.py")


def _has_none(error: OSError) -> bool:
    """Whether there is nothing but loopback, or sockets cannot even be created."""
    return vars(OSError)["errno"].__get__(error) in _REFUSED or _has_only_loopback() or _cannot_make_sockets()


def _has_only_loopback() -> bool:
    try:
        with open("/proc/net/dev", "rb") as file:
            names = [line.partition(b":")[0].strip() for line in file.read(1 << 16).splitlines() if b":" in line]
    except OSError:
        return False
    return all(name == b"lo" for name in names)


def _cannot_make_sockets() -> bool:
    from _socket import AF_INET, SOCK_DGRAM, socket

    try:
        socket(AF_INET, SOCK_DGRAM).close()
    except OSError as e:
        return e.errno in _REFUSED
    return False
