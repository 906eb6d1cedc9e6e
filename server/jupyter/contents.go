package jupyter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/api/kernelwire"
	"talaria/session"
)

// maxContent bounds a file whose content is in an answer, in bytes.
const maxContent = 16 << 20

// Types of contents.
const (
	typeDirectory = "directory"
	typeFile      = "file"
	typeNotebook  = "notebook"
)

// contents is a file or folder as the contents API shows it. Content and Format are null without content.
type contents struct {
	Name          string  `json:"name"`
	Path          string  `json:"path"`
	Type          string  `json:"type"`
	Created       string  `json:"created"`
	LastModified  string  `json:"last_modified"`
	Size          *int64  `json:"size"`
	Writable      bool    `json:"writable"`
	MIMEType      *string `json:"mimetype"`
	Format        *string `json:"format"`
	Content       any     `json:"content"`
	Hash          *string `json:"hash,omitempty"`
	HashAlgorithm *string `json:"hash_algorithm,omitempty"`
}

// location is what a path of the contents API stands for: a path in the workspace of a session. For an owner's token, the
// first part of the path is the id of a kernel, and the root lists these; for the token of one session there is only its
// workspace.
type location struct {
	sess   *session.Session // nil: the root of an owner
	inside string           // the path in the workspace; "": the workspace itself
	prefix string           // of paths in the workspace: the kernel's id and a slash, or ""

	writable bool // the caller may change what is there
}

func (l location) release() {
	if l.sess != nil {
		l.sess.Release()
	}
}

// locate finds what a path stands for. The caller releases it.
func (h *Handler) locate(q *request, name string, right api.Right) (l location, err error) {
	name = strings.Trim(name, "/")
	l.writable = q.caller.Permit(api.RightWrite) == nil
	if q.caller.Session != "" {
		l.sess, err = h.session(q, kernelwire.KernelID(q.caller.Session), right)
		l.inside = name
		return l, err
	}
	if name == "" {
		return l, nil
	}
	kernel, inside, _ := strings.Cut(name, "/")
	if l.sess, err = h.session(q, kernel, right); err != nil {
		return l, api.Errorf(api.CodeFileNotFound, "No such file or directory: %.200s; the first part of a path is the id of a kernel", name)
	}
	l.inside, l.prefix = inside, kernel+"/"
	return l, nil
}

// place is l for something that is to be made or changed, so that it has to be in a workspace.
func (h *Handler) place(q *request, name string) (location, error) {
	l, err := h.locate(q, name, api.RightWrite)
	if err == nil && (l.sess == nil || l.inside == "") {
		l.release()
		return location{}, api.Errorf(api.CodeForbidden, "the folder %.200q is a session's workspace, or lists workspaces: create and change files below it", name)
	}
	return l, err
}

// serveContents is all of api/contents.
func (h *Handler) serveContents(q *request) error {
	name := strings.Trim(q.PathValue("path"), "/")
	if file, id, ok := h.cutCheckpoints(q, name); ok {
		return h.serveCheckpoints(q, file, id)
	}
	switch q.Method {
	case http.MethodGet:
		return h.getContents(q, name)
	case http.MethodPut:
		return h.putContents(q, name)
	case http.MethodPost:
		return h.postContents(q, name)
	case http.MethodPatch:
		return h.patchContents(q, name)
	}
	l, err := h.place(q, name)
	if err != nil {
		return err
	}
	defer l.release()
	if err := l.sess.Files().Delete(q.command(), l.inside); err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) getContents(q *request, name string) error {
	query := q.URL.Query()
	content := query.Get("content") != "0"
	wanted, format := query.Get("type"), query.Get("format")
	l, err := h.locate(q, name, api.RightRead)
	if err != nil {
		return err
	}
	defer l.release()
	m, err := h.contentsAt(q, l, content)
	if err != nil {
		return err
	}
	if wanted != "" && (wanted == typeDirectory) != (m.Type == typeDirectory) {
		return api.Errorf(api.CodeInvalidRequest, "%.200s is a %s, not a %.20s", name, m.Type, wanted)
	}
	if m.Type != typeDirectory && (content || query.Get("hash") == "1") {
		if wanted != "" {
			m.Type = wanted
		}
		if err := l.read(q, &m, format, content, query.Get("hash") == "1"); err != nil {
			return err
		}
	}
	return q.answer(http.StatusOK, m)
}

