package workspace_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"talaria/kernel/workspace"
)

func writeError(d *workspace.Dir, path string) error {
	_, _, err := d.Write(context.Background(), path, strings.NewReader("x"), noLimit)
	return err
}

func TestWriteMakesAFileAndItsFoldersAndReplacesIt(t *testing.T) {
	old := syscall.Umask(0o077) // modes must not depend on it
	defer syscall.Umask(old)
	d, host := create(t)
	big := strings.Repeat("0123456789", 100_000)
	created, e, err := d.Write(t.Context(), "a/b/c.txt", strings.NewReader(big), int64(len(big)))
	must(t, err)
	if !created || e.Path != "a/b/c.txt" || e.Name != "c.txt" || e.Size != int64(len(big)) || e.Kind != workspace.File {
		t.Errorf("created %v, entry %+v", created, e)
	}
	if read(t, d, "a/b/c.txt") != big {
		t.Error("other bytes came back")
	}
	created, again, err := d.Write(t.Context(), "a/b/c.txt", strings.NewReader("small"), 5)
	must(t, err)
	if created || again.Inode == e.Inode || read(t, d, "a/b/c.txt") != "small" {
		t.Errorf("created %v, entry %+v", created, again)
	}
	for path, mode := range map[string]uint32{"a": 0o755, "a/b": 0o755, "a/b/c.txt": 0o644} {
		st := new(syscall.Stat_t)
		must(t, syscall.Stat(filepath.Join(host, path), st))
		if int(st.Uid) != max(uid(), os.Geteuid()) || st.Mode&0o7777 != mode {
			t.Errorf("%s: owner %d, mode %o", path, st.Uid, st.Mode&0o7777)
		}
	}
	if got := tree(t, host); !slices.Equal(got, []string{"a/", "a/b/", "a/b/c.txt"}) {
		t.Errorf("there is %q", got)
	}
}

func TestAnUploadThatBreaksLeavesTheOldFileAndNothingElse(t *testing.T) {
	d, host := create(t)
	write(t, d, "keep.txt", "old")
	broken := errors.New("broken")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, upload := range map[string]struct {
		ctx  context.Context
		r    io.Reader
		want error
	}{
		"reader": {t.Context(), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), broken},
		"limit":  {t.Context(), strings.NewReader(strings.Repeat("x", 11)), workspace.ErrLimit},
		"cancel": {cancelled, strings.NewReader("x"), context.Canceled},
	} {
		for _, path := range []string{"keep.txt", "new.txt"} {
			if _, _, err := d.Write(upload.ctx, path, upload.r, 10); !errors.Is(err, upload.want) {
				t.Errorf("%s: Write(%s) = %v, want %v", name, path, err, upload.want)
			}
			if s, ok := upload.r.(*strings.Reader); ok {
				s.Seek(0, io.SeekStart)
			}
			upload.r = io.MultiReader(upload.r, iotest.ErrReader(upload.want))
		}
	}
	if got := read(t, d, "keep.txt"); got != "old" {
		t.Errorf("the old file holds %q", got)
	}
	if got := tree(t, host); !slices.Equal(got, []string{"keep.txt"}) {
		t.Errorf("there is %q", got)
	}
}

func TestExactlyTheLimitIsAllowed(t *testing.T) {
	d, _ := create(t)
	for _, size := range []int{0, 1, 10} {
		if _, e, err := d.Write(t.Context(), "f", strings.NewReader(strings.Repeat("x", size)), int64(size)); err != nil ||
			e.Size != int64(size) {
			t.Errorf("%d bytes: %+v, %v", size, e, err)
		}
	}
}

// reader runs a function at its first read.
type reader struct {
	io.Reader
	first func()
}

func (r *reader) Read(p []byte) (int, error) {
	if r.first != nil {
		r.first()
		r.first = nil
	}
	return r.Reader.Read(p)
}

func TestWhatAppearsInThePlaceDuringAnUploadIsReplacedOrRefusedAndNeverFollowed(t *testing.T) {
	d, host := create(t)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("outside"), 0o666))
	for name, test := range map[string]struct {
		appear func(path string) error
		want   error
	}{
		"link":   {func(p string) error { return os.Symlink(outside, p) }, workspace.ErrOutside},
		"folder": {func(p string) error { return os.Mkdir(p, 0o700) }, workspace.ErrNotAFile},
		"file":   {func(p string) error { return os.WriteFile(p, []byte("theirs"), 0o600) }, nil},
	} {
		r := &reader{strings.NewReader("ours"), func() { must(t, test.appear(filepath.Join(host, name))) }}
		if _, _, err := d.Write(t.Context(), name, r, noLimit); !errors.Is(err, test.want) {
			t.Errorf("%s: Write = %v, want %v", name, err, test.want)
		}
	}
	if got := read(t, d, "file"); got != "ours" {
		t.Errorf("file holds %q", got)
	}
	if b, _ := os.ReadFile(outside); string(b) != "outside" {
		t.Errorf("outside holds %q", b)
	}
	if got := tree(t, host); !slices.Equal(got, []string{"file", "folder/", "link"}) {
		t.Errorf("there is %q", got)
	}
}

