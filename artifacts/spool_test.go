package artifacts_test

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"talaria/artifacts"
)

func TestASpoolIsReadWhileItIsWrittenAndThenCommitted(t *testing.T) {
	s, _ := open(t)
	w, err := s.Create("0198-stdout")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"one ", "two ", "three"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	tail := make([]byte, 5)
	if _, err := w.ReadAt(tail, w.Size()-5); err != nil || string(tail) != "three" {
		t.Errorf("ReadAt = %q, %v", tail, err)
	}
	announced := w.Blob()
	blob, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if blob != announced || blob.SHA256 != digestOf("one two three") || blob.Size != 13 {
		t.Errorf("Commit = %v, announced %v", blob, announced)
	}
	if got := get(t, s, blob.SHA256); got != "one two three" {
		t.Errorf("got %q", got)
	}
	if names, _ := s.Spools(); len(names) != 0 {
		t.Errorf("left: %q", names)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Commit = %v", err)
	}
	if _, err := w.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Commit = %v", err)
	}
	if err := errors.Join(w.Abort(), w.Close()); err != nil {
		t.Errorf("Abort and Close after Commit = %v", err)
	}
}

func TestASpoolThatACrashLeftIsFoundHashedContinuedAndCommitted(t *testing.T) {
	s, dir := open(t)
	w, err := s.Create("left")
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Repeat("written before the crash\n", 20_000)
	if _, err := w.Write([]byte(first)); err != nil {
		t.Fatal(err)
	}

	again, err := artifacts.Open(dir) // the first program is gone without a Close
	if err != nil {
		t.Fatal(err)
	}
	names, err := again.Spools()
	if err != nil || !slices.Equal(names, []string{"left"}) {
		t.Fatalf("Spools = %q, %v", names, err)
	}
	w2, err := again.OpenSpool(t.Context(), "left", -1)
	if err != nil {
		t.Fatal(err)
	}
	if w2.Size() != int64(len(first)) {
		t.Errorf("Size = %d, want %d", w2.Size(), len(first))
	}
	if _, err := w2.Write([]byte("and after")); err != nil {
		t.Fatal(err)
	}
	blob, err := w2.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if blob.SHA256 != digestOf(first+"and after") || get(t, again, blob.SHA256) != first+"and after" {
		t.Errorf("blob %v does not hold both parts", blob)
	}
}

func TestASpoolOfKnownBytesCommitsToTheBlobThatIsThere(t *testing.T) {
	s, dir := open(t)
	digest := put(t, s, "known")
	w, err := s.Create("twin")
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("known"))
	if blob, err := w.Commit(); err != nil || blob.SHA256 != digest {
		t.Fatalf("Commit = %v, %v", blob, err)
	}
	if files := filesBelow(t, dir); len(files) != 1 {
		t.Errorf("files: %q, want the one blob", files)
	}
}

func TestAbortRemovesTheSpoolAndCloseLeavesIt(t *testing.T) {
	s, dir := open(t)
	for _, name := range []string{"gone", "stays"} {
		w, err := s.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(bytes.Repeat([]byte("x"), 1000))
		end := w.Abort
		if name == "stays" {
			end = w.Close
		}
		if err := errors.Join(end(), end()); err != nil {
			t.Error(err)
		}
	}
	if files := filesBelow(t, dir); !slices.Equal(files, []string{"spool/stays"}) {
		t.Errorf("files: %q", files)
	}
}

func TestASpoolNameIsTakenOnceAndNeverLeavesItsFolder(t *testing.T) {
	s, _ := open(t)
	if _, err := s.Create("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create("a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create = %v, want fs.ErrExist", err)
	}
	if _, err := s.OpenSpool(t.Context(), "missing", -1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenSpool = %v, want fs.ErrNotExist", err)
	}
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "/x", "a\x00", "a\n", strings.Repeat("a", 201)} {
		if _, err := s.Create(bad); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Create(%q) = %v, want fs.ErrInvalid", bad, err)
		}
	}
}
