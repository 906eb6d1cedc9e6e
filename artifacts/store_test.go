package artifacts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"talaria/artifacts"
)

func open(t *testing.T) (*artifacts.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "artifacts")
	s, err := artifacts.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func digestOf(b string) string {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:])
}

func put(t *testing.T, s *artifacts.Store, text string) string {
	t.Helper()
	b, err := s.Put(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b.SHA256
}

func get(t *testing.T, s *artifacts.Store, digest string) string {
	t.Helper()
	f, size, err := s.Get(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != size {
		t.Errorf("Get says %d bytes, the file has %d", size, len(b))
	}
	return string(b)
}

// filesBelow lists the regular files below dir, relative to it.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestPutStoresBytesUnderTheirDigestAndGetGivesThemBack(t *testing.T) {
	s, _ := open(t)
	big := strings.Repeat("0123456789abcdef", 40_000)
	for _, text := range []string{"", "hello", big} {
		start := text[:min(len(text), 100)]
		blob, err := s.Put(t.Context(), iotest.OneByteReader(strings.NewReader(start)))
		if err != nil {
			t.Fatal(err)
		}
		if want := (artifacts.Blob{SHA256: digestOf(start), Size: int64(len(start))}); blob != want {
			t.Errorf("Put = %v, want %v", blob, want)
		}
		digest := put(t, s, text)
		if digest != digestOf(text) {
			t.Errorf("digest %s, want %s", digest, digestOf(text))
		}
		if got := get(t, s, digest); got != text {
			t.Errorf("got %d bytes back, want %d", len(got), len(text))
		}
		if s.Size(digest) < 0 {
			t.Errorf("Has does not know %s", digest)
		}
	}
}

func TestTheSameBytesAreStoredOnceAndNoTemporaryFileIsLeft(t *testing.T) {
	s, dir := open(t)
	digest := put(t, s, "same")
	before, err := os.Stat(filepath.Join(dir, digest[:2], digest[2:]))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "same")
	if _, err := s.PutBytes(t.Context(), []byte("same")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(dir, digest[:2], digest[2:]))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the blob was written again")
	}
	if files := filesBelow(t, dir); len(files) != 1 {
		t.Errorf("files: %q, want the one blob", files)
	}
}

