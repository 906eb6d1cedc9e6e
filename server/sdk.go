package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"talaria/api"
	"talaria/sdk"
)

// sdkFile is a file of the index at /sdk/.
type sdkFile struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Size int    `json:"size"`
}

// sdkIndex lists the client libraries that the server serves.
type sdkIndex struct {
	Version string    `json:"version"`
	Items   []sdkFile `json:"items"`
}

// sdkFiles packs the client libraries on first use.
var sdkFiles = sync.OnceValues(func() (map[string]*asset, error) {
	files, err := sdk.Files()
	assets := map[string]*asset{}
	for name, data := range files {
		a := newAsset(name, data)
		switch {
		case strings.HasSuffix(name, ".ts"):
			a.media = "text/plain; charset=utf-8"
		case name == sdk.Wheel:
			a.media, a.packed = "application/zip", nil
		case name == sdk.Tarball:
			a.media, a.packed = "application/gzip", nil
		}
		assets[name] = a
	}
	return assets, err
})

// getSDK sends a file of the client libraries, or the list of them.
func (s *Server) getSDK(c *call) error {
	files, err := sdkFiles()
	if err != nil {
		return err
	}
	name := c.filePath()
	if name == "" {
		return sendSDKIndex(c, files)
	}
	file, ok := files[name]
	if !ok {
		return api.Errorf(api.CodeNotFound, "no such file; /sdk/ lists the client libraries")
	}
	file.send(c, http.StatusOK, "no-cache")
	return nil
}

func sendSDKIndex(c *call, files map[string]*asset) error {
	index := sdkIndex{Version: sdk.Version}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		index.Items = append(index.Items, sdkFile{Name: name, URL: "/sdk/" + name, Size: len(files[name].data)})
	}
	if !strings.Contains(c.GetHeader("Accept"), "text/html") {
		return c.answer(http.StatusOK, index)
	}
	var page strings.Builder
	page.WriteString("<!doctype html><html lang=en><meta charset=utf-8><title>Talaria client libraries</title>" +
		"<h1>Talaria client libraries</h1><ul>")
	for _, f := range index.Items {
		fmt.Fprintf(&page, "<li><a href=\"%s\">%s</a> (%d bytes)", f.URL, f.Name, f.Size)
	}
	page.WriteString("</ul></html>\n")
	c.Data(http.StatusOK, "text/html; charset=utf-8", []byte(page.String()))
	return nil
}
