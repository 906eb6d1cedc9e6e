// Package storetest lets tests of other packages look into the database beside the server, and change it.
package storetest

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

// Open opens the database of the server whose state is in dir, until the test ends.
func Open(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(dir, "talaria.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Exec runs a statement in that database.
func Exec(t testing.TB, dir, statement string) {
	t.Helper()
	if _, err := Open(t, dir).Exec(statement); err != nil {
		t.Fatal(err)
	}
}
