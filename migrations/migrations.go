// Package migrations holds the schemas of the databases, forward only: a file that has landed is never edited.
package migrations

import (
	"embed"
	"io/fs"
)

// FS holds the migrations of the server's database, named NNNNN_what.sql, for goose.
//
//go:embed *.sql
var FS embed.FS

//go:embed chats/*.sql
var chats embed.FS

// Chats holds the migrations of a gateway's database.
func Chats() fs.FS {
	below, err := fs.Sub(chats, "chats")
	if err != nil {
		panic(err) // the name is embedded
	}
	return below
}
