package librechat

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// home is the workspace, as LibreChat and its models call it.
const home = "/mnt/data"

const (
	uploadKept = 24 * time.Hour // LibreChat uploads a file again that is older
	maxField   = 4 << 10        // bytes of a field of a form
	maxUploads = 200            // files of one form
	maxWalk    = 20_000         // entries of a workspace that a search for a file looks at
	// What a program in a compiled language gets of its input files.
	maxText, maxTexts = 1 << 20, 8 << 20
)

// inWorkspace returns a name that a client gave to a file as a path of the workspace, which the session checks.
func inWorkspace(name string) string {
	return strings.TrimLeft(strings.TrimPrefix(name, home+"/"), "/")
}

// form is what came with uploaded files.
type form struct {
	fields map[string]string
	store  *session.Session // nil until the first file
	files  []uploaded
	failed int
}

// uploaded is a file of a form, or why it was refused.
type uploaded struct {
	Status   string `json:"status"`
	FileID   string `json:"fileId,omitempty"`
	Filename string `json:"filename"`
	Error    string `json:"error,omitempty"`
}

// upload stores the files of a form, all or none of the rest.
func (h *Handler) upload(q *request) error {
	f, err := h.readForm(q, false)
	if err != nil {
		return err
	}
	defer f.store.Release()
	return q.answer(f.answer("success"))
}

// uploadBatch stores the files of a form that can be stored, and reports on each.
func (h *Handler) uploadBatch(q *request) error {
	f, err := h.readForm(q, true)
	if err != nil {
		return err
	}
	defer f.store.Release()
	switch f.failed {
	case 0:
		return q.answer(f.answer("success"))
	case len(f.files):
		return q.answer(f.answer("error"))
	}
	return q.answer(f.answer("partial_success"))
}

func (f *form) answer(message string) any {
	return map[string]any{
		"message": message, "session_id": f.store.ID(), "storage_session_id": f.store.ID(), "files": f.files,
		"succeeded": len(f.files) - f.failed, "failed": f.failed,
	}
}

// readForm stores the files of a form as they arrive. With each, a file that cannot be stored does not stop the others. The caller
// releases the store.
func (h *Handler) readForm(q *request, each bool) (f *form, err error) {
	reader, err := q.MultipartReader()
	if err != nil {
		return nil, api.Errorf(api.CodeUnsupportedMedia, "the body must have Content-Type: multipart/form-data")
	}
	f = &form{fields: map[string]string{}}
	defer func() {
		if err != nil && f.store != nil {
			f.store.Release()
		}
	}()
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f, api.Errorf(api.CodeInvalidRequest, "the form is malformed or was cut off")
		}
		name, isFile, err := transfer.FileName(part)
		if err != nil {
			return f, api.Errorf(api.CodeInvalidRequest, "the form is malformed")
		}
		if !isFile {
			if err := f.field(part); err != nil {
				return f, err
			}
			continue
		}
		if len(f.files) == maxUploads {
			return f, api.Errorf(api.CodeInvalidRequest, "a form may have at most %d files", maxUploads)
		}
		if f.store == nil {
			if f.store, err = h.store(q, f.fields); err != nil {
				return f, err
			}
		}
		one, err := keep(q, f.store, name, part)
		if err != nil && (!each || one.Error == "") {
			return f, err
		}
		if err != nil {
			f.failed++
		}
		f.files = append(f.files, one)
	}
	if len(f.files) == 0 {
		return f, api.Errorf(api.CodeInvalidRequest, "the form has no file; send the fields first and then the files")
	}
	return f, nil
}

func (f *form) field(part *multipart.Part) error {
	value, err := io.ReadAll(io.LimitReader(part, maxField+1))
	switch {
	case err != nil:
		return api.Errorf(api.CodeInvalidRequest, "the form is malformed or was cut off")
	case len(value) > maxField || len(f.fields) == 20:
		return api.Errorf(api.CodeInvalidRequest, "a form may have at most 20 fields besides its files, of %d bytes each", maxField)
	}
	f.fields[part.FormName()] = string(value)
	return nil
}

// store returns the session that keeps the uploads of what the fields name: an agent's, a skill's or a user's.
func (h *Handler) store(q *request, fields map[string]string) (*session.Session, error) {
	owner, kind, id := q.caller.Owner, fields["kind"], fields["id"]
	switch {
	case kind == "agent" || kind == "skill":
		owner = q.caller.Shared
	case fields["entity_id"] != "":
		kind, id = "entity", fields["entity_id"]
	default:
		kind, id = "user", q.Header.Get("User-Id")
	}
	s, created, err := h.ensure(q, owner, idOf('f', kind, id, fields["version"]), roleFiles, "")
	if err == nil && !created {
		h.expire(q, s)
	}
	return s, err
}

