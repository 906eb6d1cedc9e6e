package workspace_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel/workspace"
)

// kept keeps contents by digest in a folder.
type kept struct {
	dir  string
	read []string // paths
}

func newKept(t testing.TB) *kept { return &kept{dir: t.TempDir()} }

func (k *kept) keep(_ context.Context, f *os.File, e workspace.Entry) (string, error) {
	k.read = append(k.read, e.Path)
	b, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	digest := hex.EncodeToString(sum[:])
	return digest, os.WriteFile(filepath.Join(k.dir, digest), b, 0o600)
}

func (k *kept) open(digest string) (*os.File, error) { return os.Open(filepath.Join(k.dir, digest)) }

// capture captures with the contents kept and returns which files were read.
func (k *kept) capture(t *testing.T, d *workspace.Dir, previous *workspace.Manifest) (workspace.Manifest, []string) {
	t.Helper()
	k.read = nil
	m, err := d.Capture(t.Context(), previous, k.keep)
	must(t, err)
	if !slices.IsSortedFunc(m.Entries, func(a, b workspace.ManifestEntry) int { return strings.Compare(a.Path, b.Path) }) {
		t.Errorf("not sorted: %+v", m.Entries)
	}
	if again := decode(t, encode(t, m)); len(again.Entries) != len(m.Entries) || len(again.Missing) != len(m.Missing) {
		t.Errorf("the encoding holds %d entries of %d", len(again.Entries), len(m.Entries))
	}
	return m, k.read
}

func describe(m workspace.Manifest) (list []string) {
	for _, e := range m.Entries {
		list = append(list, strings.TrimRight(fmt.Sprintf("%s %s %o %s", e.Kind, e.Path, e.Mode, e.Target), " "))
	}
	for _, missing := range m.Missing {
		list = append(list, fmt.Sprintf("missing %s: %s", missing.Path, missing.Reason))
	}
	return list
}