func TestABlobThatWasCutShortIsRepairedByPuttingItAgain(t *testing.T) {
	s, dir := open(t)
	digest := put(t, s, "whole bytes")
	if err := os.Truncate(filepath.Join(dir, digest[:2], digest[2:]), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutBytes(t.Context(), []byte("whole bytes")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, digest); got != "whole bytes" {
		t.Errorf("got %q", got)
	}
}

func TestAReaderThatFailsStoresNothing(t *testing.T) {
	s, dir := open(t)
	broken := errors.New("broken")
	_, err := s.Put(t.Context(), io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("Put = %v, want the reader's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put = %v, want context.Canceled", err)
	}
	if files := filesBelow(t, dir); len(files) != 0 {
		t.Errorf("left over: %q", files)
	}
}

func TestADigestThatIsNoneIsNotThere(t *testing.T) {
	s, _ := open(t)
	digest := put(t, s, "x")
	for _, bad := range []string{
		"", "ab", strings.ToUpper(digest), digest[:63], digest + "0", "../" + digest[3:], digest[:2] + "/" + digest[3:],
		digest[:63] + "g", strings.Repeat("0", 64), "..", digest[:63] + "\x00",
	} {
		if _, _, err := s.Get(bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get(%q) = %v, want fs.ErrNotExist", bad, err)
		}
		if s.Size(bad) >= 0 {
			t.Errorf("Size(%q)", bad)
		}
		if err := s.DeleteUnless(bad, unwanted); err != nil {
			t.Errorf("DeleteUnless(%q) = %v", bad, err)
		}
	}
}

func TestErrorsTellNoPathOfTheHost(t *testing.T) {
	s, dir := open(t)
	_, _, err := s.Get(strings.Repeat("0", 64))
	if err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("Get = %v, want an error without the directory", err)
	}
	if _, err := s.Create("taken"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create("taken"); err == nil || strings.Contains(err.Error(), dir) {
		t.Errorf("Create = %v, want an error without the directory", err)
	}
}

func TestFilesAndFoldersAreForTheirOwnerOnly(t *testing.T) {
	s, dir := open(t)
	put(t, s, "x")
	if _, err := s.Create("spool"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeleteRemovesAndAnOpenReaderReadsOn(t *testing.T) {
	s, _ := open(t)
	digest := put(t, s, "still read")
	f, _, err := s.Get(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.DeleteUnless(digest, unwanted); err != nil {
		t.Fatal(err)
	}
	if s.Size(digest) >= 0 {
		t.Error("still there")
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "still read" {
		t.Errorf("read %q, %v", b, err)
	}
}

func unwanted() (bool, error) { return false, nil }

func TestABlobThatIsWantedOrHeldIsNotDeleted(t *testing.T) {
	s, _ := open(t)
	hold := s.Hold()
	blob, err := hold.PutBytes(t.Context(), []byte("mine"))
	if err != nil {
		t.Fatal(err)
	}
	again := s.Hold()
	if _, err := again.Put(t.Context(), strings.NewReader("mine")); err != nil { // the blob is already there
		t.Fatal(err)
	}
	for _, release := range []func(){hold.Release, again.Release} {
		if err := s.DeleteUnless(blob.SHA256, unwanted); err != nil || s.Size(blob.SHA256) < 0 {
			t.Fatalf("a held blob was deleted: %v", err)
		}
		if _, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), func(string) bool { return false }); err != nil || s.Size(blob.SHA256) < 0 {
			t.Fatalf("a held blob was swept: %v", err)
		}
		release()
	}
	if err := s.DeleteUnless(blob.SHA256, func() (bool, error) { return true, nil }); err != nil || s.Size(blob.SHA256) < 0 {
		t.Fatalf("a wanted blob was deleted: %v", err)
	}
	if err := s.DeleteUnless(blob.SHA256, unwanted); err != nil || s.Size(blob.SHA256) >= 0 {
		t.Errorf("it is still there: %v", err)
	}
}

func TestHolesOfAFileTakeNoSpace(t *testing.T) {
	s, dir := open(t)
	const size = 64 << 20
	f, err := os.Create(filepath.Join(dir, "..", "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := sha256.New()
	content := make([]byte, size)
	copy(content[5<<20:], "an island")
	if _, err := f.WriteAt([]byte("an island"), 5<<20); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	want.Write(content)
	blob, err := s.Put(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if blob.Size != size || blob.SHA256 != hex.EncodeToString(want.Sum(nil)) || get(t, s, blob.SHA256) != string(content) {
		t.Errorf("%v is not what was put", blob)
	}
	if space := s.Space(blob.SHA256); space == 0 || space > 1<<20 {
		t.Errorf("the artifact takes %d bytes of the disk", space)
	}
}

func TestManyAtOnceMayPutAndDeleteTheSameBytes(t *testing.T) {
	s, dir := open(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				text := fmt.Sprint("number ", n%10)
				blob, err := s.Put(t.Context(), strings.NewReader(text))
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				f, _, err := s.Get(blob.SHA256)
				if err == nil {
					b, _ := io.ReadAll(f)
					f.Close()
					if string(b) != text {
						t.Errorf("read %q, want %q", b, text)
					}
				} else if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Get: %v", err)
				}
				if i%4 == 0 {
					if err := s.DeleteUnless(blob.SHA256, unwanted); err != nil {
						t.Errorf("Delete: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	for n := range 10 {
		put(t, s, fmt.Sprint("number ", n))
	}
	if files := filesBelow(t, dir); len(files) != 10 {
		t.Errorf("%d files, want the 10 blobs: %q", len(files), files)
	}
}

func TestSweepRemovesWhatNobodyKeepsAndWhatACrashLeft(t *testing.T) {
	s, dir := open(t)
	kept, dropped := put(t, s, "kept"), put(t, s, "dropped")
	if _, err := s.Create("spool"); err != nil {
		t.Fatal(err)
	}
	leftover := filepath.Join(dir, "tmp", "EARLIERRUN-X")
	if err := os.WriteFile(leftover, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Sweep(t.Context(), time.Now().Add(time.Second), func(d string) bool { return d == kept })
	if err != nil || removed != 1 {
		t.Errorf("Sweep = %d, %v; want 1 removed", removed, err)
	}
	if s.Size(kept) < 0 || s.Size(dropped) >= 0 {
		t.Errorf("kept there: %v, dropped there: %v", s.Size(kept) >= 0, s.Size(dropped) >= 0)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("temporary file: %v", err)
	}
	if names, err := s.Spools(); err != nil || len(names) != 1 {
		t.Errorf("Spools = %q, %v; want the one spool", names, err)
	}
}

func TestSweepSparesWhatWasPutAgainWhileItAsked(t *testing.T) {
	s, dir := open(t)
	digest := put(t, s, "in use again")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, digest[:2], digest[2:]), old, old); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Sweep(t.Context(), time.Now().Add(-time.Minute), func(string) bool {
		put(t, s, "in use again")
		return false
	})
	if err != nil || removed != 0 || s.Size(digest) < 0 {
		t.Errorf("Sweep = %d, %v, there: %v; want nothing removed", removed, err, s.Size(digest) >= 0)
	}
}

func TestSweepLeavesAPutThatIsUnderWay(t *testing.T) {
	s, _ := open(t)
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Put(context.Background(), r)
		done <- err
	}()
	if _, err := w.Write([]byte("first half, ")); err != nil { // returns once Put has read it
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), time.Now().Add(time.Second), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("second half"))
	w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, digestOf("first half, second half")); !bytes.Equal([]byte(got), []byte("first half, second half")) {
		t.Errorf("got %q", got)
	}
}

func TestAFileIsNotCopiedOnWithoutRoom(t *testing.T) {
	s, dir := open(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	full, asked := errors.New("there is no room"), 0
	s.Spare = func() error {
		if asked++; asked > 2 {
			return full
		}
		return nil
	}
	if _, err := s.Put(t.Context(), f); !errors.Is(err, full) {
		t.Errorf("the file is stored: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("a part of it is left: %v, %v", left, err)
	}
	if _, err := s.PutBytes(t.Context(), make([]byte, 1<<20)); err != nil {
		t.Errorf("what the log needs is not stored: %v", err)
	}
}
