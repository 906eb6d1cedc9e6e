package namespace

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// task is a process by descriptor, which never means another process. Waiting for it blocks no thread.
type task struct {
	file *os.File
	conn syscall.RawConn
}

// openTask opens a process that is known not to have been reaped.
func openTask(pid int) (*task, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	t := &task{file: os.NewFile(uintptr(fd), "process")}
	if t.conn, err = t.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("open process %d: %w", pid, err), t.file.Close())
	}
	return t, nil
}

// kill sends SIGKILL. It does nothing once the process has ended or the task is closed.
func (t *task) kill() {
	_ = t.conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

// wait returns when the process is dead. Where that is pid 1 of a pid namespace, all others in there are gone too.
func (t *task) wait() error {
	err := t.conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if err != nil {
		return fmt.Errorf("wait for process: %w", err)
	}
	return nil
}

func (t *task) close() { t.file.Close() }
