package e2e

import (
	wire "encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// runWatch reports the directories of one-shot runs as they come and go.
type runWatch struct{ made, gone chan string }

// watchRuns watches the directory of all sessions, in which each run has a directory with a folder named run.
func watchRuns(t *testing.T, sessions string) runWatch {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	ended := make(chan struct{})
	t.Cleanup(func() { f.Close(); <-ended })
	root, err := unix.InotifyAddWatch(fd, sessions, unix.IN_CREATE|unix.IN_DELETE)
	if err != nil {
		t.Fatal(err)
	}
	w := runWatch{make(chan string, 64), make(chan string, 64)}
	go func() {
		defer close(ended)
		parents, runs := map[int]string{}, map[string]bool{}
		found := func(dir string) {
			if !runs[dir] {
				runs[dir] = true
				w.made <- dir
			}
		}
		buffer := make([]byte, 64<<10)
		for {
			n, err := f.Read(buffer)
			if err != nil {
				return
			}
			for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
				watch, mask := int(int32(wire.NativeEndian.Uint32(b))), wire.NativeEndian.Uint32(b[4:])
				size := int(wire.NativeEndian.Uint32(b[12:]))
				name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
				b = b[unix.SizeofInotifyEvent+size:]
				dir := filepath.Join(sessions, name)
				switch {
				case watch == root && mask&unix.IN_DELETE != 0 && runs[dir]:
					w.gone <- dir
				case watch == root && mask&unix.IN_CREATE != 0:
					if sub, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err == nil {
						parents[sub] = dir
					}
					if _, err := os.Stat(filepath.Join(dir, "run")); err == nil {
						found(dir)
					}
				case name == "run" && parents[watch] != "":
					found(parents[watch])
				}
			}
		}
	}()
	return w
}

// next waits for one of them.
func next(t *testing.T, dirs <-chan string) string {
	t.Helper()
	select {
	case dir := <-dirs:
		return dir
	case <-time.After(patience):
		t.Fatal("no run came or ended")
		return ""
	}
}
