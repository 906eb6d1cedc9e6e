package workspace_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel/workspace"
)

// restore captures without reading and puts the workspace back.
func (k *kept) restore(t *testing.T, d *workspace.Dir, want workspace.Manifest, keep func(string) bool) workspace.Restored {
	t.Helper()
	now, err := d.Capture(t.Context(), &want, nil)
	must(t, err)
	done, err := d.Restore(t.Context(), want, now, k.open, workspace.RestoreOptions{KeepPath: keep})
	must(t, err)
	return done
}

func checkRestored(t *testing.T, done workspace.Restored, created, modified, deleted string, not ...string) {
	t.Helper()
	var reasons []string
	for _, n := range done.NotRestored {
		reasons = append(reasons, n.Path+": "+n.Reason)
	}
	check := func(what string, got workspace.Paths, want string) {
		t.Helper()
		if strings.Join(got.Names, " ") != want || got.Count != len(got.Names) {
			t.Errorf("%s %q, want %q", what, got.Names, want)
		}
	}
	check("created", done.Created, created)
	check("modified", done.Modified, modified)
	check("deleted", done.Deleted, deleted)
	if !slices.Equal(reasons, not) || done.NotRestoredCount != len(not) {
		t.Errorf("not restored: %q, want %q", reasons, not)
	}
}

// state describes everything below a path of the host that a restore has to put back.
func state(t *testing.T, host string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(host, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == host {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		contents := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			contents = fmt.Sprintf("%d bytes %x", len(b), sum[:8])
		case unix.S_IFLNK:
			if contents, err = os.Readlink(path); err != nil {
				return err
			}
		}
		all[path[len(host)+1:]] = fmt.Sprintf("mode %o, owner %d:%d, time %d, %s", st.Mode, st.Uid, st.Gid, st.Mtim.Nano(), contents)
		return nil
	}))
	return all
}

func checkState(t *testing.T, got, want map[string]string) {
	t.Helper()
	for path := range want {
		if got[path] != want[path] {
			t.Errorf("%q: %s\nwant %s", path, got[path], want[path])
		}
	}
	for path := range got {
		if want[path] == "" {
			t.Errorf("%q was not there: %s", path, got[path])
		}
	}
}

// giveToSession makes everything below a path of the host the session's.
func giveToSession(t *testing.T, host string) {
	t.Helper()
	if uid() == 0 {
		return
	}
	must(t, filepath.WalkDir(host, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid(), uid()))
	}))
}

func TestARestorePutsBackEveryKindOfChange(t *testing.T) {
	d, host := create(t)
	at := func(path string) string { return filepath.Join(host, path) }
	for _, path := range []string{
		"deleted", "deleted-folder/sub/file", "file-to-folder", "file-to-link", "folder-to-file/in", "mode", "same", "text",
		"time", "truncated", "bad\xff/\xfe",
	} {
		write(t, d, path, path+" as it was")
	}
	must(t, d.Mkdir("empty/inner"))
	must(t, d.Mkdir("folder-to-link"))
	must(t, os.Symlink("/etc/passwd", at("link")))
	must(t, os.Symlink("nowhere", at("link-deleted")))
	must(t, os.Symlink("nowhere", at("link-to-folder")))
	must(t, os.Chmod(at("empty"), 0o555))
	must(t, os.Chmod(at("mode"), 0o755))
	giveToSession(t, host)
	must(t, os.Chtimes(at("empty/inner"), time.Unix(5, 7), time.Unix(6, 8)))
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	before := state(t, host)

	must(t, os.Remove(at("deleted")))
	must(t, os.RemoveAll(at("deleted-folder")))
	for _, path := range []string{"file-to-folder", "file-to-link", "folder-to-file", "folder-to-link", "link-to-folder"} {
		must(t, os.RemoveAll(at(path)))
	}
	write(t, d, "file-to-folder/a/b", "x")
	must(t, os.Symlink("/etc/passwd", at("file-to-link")))
	write(t, d, "folder-to-file", "x")
	must(t, os.Symlink("/etc", at("folder-to-link")))
	must(t, d.Mkdir("link-to-folder/x"))
	must(t, os.Chmod(at("mode"), 0o600))
	must(t, os.WriteFile(at("text"), []byte("something else"), 0))
	must(t, os.Chtimes(at("time"), time.Unix(1, 1), time.Unix(2, 2)))
	must(t, os.Truncate(at("truncated"), 1))
	must(t, os.Remove(at("bad\xff/\xfe")))
	must(t, os.Chmod(at("empty"), 0o755))
	must(t, os.Remove(at("empty/inner")))
	must(t, os.Remove(at("link")))
	must(t, os.Symlink("/etc/shadow", at("link")))
	must(t, os.Remove(at("link-deleted")))
	write(t, d, "new/deep/file", "x")
	must(t, os.Symlink("/etc", at("new/link")))
	must(t, unix.Mkfifo(at("new/pipe"), 0o600))

	done := k.restore(t, d, want, nil)
	checkRestored(t, done,
		"bad\xff/\xfe deleted deleted-folder deleted-folder/sub deleted-folder/sub/file empty/inner folder-to-file/in link-deleted",
		"empty file-to-folder file-to-link folder-to-file folder-to-link link link-to-folder mode text time truncated",
		"new/pipe new/link new/deep/file new/deep new link-to-folder/x file-to-folder/a/b file-to-folder/a")
	checkState(t, state(t, host), before)
	now, read := k.capture(t, d, &done.Known)
	if changes := want.Diff(now); len(changes)+len(read) != 0 {
		t.Errorf("differs: %+v, read %q", changes, read)
	}
	done, err := d.Restore(t.Context(), want, now, k.open, workspace.RestoreOptions{})
	must(t, err)
	checkRestored(t, done, "", "", "")
}

