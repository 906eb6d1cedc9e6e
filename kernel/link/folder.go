package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

const (
	lockName   = "lock"
	infoName   = "host.json"
	socketName = "socket"
	spoolName  = "spool"
	logName    = "log"
)

// Info is what a host says about itself in host.json. Nothing in it decides whether the host lives.
type Info struct {
	ID        string    `json:"id"`
	Protocol  Versions  `json:"protocol"`
	Build     string    `json:"build"`
	Version   string    `json:"version"`
	Instance  string    `json:"instance"`
	PID       int       `json:"pid"`
	StartTime uint64    `json:"start_time,omitzero"`
	BootID    string    `json:"boot_id"`
	StartedAt time.Time `json:"started_at"`
	// Ended says that the host ended cleanly: it left nothing on the machine except records.
	Ended bool `json:"ended,omitzero"`
}

// Folder is the folder of a host that is running or about to run. Its methods are safe for concurrent use.
type Folder struct {
	ID   string
	Path string

	lock  *os.File
	close func() error
}

// NewFolder makes the folder of a new host below dir, which holds those of all hosts, and locks it. The host that is
// made on it keeps its spool in Spool. [Serve] closes the folder; a caller that does not get that far closes it
// itself.
func NewFolder(dir string) (*Folder, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a host's folder: %w", err)
	}
	f := &Folder{ID: id.String(), Path: filepath.Join(dir, id.String())}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a host's folder: %w", err)
	}
	err = alone(dir, func() error {
		if err := os.MkdirAll(filepath.Join(f.Path, spoolName), 0o700); err != nil {
			return err
		}
		f.lock, err = os.OpenFile(filepath.Join(f.Path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		return flock(f.lock, unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		if f.lock != nil {
			_ = f.lock.Close()
		}
		return nil, fmt.Errorf("make a host's folder: %w", err)
	}
	f.close = sync.OnceValue(f.lock.Close)
	return f, nil
}

// Spool is the directory for [host.HostConfig.SpoolDir].
func (f *Folder) Spool() string { return filepath.Join(f.Path, spoolName) }

// Log is where the host's stderr may go.
func (f *Folder) Log() string { return filepath.Join(f.Path, logName) }

// Close releases the lock: from then on the host counts as dead. It is idempotent.
func (f *Folder) Close() error { return f.close() }

// write writes host.json.
func (f *Folder) write(info Info) error {
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(f.Path, infoName)
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// alone runs do while no other process creates, looks at or removes hosts' folders in dir.
func alone(dir string, do func() error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := flock(d, unix.LOCK_EX); err != nil {
		return err
	}
	return do()
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			return os.NewSyscallError("flock", err)
		}
	}
}

// isDead reports whether no process holds the lock in a host's folder. The caller is inside alone for the directory
// above, or knows that the host once held its lock.
func isDead(path string) (bool, error) {
	lock, err := os.Open(filepath.Join(path, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	// Shared, so that processes that look do not take each other for a host.
	err = flock(lock, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// found is a folder below the directory of hosts.
type found struct {
	id, path string
	dead     bool
	info     Info // zero if there is no readable host.json
}

// scan lists the folders of hosts, the newest first.
func scan(dir string) ([]found, error) {
	var all []found
	err := alone(dir, func() error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if id, err := uuid.Parse(e.Name()); err != nil || id.String() != e.Name() || !e.IsDir() {
				continue
			}
			f := found{id: e.Name(), path: filepath.Join(dir, e.Name())}
			if f.dead, err = isDead(f.path); err != nil {
				return err
			}
			f.info = readInfo(f.path)
			all = append(all, f)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for hosts: %w", err)
	}
	slices.Reverse(all) // ids begin with the time
	return all, nil
}

func readInfo(path string) (info Info) {
	if b, err := os.ReadFile(filepath.Join(path, infoName)); err == nil && json.Unmarshal(b, &info) != nil {
		info = Info{}
	}
	return info
}

// remove removes a host's folder. The host is dead, or is the caller.
func remove(path string) error {
	err := alone(filepath.Dir(path), func() error { return os.RemoveAll(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