// contentsAt describes what l stands for; a folder with what is in it, if content is set.
func (h *Handler) contentsAt(q *request, l location, content bool) (contents, error) {
	if l.sess == nil {
		return h.root(q, content)
	}
	if l.inside == "" {
		info := l.sess.Info(q.Context())
		m := l.folder(strings.TrimSuffix(l.prefix, "/"), info.LastActiveAt.Time)
		return m, l.list(q, &m, content)
	}
	file, entry, err := l.sess.Files().Open(q.Context(), l.inside)
	if err == nil {
		_ = file.Close()
		return l.model(entry), nil
	}
	var known *api.Error
	if !errors.As(err, &known) || known.Code != api.CodeNotAFile {
		return contents{}, err
	}
	m := l.folder(l.prefix+l.inside, h.started)
	return m, l.list(q, &m, content)
}

// root lists the workspaces of the owner's sessions.
func (h *Handler) root(q *request, content bool) (contents, error) {
	m := location{}.folder("", h.started)
	if !content {
		return m, nil
	}
	list := []contents{}
	err := h.each(q, func(s api.Session) {
		list = append(list, location{writable: true}.folder(kernelwire.KernelID(s.ID), s.LastActiveAt.Time))
	})
	m.Content, m.Format = list, new("json")
	return m, err
}

func (l location) folder(name string, at time.Time) contents {
	m := contents{Path: name, Type: typeDirectory, Created: date(at), LastModified: date(at), Writable: l.writable}
	if name != "" {
		m.Name = path.Base(name)
	}
	return m
}

// list adds what a folder of the workspace has in it, apart from the folders in which checkpoints are kept. It fails for what
// is no folder.
func (l location) list(q *request, m *contents, content bool) error {
	files, _, err := l.sess.Files().List(q.Context(), l.inside)
	if err != nil || !content {
		return err
	}
	list := []contents{}
	for _, f := range files {
		switch {
		case f.Kind == typeDirectory && f.Name != checkpointFolder:
			list = append(list, l.folder(l.prefix+f.Path, f.ModifiedAt.Time))
		case f.Kind == typeFile:
			list = append(list, l.model(f))
		}
	}
	m.Content, m.Format = list, new("json")
	return nil
}

func (l location) model(f api.File) contents {
	at := date(f.ModifiedAt.Time)
	m := contents{Name: f.Name, Path: l.prefix + f.Path, Type: typeFile, Created: at, LastModified: at, Size: &f.Size, Writable: l.writable}
	if path.Ext(f.Name) == ".ipynb" {
		m.Type = typeNotebook
	} else if media, _, _ := strings.Cut(f.MediaType, ";"); media != "" {
		m.MIMEType = &media
	}
	return m
}

// read adds a file's content, its hash, or both.
func (l location) read(q *request, m *contents, format string, content, hash bool) error {
	file, entry, err := l.sess.Files().Open(q.Context(), l.inside)
	if err != nil {
		return err
	}
	defer file.Close()
	if hash {
		sum := sha256.New()
		if _, err := io.Copy(sum, io.LimitReader(file, entry.Size)); err != nil {
			return fmt.Errorf("read a file: %w", err)
		}
		m.Hash, m.HashAlgorithm = new(hex.EncodeToString(sum.Sum(nil))), new("sha256")
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read a file: %w", err)
		}
	}
	if !content {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(file, maxContent+1))
	if err != nil {
		return fmt.Errorf("read a file: %w", err)
	}
	if len(data) > maxContent {
		return api.Errorf(api.CodePayloadTooLarge, "%.200s has more than %d bytes; download it with GET /v1/sessions/ID/files/PATH", m.Path, maxContent)
	}
	return m.fill(data, format)
}

// fill sets the content of a file in the format that was asked for, or in the one that fits.
func (m *contents) fill(data []byte, format string) error {
	if m.Type == typeNotebook {
		var parsed map[string]any
		if json.Unmarshal(data, &parsed) != nil {
			return api.Errorf(api.CodeInvalidRequest, "%.200s is not a notebook: it is not a JSON object; open it with type=file", m.Path)
		}
		m.Content, m.Format, m.MIMEType = json.RawMessage(data), new("json"), nil
		return nil
	}
	if m.MIMEType == nil {
		m.MIMEType = new("application/octet-stream")
	}
	switch {
	case format == "text" && !utf8.Valid(data):
		return api.Errorf(api.CodeInvalidRequest, "%.200s is not UTF-8 encoded; ask for format=base64", m.Path)
	case format == "base64" || !utf8.Valid(data):
		m.Content, m.Format = base64.StdEncoding.EncodeToString(data), new("base64")
	default:
		m.Content, m.Format = string(data), new("text")
	}
	return nil
}
