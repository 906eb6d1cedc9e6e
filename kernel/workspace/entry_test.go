package workspace_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel/workspace"
)

func itoa(fd uintptr) string { return strconv.Itoa(int(fd)) }

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func openError(d *workspace.Dir, path string) error {
	f, _, err := d.Open(path)
	if err == nil {
		f.Close()
	}
	return err
}

func TestListTellsWhatIsInAFolderByName(t *testing.T) {
	d, host := create(t)
	write(t, d, "b.txt", "12345")
	write(t, d, "sub/inner.txt", "x")
	must(t, os.Symlink("/etc/passwd", filepath.Join(host, "a-link")))
	must(t, unix.Mkfifo(filepath.Join(host, "pipe"), 0o600))
	must(t, os.WriteFile(filepath.Join(host, "bad\xffname"), nil, 0o600))
	must(t, os.WriteFile(filepath.Join(host, ".talaria-upload-x"), nil, 0o600))

	entries, err := d.List(".")
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s %s %s", e.Kind, e.Name, e.Path))
		if e.Inode == 0 || time.Since(e.ModTime) > time.Minute {
			t.Errorf("%v: inode %d, time %v", e, e.Inode, e.ModTime)
		}
	}
	want := []string{
		"symlink a-link a-link", "file b.txt b.txt", "file bad\uFFFDname bad\uFFFDname", "other pipe pipe", "directory sub sub",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if err := openError(d, "bad\uFFFDname"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the listed name of a file that is not UTF-8: %v", err)
	}
	for _, folder := range []string{"sub", "sub/"} {
		entries, err = d.List(folder)
		must(t, err)
		if len(entries) != 1 || entries[0].Path != "sub/inner.txt" || entries[0].Name != "inner.txt" || entries[0].Size != 1 {
			t.Errorf("List(%q) = %v", folder, entries)
		}
	}
	if _, err := d.List("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := d.List("b.txt"); !errors.Is(err, workspace.ErrNotAFolder) {
		t.Errorf("file: %v", err)
	}
}

func TestAFolderOf50000EntriesIsListedWhole(t *testing.T) {
	d, host := createInMemory(t)
	for i := range 50_000 {
		must(t, unix.Mknod(fmt.Sprintf("%s/%d", host, i), unix.S_IFREG|0o600, 0))
	}
	entries, err := d.List("")
	must(t, err)
	if len(entries) != 50_000 {
		t.Errorf("%d entries", len(entries))
	}
}