func TestARestoreTouchesNothingThatIsAsItWas(t *testing.T) {
	d, host := create(t)
	write(t, d, "same", "x")
	write(t, d, "other", "x")
	must(t, os.Link(filepath.Join(host, "same"), filepath.Join(host, "same-file")))
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	write(t, d, "other", "y")
	k.restore(t, d, want, nil)
	now, read := k.capture(t, d, &want)
	if !slices.Equal(read, []string{"other"}) {
		t.Errorf("%q were touched", read)
	}
	a, _ := now.Find("same")
	if b, _ := now.Find("same-file"); a.Inode != b.Inode {
		t.Error("two names of one file became two files")
	}
}

func TestWhatIsNotKnownOrKeptStaysAsItIsAndIsNamed(t *testing.T) {
	d, host := create(t)
	at := func(path string) string { return filepath.Join(host, path) }
	for _, path := range []string{"big", "big-changed", "big-deleted", "big-folder", "kept", "gone", "damaged", "z"} {
		write(t, d, path, "as it was "+path)
	}
	must(t, unix.Mkfifo(at("pipe"), 0o600))
	must(t, unix.Mkfifo(at("pipe-deleted"), 0o600))
	k := newKept(t)
	want, err := d.Capture(t.Context(), nil, func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		if strings.HasPrefix(e.Path, "big") {
			return "", &workspace.NotKeptError{Reason: "too large"}
		}
		return k.keep(ctx, f, e)
	})
	must(t, err)
	want = decode(t, encode(t, want))
	for _, path := range []string{"big-changed", "kept", "gone", "damaged", "z"} {
		write(t, d, path, "new")
	}
	must(t, os.Chtimes(at("pipe"), time.Unix(1, 1), time.Unix(2, 2))) // as writing to it does
	for _, path := range []string{"big-deleted", "big-folder", "pipe-deleted"} {
		must(t, os.Remove(at(path)))
	}
	write(t, d, "big-folder/in", "new")
	write(t, d, "kept-new/in", "new")
	write(t, d, "kept-new/not", "new")
	gone, _ := want.Find("gone")
	damaged, _ := want.Find("damaged")
	must(t, os.Remove(filepath.Join(k.dir, gone.Digest)))
	must(t, os.Truncate(filepath.Join(k.dir, damaged.Digest), 3))

	done := k.restore(t, d, want, func(path string) bool { return path == "kept" || path == "kept-new/in" })
	checkRestored(t, done, "", "z", "kept-new/not",
		"big-changed: too large", "big-deleted: too large", "big-folder: too large", "kept: it is kept as it is now",
		"kept-new/in: it is kept as it is now", "pipe-deleted: it is a pipe, a socket or a device",
		"kept-new: the folder is not empty", "damaged: its stored contents are damaged",
		"gone: its contents are no longer stored")
	if got := tree(t, host); !slices.Equal(got, []string{
		"big", "big-changed", "big-folder/", "big-folder/in", "damaged", "gone", "kept", "kept-new/", "kept-new/in", "pipe", "z",
	}) {
		t.Errorf("there is %q", got)
	}
	for path, text := range map[string]string{
		"big": "as it was big", "big-changed": "new", "kept": "new", "gone": "new", "damaged": "new", "z": "as it was z",
	} {
		if got := read(t, d, path); got != text {
			t.Errorf("%s holds %q", path, got)
		}
	}
}

