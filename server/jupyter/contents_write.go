package jupyter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"talaria/api"
	"talaria/api/kernelwire"
)

// maxChunked bounds a file that a client saves in parts: each part copies those before it.
const maxChunked = 64 << 20

// maxUntitled is how many names are tried for a new file.
const maxUntitled = 1000

// contentsRequest is the body of PUT, POST and PATCH contents.
type contentsRequest struct {
	Type     string          `json:"type"`
	Format   string          `json:"format"`
	Content  json.RawMessage `json:"content"`
	Path     string          `json:"path"`
	Ext      string          `json:"ext"`
	CopyFrom string          `json:"copy_from"`
	Chunk    int             `json:"chunk"` // 1, 2, …, and -1 for the last part of a file; 0: the whole
}

// bytes returns what is to be written.
func (r contentsRequest) bytes() ([]byte, error) {
	if r.Type == typeNotebook || r.Format == "json" {
		var object map[string]any
		if json.Unmarshal(r.Content, &object) != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "the content of a notebook must be a JSON object")
		}
		var out bytes.Buffer
		if err := json.Indent(&out, r.Content, "", " "); err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "the content of a notebook must be a JSON object: %v", err)
		}
		out.WriteByte('\n')
		return out.Bytes(), nil
	}
	var text string
	if len(r.Content) > 0 && json.Unmarshal(r.Content, &text) != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "the content of a file must be a string")
	}
	switch r.Format {
	case "base64":
		data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
		if err != nil {
			return nil, api.Errorf(api.CodeInvalidRequest, "the content is not base64")
		}
		return data, nil
	case "", "text":
		return []byte(text), nil
	}
	return nil, api.Errorf(api.CodeInvalidRequest, "format must be text, base64 or json, not %.40q", r.Format)
}

// putContents saves a file, or makes a folder.
func (h *Handler) putContents(q *request, name string) error {
	var r contentsRequest
	if err := q.read(&r); err != nil {
		return err
	}
	l, err := h.place(q, name)
	if err != nil {
		return err
	}
	defer l.release()
	created := true
	switch r.Type {
	case typeDirectory:
		err = l.makeFolder(q)
	case typeFile, typeNotebook:
		created, err = l.save(q, r)
	default:
		err = api.Errorf(api.CodeInvalidRequest, "field \"type\" must be notebook, file or directory")
	}
	if err != nil {
		return err
	}
	if created {
		return h.answerMade(q, l)
	}
	m, err := h.contentsAt(q, l, false)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, m)
}

func (l location) save(q *request, r contentsRequest) (created bool, err error) {
	data, err := r.bytes()
	if err != nil {
		return false, err
	}
	content := io.Reader(bytes.NewReader(data))
	if r.Chunk > 1 || r.Chunk == -1 { // it follows the parts before it
		before, entry, err := l.sess.Files().Open(q.Context(), l.inside)
		if err != nil {
			return false, err
		}
		defer before.Close()
		if entry.Size+int64(len(data)) > maxChunked {
			return false, api.Errorf(api.CodePayloadTooLarge,
				"a file saved in parts may have at most %d bytes; upload it with PUT /v1/sessions/ID/files/PATH", maxChunked)
		}
		content = io.MultiReader(before, content)
	}
	created, _, err = l.sess.Files().Put(q.command(), l.inside, content)
	return created, err
}

// answerMade answers with what was made.
func (h *Handler) answerMade(q *request, l location) error {
	m, err := h.contentsAt(q, l, false)
	if err != nil {
		return err
	}
	q.w.Header().Set("Location", Prefix+"/api/contents/"+(&url.URL{Path: m.Path}).EscapedPath())
	return q.answer(http.StatusCreated, m)
}

// postContents makes a file or folder with a name of its own in a folder.
func (h *Handler) postContents(q *request, name string) error {
	var r contentsRequest
	if err := q.read(&r); err != nil {
		return err
	}
	l, err := h.locate(q, name, api.RightWrite)
	if err != nil {
		return err
	}
	if l.sess == nil {
		return h.postRoot(q, r)
	}
	defer l.release()
	return h.makeContents(q, l, r)
}

