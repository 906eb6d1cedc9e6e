package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// saved downloads a text.
func saved(t *testing.T, local, text string) {
	t.Helper()
	if n, err := download(local, strings.NewReader(text)); err != nil || n != int64(len(text)) {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

func TestADownloadWritesIntoWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(pipe)
		read <- string(b)
	}()
	saved(t, pipe, "for the reader")
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe has become %v, %v", info, err)
	}
	if got := <-read; got != "for the reader" {
		t.Errorf("the reader got %q", got)
	}
}

func TestADownloadFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "old")
	for link, to := range map[string]string{"link": "file", "dangling": "made"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
		saved(t, filepath.Join(dir, link), "new")
		if got, err := os.Readlink(filepath.Join(dir, link)); got != to {
			t.Errorf("the link leads to %q, %v", got, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, to)); string(b) != "new" {
			t.Errorf("%s holds %q, %v", to, b, err)
		}
	}
}

func TestADownloadHasTheModeOfAnyOtherFile(t *testing.T) {
	before := syscall.Umask(0o077)
	t.Cleanup(func() { syscall.Umask(before) })
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	write(t, own, "#!/bin/sh\n")
	if err := os.Chmod(own, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"new": 0o600, "own": 0o750} {
		saved(t, filepath.Join(dir, name), "text")
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestADownloadThatBreaksLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "old")
	broken := errors.New("broken")
	if _, err := download(filepath.Join(dir, "file"), iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "file")); string(b) != "old" {
		t.Errorf("the file holds %q", b)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("the folder holds %v", left)
	}
	if got := inFolder(dir, "work.ipynb"); got != filepath.Join(dir, "work.ipynb") {
		t.Errorf("work.ipynb is saved as %s", got)
	}
}

func TestAFileThatCannotBeReadIsNoLostConnection(t *testing.T) {
	out, err := ran(t, "files", "put", "s", "/proc/self/mem", "--state-dir", served(t, "token"))
	if err == nil || statusOf(err) != exitFailed || err.Error() != "read /proc/self/mem: input/output error" {
		t.Errorf("%q, %v (status %d)", out, err, statusOf(err))
	}
}
