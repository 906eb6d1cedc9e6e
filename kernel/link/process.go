package link

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// process watches the process at the other end of a socket, only to learn early that it has ended.
type process struct {
	gone   chan struct{} // closed when it has ended and all of its descriptors are closed
	file   *os.File
	waiter sync.WaitGroup
}

// watch starts watching. If that is not possible, gone is never closed.
func watch(pid int) *process {
	p := &process{gone: make(chan struct{})}
	if pid <= 0 || pid == os.Getpid() {
		return p
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return p
	}
	p.file = os.NewFile(uintptr(fd), "process")
	raw, err := p.file.SyscallConn()
	if err != nil {
		return p
	}
	p.waiter.Go(func() {
		ended := false
		err := raw.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, 0)
			ended = err == nil && n == 1
			return ended
		})
		if err == nil && ended {
			close(p.gone)
		}
	})
	return p
}

// stop ends the watching.
func (p *process) stop() {
	if p.file != nil {
		_ = p.file.Close()
	}
	p.waiter.Wait()
}