// postRoot makes a session, as the root has nothing but workspaces, with the file in its workspace. A folder is the workspace.
func (h *Handler) postRoot(q *request, r contentsRequest) error {
	if r.CopyFrom != "" {
		return api.Errorf(api.CodeForbidden, "the root lists the workspaces of kernels: copy files into one of them")
	}
	s, err := h.create(q, kernelRequest{}, map[string]string{})
	if s == nil {
		return err
	}
	defer s.Release()
	id := kernelwire.KernelID(s.Info(q.command()).ID)
	l := location{sess: s, prefix: id + "/", writable: true}
	if r.Type == typeDirectory {
		return h.answerMade(q, l)
	}
	if err := h.makeContents(q, l, r); err != nil {
		return errors.Join(err, h.delete(q, id))
	}
	return nil
}

// makeContents makes a file or folder with a name of its own in the folder l: an empty one, or a copy.
func (h *Handler) makeContents(q *request, l location, r contentsRequest) error {
	if r.CopyFrom != "" {
		return h.copyContents(q, l, r.CopyFrom)
	}
	base, ext, gap := "untitled", r.Ext, ""
	var content []byte
	switch r.Type {
	case typeNotebook:
		base, ext = "Untitled", ".ipynb"
		content = []byte("{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n")
	case typeDirectory:
		base, ext, gap = "Untitled Folder", "", " "
	case "", typeFile:
	default:
		return api.Errorf(api.CodeInvalidRequest, "field \"type\" must be notebook, file or directory")
	}
	if strings.Contains(ext, "/") {
		return api.Errorf(api.CodeInvalidRequest, "field \"ext\" must not contain a slash")
	}
	if err := l.unused(q, base, gap, ext); err != nil {
		return err
	}
	var err error
	if r.Type == typeDirectory {
		err = l.makeFolder(q)
	} else {
		_, _, err = l.sess.Files().Put(q.command(), l.inside, bytes.NewReader(content))
	}
	if err != nil {
		return err
	}
	return h.answerMade(q, l)
}

// makeFolder makes the folder, which must not exist.
func (l *location) makeFolder(q *request) error {
	_, created, err := l.sess.Files().MakeFolder(q.command(), l.inside)
	if err == nil && !created {
		err = api.Errorf(api.CodeNotAFile, "%.200q already exists", l.inside)
	}
	return err
}

// unused makes the folder that l is a file in it whose name is not used: base, a number if needed, and ext.
func (l *location) unused(q *request, base, gap, ext string) error {
	files, _, err := l.sess.Files().List(q.Context(), l.inside)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, f := range files {
		taken[f.Name] = true
	}
	name := base + ext
	for n := 1; taken[name]; n++ {
		if n == maxUntitled {
			return api.Errorf(api.CodeInvalidRequest, "%d files already have names like %.100q; choose another name", maxUntitled, base+ext)
		}
		name = fmt.Sprint(base, gap, n, ext)
	}
	l.inside = path.Join(l.inside, name)
	return nil
}

func (h *Handler) copyContents(q *request, to location, name string) error {
	from, err := h.locate(q, name, api.RightRead)
	if err != nil {
		return err
	}
	defer from.release()
	if from.sess == nil || from.inside == "" {
		return api.Errorf(api.CodeInvalidRequest, "a folder cannot be copied")
	}
	file, entry, err := from.sess.Files().Open(q.Context(), from.inside)
	if err != nil {
		return err
	}
	defer file.Close()
	ext := path.Ext(entry.Name)
	base := strings.TrimSuffix(entry.Name, ext)
	if err := to.unused(q, base, "-Copy", ext); err != nil {
		return err
	}
	if _, _, err := to.sess.Files().Put(q.command(), to.inside, io.LimitReader(file, entry.Size)); err != nil {
		return err
	}
	return h.answerMade(q, to)
}

// patchContents renames a file or folder, with its checkpoint.
func (h *Handler) patchContents(q *request, name string) error {
	var r contentsRequest
	if err := q.read(&r); err != nil {
		return err
	}
	l, err := h.place(q, name)
	if err != nil {
		return err
	}
	defer l.release()
	to, err := h.place(q, r.Path)
	if err != nil {
		return err
	}
	defer to.release()
	if to.prefix != l.prefix {
		return api.Errorf(api.CodeInvalidRequest, "a file cannot be moved to another kernel's workspace; copy it")
	}
	if to.inside != l.inside {
		if _, err := l.sess.Files().Rename(q.command(), l.inside, to.inside); err != nil {
			return err
		}
		_, err := l.sess.Files().Rename(q.command(), checkpointOf(l.inside), checkpointOf(to.inside))
		if known := new(api.Error); err != nil && !errors.As(err, &known) {
			return err
		} // else it has no checkpoint, or one of that name is there
	}
	m, err := h.contentsAt(q, to, false)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, m)
}
