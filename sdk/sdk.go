// Package sdk embeds the client libraries and packs them as users install them: one ES module with its types, an npm
// tarball and a Python wheel. All are made from the files beside this one; dist holds what TypeScript compiles.
package sdk

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Version is the version of both libraries.
const Version = "0.2.0"

// The files' names below /sdk/; beside them are the types of the module.
const (
	Module  = "talaria.js"
	Wheel   = "talaria-" + Version + "-py3-none-any.whl"
	Tarball = "talaria-" + Version + ".tgz"
)

//go:embed typescript/package.json typescript/README.md typescript/dist python/README.md
//go:embed python/talaria/*.py python/talaria/py.typed
var sources embed.FS

// epoch is the time of all packed files, so that the same sources always give the same bytes. Zip knows none before it.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Files returns what /sdk/ serves, by name. The bytes depend on the sources alone.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := each("typescript/dist", func(name string, data []byte) error {
		files[path.Base(name)] = data
		return nil
	})
	if err == nil && files[Module] == nil {
		err = fmt.Errorf("%s is missing; `make sdk` compiles it", Module)
	}
	if err != nil {
		return nil, fmt.Errorf("pack the client libraries: %w", err)
	}
	if files[Wheel], err = wheel(); err != nil {
		return nil, fmt.Errorf("pack the wheel: %w", err)
	}
	if files[Tarball], err = tarball(); err != nil {
		return nil, fmt.Errorf("pack the tarball: %w", err)
	}
	return files, nil
}

// wheel packs the Python package as the binary distribution format 1.0 describes it.
func wheel() ([]byte, error) {
	const info = "talaria-" + Version + ".dist-info/"
	readme, err := sources.ReadFile("python/README.md")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	var record strings.Builder
	w := zip.NewWriter(&out)
	add := func(name string, data []byte) error {
		if name != info+"RECORD" {
			sum := sha256.Sum256(data)
			fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
		}
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(0o644)
		f, err := w.CreateHeader(header)
		if err == nil {
			_, err = f.Write(data)
		}
		return err
	}
	if err := each("python/talaria", func(name string, data []byte) error {
		return add(strings.TrimPrefix(name, "python/"), data)
	}); err != nil {
		return nil, err
	}
	metadata := "Metadata-Version: 2.1\nName: talaria\nVersion: " + Version +
		"\nSummary: Client for the Talaria session kernel server\nLicense: Apache-2.0\nRequires-Python: >=3.9\n" +
		"Description-Content-Type: text/markdown\n\n" + string(readme)
	for _, file := range [][2]string{
		{"METADATA", metadata},
		{"WHEEL", "Wheel-Version: 1.0\nGenerator: talaria\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	} {
		if err := add(info+file[0], []byte(file[1])); err != nil {
			return nil, err
		}
	}
	if err := add(info+"RECORD", []byte(record.String()+info+"RECORD,,\n")); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// tarball packs the npm package as `npm pack` does.
func tarball() ([]byte, error) {
	var out bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	w := tar.NewWriter(packed)
	if err := each("typescript", func(name string, data []byte) error {
		err := w.WriteHeader(&tar.Header{
			Name: path.Join("package", strings.TrimPrefix(name, "typescript/")), Mode: 0o644,
			Size: int64(len(data)), ModTime: epoch, Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	err := packed.Close()
	return out.Bytes(), err
}

// each calls do with the embedded files of a folder, in the order of their names.
func each(folder string, do func(name string, data []byte) error) error {
	var names []string
	err := fs.WalkDir(sources, folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	for _, name := range names {
		if err != nil {
			break
		}
		var data []byte
		if data, err = sources.ReadFile(name); err == nil {
			err = do(name, data)
		}
	}
	return err
}
