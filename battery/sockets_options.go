package battery

// socketOptions are calls on sockets that anybody may make, and that reach code of the kernel, or processes, that no
// session has a use for. The requests are refused whatever the descriptor is.
var socketOptions = []Check{
	asks("sockets/bridge-and-vlan", `(lambda fd: sorted({tried("ioctl", fd, request, bytes(64)) for request in
    (0x8940, 0x8941, 0x89a0, 0x89a1, 0x89a2, 0x89a3, 0x8982, 0x8983)}))(socket.socketpair()[0].fileno())`, "[EPERM]"),
	asks("sockets/dccp-by-type", `sorted({attempt(lambda: socket.socket(family, kind, 0).close()) for family in
    (socket.AF_INET, socket.AF_INET6) for kind in (5, 6, 10)})`, "[ESOCKTNOSUPPORT]", "[EAFNOSUPPORT]"),
	asks("sockets/peer-pidfd", `sorted({attempt(socket.socket(fileno=os.dup(fd)).getsockopt, socket.SOL_SOCKET, 77)
    for fd in [*sockets_of_ours(), *[s.detach() for s in socket.socketpair()]]})`, "[ENOPROTOOPT]"),
	asks("sockets/sender-pidfd", `attempt(socket.socketpair()[0].setsockopt, socket.SOL_SOCKET, 76, 1)`, "ENOPROTOOPT"),
	// Python's name for EOPNOTSUPP is the other name of the same number.
	asks("sockets/out-of-band", `(lambda pair: [attempt(pair[0].send, b"x", socket.MSG_OOB), attempt(pair[0].sendmsg,
    [b"x"], [], socket.MSG_OOB)])(socket.socketpair())`, "[ENOTSUP ENOTSUP]", "[EOPNOTSUPP EOPNOTSUPP]"),
	asks("sockets/zero-copy", `attempt(lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 60, 1))`, "ENOPROTOOPT", "EAFNOSUPPORT"),
	asks("sockets/udp-encapsulation", `attempt(lambda: socket.socket(socket.AF_INET,
    socket.SOCK_DGRAM).setsockopt(socket.IPPROTO_UDP, 100, 2))`, "ENOPROTOOPT", "EAFNOSUPPORT"),
}