func TestASparseFileIsPutBackWithItsHoles(t *testing.T) {
	const size = 2 << 30
	d, host := create(t)
	name := filepath.Join(host, "sparse")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for _, at := range []int64{0, 1 << 30, size - 1} {
		_, err = f.WriteAt([]byte("data")[:min(4, size-at)], at)
		must(t, err)
	}
	stored := filepath.Join(t.TempDir(), "stored")
	want, err := d.Capture(t.Context(), nil, func(_ context.Context, f *os.File, e workspace.Entry) (string, error) {
		to, err := os.Create(stored)
		if err != nil {
			return "", err
		}
		defer to.Close()
		for at := int64(0); at < e.Size; {
			if at, err = f.Seek(at, unix.SEEK_DATA); errors.Is(err, unix.ENXIO) {
				break
			}
			hole, _ := f.Seek(at, unix.SEEK_HOLE)
			if _, err := io.Copy(io.NewOffsetWriter(to, at), io.NewSectionReader(f, at, hole-at)); err != nil {
				return "", err
			}
			at = hole
		}
		return hex.EncodeToString(make([]byte, 32)), to.Truncate(e.Size)
	})
	must(t, err)
	_, err = f.WriteAt([]byte("changed"), 1<<30)
	must(t, err)
	now, err := d.Capture(t.Context(), &want, nil)
	must(t, err)
	open := func(string) (*os.File, error) { return os.Open(stored) }
	done, err := d.Restore(t.Context(), want, now, open, workspace.RestoreOptions{})
	must(t, err)
	checkRestored(t, done, "", "sparse", "")
	back, err := os.Open(name)
	must(t, err)
	defer back.Close()
	var st unix.Stat_t
	must(t, unix.Fstat(int(back.Fd()), &st))
	part := make([]byte, 7)
	_, err = back.ReadAt(part, 1<<30)
	must(t, err)
	if st.Size != size || string(part) != "data\x00\x00\x00" || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes, %d on the disk, %q", st.Size, st.Blocks*512, part)
	}
}

func TestADeepTreeWithLongNamesIsPutBack(t *testing.T) {
	d, host := create(t)
	name := strings.Repeat("n", 255) // the path of the last folder is longer than the system accepts
	at, err := unix.Open(host, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range workspace.MaxDepth {
		must(t, unix.Mkdirat(at, name, 0o755))
		next, err := unix.Openat(at, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		must(t, unix.Symlinkat("target", at, "link"))
		unix.Close(at)
		at = next
	}
	must(t, unix.Mknodat(at, "file", unix.S_IFREG|0o600, 0))
	unix.Close(at)
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	if len(want.Missing) != 0 || len(want.Entries) != 2*workspace.MaxDepth+1 {
		t.Errorf("%d entries, missing %+v", len(want.Entries), want.Missing)
	}
	must(t, d.Clear(t.Context()))
	if done := k.restore(t, d, want, nil); done.Created.Count != len(want.Entries) || done.NotRestoredCount != 0 {
		t.Errorf("created %d, not restored %+v", done.Created.Count, done.NotRestored)
	}
	now, _ := k.capture(t, d, nil)
	if !slices.Equal(describe(now), describe(want)) {
		t.Error("another tree came back")
	}
}

func TestARestoreStopsWhenNoSpaceIsLeftAndTellsWhatItDid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	parent := t.TempDir()
	if err := unix.Mount("tmpfs", parent, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(parent, 0)) })
	d, host := createIn(t, parent)
	write(t, d, "a", "small")
	write(t, d, "b", strings.Repeat("x", 600_000))
	write(t, d, "c", "small")
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	must(t, d.Clear(t.Context()))
	write(t, d, "kept", strings.Repeat("x", 700_000))
	now, err := d.Capture(t.Context(), &want, nil)
	must(t, err)
	done, err := d.Restore(t.Context(), want, now, k.open, workspace.RestoreOptions{
		KeepPath: func(path string) bool { return path == "kept" },
	})
	if !errors.Is(err, workspace.ErrNoSpace) {
		t.Errorf("Restore = %v", err)
	}
	checkRestored(t, done, "a", "", "", "kept: it is kept as it is now", "b: no space left")
	if got := tree(t, host); !slices.Equal(got, []string{"a", "kept"}) {
		t.Errorf("there is %q", got)
	}
}

