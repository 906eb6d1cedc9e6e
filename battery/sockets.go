package battery

import "fmt"

// sockets are families that reach past a network namespace or have a history, and the host's own listeners.
var sockets = append([]Check{
	family("netlink", 16), family("packet", 17), family("alg", 38), family("vsock", 40), family("key", 15),
	family("bluetooth", 31), family("can", 29), family("tipc", 30), family("rds", 21), family("xdp", 44),
	family("qipcrtr", 42), family("phonet", 35), family("nfc", 39), family("kcm", 41), family("smc", 43),
	family("ax25", 3), family("ipx", 4), family("appletalk", 5), family("x25", 9), family("llc", 26),
},
	asks("sockets/raw", `attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)`, "EPERM", "EAFNOSUPPORT"),
	asks("sockets/socketpair", `attempt(socket.socketpair, socket.AF_UNIX)`, "ok"),
	asks("sockets/socketpair-foreign", `attempt(socket.socketpair, 30, socket.SOCK_SEQPACKET)`,
		"EAFNOSUPPORT", "EPERM"),
	asks("sockets/host-abstract", `attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0ABSTRACT"))`,
		"ECONNREFUSED", "EPERM", "EAFNOSUPPORT"),
	asks("sockets/host-path", `attempt(lambda: socket.socket(socket.AF_UNIX).connect("OUTSIDE/socket"))`, "ENOENT",
		"EAFNOSUPPORT"),
	asks("sockets/host-path-by-a-pair", `[attempt(lambda: pair[0].connect(p)) for kind in (socket.SOCK_DGRAM,
    socket.SOCK_STREAM, socket.SOCK_SEQPACKET) for pair in [result(socket.socketpair, socket.AF_UNIX, kind)] if not
    isinstance(pair, str) for p in ("OUTSIDE/socket", "\0ABSTRACT") if attempt(lambda: pair[0].connect(p)) == "ok"]`, "[]"),
	asks("sockets/host-services", `[p for d in ("/run", "/var/run", "/tmp", "/dev") for p, _, files in os.walk(d)
    for f in files if stat.S_ISSOCK(os.lstat(p + "/" + f).st_mode)]`, "[]"),
)

func family(name string, number int) Check {
	return asks("sockets/"+name, fmt.Sprintf(`sorted({attempt(lambda: socket.socket(%d, kind, 0).close())
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET)})`, number), "[EAFNOSUPPORT]")
}
