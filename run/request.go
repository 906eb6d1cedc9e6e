package run

import (
	"path"
	"strings"

	"talaria/api"
	"talaria/kernel/oneshot"
)

const (
	maxFiles   = 1000
	maxName    = 255 // bytes of one element of a path
	maxPath    = 1024
	maxArgs    = 1000
	maxArgText = 100 << 10 // bytes of all arguments
)

// sourceOf checks the program of a request.
func (l *language) sourceOf(r api.RunRequest) (source, error) {
	var s source
	switch {
	case r.Code != nil && len(r.Files) > 0:
		return s, api.Errorf(api.CodeInvalidRequest, "give either \"code\" or \"files\", not both")
	case r.Code != nil:
		name := r.EntryFile
		if name == "" {
			name = l.fileOf(*r.Code)
		}
		s.files, s.entry = []oneshot.File{{Name: name, Data: []byte(*r.Code)}}, name
	case len(r.Files) == 0:
		return s, api.Errorf(api.CodeInvalidRequest, "field \"code\" is missing; or give \"files\" and \"entry_file\"")
	case len(r.Files) > maxFiles:
		return s, api.Errorf(api.CodeInvalidRequest, "\"files\" has %d files, and the limit is %d", len(r.Files), maxFiles)
	default:
		for _, f := range r.Files {
			s.files = append(s.files, oneshot.File{Name: f.Name, Data: []byte(f.Content)})
		}
		s.entry = r.EntryFile
		if s.entry == "" && len(s.files) == 1 {
			s.entry = s.files[0].Name
		}
		if s.entry == "" && s.has(l.main) {
			s.entry = l.main
		}
	}
	if err := checkFiles(s.files); err != nil {
		return s, err
	}
	if !s.has(s.entry) {
		return s, api.Errorf(api.CodeInvalidRequest, "\"entry_file\" must be the name of one of the files, not %.140q", s.entry)
	}
	return s, nil
}

// checkFiles refuses names that could not be made, or would be elsewhere.
func checkFiles(files []oneshot.File) error {
	kinds := map[string]string{}
	for _, f := range files {
		if err := checkName(f.Name); err != nil {
			return err
		}
		if kinds[f.Name] != "" {
			return api.Errorf(api.CodeInvalidRequest, "\"files\" has %.140q twice, or both as a file and as a folder", f.Name)
		}
		kinds[f.Name] = "file"
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			if kinds[dir] == "file" {
				return api.Errorf(api.CodeInvalidRequest, "\"files\" uses %.140q both as a file and as a folder", dir)
			}
			kinds[dir] = "folder"
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxPath || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return errOutside(name)
	}
	elements := strings.Split(name, "/")
	for _, element := range elements {
		if element == "" || element == "." || element == ".." || len(element) > maxName {
			return errOutside(name)
		}
	}
	if elements[0] == program || elements[0] == classes {
		return api.Errorf(api.CodeInvalidRequest, "\"files\" must not have the name %q, which is the compiler's", elements[0])
	}
	return nil
}

func errOutside(name string) error {
	return api.Errorf(api.CodePathOutside, "the name of a file must be a relative path without \"..\", not %.140q", name)
}

func checkArgs(args []string) error {
	total := 0
	for _, a := range args {
		if strings.ContainsRune(a, 0) {
			return api.Errorf(api.CodeInvalidRequest, "\"args\" must not contain a NUL")
		}
		total += len(a)
	}
	if len(args) > maxArgs || total > maxArgText {
		return api.Errorf(api.CodeInvalidRequest, "\"args\" has %d arguments with %d bytes, and the limits are %d and %d",
			len(args), total, maxArgs, maxArgText)
	}
	return nil
}
