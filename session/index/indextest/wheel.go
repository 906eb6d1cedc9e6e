package indextest

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Wheel is a wheel to be made.
type Wheel struct {
	Name, Version  string
	Requires       []string
	RequiresPython string
	Files          map[string]string // by path from the site-packages
	Scripts        map[string]string // console scripts: a name, and module:function
	Tag            string            // "" is py3-none-any
	Metadata       bool              // is offered apart (PEP 658)
}

// File makes it.
func (w Wheel) File() File {
	tag := w.Tag
	if tag == "" {
		tag = "py3-none-any"
	}
	base := strings.ReplaceAll(w.Name, "-", "_") + "-" + w.Version
	info := base + ".dist-info/"
	files := maps.Clone(w.Files)
	if files == nil {
		files = map[string]string{}
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: of a test\n", w.Name, w.Version)
	if w.RequiresPython != "" {
		metadata += "Requires-Python: " + w.RequiresPython + "\n"
	}
	for _, r := range w.Requires {
		metadata += "Requires-Dist: " + r + "\n"
	}
	files[info+"METADATA"] = metadata
	files[info+"WHEEL"] = fmt.Sprintf("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: %v\nTag: %s\n",
		strings.HasSuffix(tag, "-any"), tag)
	if len(w.Scripts) > 0 {
		text := "[console_scripts]\n"
		for _, name := range slices.Sorted(maps.Keys(w.Scripts)) {
			text += name + " = " + w.Scripts[name] + "\n"
		}
		files[info+"entry_points.txt"] = text
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	record := ""
	for _, path := range slices.Sorted(maps.Keys(files)) {
		writeZip(z, path, files[path])
		digest := sha256.Sum256([]byte(files[path]))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(digest[:]), len(files[path]))
	}
	writeZip(z, info+"RECORD", record+info+"RECORD,,\n")
	_ = z.Close() // to memory
	f := File{Name: base + "-" + tag + ".whl", Content: out.Bytes(), RequiresPython: w.RequiresPython}
	if w.Metadata {
		f.Metadata = []byte(metadata)
	}
	return f
}

func writeZip(z *zip.Writer, path, content string) {
	f, err := z.Create(path)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err != nil {
		panic(err) // to memory
	}
}