// expire removes uploads that LibreChat counts on no more. A failure is made up for by the next upload.
func (h *Handler) expire(q *request, s *session.Session) {
	folders, _, err := s.Files().List(q.command(), "")
	if err != nil {
		return
	}
	for _, f := range folders {
		if time.Since(f.ModifiedAt.Time) > uploadKept {
			_ = s.Files().Delete(q.command(), f.Path)
		}
	}
}

// keep stores one file in a folder of its own. If it is refused, the file that is returned says why; if its body breaks off, the error
// alone does.
func keep(q *request, s *session.Session, name string, from io.Reader) (uploaded, error) {
	clean := inWorkspace(name)
	body := &transfer.Upload{From: from}
	_, file, err := s.Files().Put(q.command(), randomID('d')+"/"+clean, body)
	if err != nil && body.Failed != nil {
		return uploaded{}, bodyError(body.Failed)
	}
	known := new(api.Error)
	if errors.As(err, &known) {
		return uploaded{Status: "error", Filename: clean, Error: known.Detail}, err
	}
	if err != nil {
		return uploaded{}, err
	}
	return uploaded{Status: "success", FileID: fileID(file.Path), Filename: clean}, nil
}

// bodyError says why a body could not be read to its end.
func bodyError(err error) error {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return err
	}
	return api.Errorf(api.CodeInvalidRequest, "the body was cut off, or stopped arriving")
}

// walk calls see with the files of a session until it returns false.
func walk(q *request, s *session.Session, see func(api.File) bool) error {
	folders, left := []string{""}, maxWalk
	for len(folders) > 0 {
		list, _, err := s.Files().List(q.Context(), folders[0])
		if err != nil && (folders[0] == "" || !notFound(err)) { // it may just have gone
			return err
		}
		folders = folders[1:]
		for _, f := range list {
			if left--; left < 0 || f.Kind == "file" && !see(f) {
				return nil
			}
			if f.Kind == "directory" {
				folders = append(folders, f.Path)
			}
		}
	}
	return nil
}

// find returns the file of a session with that id.
func find(q *request, s *session.Session, id string) (found api.File, err error) {
	err = walk(q, s, func(f api.File) bool {
		if fileID(f.Path) == id {
			found = f
		}
		return found.Path == ""
	})
	if err == nil && found.Path == "" {
		err = errNoFile(id)
	}
	return found, err
}

func errNoFile(id string) error {
	return api.Errorf(api.CodeFileNotFound, "there is no file %.40q: it was deleted or has expired; upload it again", id)
}

// locate returns the session and the file that a request names. The caller releases the session.
func (h *Handler) locate(q *request, sessionID, id string) (*session.Session, api.File, error) {
	s, err := h.session(q, sessionID)
	if err != nil {
		return nil, api.File{}, err
	}
	file, err := find(q, s, id)
	if err != nil {
		s.Release()
		return nil, file, err
	}
	return s, file, nil
}

// named is the name of a file as its user knows it: uploads lie in folders of their own.
func named(role string, f api.File) string {
	if _, rest, ok := strings.Cut(f.Path, "/"); ok && role == roleFiles {
		return rest
	}
	return f.Path
}

// describe is a file in a list.
func describe(s *session.Session, role string, f api.File) map[string]any {
	id, name := fileID(f.Path), named(role, f)
	return map[string]any{
		"id": id, "name": s.ID() + "/" + id + path.Ext(name), "session_id": s.ID(), "storage_session_id": s.ID(),
		"size": f.Size, "lastModified": f.ModifiedAt, "contentType": f.MediaType,
		"metadata": map[string]string{"original-filename": name},
	}
}

func (h *Handler) listFiles(q *request) error {
	s, err := h.session(q, q.PathValue("session"))
	if err != nil {
		return err
	}
	defer s.Release()
	role := s.Info(q.Context()).Metadata[metaRole]
	list := []map[string]any{}
	err = walk(q, s, func(f api.File) bool {
		list = append(list, describe(s, role, f))
		return true
	})
	if err != nil {
		return err
	}
	return q.answer(list)
}

func (h *Handler) statFile(q *request) error {
	s, file, err := h.locate(q, q.PathValue("session"), q.PathValue("file"))
	if err != nil {
		return err
	}
	defer s.Release()
	return q.answer(describe(s, s.Info(q.Context()).Metadata[metaRole], file))
}

