package battery

// fileFigures are what the kernel reveals about the machine and about what others do on it, as far as no library needs
// it.
var fileFigures = []Check{
	asks("files/proc-figures", `[n for n in ("buddyinfo", "cmdline", "diskstats", "modules", "pagetypeinfo", "partitions",
    "pressure/cpu", "schedstat", "softirqs", "swaps", "vmstat", "zoneinfo") if contents("/proc/" + n) not in ("nothing", "ENOENT",
    "EACCES", "EPERM")]`, "[]"),
	// Needed by os.getloadavg, top and psutil.
	asks("files/proc-load", `[contents("/proc/" + n) for n in ("cpuinfo", "loadavg", "meminfo", "stat", "uptime", "version")]`,
		"[something something something something something something]"),
	asks("files/file-system-identity", `(lambda fd: [tried("ioctl", fd, request, bytes(256)) for request in
    (0x80111500, 0x80811501, 0x8008662c)])(os.open("/usr", os.O_RDONLY))`, "[EPERM EPERM EPERM]"),
}
