package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"talaria/kernel/disk"
)

// upload delivers megabytes without end, and calls began after the first.
type upload struct {
	began func()
	read  int
}

func (u *upload) Read(p []byte) (int, error) {
	if u.read += len(p); u.read > 1<<20 {
		u.began()
	}
	if u.read > 64<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

// Otherwise an upload that begins in time could take the reserve, and all that is left of the disk.
func TestAnUploadEndsWhenTheDiskIsDownToItsReserve(t *testing.T) {
	store, err := disk.Open(t.Context(), disk.Config{Root: t.TempDir(), Mode: disk.Watched})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := store.Create(t.Context(), "s", 0, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var full error
	f := New(Config{
		Dir: dir, Limit: func() int64 { return 1 << 30 }, Changed: func(context.Context) error { return nil },
		Spare: func() error { return full },
	})
	if _, _, err := f.Put(t.Context(), "a", bytes.NewReader([]byte("old"))); err != nil {
		t.Fatal(err)
	}
	low := errors.New("the disk is down to its reserve")
	from := &upload{began: func() { full = low }}
	if _, _, err := f.Put(t.Context(), "a", from); !errors.Is(err, low) || from.read > 2<<20 {
		t.Errorf("it ended after %d bytes with %v", from.read, err)
	}
	old, _, err := f.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if b, err := io.ReadAll(old); err != nil || string(b) != "old" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
