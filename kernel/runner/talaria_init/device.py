"""A sandbox's egress, made in its network namespace by a process outside the sandbox that exits right
afterwards.

It is a network device if the system supports them, else sockets that listen on the loopback of the namespace:
a socket belongs to the namespace that it was made in, wherever it is used.
"""

import array
import errno
import fcntl
import os
import struct
import sys

import _socket

from . import linux
from .step import StepError, step
from .wire import encode

CHANNEL, NAMESPACE = 3, 4  # descriptors that the host gives
NAME = b"tun0"
_TUN = "/dev/net/tun"
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_IFF_UP = 1
_NETLINK_SOCK_DIAG = 4
_NS_GET_USERNS = 0xB701
_SIOCADDRT, _SIOCGIFINDEX, _SIOCSIFADDR, _SIOCSIFFLAGS = 0x890B, 0x8933, 0x8916, 0x8914
_SIOCSIFNETMASK, _SIOCSIFMTU = 0x891C, 0x8922
_RTF_UP = 1
_IFREQ_FLAGS = struct.Struct("16sH22x")
_IFREQ_INT = struct.Struct("16si20x")
_IFREQ_ADDRESS = struct.Struct("16s16s8x")
_RTENTRY = struct.Struct("@L16s16s16sHh4xL8xh6xPLLH6x")  # struct rtentry of 64-bit systems
_IN6_IFREQ = struct.Struct("=16sIi")
_IN6_RTMSG = struct.Struct("@16s16s16sIHHI4xLIi")


def main(what: str, *arguments: str) -> None:
    """Joins the namespace on NAMESPACE, makes the egress or a socket that lists its sockets, and sends the
    descriptors on CHANNEL."""
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CHANNEL)
    try:
        with step("join network namespace"):
            _join(NAMESPACE)
        if what == "sockets":
            _list_sockets(channel)
        else:
            _make_exit(channel, *arguments)
    except StepError as e:
        channel.send(encode(op="failed", id=0, error=str(e), step=e.step, errno=e.errno))


def _list_sockets(channel: _socket.socket) -> None:
    with step("list sockets"):
        kind = _socket.SOCK_RAW | _socket.SOCK_CLOEXEC
        listing = _socket.socket(_socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG)
    _send(channel, encode(op="sockets", id=0), [listing.fileno()])


def _make_exit(channel: _socket.socket, address: str, address6: str, mtu: str, http: str, socks: str) -> None:
    try:
        tun = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as e:
        if e.errno not in (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EACCES, errno.EPERM):
            raise StepError("network device", e) from e
        with step("listen in network namespace"):
            fds = [_listen(int(port)) for port in (http, socks)]
        _send(channel, encode(op="proxy", id=0, error=f"{_TUN}: {e.strerror}"), fds)
        return
    with step("network device"):
        fcntl.ioctl(tun, _TUNSETIFF, _IFREQ_FLAGS.pack(NAME, _IFF_TUN | _IFF_NO_PI))
        _configure(address, int(mtu))
        _configure6(address6)
    _send(channel, encode(op="device", id=0), [tun])


def _join(namespace: int) -> None:
    try:
        linux.setns(namespace, linux.CLONE_NEWNET)
    except PermissionError:
        # Rights over it come from the user namespace that owns it, which the user who created that may join.
        owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
        linux.setns(owner, linux.CLONE_NEWUSER)
        linux.setns(namespace, linux.CLONE_NEWNET)


def _configure(address: str, mtu: int) -> None:
    s = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    fcntl.ioctl(s, _SIOCSIFMTU, _IFREQ_INT.pack(NAME, mtu))
    fcntl.ioctl(s, _SIOCSIFADDR, _IFREQ_ADDRESS.pack(NAME, _address(address)))
    fcntl.ioctl(s, _SIOCSIFNETMASK, _IFREQ_ADDRESS.pack(NAME, _address("255.255.255.0")))
    fcntl.ioctl(s, _SIOCSIFFLAGS, _IFREQ_FLAGS.pack(NAME, _IFF_UP))
    anywhere, name = _address("0.0.0.0"), array.array("b", NAME + b"\0")
    route = _RTENTRY.pack(0, anywhere, b"", anywhere, _RTF_UP, 0, 0, 0, name.buffer_info()[0], 0, 0, 0)
    fcntl.ioctl(s, _SIOCADDRT, route)
    s.close()


def _configure6(address: str) -> None:
    try:
        s = _socket.socket(_socket.AF_INET6, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    except OSError:
        return  # this machine has no devices
    _, index = _IFREQ_INT.unpack(fcntl.ioctl(s, _SIOCGIFINDEX, _IFREQ_INT.pack(NAME, 0)))
    try:
        fcntl.ioctl(s, _SIOCSIFADDR, _IN6_IFREQ.pack(_socket.inet_pton(_socket.AF_INET6, address), 64, index))
        fcntl.ioctl(s, _SIOCADDRT, _IN6_RTMSG.pack(b"", b"", b"", 0, 0, 0, 1, 0, _RTF_UP, index))
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.EADDRNOTAVAIL):
            raise  # otherwise IPv6 is switched off for devices
    s.close()


def _address(text: str) -> bytes:
    return struct.pack("=HH4s8x", _socket.AF_INET, 0, _socket.inet_aton(text))


def _listen(port: int) -> int:
    s = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    s.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(128)
    return s.detach()


def _send(channel: _socket.socket, packet: bytes, fds: list[int]) -> None:
    channel.sendmsg([packet], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds))])


if __name__ == "__main__":
    main(*sys.argv[1:])
