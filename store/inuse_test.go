package store_test

import (
	"log/slog"
	"os"
	"testing"

	"talaria/store"
)

func TestADirectoryIsInUseWhileItsServerHasItOpen(t *testing.T) {
	dir := t.TempDir()
	inUse := func(want bool) {
		t.Helper()
		if got, err := store.InUse(dir); got != want || err != nil {
			t.Errorf("in use: %v, %v; want %v", got, err, want)
		}
	}
	inUse(false)
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("looking left %v, %v", left, err)
	}
	s, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inUse(true)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	inUse(false)
}
