// Package web embeds the page as it was built. Its sources are beside it; `make web` rebuilds dist.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS is what was built: index.html for who is known, login.html for who is not, assets with what they load, and
// sandbox with the frames for output that is not trusted.
func FS() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil { // the directory is embedded
		panic(err)
	}
	return files
}