func TestSpecialFilesAreNoFilesAndNobodyWaitsForThem(t *testing.T) {
	d, host := create(t)
	must(t, unix.Mkfifo(filepath.Join(host, "pipe"), 0o666))
	if len(host) < 90 { // socket paths are short
		l, err := net.Listen("unix", filepath.Join(host, "socket"))
		must(t, err)
		defer l.Close()
	} else {
		must(t, unix.Mknod(filepath.Join(host, "socket"), unix.S_IFSOCK|0o666, 0))
	}
	must(t, d.Mkdir("folder"))
	names := []string{"pipe", "socket", "folder"}
	if os.Geteuid() == 0 {
		must(t, unix.Mknod(filepath.Join(host, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		names = append(names, "null")
	}
	for _, name := range names {
		if err := openError(d, name); !errors.Is(err, workspace.ErrNotAFile) {
			t.Errorf("Open(%s) = %v, want ErrNotAFile", name, err)
		}
		if err := writeError(d, name); !errors.Is(err, workspace.ErrNotAFile) {
			t.Errorf("Write(%s) = %v, want ErrNotAFile", name, err)
		}
		if _, err := d.Stat(name); err != nil {
			t.Errorf("Stat(%s) = %v", name, err)
		}
		if _, err := d.Rename(name, name+"2"); name != "folder" && !errors.Is(err, workspace.ErrNotAFile) {
			t.Errorf("Rename(%s) = %v, want ErrNotAFile", name, err)
		}
	}
	if err := writeError(d, "pipe/x"); !errors.Is(err, workspace.ErrNotAFolder) {
		t.Errorf("Write below a pipe = %v, want ErrNotAFolder", err)
	}
	snap, _, err := d.Scan(t.Context(), workspace.Snapshot{})
	must(t, err)
	if len(snap.Files) != 0 {
		t.Errorf("scanned: %v", snap.Files)
	}
}

func TestALeaseOnAFileDoesNotMakeAReaderWait(t *testing.T) {
	d, host := create(t)
	write(t, d, "leased", "x")
	f, err := os.OpenFile(filepath.Join(host, "leased"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases here: %v", err)
	}
	start := time.Now()
	if err := openError(d, "leased"); !errors.Is(err, fs.ErrPermission) || time.Since(start) > 5*time.Second {
		t.Errorf("Open = %v after %v, want fs.ErrPermission at once", err, time.Since(start))
	}
}

func TestANameThatTurnsIntoALinkMeanwhileIsNeverFollowed(t *testing.T) {
	d, host := create(t)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.MkdirAll(outside, 0o777))
	must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("outside"), 0o666))
	at := func(name string) string { return filepath.Join(host, name) }
	must(t, os.WriteFile(at("inner"), []byte("inner"), 0o666))
	must(t, os.Symlink(filepath.Join(outside, "file"), at("link")))
	must(t, os.Mkdir(at("real"), 0o777))
	must(t, os.WriteFile(at("real/file"), []byte("inner"), 0o666))
	must(t, os.Symlink(outside, at("fake")))

	var stop atomic.Bool
	done := make(chan struct{})
	go func() { // swaps "name" and "folder" between a real one and a link, without a moment in between
		defer close(done)
		_ = os.Link(at("inner"), at("name"))
		_ = os.Rename(at("real"), at("folder"))
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, at("name"), unix.AT_FDCWD, at("link"), unix.RENAME_EXCHANGE)
			_ = unix.Renameat2(unix.AT_FDCWD, at("folder"), unix.AT_FDCWD, at("fake"), unix.RENAME_EXCHANGE)
		}
	}()
	outcomes := map[string]int{}
	for i := 0; i < 2_000 || len(outcomes) < 4 && i < 1_000_000; i++ {
		path := []string{"name", "folder/file"}[i%2]
		f, _, err := d.Open(path)
		switch {
		case err == nil:
			b, err := io.ReadAll(f)
			f.Close()
			if string(b) != "inner" || err != nil {
				t.Fatalf("Open(%s) read %q, %v", path, b, err)
			}
			outcomes["read "+path]++
		case errors.Is(err, workspace.ErrOutside):
			outcomes["refused "+path]++
		case !errors.Is(err, fs.ErrNotExist):
			t.Fatalf("Open(%s) = %v", path, err)
		}
	}
	for i := range 500 {
		path := []string{"name", "folder/new", "folder/deep/er"}[i%3]
		_, _, err := d.Write(t.Context(), path, strings.NewReader("inner"), noLimit)
		if err != nil && !errors.Is(err, workspace.ErrOutside) {
			t.Fatalf("Write(%s) = %v", path, err)
		}
		if err := d.Remove(t.Context(), "folder/new"); err != nil && !errors.Is(err, workspace.ErrOutside) &&
			!errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Remove = %v", err)
		}
		if _, _, err := d.Scan(t.Context(), workspace.Snapshot{}); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	<-done
	if len(outcomes) != 4 {
		t.Errorf("of reading and refusing each path only %v: the race was not run", outcomes)
	}
	if got := tree(t, outside); len(got) != 1 {
		t.Errorf("outside: %q", got)
	}
	if b, _ := os.ReadFile(filepath.Join(outside, "file")); string(b) != "outside" {
		t.Errorf("the file outside now holds %q", b)
	}
	for _, left := range tree(t, host) {
		if strings.Contains(left, ".talaria") {
			t.Errorf("left: %s", left)
		}
	}
}

func TestAMountInTheWorkspaceIsNotCrossed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	d, host := create(t)
	must(t, d.Mkdir("mounted"))
	must(t, os.WriteFile(filepath.Join(host, "mounted", "below"), nil, 0o600))
	if err := unix.Mount("tmpfs", filepath.Join(host, "mounted"), "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	defer func() { must(t, unix.Unmount(filepath.Join(host, "mounted"), 0)) }()
	must(t, os.WriteFile(filepath.Join(host, "mounted", "file"), nil, 0o600))
	if err := openError(d, "mounted/file"); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("Open = %v, want ErrOutside", err)
	}
	if err := d.Remove(t.Context(), "mounted"); err == nil {
		t.Error("Remove removed a mount")
	}
	if _, err := os.Stat(filepath.Join(host, "mounted", "file")); err != nil {
		t.Errorf("the file in the mount: %v", err)
	}
}

func TestStatTellsTheKindAndAHardLinkIsAFileLikeAnyOther(t *testing.T) {
	d, host := create(t)
	write(t, d, "one", "first")
	must(t, os.Link(filepath.Join(host, "one"), filepath.Join(host, "two")))
	one, err := d.Stat("one")
	must(t, err)
	two, err := d.Stat("two")
	must(t, err)
	if one.Inode != two.Inode || one.Kind != workspace.File || one.Size != 5 {
		t.Errorf("one %+v, two %+v", one, two)
	}
	write(t, d, "two", "second")
	if got := read(t, d, "one"); got != "first" {
		t.Errorf("the other name now holds %q", got)
	}
	if e, err := d.Stat(""); err != nil || e.Kind != workspace.Directory {
		t.Errorf("Stat of the root = %+v, %v", e, err)
	}
	st := new(syscall.Stat_t)
	must(t, syscall.Stat(filepath.Join(host, "two"), st))
	if int(st.Uid) != max(uid(), os.Geteuid()) || st.Mode&0o7777 != 0o644 {
		t.Errorf("uploaded file: owner %d, mode %o", st.Uid, st.Mode&0o7777)
	}
}
