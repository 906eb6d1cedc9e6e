package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"talaria/store"
)

// The write-ahead log is moved into the database while the store is open, and does not grow without end.
func TestTheLogOfTheDatabaseIsMoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one := sample(1, "ann", "x")
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(one) })
	for i := range 12_000 { // 190 MiB of pages
		err := s.Do(t.Context(), store.Write{Apply: func(tx *store.Tx) error {
			return tx.PutNotebook(one.N, bytes.Repeat([]byte{byte(i)}, 16<<10))
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "talaria.db-wal"))
	if err != nil || info.Size() > 100<<20 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
}
