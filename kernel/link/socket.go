package link

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Listen makes a socket. Its path may be longer than the 107 bytes that sockets allow, as in a state directory with a
// long path, since it is reached through the descriptor of the folder. Closing the listener leaves the socket where it
// is.
func Listen(path string) (*net.UnixListener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	l, err := net.ListenUnix("unix", through(dir, filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // dir, through which its name is reached, is closed
	return l, nil
}

// dial connects to the socket in a host's folder and checks that the peer has the same user. ctx bounds it.
func dial(ctx context.Context, folder string) (c *net.UnixConn, pid int, err error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	var d net.Dialer
	plain, err := d.DialContext(ctx, "unix", through(dir, socketName).Name)
	if err != nil {
		return nil, 0, fmt.Errorf("connect to %s: %w", filepath.Join(folder, socketName), err)
	}
	c = plain.(*net.UnixConn)
	if pid, err = checkPeer(c); err != nil {
		_ = c.Close()
		return nil, 0, err
	}
	return c, pid, nil
}

func through(dir *os.File, name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name)}
}

// checkPeer refuses peers of another user, and returns the peer's pid, which is 0 if it cannot be seen from here.
func checkPeer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil {
		return 0, cerr
	}
	if err != nil {
		return 0, os.NewSyscallError("getsockopt SO_PEERCRED", err)
	}
	if own := os.Geteuid(); int(cred.Uid) != own {
		return 0, fmt.Errorf("the peer on the host's socket is user %d and this is user %d; run both as the same user",
			cred.Uid, own)
	}
	return int(cred.Pid), nil
}
