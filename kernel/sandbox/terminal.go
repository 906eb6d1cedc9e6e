package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

var _ kernel.TerminalMaker = (*Sandbox)(nil)

// MakeTerminal makes a terminal in the sandbox's own file system of terminals. Nothing inside can have replaced its
// files: only the system writes to that directory. A sandbox that shares the machine's terminals has none of its own.
func (s *Sandbox) MakeTerminal() (master, slave *os.File, err error) {
	if !s.backend.tier.Contained() {
		return nil, nil, errors.ErrUnsupported
	}
	path := fmt.Sprintf("/proc/%d/root/dev/pts/ptmx", s.handle.PID)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal of the sandbox: %w", err)
	}
	select {
	case <-s.reaped: // the pid may then belong to another process
		return nil, nil, errors.Join(s.lost(), unix.Close(fd))
	default:
	}
	const unlocked = 0
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, unlocked); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("unlock a terminal of the sandbox: %w", err), unix.Close(fd))
	}
	inner, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, nil, errors.Join(fmt.Errorf("open the inner end of a terminal: %w", errno), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "terminal"), os.NewFile(inner, "inner terminal"), nil
}