func checkManifest(t *testing.T, m workspace.Manifest, want ...string) {
	t.Helper()
	if got := describe(m); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestACaptureDescribesEveryKindOfEntryAndFollowsNothing(t *testing.T) {
	d, host := create(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
	write(t, d, "a/x", "x")
	write(t, d, "a!", "y")
	must(t, os.WriteFile(filepath.Join(host, "bad\xff"), []byte("z"), 0o600))
	must(t, os.Chmod(filepath.Join(host, "bad\xff"), 0o600|os.ModeSetuid))
	must(t, d.Mkdir("empty"))
	must(t, os.Chmod(filepath.Join(host, "empty"), 0o700|os.ModeSticky))
	must(t, os.Symlink(outside, filepath.Join(host, "folder-outside")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(host, "outside")))
	must(t, unix.Mkfifo(filepath.Join(host, "pipe"), 0o600))
	must(t, os.Chmod(filepath.Join(host, "pipe"), 0o600))
	must(t, os.WriteFile(filepath.Join(host, ".talaria-upload-x"), nil, 0o600))
	socket, err := net.Listen("unix", filepath.Join(host, "socket"))
	must(t, err)
	defer socket.Close()
	must(t, os.Chmod(filepath.Join(host, "socket"), 0o600))

	m, read := newKept(t).capture(t, d, nil)
	checkManifest(t, m,
		"directory a 755", "file a! 644", "file a/x 644", "file bad\xff 600", "directory empty 1700",
		"symlink folder-outside 777 "+outside, "symlink outside 777 "+outside+"/secret", "other pipe 600", "other socket 600",
		"missing pipe: it is a pipe, a socket or a device", "missing socket: it is a pipe, a socket or a device")
	if !slices.Equal(read, []string{"a!", "a/x", "bad\xff"}) {
		t.Errorf("read %q", read)
	}
	x, _ := m.Find("a/x")
	if sum := sha256.Sum256([]byte("x")); x.Digest != hex.EncodeToString(sum[:]) || x.Size != 1 || x.Inode == 0 {
		t.Errorf("a/x: %+v", x)
	}
}

func TestWhatHasNotChangedIsNotReadAgain(t *testing.T) {
	d, host := create(t)
	for _, path := range []string{"a", "b", "c/d"} {
		write(t, d, path, path)
	}
	k := newKept(t)
	m, _ := k.capture(t, d, nil)
	again, read := k.capture(t, d, &m)
	if len(read) != 0 || len(m.Diff(again)) != 0 || !slices.Equal(again.Entries, m.Entries) {
		t.Errorf("read %q, differs: %+v", read, m.Diff(again))
	}
	must(t, os.Chmod(filepath.Join(host, "a"), 0o600))
	must(t, os.WriteFile(filepath.Join(host, "b"), []byte("B"), 0))
	_, read = k.capture(t, d, &m)
	if !slices.Equal(read, []string{"a", "b"}) {
		t.Errorf("read %q", read)
	}
	unread, err := d.Capture(t.Context(), &m, nil)
	must(t, err)
	a, _ := unread.Find("a")
	b, _ := unread.Find("b")
	inner, _ := unread.Find("c/d")
	if a.Digest != "" || b.Digest != "" || inner.Digest == "" {
		t.Errorf("without reading: %+v, %+v, %+v", a, b, inner)
	}
}

func TestAChangeInPlaceRightAfterACaptureIsSeenByTheNext(t *testing.T) {
	d, host := create(t)
	captureInPlace(t, d, host, 300)
}

func TestAChangeInPlaceIsCapturedAlsoWhereTimesAreCoarse(t *testing.T) {
	d, host := createCoarse(t)
	captureInPlace(t, d, host, 50)
}

func captureInPlace(t *testing.T, d *workspace.Dir, host string, times int) {
	t.Helper()
	f, err := os.Create(filepath.Join(host, "f"))
	must(t, err)
	defer f.Close()
	k := newKept(t)
	var m workspace.Manifest
	for i := range times {
		_, err := f.WriteAt([]byte{byte(i)}, 0)
		must(t, err)
		var read []string
		if m, read = k.capture(t, d, &m); len(read) != 1 {
			t.Fatalf("write %d: read %q", i, read)
		}
	}
}

func TestAFileThatIsWrittenWhileItIsReadIsReadAgainAndThenMissing(t *testing.T) {
	d, host := create(t)
	write(t, d, "always", "x")
	write(t, d, "once", "x")
	k := newKept(t)
	reads := map[string]int{}
	m, err := d.Capture(t.Context(), nil, func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		reads[e.Path]++
		digest, err := k.keep(ctx, f, e)
		if reads[e.Path] == 1 || e.Path == "always" {
			must(t, os.WriteFile(filepath.Join(host, e.Path), fmt.Appendf(nil, "%d", reads[e.Path]), 0))
		}
		return digest, err
	})
	must(t, err)
	checkManifest(t, m, "file always 644", "file once 644", "missing always: it was being written")
	sum := sha256.Sum256([]byte("1"))
	if once, _ := m.Find("once"); reads["once"] != 2 || reads["always"] != 3 || once.Digest != hex.EncodeToString(sum[:]) {
		t.Errorf("reads %v, once %+v", reads, once)
	}
}

func TestACaptureThatIsCancelledLooksAtNoFurtherFile(t *testing.T) {
	d, dir := create(t)
	for _, name := range []string{"a", "b", "c"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	ctx, cancel := context.WithCancel(t.Context())
	k := newKept(t)
	_, err := d.Capture(ctx, nil, func(ctx context.Context, f *os.File, e workspace.Entry) (string, error) {
		cancel()
		return k.keep(ctx, f, e)
	})
	if !errors.Is(err, context.Canceled) || len(k.read) != 1 {
		t.Errorf("it read %q, %v", k.read, err)
	}
}

func TestAFileThatIsNotKeptIsMissingAndAnyOtherErrorEndsTheCapture(t *testing.T) {
	d, _ := create(t)
	write(t, d, "a", "x")
	keep := func(err error) workspace.Keep {
		return func(context.Context, *os.File, workspace.Entry) (string, error) { return "", err }
	}
	refused := fmt.Errorf("store: %w", &workspace.NotKeptError{Reason: "larger than 1 byte" + strings.Repeat("é", 200)})
	m, err := d.Capture(t.Context(), nil, keep(refused))
	must(t, err)
	if len(m.Missing) != 1 || !strings.HasPrefix(m.Missing[0].Reason, "larger than 1 byteé") {
		t.Errorf("missing %+v", m.Missing)
	}
	decode(t, encode(t, m))
	broken := errors.New("broken")
	if _, err := d.Capture(t.Context(), nil, keep(broken)); !errors.Is(err, broken) {
		t.Errorf("Capture = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Capture(ctx, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Capture = %v", err)
	}
}

func TestWhatLiesTooDeepIsMissingAndTakenOver(t *testing.T) {
	d, host := create(t)
	deep := strings.TrimSuffix(strings.Repeat("d/", workspace.MaxDepth), "/")
	write(t, d, deep+"/seen", "x")
	k := newKept(t)
	m, _ := k.capture(t, d, nil)
	if len(m.Missing) != 0 {
		t.Errorf("missing %+v", m.Missing)
	}
	nest(t, host, 3_000)
	must(t, os.Mkdir(filepath.Join(host, deep, "e"), 0o755))
	again, _ := k.capture(t, d, &m)
	if len(again.Missing) != 2 || again.Missing[0].Path != deep+"/e" || !strings.Contains(again.Missing[0].Reason, "deep") {
		t.Errorf("missing %+v", again.Missing)
	}
}

func TestAFolderThatDoesNotFitIsMissingAsAWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 200,000 files")
	}
	d, host := createInMemory(t)
	write(t, d, "a", "x")
	write(t, d, "z/in", "x")
	must(t, os.Mkdir(filepath.Join(host, "many"), 0o755))
	at, err := unix.Open(filepath.Join(host, "many"), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for i := range workspace.MaxEntries {
		must(t, unix.Mknodat(at, itoa(uintptr(i)), unix.S_IFREG|0o600, 0))
	}
	unix.Close(at)
	k := newKept(t)
	m, _ := k.capture(t, d, nil)
	checkManifest(t, m, "file a 644", "directory many 755", "directory z 755", "file z/in 644",
		"missing many: the workspace has more than 200000 entries")
	// In the past there was no such folder: it goes.
	past := workspace.Manifest{Entries: slices.DeleteFunc(slices.Clone(m.Entries), func(e workspace.ManifestEntry) bool {
		return e.Path == "many"
	})}
	done, err := d.Restore(t.Context(), past, m, k.open, workspace.RestoreOptions{})
	must(t, err)
	if done.Deleted.Count != 1 || done.NotRestoredCount != 0 {
		t.Errorf("done %+v", done)
	}
	if got := tree(t, host); !slices.Equal(got, []string{"a", "z/", "z/in"}) {
		t.Errorf("there is %q", got)
	}
}

func TestAFolderThatCannotBeReadIsMissingAndTakenOver(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	d, host := create(t)
	for _, path := range []string{"dir!", "dir/one", "dir/sub/two", "file", "names/three"} {
		write(t, d, path, "x")
	}
	k := newKept(t)
	before, _ := k.capture(t, d, nil)
	must(t, os.Chmod(filepath.Join(host, "dir"), 0))
	must(t, os.Chmod(filepath.Join(host, "names"), 0o600))
	must(t, os.Chmod(filepath.Join(host, "file"), 0))
	m, _ := k.capture(t, d, &before)
	checkManifest(t, m,
		"directory dir 0", "file dir! 644", "file dir/one 644", "directory dir/sub 755", "file dir/sub/two 644", "file file 0",
		"directory names 600", "file names/three 644",
		"missing dir: the server may not read it", "missing file: the server may not read it",
		"missing names: the server may not read it")
	if got := before.Diff(m); len(got) != 1 || got[0].Path != "file" {
		t.Errorf("differs: %+v", got)
	}
}

func TestAChangeThroughAMappingIsSeenWhereTheFileSystemTellsItsTime(t *testing.T) {
	d, host := create(t)
	var fs unix.Statfs_t
	must(t, unix.Statfs(host, &fs))
	if fs.Type == unix.TMPFS_MAGIC {
		t.Skip("on tmpfs a change through a mapping has no time")
	}
	must(t, os.WriteFile(filepath.Join(host, "f"), make([]byte, 4<<20), 0o600))
	f, err := os.OpenFile(filepath.Join(host, "f"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, 4<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer func() { must(t, unix.Munmap(memory)) }()
	k := newKept(t)
	var m workspace.Manifest
	for i := range 20 {
		memory[4096*(1+i%3)]++
		var read []string
		if m, read = k.capture(t, d, &m); len(read) == 0 {
			t.Fatalf("change %d went unnoticed", i)
		}
	}
}
