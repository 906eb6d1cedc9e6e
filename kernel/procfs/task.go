package procfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Task is a process held by a descriptor, which never means another process. Waiting for it blocks no thread.
type Task struct {
	file *os.File
	conn syscall.RawConn
}

// OpenTask opens a process that is known not to have been reaped.
func OpenTask(pid int) (*Task, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	t := &Task{file: os.NewFile(uintptr(fd), "process")}
	if t.conn, err = t.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("open process %d: %w", pid, err), t.file.Close())
	}
	return t, nil
}

// Kill sends SIGKILL. It does nothing once the process has ended or the task is closed.
func (t *Task) Kill() {
	_ = t.conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

// Wait returns when the process is dead. If it was pid 1 of a pid namespace, all others in it are gone too.
func (t *Task) Wait() error {
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

// Close closes the descriptor; a Wait in progress fails.
func (t *Task) Close() { t.file.Close() }

// Kill kills the process with that pid if it has that start time, and no other. It does nothing if it has ended.
func Kill(pid int, startTime uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	if now, err := ReadStat(pid); err != nil || now.StartTime != startTime {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}

// WaitPidfd waits until a process is dead.
func WaitPidfd(ctx context.Context, pidfd int) error {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(wake)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-done
		}
	}()
	for {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case fds[0].Revents != 0:
			return nil
		}
		return context.Cause(ctx)
	}
}
