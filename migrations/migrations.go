// Package migrations holds the schema of the database, forward only: a file that has landed is never edited.
package migrations

import "embed"

// FS holds the migrations, named NNNNN_what.sql, for goose.
//
//go:embed *.sql
var FS embed.FS
