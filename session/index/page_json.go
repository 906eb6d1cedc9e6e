package index

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// apiVersion is the version of the index API that our pages declare.
const apiVersion = "1.0"

type jsonPage struct {
	Meta struct {
		Version string `json:"api-version"`
	} `json:"meta"`
	Name  string     `json:"name"`
	Files []jsonFile `json:"files"`
}

type jsonFile struct {
	Name           string            `json:"filename"`
	URL            string            `json:"url"`
	Hashes         map[string]string `json:"hashes"`
	Size           int64             `json:"size,omitempty"`
	RequiresPython *string           `json:"requires-python,omitempty"`
	Yanked         any               `json:"yanked,omitempty"`        // a bool or the reason
	Metadata       any               `json:"core-metadata,omitempty"` // a bool or hashes
	// OldMetadata is the same by its first name, which is only read: some installers stumble over it. Source: PEP 714.
	OldMetadata any `json:"dist-info-metadata,omitempty"`
}

// checkVersion refuses pages that mean something else than they did. Source: PEP 629.
func checkVersion(version string) error {
	if major, _, _ := strings.Cut(version, "."); version != "" && major != "1" {
		return fmt.Errorf("its version is %.20q; only version 1 is supported", version)
	}
	return nil
}

func readJSON(content []byte, base *url.URL) ([]file, error) {
	var p jsonPage
	if err := json.Unmarshal(content, &p); err != nil {
		return nil, fmt.Errorf("read its JSON: %w", err)
	}
	if err := checkVersion(p.Meta.Version); err != nil {
		return nil, err
	}
	var files []file
	for _, from := range p.Files {
		f, _, ok := link(base, from.URL)
		if !ok {
			continue
		}
		f.sha256, f.size = digest(from.Hashes["sha256"]), max(from.Size, 0)
		if from.RequiresPython != nil {
			f.requiresPython = *from.RequiresPython
		}
		switch yanked := from.Yanked.(type) {
		case string:
			f.yanked = &yanked
		case bool:
			if yanked {
				f.yanked = new(string)
			}
		}
		metadata := from.Metadata
		if metadata == nil {
			metadata = from.OldMetadata
		}
		switch metadata := metadata.(type) {
		case bool:
			f.metadata = metadata
		case map[string]any:
			f.metadata = true
			sum, _ := metadata["sha256"].(string)
			f.metadataSHA256 = digest(sum)
		}
		files = append(files, f)
	}
	return files, nil
}

func (p *page) json(project, prefix string) ([]byte, error) {
	out := jsonPage{Name: project, Files: make([]jsonFile, 0, len(p.files))}
	out.Meta.Version = apiVersion
	for _, f := range p.files {
		to := jsonFile{Name: f.name, URL: prefix + url.PathEscape(f.name), Hashes: map[string]string{}, Size: f.size}
		if f.sha256 != "" {
			to.Hashes["sha256"] = f.sha256
		}
		if f.requiresPython != "" {
			to.RequiresPython = &f.requiresPython
		}
		if f.yanked != nil {
			to.Yanked = *f.yanked
			if *f.yanked == "" {
				to.Yanked = true
			}
		}
		if f.metadata {
			to.Metadata = true
			if f.metadataSHA256 != "" {
				to.Metadata = map[string]string{"sha256": f.metadataSHA256}
			}
		}
		out.Files = append(out.Files, to)
	}
	return json.Marshal(out)
}
