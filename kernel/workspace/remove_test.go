package workspace_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel/workspace"
)

func TestRemoveRemovesFilesLinksAndFoldersAndFollowsNothing(t *testing.T) {
	d, host := create(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o666))
	write(t, d, "keep", "x")
	write(t, d, "file", "x")
	write(t, d, "folder/sub/file", "x")
	must(t, os.Symlink(outside, filepath.Join(host, "folder/sub/link")))
	must(t, os.Symlink(filepath.Join(outside, "precious"), filepath.Join(host, "link")))
	must(t, unix.Mkfifo(filepath.Join(host, "pipe"), 0o600))
	for _, path := range []string{"file", "folder", "link", "pipe"} {
		must(t, d.Remove(t.Context(), path))
		if err := d.Remove(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("second Remove(%s) = %v, want fs.ErrNotExist", path, err)
		}
	}
	if got := tree(t, host); !slices.Equal(got, []string{"keep"}) {
		t.Errorf("there is %q", got)
	}
	if got := tree(t, outside); !slices.Equal(got, []string{"precious"}) {
		t.Errorf("outside is %q", got)
	}
}

// nest makes nested folders, deeper than a path can name.
func nest(t *testing.T, host string, depth int) {
	t.Helper()
	at, err := unix.Open(host, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(at, "deeper", 0o777))
		must(t, unix.Mknodat(at, "file", unix.S_IFREG|0o600, 0))
		next, err := unix.Openat(at, "deeper", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
}

func TestFoldersNestedDeeperThanPathsAndDescriptorsGoAreRemoved(t *testing.T) {
	d, host := create(t)
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	low := unix.Rlimit{Cur: 256, Max: limit.Max}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	defer func() { must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	nest(t, host, 3_000)

	snap, _, err := d.Scan(t.Context(), workspace.Snapshot{})
	must(t, err)
	if !snap.Truncated || len(snap.Files) != workspace.MaxDepth+1 {
		t.Errorf("%d files, truncated: %v", len(snap.Files), snap.Truncated)
	}
	if _, inodes, err := d.Usage(t.Context()); !errors.Is(err, workspace.ErrTruncated) || inodes < workspace.MaxDepth {
		t.Errorf("Usage = %d inodes, %v; want ErrTruncated", inodes, err)
	}
	must(t, d.Remove(t.Context(), "deeper"))
	if got := tree(t, host); !slices.Equal(got, []string{"file"}) {
		t.Errorf("there is %q", got)
	}
	must(t, d.Remove(t.Context(), "file"))
	nest(t, host, 500)
	must(t, d.Clear(t.Context()))
	if got := tree(t, host); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
}

func TestClearEmptiesAWideWorkspaceAndRestoresItsMode(t *testing.T) {
	d, host := createInMemory(t)
	must(t, os.Mkdir(filepath.Join(host, "wide"), 0o777))
	for _, folder := range []string{host, filepath.Join(host, "wide")} {
		at, err := unix.Open(folder, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		for i := range 12_000 {
			must(t, unix.Mknodat(at, "f"+itoa(uintptr(i)), unix.S_IFREG|0o600, 0))
		}
		unix.Close(at)
	}
	must(t, os.Chmod(host, 0o755))
	must(t, d.Clear(t.Context()))
	must(t, d.Clear(t.Context()))
	if got := tree(t, host); len(got) != 0 {
		t.Errorf("%d left", len(got))
	}
	if info, err := os.Stat(host); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	write(t, d, "usable/again", "x")
}

func TestARemovalEndsWithItsContext(t *testing.T) {
	d, host := create(t)
	write(t, d, "folder/file", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Remove(ctx, "folder"); !errors.Is(err, context.Canceled) {
		t.Errorf("Remove = %v", err)
	}
	if err := d.Clear(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Clear = %v", err)
	}
	if got := tree(t, host); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
}

func TestModesOfTheSessionNeverStopItsRemovalByAnOrdinaryUser(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	d, host := create(t)
	lock := func() {
		write(t, d, "closed/in/file", "x")
		write(t, d, "readonly/file", "x")
		write(t, d, "nosearch/in/file", "x")
		must(t, os.Chmod(filepath.Join(host, "closed/in"), 0))
		must(t, os.Chmod(filepath.Join(host, "closed"), 0))
		must(t, os.Chmod(filepath.Join(host, "readonly/file"), 0))
		must(t, os.Chmod(filepath.Join(host, "readonly"), 0o555))
		must(t, os.Chmod(filepath.Join(host, "nosearch"), 0o666))
	}
	lock()
	before, _, err := d.Scan(t.Context(), workspace.Snapshot{})
	must(t, err)
	if !before.Truncated || len(before.Files) != 1 {
		t.Errorf("Scan = %+v, want the one file that can be seen, truncated", before)
	}
	if err := openError(d, "readonly/file"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Open = %v, want fs.ErrPermission", err)
	}
	if _, _, err := d.Usage(t.Context()); !errors.Is(err, workspace.ErrTruncated) {
		t.Errorf("Usage = %v, want ErrTruncated", err)
	}
	for _, path := range []string{"closed", "readonly", "nosearch"} {
		must(t, d.Remove(t.Context(), path))
	}
	lock()
	must(t, os.Chmod(host, 0))
	must(t, d.Clear(t.Context()))
	if got := tree(t, host); len(got) != 0 {
		t.Errorf("there is %q", got)
	}
	lock()
	must(t, os.Chmod(host, 0))
	must(t, workspace.Delete(t.Context(), filepath.Dir(filepath.Dir(host)), "s1"))
}