func TestARestoreEndsWithItsContextOrWhenItsStoreFails(t *testing.T) {
	d, _ := create(t)
	write(t, d, "a", "x")
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	must(t, d.Clear(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Restore(ctx, want, workspace.Manifest{}, k.open, workspace.RestoreOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Restore = %v", err)
	}
	broken := errors.New("broken")
	open := func(string) (*os.File, error) { return nil, broken }
	if _, err := d.Restore(t.Context(), want, workspace.Manifest{}, open, workspace.RestoreOptions{}); !errors.Is(err, broken) {
		t.Errorf("Restore = %v", err)
	}
}

func TestPathsOfAManifestThatWouldLeaveTheWorkspaceAreRefused(t *testing.T) {
	d, host := create(t)
	k := newKept(t)
	for _, path := range []string{"..", "../x", "/x", "a/../../x", "a/..", "a//x", ".", "x\x00"} {
		want := workspace.Manifest{Entries: []workspace.ManifestEntry{
			{Path: "a", Kind: workspace.Directory, Mode: 0o755}, {Path: path, Kind: workspace.Symlink, Target: "x"},
		}}
		done, err := d.Restore(t.Context(), want, workspace.Manifest{}, k.open, workspace.RestoreOptions{})
		must(t, err)
		other, err := d.Restore(t.Context(), workspace.Manifest{}, want, k.open, workspace.RestoreOptions{})
		must(t, err)
		if done.NotRestoredCount != 1 || other.NotRestoredCount != 1 {
			t.Errorf("%q: %+v, %+v", path, done, other)
		}
	}
	if got := tree(t, filepath.Dir(host)); !slices.Equal(got, []string{"packages/", "workspace/"}) {
		t.Errorf("there is %q", got)
	}
}

// TestWhatIsSwappedDuringARestoreIsNeverFollowed puts a link to a folder outside in the place of each folder, at each
// moment when the restore asks for contents.
func TestWhatIsSwappedDuringARestoreIsNeverFollowed(t *testing.T) {
	const folders = 4
	outside := t.TempDir()
	for _, path := range []string{"file", "gone", "in/file"} {
		must(t, os.MkdirAll(filepath.Join(outside, filepath.Dir(path)), 0o700))
		must(t, os.WriteFile(filepath.Join(outside, path), []byte("outside"), 0o600))
	}
	giveToSession(t, outside) // so that nothing but the names protects it
	before := state(t, outside)
	for swapAt := range 2 * folders {
		for swapped := range folders {
			d, host := create(t)
			at := func(folder int, path string) string { return filepath.Join(host, fmt.Sprintf("f%d", folder), path) }
			for i := range folders {
				write(t, d, fmt.Sprintf("f%d/file", i), "as it was")
				write(t, d, fmt.Sprintf("f%d/in/file", i), "as it was")
			}
			k := newKept(t)
			want, _ := k.capture(t, d, nil)
			for i := range folders {
				must(t, os.WriteFile(at(i, "file"), []byte("changed"), 0))
				must(t, os.WriteFile(at(i, "in/file"), []byte("changed"), 0))
				must(t, os.WriteFile(at(i, "gone"), nil, 0o600))
				must(t, os.Chmod(at(i, "in"), 0o777))
				must(t, os.Chmod(at(i, ""), 0o777))
			}
			now, err := d.Capture(t.Context(), &want, nil)
			must(t, err)
			asked := 0
			open := func(digest string) (*os.File, error) {
				if asked++; asked == swapAt+1 {
					must(t, os.Rename(at(swapped, ""), filepath.Join(host, "moved")))
					must(t, os.Symlink(outside, at(swapped, "")))
				}
				return k.open(digest)
			}
			_, err = d.Restore(t.Context(), want, now, open, workspace.RestoreOptions{})
			must(t, err)
			checkState(t, state(t, outside), before)
		}
	}
}

// TestFoldersThatAreExchangedAllTheTimeLeadNowhere has another goroutine exchange a folder and a link while restores
// run.
func TestFoldersThatAreExchangedAllTheTimeLeadNowhere(t *testing.T) {
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("outside"), 0o600))
	must(t, os.WriteFile(filepath.Join(outside, "gone"), []byte("outside"), 0o600))
	giveToSession(t, outside)
	before := state(t, outside)
	d, host := create(t)
	write(t, d, "folder/file", "as it was")
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	must(t, os.Symlink(outside, filepath.Join(host, "link")))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(host, "folder"), unix.AT_FDCWD, filepath.Join(host, "link"),
				unix.RENAME_EXCHANGE)
		}
	})
	for range 300 {
		_ = os.WriteFile(filepath.Join(host, "folder/file"), []byte("outside"), 0) // the same bytes, also through the link
		must(t, os.Chtimes(filepath.Join(outside, "file"), time.Unix(1, 0), time.Unix(1, 0)))
		now, err := d.Capture(t.Context(), &want, nil)
		must(t, err)
		_, err = d.Restore(t.Context(), want, now, k.open, workspace.RestoreOptions{
			KeepPath: func(path string) bool { return path == "link" },
		})
		must(t, err)
		if _, err := os.Lstat(filepath.Join(host, "link")); errors.Is(err, fs.ErrNotExist) {
			_ = os.Symlink(outside, filepath.Join(host, "link"))
		}
	}
	cancel()
	wg.Wait()
	after := state(t, outside)
	if !slices.Equal(slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before))) {
		t.Errorf("outside is %v", after)
	}
	for path := range after {
		if b, err := os.ReadFile(filepath.Join(outside, path)); err != nil || string(b) != "outside" {
			t.Errorf("%s holds %q, %v", path, b, err)
		}
	}
}