func TestAnUploadUnderWayIsTheServersAloneAndUnlisted(t *testing.T) {
	d, host := create(t)
	looked := false
	r := &reader{strings.NewReader("x"), func() {
		looked = true
		temps, err := filepath.Glob(filepath.Join(host, ".talaria-upload-*"))
		if err != nil || len(temps) != 1 {
			t.Fatalf("temporary files: %q, %v", temps, err)
		}
		st := new(syscall.Stat_t)
		must(t, syscall.Stat(temps[0], st))
		if int(st.Uid) != os.Geteuid() || st.Mode&0o7777 != 0o600 {
			t.Errorf("temporary file: owner %d, mode %o", st.Uid, st.Mode&0o7777)
		}
		if entries, err := d.List(""); err != nil || len(entries) != 0 {
			t.Errorf("List = %v, %v", entries, err)
		}
		if s, _, err := d.Scan(t.Context(), workspace.Snapshot{}); err != nil || len(s.Files) != 0 {
			t.Errorf("Scan = %v, %v", s, err)
		}
		must(t, d.RemoveUploads(t.Context()))
	}}
	if _, _, err := d.Write(t.Context(), "f", r, noLimit); err != nil || !looked {
		t.Errorf("Write = %v, looked: %v", err, looked)
	}
}

func TestUploadsThatACrashLeftAreRemoved(t *testing.T) {
	d, host := create(t)
	write(t, d, "a/keep", "x")
	must(t, os.WriteFile(filepath.Join(host, "a", ".talaria-upload-EARLIERRUNXYZ"), []byte("half"), 0o600))
	must(t, os.Mkdir(filepath.Join(host, ".talaria-upload-folder"), 0o700))
	must(t, d.RemoveUploads(t.Context()))
	if got := tree(t, host); !slices.Equal(got, []string{".talaria-upload-folder/", "a/", "a/keep"}) {
		t.Errorf("there is %q", got)
	}
}

func TestRenameMovesButNeverOverSomething(t *testing.T) {
	d, host := create(t)
	write(t, d, "a.txt", "a")
	write(t, d, "folder/b.txt", "b")
	moved, err := d.Rename("a.txt", "new/place/a2.txt")
	must(t, err)
	if moved.Path != "new/place/a2.txt" || moved.Name != "a2.txt" || moved.Kind != workspace.File || moved.Size != 1 {
		t.Errorf("entry %+v", moved)
	}
	_, err = d.Rename("folder", "new/folder")
	must(t, err)
	for _, test := range []struct {
		from, to string
		want     error
	}{
		{"new/folder/b.txt", "new/place/a2.txt", fs.ErrExist},
		{"new/folder/b.txt", "new/folder/b.txt", fs.ErrExist},
		{"new/folder", "new/place", fs.ErrExist},
		{"new", "new/deeper/new", fs.ErrInvalid},
		{"missing", "x", fs.ErrNotExist},
		{"new/folder/b.txt", "new/place/a2.txt/x", workspace.ErrNotAFolder},
	} {
		if _, err := d.Rename(test.from, test.to); !errors.Is(err, test.want) {
			t.Errorf("Rename(%s, %s) = %v, want %v", test.from, test.to, err, test.want)
		}
	}
	want := []string{"new/", "new/folder/", "new/folder/b.txt", "new/place/", "new/place/a2.txt"}
	if got := tree(t, host); !slices.Equal(got, want) {
		t.Errorf("there is %q", got)
	}
	if err := d.Mkdir("new/folder"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir = %v, want fs.ErrExist", err)
	}
}

func TestReplaceMovesOverAFileAndOverNothingElse(t *testing.T) {
	d, host := create(t)
	for name, text := range map[string]string{"a": "a", "b": "b", "folder/c": "c"} {
		write(t, d, name, text)
	}
	must(t, os.Mkdir(filepath.Join(host, "empty"), 0o700))
	must(t, os.Symlink("a", filepath.Join(host, "link")))
	for _, test := range [][2]string{{"a", "folder"}, {"a", "empty"}, {"a", "link"}, {"folder", "a"}, {"folder", "empty"}} {
		if _, err := d.Replace(test[0], test[1]); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Replace(%s, %s) = %v, want fs.ErrExist", test[0], test[1], err)
		}
	}
	moved, err := d.Replace("a", "b")
	must(t, err)
	if moved.Path != "b" || moved.Size != 1 {
		t.Errorf("entry %+v", moved)
	}
	if text, err := os.ReadFile(filepath.Join(host, "b")); err != nil || string(text) != "a" {
		t.Errorf("b has %q, %v", text, err)
	}
	_, err = d.Replace("b", "new/d")
	must(t, err)
	_, err = d.Replace("new/d", "new/d")
	must(t, err)
	if got, want := tree(t, host), []string{"empty/", "folder/", "folder/c", "link", "new/", "new/d"}; !slices.Equal(got, want) {
		t.Errorf("there is %q", got)
	}
}

func TestAFullDiskIsSaidAsSuch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a small file system")
	}
	parent := t.TempDir()
	if err := syscall.Mount("tmpfs", parent, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	defer func() { must(t, syscall.Unmount(parent, 0)) }()
	d, err := workspace.Create(parent, "s1", uid())
	must(t, err)
	defer d.Close()
	_, _, err = d.Write(t.Context(), "big", strings.NewReader(strings.Repeat("x", 1<<20)), noLimit)
	if !errors.Is(err, workspace.ErrNoSpace) {
		t.Errorf("Write = %v, want ErrNoSpace", err)
	}
	if entries, err := os.ReadDir(filepath.Join(parent, "s1/workspace")); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
