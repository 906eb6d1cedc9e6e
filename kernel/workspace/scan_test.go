package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel/workspace"
)

func scan(t *testing.T, d *workspace.Dir, previous workspace.Snapshot) (workspace.Snapshot, string) {
	t.Helper()
	s, changes, err := d.Scan(t.Context(), previous)
	must(t, err)
	var words []string
	for _, c := range changes {
		words = append(words, string(c.Kind)+" "+c.Path)
		if c.Kind != workspace.Deleted && (c.Entry.Path != c.Path || c.Entry.Kind != workspace.File) {
			t.Errorf("change %+v", c)
		}
	}
	return s, strings.Join(words, ", ")
}

func TestAScanTellsWhatWasCreatedModifiedAndDeletedByPath(t *testing.T) {
	d, host := create(t)
	s, changes := scan(t, d, workspace.Snapshot{})
	if len(s.Files) != 0 || changes != "" {
		t.Errorf("empty: %v, %s", s, changes)
	}
	for _, path := range []string{"b", "a/x", "a-b", "a/y/z", "a.txt", "c"} {
		write(t, d, path, "text")
	}
	must(t, os.Symlink("/etc", filepath.Join(host, "link")))
	must(t, os.Symlink("b", filepath.Join(host, "link2")))
	must(t, d.Mkdir("empty"))
	s, changes = scan(t, d, s)
	if want := "created a-b, created a.txt, created a/x, created a/y/z, created b, created c"; changes != want {
		t.Errorf("got  %s\nwant %s", changes, want)
	}
	if s, changes = scan(t, d, s); changes != "" {
		t.Errorf("nothing happened: %s", changes)
	}
	write(t, d, "b", "text") // the same bytes in another inode
	must(t, os.WriteFile(filepath.Join(host, "c"), []byte("more text"), 0))
	must(t, d.Remove(t.Context(), "a/y"))
	must(t, d.Remove(t.Context(), "a.txt"))
	write(t, d, "a.txt/now-a-folder", "x")
	s, changes = scan(t, d, s)
	if want := "deleted a.txt, created a.txt/now-a-folder, deleted a/y/z, modified b, modified c"; changes != want {
		t.Errorf("got  %s\nwant %s", changes, want)
	}
	must(t, d.Clear(t.Context()))
	if s, changes = scan(t, d, s); len(s.Files) != 0 || strings.Count(changes, "deleted") != 5 {
		t.Errorf("cleared: %v, %s", s, changes)
	}
}

func TestAChangeInPlaceRightAfterAScanIsSeenByTheNext(t *testing.T) {
	d, host := create(t)
	changeInPlace(t, d, host, 300)
}

func TestAChangeInPlaceIsSeenAlsoWhereTimesAreCoarse(t *testing.T) {
	d, host := createCoarse(t)
	changeInPlace(t, d, host, 50)
}