func TestModesAreNeverInTheWayOfARestoreByAnOrdinaryUser(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	d, host := create(t)
	at := func(path string) string { return filepath.Join(host, path) }
	for _, path := range []string{"closed/sub/file", "closed/other", "names/file", "readonly/file", "locked/in"} {
		write(t, d, path, "as it was")
	}
	must(t, os.Chmod(at("readonly"), 0o555))
	k := newKept(t)
	want, _ := k.capture(t, d, nil)
	before := state(t, host)
	must(t, os.Chmod(at("readonly"), 0o755))
	must(t, os.Remove(at("readonly/file")))
	must(t, os.Chmod(at("readonly"), 0o555))
	write(t, d, "closed/new", "x")
	write(t, d, "closed/other", "x")
	write(t, d, "created/deep/file", "x")
	for _, path := range []string{"created/deep", "created", "closed/sub", "closed"} {
		must(t, os.Chmod(at(path), 0))
	}
	write(t, d, "names/file", "x")
	must(t, os.Chmod(at("names"), 0o600))
	must(t, os.Chmod(at("locked/in"), 0))
	must(t, os.Chmod(host, 0))

	done := k.restore(t, d, want, nil)
	checkRestored(t, done, "readonly/file", "closed closed/other closed/sub locked/in names names/file",
		"created/deep/file created/deep created closed/new")
	must(t, os.Chmod(host, 0o700))
	checkState(t, state(t, host), before)

	// What could not be looked into in the past stays, and so do the modes of what is kept.
	must(t, os.Chmod(at("closed"), 0))
	past, _ := k.capture(t, d, &want)
	must(t, os.Chmod(at("closed"), 0o700))
	must(t, os.Remove(at("closed/other")))
	must(t, os.Chmod(at("closed"), 0))
	write(t, d, "kept/in", "x")
	must(t, os.Chmod(at("kept"), 0o500))
	done = k.restore(t, d, past, func(path string) bool { return path == "kept" })
	checkRestored(t, done, "", "", "kept/in", "closed: the server may not read it", "kept: it is kept as it is now")
	for path, mode := range map[string]fs.FileMode{"closed": 0, "kept": 0o500} {
		if info, err := os.Stat(at(path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestRandomTreesComeBackAsTheyWere(t *testing.T) { randomTrees(t) }

func TestRandomTreesComeBackAsTheyWereForAnOrdinaryUser(t *testing.T) {
	if !asOrdinaryUser(t) {
		randomTrees(t)
	}
}

func randomTrees(t *testing.T) {
	for range 25 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			d, host := create(t)
			randomChanges(r, host, 80)
			randomModes(t, r, host)
			giveToSession(t, host)
			k := newKept(t)
			want, _ := k.capture(t, d, nil)
			if len(want.Missing) > 0 {
				t.Fatalf("missing %+v", want.Missing)
			}
			before := state(t, host)
			for range 3 {
				randomChanges(r, host, 1+r.IntN(60))
				giveToSession(t, host)
				now, err := d.Capture(t.Context(), &want, nil)
				must(t, err)
				if r.IntN(2) == 0 {
					now, _ = k.capture(t, d, &want)
				}
				done, err := d.Restore(t.Context(), decode(t, encode(t, want)), now, k.open, workspace.RestoreOptions{})
				must(t, err)
				if done.NotRestoredCount > 0 {
					t.Errorf("not restored: %+v", done.NotRestored)
				}
				checkState(t, state(t, host), before)
			}
			now, _ := k.capture(t, d, &want)
			if changes := want.Diff(now); len(changes) > 0 {
				t.Errorf("differs: %+v", changes)
			}
		})
	}
}

// randomPath returns a path whose folders exist, if that is possible.
func randomPath(r *rand.Rand, host string) string {
	names := []string{"a", "b", "a!", "a0", "é", "\xff", "c d", "-"}
	path := host
	for range 1 + r.IntN(4) {
		path = filepath.Join(path, names[r.IntN(len(names))])
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			break
		}
	}
	return path
}

