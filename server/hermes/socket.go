package hermes

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// nextSuffix ends the name of a socket until it has its mode.
const nextSuffix = ".new"

// maxSocketPath is in bytes: sun_path ends with a zero.
const maxSocketPath = 107 - len(nextSuffix)

// probeTime bounds the attempt to connect to a socket that is there already.
const probeTime = time.Second

// socketMode lets only those users connect that may. The mode is not what protects the socket from others: each peer is checked.
func socketMode(uids []int) fs.FileMode {
	for _, uid := range uids {
		if uid != os.Geteuid() {
			return 0o666
		}
	}
	return 0o600
}

// publish listens on a socket at path, which nobody can reach before it has its mode. It replaces one that nobody listens on. Clients
// refuse a socket in a folder that others may write.
func publish(path string, mode fs.FileMode) (*net.UnixListener, os.FileInfo, error) {
	if err := ownFolder(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	if err := unused(path); err != nil {
		return nil, nil, err
	}
	next := path + nextSuffix
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("make the socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: next, Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("make the socket: %w", err)
	}
	listener.SetUnlinkOnClose(false) // the name changes
	identity, err := name(next, path, mode)
	if err != nil {
		listener.Close()
		os.Remove(next)
		return nil, nil, fmt.Errorf("make the socket: %w", err)
	}
	return listener, identity, nil
}

// name gives a socket its mode and then its name.
func name(next, path string, mode fs.FileMode) (os.FileInfo, error) {
	if err := os.Chmod(next, mode); err != nil {
		return nil, err
	}
	identity, err := os.Lstat(next)
	if err != nil {
		return nil, err
	}
	return identity, os.Rename(next, path)
}

// ownFolder makes the folder of a socket if it is missing, and refuses one that others may write.
func ownFolder(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder of the socket: %w", err)
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return fmt.Errorf("the folder of the socket: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the folder %s of the socket must be a directory that belongs to user %d and that nobody else can write to: hermes-agent refuses any other",
			folder, os.Geteuid())
	}
	return nil
}

// unused refuses a path that another process listens on, or that is no socket.
func unused(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket; remove it, or choose another path", path)
	}
	conn, err := net.DialTimeout("unix", path, probeTime)
	if err == nil {
		conn.Close()
	}
	if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("another process may be listening on %s; end it, or choose another path", path)
	}
	return nil
}

// unpublish closes the socket, and removes it if it is still ours. It may be called more than once.
func (b *Broker) unpublish() {
	b.closed.Do(func() {
		b.listener.Close()
		if info, err := os.Lstat(b.Socket); err == nil && os.SameFile(info, b.identity) {
			_ = os.Remove(b.Socket) // one that stays is replaced by the next server
		}
	})
}

// peer returns the user and process at the other end of a connection, as they were when it was made.
func peer(conn *net.UnixConn) (*syscall.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var found *syscall.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		found, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil {
		return nil, controlErr
	}
	return found, err
}
