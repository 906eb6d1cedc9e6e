package battery

// network are attempts to reach anything at all from a session without a network.
var network = []Check{
	asks("network/interfaces", `[l.split(":")[0].strip() for l in open("/proc/net/dev").readlines()[2:]]`,
		"[lo]", "[]"),
	asks("network/routes", `[len(open("/proc/net/route").readlines()) <= 1, [l for l in open("/proc/net/ipv6_route")
    if not l.strip().endswith("lo")] if os.path.exists("/proc/net/ipv6_route") else []]`, "[true []]"),
	asks("network/internet", `attempt(socket.create_connection, ("192.0.2.1", 80), 5)`,
		"ENETUNREACH", "EPERM", "EAFNOSUPPORT"),
	asks("network/internet-v6", `attempt(socket.create_connection, ("2001:db8::1", 80), 5)`,
		"ENETUNREACH", "EPERM", "EAFNOSUPPORT", "EADDRNOTAVAIL"),
	asks("network/names", `attempt(socket.getaddrinfo, "example.org", 80)`,
		"gaierror", "EAI_AGAIN", "-3", "-2", "ESRCH", "ENOENT"),
	asks("network/host-loopback", `attempt(socket.create_connection, ("127.0.0.1", TCP_PORT), 5)`,
		"ECONNREFUSED", "EPERM", "EAFNOSUPPORT"),
	asks("network/host-loopback-mapped", `sorted({attempt(socket.create_connection, (a, TCP_PORT), 5) for a in
    ("::ffff:127.0.0.1", "0.0.0.0", "127.1.1.1")} - {"ENETUNREACH", "EADDRNOTAVAIL"})`,
		"[ECONNREFUSED]", "[EAFNOSUPPORT]"),
	asks("network/host-datagram", `attempt(lambda: [socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x",
    ("127.0.0.1", UDP_PORT)) for _ in range(3)]) in ("ok", "ECONNREFUSED", "EPERM", "EAFNOSUPPORT")`, "true"),
	asks("network/metadata-service", `attempt(socket.create_connection, ("169.254.169.254", 80), 5)`,
		"ENETUNREACH", "EPERM", "EAFNOSUPPORT"),
	asks("network/gateways", `sorted({attempt(socket.create_connection, (a, 53), 5) for a in ("10.0.2.2",
    "10.0.2.3", "172.17.0.1", "192.168.0.1")})`, "[ENETUNREACH]", "[EAFNOSUPPORT]"),
	asks("network/datagram", `attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x",
    ("192.0.2.1", 53)))`, "ENETUNREACH", "EPERM", "EAFNOSUPPORT"),
	asks("network/broadcast", `attempt(lambda: [s := socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1), s.sendto(b"x", ("255.255.255.255", 9))])`,
		"ENETUNREACH", "EPERM", "EAFNOSUPPORT", "EACCES"),
	asks("network/own-loopback", `attempt(lambda: [s := socket.create_server(("127.0.0.1", 0)),
    socket.create_connection(s.getsockname(), 5)])`, "ok", "EAFNOSUPPORT"),
	asks("network/tun", `attempt(os.open, "/dev/net/tun", os.O_RDWR)`, "ENOENT", "EACCES"),
	asks("network/interface-up", `result(lambda: __import__("fcntl").ioctl(socket.socket(socket.AF_INET,
    socket.SOCK_DGRAM), 0x8914, struct.pack("16sH22x", b"lo", 0)))`, "EPERM", "EAFNOSUPPORT"),
	asks("network/low-port", `attempt(socket.create_server, ("127.0.0.1", 80))`, "EACCES", "EAFNOSUPPORT"),
}