// randomChanges does what code in a session does; whatever is impossible does nothing.
func randomChanges(r *rand.Rand, host string, count int) {
	for range count {
		path := randomPath(r, host)
		switch r.IntN(12) {
		case 0, 1, 2:
			_ = os.WriteFile(path, make([]byte, r.IntN(3)*r.IntN(5000)+1), 0o644)
		case 3, 4:
			_ = os.MkdirAll(path, 0o755)
		case 5:
			_ = os.Symlink([]string{"/nowhere/at/all", "..", "a", "/"}[r.IntN(4)], path)
		case 6:
			if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
				if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
					_, _ = f.WriteAt([]byte{byte(r.IntN(256))}, int64(r.IntN(1<<20)))
					f.Close()
				}
			}
		case 7:
			_ = os.Rename(path, randomPath(r, host))
		case 8:
			_ = os.RemoveAll(path)
		case 9:
			if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSymlink {
				_ = os.Chmod(path, []fs.FileMode{0, 0o700, 0o500, 0o644, 0o777}[r.IntN(5)])
			}
		case 10:
			if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSymlink {
				_ = os.Chtimes(path, time.Time{}, time.Unix(r.Int64N(1<<31), r.Int64N(1e9)))
			}
		case 11:
			_ = os.Link(randomPath(r, host), path)
		}
	}
}

// randomModes gives a tree modes with which everybody can look into it.
func randomModes(t *testing.T, r *rand.Rand, host string) {
	t.Helper()
	unlock := func(path string) { // from the top down
		must(t, filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
			if e.IsDir() {
				must(t, os.Chmod(path, 0o700))
				if err != nil {
					return nil
				}
			}
			return err
		}))
	}
	for range 8 { // a folder that could not be read is read in the next round
		unlock(host)
	}
	var all []string
	must(t, filepath.WalkDir(host, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != host && e.Type() != fs.ModeSymlink {
			all = append(all, path)
		}
		return err
	}))
	for _, path := range slices.Backward(all) {
		info, err := os.Lstat(path)
		must(t, err)
		mode := []fs.FileMode{0o644, 0o600, 0o400, 0o755}[r.IntN(4)]
		if info.IsDir() {
			mode = []fs.FileMode{0o755, 0o700, 0o500, 0o777 | fs.ModeSticky}[r.IntN(4)]
		}
		must(t, os.Chmod(path, mode))
	}
}