func (h *Handler) deleteFile(q *request) error {
	s, file, err := h.locate(q, q.PathValue("session"), q.PathValue("file"))
	if err != nil {
		return err
	}
	defer s.Release()
	if err := s.Files().Delete(q.command(), file.Path); err != nil {
		return err
	}
	return q.answer(map[string]string{"message": "success"})
}

func (h *Handler) download(q *request) error {
	s, found, err := h.locate(q, q.PathValue("session"), q.PathValue("file"))
	if err != nil {
		return err
	}
	defer s.Release()
	file, entry, err := s.Files().Open(q.Context(), found.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	transfer.SendFile(q.w, q.Request, file, entry)
	return nil
}

// input is a file that code will find in its directory.
type input struct {
	name string
	file *os.File
	api.File
	from *session.Session
}

// inputs calls take with each file of a request that is still there, and returns a line for each that is not.
func (h *Handler) inputs(q *request, refs []fileRef, take func(input) error) (notes string, err error) {
	for _, ref := range refs {
		s, found, err := h.locate(q, ref.storage(), ref.ID)
		if notFound(err) {
			notes += "the input file " + inWorkspace(ref.Name) + " has expired or was deleted; upload it again\n"
			continue
		}
		if err != nil {
			return notes, err
		}
		if err := open(q, s, found, ref, take); err != nil {
			return notes, err
		}
	}
	return notes, nil
}

func open(q *request, s *session.Session, found api.File, ref fileRef, take func(input) error) error {
	defer s.Release()
	file, entry, err := s.Files().Open(q.Context(), found.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	name := inWorkspace(ref.Name)
	if name == "" {
		name = named(roleFiles, found)
	}
	return take(input{name: name, file: file, File: entry, from: s})
}

// maxBrought is how many copies are remembered. Beyond that all are forgotten, and only newer uploads replace them.
const maxBrought = 10_000

// copyKey names a file of a session.
type copyKey struct{ serial, name string }

// brought is the upload that a session's file was copied from, and when the copy was written.
type brought struct {
	serial, path string
	at           time.Time
}

// bring copies the files of a request into the session. A file that the session has with the same name stays if it is newer, since code
// has changed it since it was uploaded, unless it is an unchanged copy of another upload.
func (h *Handler) bring(q *request, w *workplace, refs []fileRef) error {
	notes, err := h.inputs(q, refs, func(in input) error {
		if in.from.ID() == w.ID() && in.from.Serial() == w.Serial() && in.Path == in.name {
			return nil
		}
		key, source := copyKey{w.Serial(), in.name}, brought{serial: in.from.Serial(), path: in.Path}
		if have, err := w.Files().Stat(q.Context(), in.name); err == nil && !have.ModifiedAt.Before(in.ModifiedAt.Time) && !h.replaces(key, source, have) {
			return nil
		}
		_, made, err := w.Files().Put(q.command(), in.name, in.file)
		if err == nil {
			source.at = made.ModifiedAt.Time
			h.remember(key, source)
		}
		return err
	})
	w.notes += notes
	return err
}

// replaces reports whether the file is an unchanged copy of another upload than source.
func (h *Handler) replaces(key copyKey, source brought, have api.File) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, known := h.brought[key]
	return known && old.at.Equal(have.ModifiedAt.Time) && (old.serial != source.serial || old.path != source.path)
}

func (h *Handler) remember(key copyKey, source brought) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.brought) >= maxBrought {
		clear(h.brought)
	}
	h.brought[key] = source
}

// texts returns the text files of a request, and a line for each other one.
func (h *Handler) texts(q *request, refs []fileRef) (files []api.RunFile, notes string, err error) {
	left, seen := int64(maxTexts), map[string]bool{}
	missing, err := h.inputs(q, refs, func(in input) error {
		switch {
		case in.Size > maxText || in.Size > left:
			notes += "the input file " + in.name + " was left out: a compiled program gets up to 8 MiB of text files\n"
			return nil
		case seen[in.name]:
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(in.file, in.Size))
		if err != nil {
			return err
		}
		if !utf8.Valid(data) {
			notes += "the input file " + in.name + " was left out: a compiled program gets only text files\n"
			return nil
		}
		left, seen[in.name] = left-in.Size, true
		files = append(files, api.RunFile{Name: in.name, Content: string(data)})
		return nil
	})
	return files, notes + missing, err
}