// createCoarse is create on a file system that takes its times from the coarse clock.
func createCoarse(t *testing.T) (d *workspace.Dir, host string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	parent := t.TempDir()
	if err := unix.Mount("ramfs", parent, "ramfs", 0, ""); err != nil {
		t.Skipf("no mounts here: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(parent, 0)) })
	return createIn(t, parent)
}

func changeInPlace(t *testing.T, d *workspace.Dir, host string, times int) {
	t.Helper()
	f, err := os.Create(filepath.Join(host, "f"))
	must(t, err)
	defer f.Close()
	s := workspace.Snapshot{}
	for i := range times {
		_, err := f.WriteAt([]byte{byte(i)}, 0)
		must(t, err)
		var changes string
		if s, changes = scan(t, d, s); changes == "" {
			t.Fatalf("write %d went unnoticed", i)
		}
	}
}

func TestAScanIsInTheOrderOfPathsWhateverTheNames(t *testing.T) {
	d, _ := create(t)
	for _, path := range []string{"a/a", "a!", "a0", "a/b/c", "a/b!", "ab", "é/x", "Z", "a\x01/x", "a\x01x"} {
		write(t, d, path, "x")
	}
	s, _ := scan(t, d, workspace.Snapshot{})
	if !slices.IsSortedFunc(s.Files, func(a, b workspace.FileState) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("not sorted: %v", s.Files)
	}
	if len(s.Files) != 10 {
		t.Errorf("%d files: %v", len(s.Files), s.Files)
	}
}

func TestAFileOfOneTerabyteWithHolesCostsNothing(t *testing.T) {
	d, host := create(t)
	must(t, os.WriteFile(filepath.Join(host, "sparse"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(host, "sparse"), 1<<40))
	s, _ := scan(t, d, workspace.Snapshot{})
	if len(s.Files) != 1 || s.Files[0].Size != 1<<40 {
		t.Errorf("scan: %v", s.Files)
	}
	bytes, inodes, err := d.Usage(t.Context())
	if err != nil || bytes > 1<<20 || inodes != 1 {
		t.Errorf("usage: %d bytes, %d inodes, %v", bytes, inodes, err)
	}
}

func TestUsageCountsBlocksAndEveryInodeOnce(t *testing.T) {
	d, host := create(t)
	write(t, d, "folder/file", strings.Repeat("x", 100_000))
	must(t, os.Link(filepath.Join(host, "folder/file"), filepath.Join(host, "again")))
	must(t, os.Symlink("nowhere", filepath.Join(host, "link")))
	bytes, inodes, err := d.Usage(t.Context())
	if err != nil || inodes != 3 || bytes < 100_000 || bytes > 150_000 {
		t.Errorf("usage: %d bytes, %d inodes, %v", bytes, inodes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := d.Usage(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Usage = %v", err)
	}
	if _, _, err := d.Scan(ctx, workspace.Snapshot{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Scan = %v", err)
	}
}

func TestAFileWhoseNameIsNotUTF8IsScannedAsItIsAndCanBeRead(t *testing.T) {
	d, host := create(t)
	must(t, os.WriteFile(filepath.Join(host, "bad\xff"), []byte("bytes"), 0o644))
	s, changes := scan(t, d, workspace.Snapshot{})
	if changes != "created bad\xff" || read(t, d, s.Files[0].Path) != "bytes" {
		t.Errorf("changes %q", changes)
	}
}

func TestWhatLiesTooDeepIsSaidAndNeverTakenForDeleted(t *testing.T) {
	d, host := create(t)
	deep := strings.Repeat("d/", workspace.MaxDepth)
	write(t, d, deep+"seen", "x")
	write(t, d, "other", "x")
	s, changes := scan(t, d, workspace.Snapshot{})
	if s.Truncated || strings.Count(changes, "created") != 2 {
		t.Errorf("truncated %v, %s", s.Truncated, changes)
	}
	// One level more: the file still exists, but deeper than a scan goes.
	must(t, os.Mkdir(filepath.Join(host, "up"), 0o777))
	write(t, d, deep+"d/unseen", "x")
	must(t, d.Remove(t.Context(), "other"))
	s, changes = scan(t, d, s)
	if !s.Truncated || changes != "deleted other" {
		t.Errorf("truncated %v, %s", s.Truncated, changes)
	}
}

func TestFilesInAFolderThatCannotBeReadStayAsTheyWere(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	d, host := create(t)
	for _, path := range []string{"a", "dir/one", "dir/sub/two", "dir.txt", "z"} {
		write(t, d, path, "x")
	}
	before, _ := scan(t, d, workspace.Snapshot{})
	must(t, os.Chmod(filepath.Join(host, "dir"), 0))
	write(t, d, "z", "new")
	during, changes := scan(t, d, before)
	if changes != "modified z" || !during.Truncated || len(during.Files) != len(before.Files) {
		t.Errorf("unreadable: %s, %+v", changes, during)
	}
	must(t, os.Chmod(filepath.Join(host, "dir"), 0o600)) // names, but nothing more
	during, changes = scan(t, d, during)
	if changes != "" || !during.Truncated || len(during.Files) != len(before.Files) {
		t.Errorf("without search: %s, %+v", changes, during)
	}
	must(t, os.Chmod(filepath.Join(host, "dir"), 0o700))
	must(t, d.Remove(t.Context(), "dir/one"))
	after, changes := scan(t, d, during)
	if changes != "deleted dir/one" || after.Truncated {
		t.Errorf("readable again: %s, %+v", changes, after)
	}
}

func TestMoreEntriesThanAScanTakesAreSaidAndTheRestIsScanned(t *testing.T) {
	d, host := createInMemory(t)
	must(t, os.Mkdir(filepath.Join(host, "many"), 0o777))
	at, err := unix.Open(filepath.Join(host, "many"), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for i := range workspace.MaxEntries + 1 {
		must(t, unix.Mknodat(at, fmt.Sprint(i), unix.S_IFREG|0o600, 0))
	}
	unix.Close(at)
	write(t, d, "small/file", "x")
	s, changes := scan(t, d, workspace.Snapshot{})
	if !s.Truncated || changes != "created small/file" {
		t.Errorf("truncated %v, %s", s.Truncated, changes)
	}
	entries, err := d.List("many")
	if !errors.Is(err, workspace.ErrTruncated) || len(entries) != workspace.MaxEntries {
		t.Errorf("List = %d entries, %v; want MaxEntries and ErrTruncated", len(entries), err)
	}
}

func TestASnapshotIsTheSameAfterEncoding(t *testing.T) {
	d, host := create(t)
	for _, path := range []string{"a", "folder/b", "folder/b2", "folder/sub/c"} {
		write(t, d, path, path)
	}
	must(t, os.WriteFile(filepath.Join(host, "bad\xff"), nil, 0o644))
	must(t, os.Chtimes(filepath.Join(host, "a"), time.Time{}, time.Unix(-5, 0)))
	s, _ := scan(t, d, workspace.Snapshot{})
	s.Truncated = true
	b, err := s.MarshalBinary()
	must(t, err)
	var back workspace.Snapshot
	must(t, back.UnmarshalBinary(b))
	if !reflect.DeepEqual(s, back) {
		t.Errorf("got  %v\nwant %v", back, s)
	}
	if len(b) > 200 {
		t.Errorf("%d bytes for 5 files", len(b))
	}
	for n := range b {
		if new(workspace.Snapshot).UnmarshalBinary(b[:n]) == nil {
			t.Errorf("%d of %d bytes were decoded", n, len(b))
		}
	}
	if _, changes := scan(t, d, back); changes != "" {
		t.Errorf("changes against the decoded one: %s", changes)
	}
	must(t, d.Remove(t.Context(), "bad\xff"))
	s, _ = scan(t, d, s)
	b, err = json.Marshal(s)
	must(t, err)
	back = workspace.Snapshot{}
	must(t, json.Unmarshal(b, &back))
	if !reflect.DeepEqual(s, back) {
		t.Errorf("JSON: got  %v\nwant %v", back, s)
	}
	for n := range len(b) {
		var cut workspace.Snapshot
		if err := cut.UnmarshalBinary(b[:n]); err == nil {
			t.Errorf("decoded from %d bytes of JSON", n)
		}
	}
}

func FuzzASnapshotOfAnyBytesIsRefusedOrEncodesToTheSame(f *testing.F) {
	for _, s := range []workspace.Snapshot{
		{},
		{Files: []workspace.FileState{{"a", 1, 2, 3}, {"a/b", 0, -1, 1 << 63}}},
		{Files: []workspace.FileState{{"x", 1 << 40, 1, 1}}, Truncated: true},
	} {
		b, _ := s.MarshalBinary()
		f.Add(b)
	}
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s workspace.Snapshot
		if s.UnmarshalBinary(b) != nil {
			return
		}
		again, err := s.MarshalBinary()
		must(t, err)
		var back workspace.Snapshot
		must(t, back.UnmarshalBinary(again))
		if !reflect.DeepEqual(s, back) {
			t.Errorf("%v became %v", s, back)
		}
	})
}

func BenchmarkScanOfAnEmptyWorkspace(b *testing.B) { benchmarkScan(b, 0) }
func BenchmarkScanOf10000Files(b *testing.B)       { benchmarkScan(b, 10_000) }

func benchmarkScan(b *testing.B, files int) {
	parent := b.TempDir()
	d, err := workspace.Create(parent, "s1", uid())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for i := range files {
		dir := filepath.Join(parent, "s1", "workspace", fmt.Sprint(i/100))
		_ = os.MkdirAll(dir, 0o777)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o666); err != nil {
			b.Fatal(err)
		}
	}
	s, _, err := d.Scan(b.Context(), workspace.Snapshot{})
	if err != nil || len(s.Files) != files {
		b.Fatal(len(s.Files), err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := d.Scan(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAScanBoundsThePathsThatItFinds(t *testing.T) {
	d, dir := create(t)
	long := dir
	for range 15 { // 3,800 characters
		long = filepath.Join(long, strings.Repeat("d", 250))
	}
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	const files = 6000 // their paths have 23 MB
	for i := range files {
		if err := os.WriteFile(filepath.Join(long, fmt.Sprintf("%05d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "z"), nil, 0o644); err != nil { // after all of them
		t.Fatal(err)
	}
	first, changes, err := d.Scan(t.Context(), workspace.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	paths := 0
	for _, f := range first.Files {
		paths += len(f.Path)
	}
	if !first.Truncated || len(changes) != len(first.Files) || paths > workspace.MaxPathBytes || paths < workspace.MaxPathBytes-4096 {
		t.Errorf("%d files with paths of %d bytes, truncated %v, %d changes", len(first.Files), paths, first.Truncated, len(changes))
	}
	second, changes, err := d.Scan(t.Context(), first)
	if err != nil || len(changes) != 0 || len(second.Files) != len(first.Files) {
		t.Errorf("a second scan finds %d files and %d changes, %v", len(second.Files), len(changes), err)
	}
	for i := range files { // what was not looked at is found once there is room
		if err := os.Remove(filepath.Join(long, fmt.Sprintf("%05d", i))); err != nil {
			t.Fatal(err)
		}
	}
	third, changes, err := d.Scan(t.Context(), second)
	if err != nil || third.Truncated || len(third.Files) != 1 || len(changes) != len(first.Files)+1 {
		t.Errorf("%d files, truncated %v, %d changes, %v", len(third.Files), third.Truncated, len(changes), err)
	}
}
