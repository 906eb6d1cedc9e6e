package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/store"
)

func TestAFullDiskRefusesChangesAndTakesThemAgain(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("talaria-store", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("SKIP: mounting a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := open(t, dir)
	large := sample(1, "ann", "large")
	large.Metadata = map[string]string{"k": string(make([]byte, 1<<20))}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	insert := store.Write{Apply: func(tx *store.Tx) error { return tx.InsertSession(large) }}
	err := s.Do(t.Context(), insert)
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeDiskFull {
		t.Fatalf("a change on a full disk: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	large.Metadata = nil
	if err := s.Do(t.Context(), insert); err != nil {
		t.Errorf("a change when there is space again: %v", err)
	}
}
