// Package web embeds the page: hand-written HTML, CSS and JavaScript, served as they are.
package web

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// FS is the page's files: index.html for who is known, login.html for who is not, and what they load.
func FS() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil { // the directory is embedded
		panic(err)
	}
	return files
}
