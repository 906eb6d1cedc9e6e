package battery

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exhaustionCounts are attempts to take all of what the kernel counts for a user with all its namespaces, or for the whole
// machine. What a session has taken must be missing neither to this machine's processes nor to another session.
var exhaustionCounts = []Check{
	counted("exhaustion/inotify", "", `libc.inotify_init1(0)`, 16, hostWatches, "EMFILE", "EPERM"),
	counted("exhaustion/inotify-watches", `
fd = libc.inotify_init1(0)
paths = (path.encode() for p, _, names in os.walk("/usr") for n in names for path in [os.path.join(p, n)]
    for found in [os.lstat(path)] if stat.S_ISREG(found.st_mode) and found.st_nlink == 1) # each is watched once
`, `libc.inotify_add_watch(fd, next(paths), 2)`, 4096, hostWatches, "ENOSPC", "EBADF"),
	counted("exhaustion/timers", "", `libc.syscall(NR["timer_create"], 0, None, ctypes.byref(ctypes.c_int()))`, 1024, hostTimer, "EAGAIN"),
	counted("exhaustion/aio", "", `libc.syscall(NR["io_setup"], 1024, ctypes.byref(ctypes.c_ulong()))`, 0, hostAIO, "ENOSYS"),
	// Landlock refuses all of these, where the machine has it.
	counted("exhaustion/message-queues", "", `libc.syscall(NR["mq_open"], b"talaria-%d" % held, os.O_CREAT | os.O_RDWR, 0o600, None)`,
		1, hostQueue, "EMFILE", "EACCES", "ENOSYS"),
}

// counted is a check of a thing that is taken until that fails, with one of the errors and after so many at the most. free
// tries on this machine whether there is one left.
func counted(name, prepare, take string, most int64, free func() error, errors ...string) Check {
	return Check{Name: name, Quick: true, Alone: true, Cell: prepare + `
held = 0
while held < 200_000 and ` + take + ` >= 0: held += 1
say(error=error_name(ctypes.get_errno()), held=held)`, Judge: func(t *Trial) error {
		if err := saw("error", errors...)(t); err != nil {
			return err
		}
		held := t.number("held")
		if held > most {
			return fmt.Errorf("%d were taken, want %d at the most", held, most)
		}
		if err := free(); err != nil {
			return fmt.Errorf("this machine has none left: %w", err)
		}
		if held == 0 {
			return nil // nobody inside has any
		}
		other, err := t.NewSession(nil)
		if err != nil {
			return err
		}
		found, err := t.See(other, prepare+"held = 0\nsay(left="+take+" >= 0, error=error_name(ctypes.get_errno()))")
		if err == nil && found["left"] != true {
			err = fmt.Errorf("another session has none left: %v", found["error"])
		}
		return err
	}}
}

func hostWatches() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("inotify_init1: %w", err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, "/", unix.IN_CREATE); err != nil {
		return fmt.Errorf("inotify_add_watch: %w", err)
	}
	return nil
}

func hostTimer() error {
	var id int32
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id))); errno != 0 {
		return fmt.Errorf("timer_create: %w", errno)
	}
	_, _, _ = unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
	return nil
}

func hostAIO() error {
	var context uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&context)), 0); errno != 0 && errno != unix.ENOSYS {
		return fmt.Errorf("io_setup: %w", errno)
	}
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
	return nil
}

func hostQueue() error {
	name, err := unix.BytePtrFromString(fmt.Sprintf("talaria-battery-%d", unix.Getpid()))
	if err != nil {
		return err
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 && errno != unix.ENOSYS {
		return fmt.Errorf("mq_open: %w", errno)
	}
	if errno == 0 {
		unix.Close(int(fd))
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(name)), 0, 0)
	}
	return nil
}
