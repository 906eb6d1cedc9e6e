package battery

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// exhaustionCounts are attempts to use up what the kernel counts per user across all of its namespaces, or for the
// whole machine. What one session takes must not be missing for this machine's processes or for another session.
var exhaustionCounts = []Check{
	counted("exhaustion/inotify", "", `libc.inotify_init1(0)`, 16, hostWatches, "EMFILE", "EPERM"),
	counted("exhaustion/inotify-watches", `
fd = libc.inotify_init1(0)
paths = (path.encode() for p, _, names in os.walk("/usr") for n in names for path in [os.path.join(p, n)]
    for found in [os.lstat(path)] if stat.S_ISREG(found.st_mode) and found.st_nlink == 1) # each is watched once
`, `libc.inotify_add_watch(fd, next(paths), 2)`, 4096, hostWatches, "ENOSPC", "EBADF"),
	counted("exhaustion/timers", "", `libc.syscall(NR["timer_create"], 0, None, ctypes.byref(ctypes.c_int()))`, 1024, hostTimer, "EAGAIN"),
	counted("exhaustion/aio", "", `libc.syscall(NR["io_setup"], 1024, ctypes.byref(ctypes.c_ulong()))`, 0, hostAIO, "ENOSYS"),
	// Landlock, if the machine has it, refuses all of these.
	counted("exhaustion/message-queues", "", `libc.syscall(NR["mq_open"], b"talaria-%d" % held, os.O_CREAT | os.O_RDWR, 0o600, None)`,
		1, hostQueue, "EMFILE", "EACCES", "ENOSYS"),
}

// counted makes a check that takes a thing until that fails, with one of the errors and after so many at most. free
// tries on this machine whether any are left.
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
		switch {
		case held == 0 && t.Saw["error"] == "EAGAIN":
			return fmt.Errorf("another session has left none")
		case held == 0:
			return nil // nothing inside has any
		}
		return t.shares(prepare, take, min(few, held))
	}}
}

// few is how many of a counted thing another session must be able to take. It is more than the signals that come and go take.
const few = 8

// shares checks that another session can take some of what the trial's session has taken all of. If that can take more by
// then, the first ones came from the others' share.
func (t *Trial) shares(prepare, take string, some int64) error {
	other, err := t.NewSession(nil)
	if err != nil {
		return err
	}
	for range 10 {
		found, err := t.See(other, fmt.Sprintf("%s\nheld = 0\nwhile held < %d and %s >= 0: held += 1\nsay(held=held, error=error_name(ctypes.get_errno()))",
			prepare, some, take))
		if err != nil {
			return err
		}
		if held, _ := found["held"].(float64); int64(held) < some {
			return fmt.Errorf("another session has only %v left, want %d: %v", held, some, found["error"])
		}
		found, err = t.See(t.Session, "held = 0\nwhile held < 200_000 and "+take+" >= 0: held += 1\nsay(held=held)")
		if err != nil || found["held"] == 0.0 {
			return err
		}
	}
	return errors.New("the session takes what others let go of")
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
