package kerneltest

import "golang.org/x/sys/unix"

// callsHere are calls that other architectures do not have.
var callsHere = []call{
	{"iopl", unix.SYS_IOPL, "0", unix.EPERM},
	{"ioperm", unix.SYS_IOPERM, "0, 1, 0", unix.EPERM},
	{"modify_ldt", unix.SYS_MODIFY_LDT, "0, 0, 0", unix.EPERM},
	{"uselib", unix.SYS_USELIB, "b'/nowhere'", unix.EPERM},
	{"ustat", unix.SYS_USTAT, "0, bytes(64)", unix.EPERM},
	{"sysfs", unix.SYS_SYSFS, "3", unix.EPERM},
	{"_sysctl", unix.SYS__SYSCTL, "0", unix.EPERM},
	{"query_module", unix.SYS_QUERY_MODULE, "0, 0, 0, 0, 0", unix.EPERM},
}

// foreign is code that makes calls by the conventions of other architectures, and prints the signals that end them:
// 64-bit numbers with 32-bit pointers, and the 32-bit interrupt. A kernel without the latter has nothing to filter.
const foreign = `
import ctypes, mmap, os, signal
libc = ctypes.CDLL(None)
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\x31\xdb\xb8\x14\x00\x00\x00\xcd\x80\xc3")
interrupt = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
for attempt in (lambda: libc.syscall(ctypes.c_long(0x40000000 + 39)), interrupt):
    pid = os.fork()
    if not pid:
        attempt()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    print(os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGSYS, signal.SIGSEGV), end=" ")
`
