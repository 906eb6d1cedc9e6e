package e2b

import (
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/session"
)

// maxListed bounds the entries of one ListDir.
const maxListed = 50_000

func (h *Handler) services() map[string]func(*request) error {
	routes := map[string]func(*request) error{}
	for name, handle := range map[string]func(*request) error{
		"Stat": unary(h.stat), "MakeDir": unary(h.makeDir), "Move": unary(h.move), "ListDir": unary(h.listDir), "Remove": unary(h.remove),
		"WatchDir": streaming(h, h.watchDir), "CreateWatcher": unary(h.createWatcher), "GetWatcherEvents": unary(h.getWatcherEvents),
		"RemoveWatcher": unary(h.removeWatcher),
	} {
		routes["POST /filesystem.Filesystem/"+name] = handle
	}
	for name, handle := range h.processes() {
		routes["POST /process.Process/"+name] = handle
	}
	for _, service := range []string{"filesystem.Filesystem", "process.Process"} {
		routes["POST /"+service+"/"] = func(q *request) error {
			return api.Errorf(api.CodeNotImplemented, "Talaria does not offer E2B clients %s", strings.TrimPrefix(q.URL.Path, "/"))
		}
	}
	return routes
}

type pathRequest struct {
	Path string `json:"path"`
}

// entry is envd's EntryInfo, in Protobuf's JSON: a 64-bit integer is a string.
func entry(f api.File) object {
	e := object{
		"name": f.Name, "path": absolute(f.Path), "size": strconv.FormatInt(f.Size, 10), "owner": "user", "group": "user",
		"modifiedTime": f.ModifiedAt.UTC().Format(time.RFC3339Nano), "metadata": map[string]string{},
	}
	switch f.Kind {
	case "directory":
		e["type"] = "FILE_TYPE_DIRECTORY"
	case "symlink":
		e["type"] = "FILE_TYPE_SYMLINK"
	case "file":
		e["type"] = "FILE_TYPE_FILE"
	default:
		e["type"] = "FILE_TYPE_UNSPECIFIED"
	}
	if f.Path == "" {
		e["name"] = path.Base(home)
	}
	return e
}

// at opens the sandbox of a call, and finds the path in its workspace. The caller releases the session.
func (h *Handler) at(q *request, name string, right api.Right) (*session.Session, string, error) {
	to, err := relative(name)
	if err != nil {
		return nil, "", err
	}
	s, err := h.sandbox(q, right)
	return s, to, err
}

func (h *Handler) stat(q *request, in pathRequest) (any, error) {
	s, name, err := h.at(q, in.Path, api.RightRead)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	f, err := s.Files().Stat(q.Context(), name)
	if err != nil {
		return nil, err
	}
	return object{"entry": entry(f)}, nil
}

func errExists(name string) error {
	return &api.Error{Code: codeExists, Status: http.StatusConflict, Detail: "path " + strconv.Quote(absolute(name)) + " exists already"}
}

func (h *Handler) makeDir(q *request, in pathRequest) (any, error) {
	s, name, err := h.at(q, in.Path, api.RightWrite)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	f, created, err := s.Files().MakeFolder(q.command(), name)
	if err != nil {
		return nil, err
	}
	if !created {
		return nil, errExists(name)
	}
	return object{"entry": entry(f)}, nil
}

// move renames a file or folder; as with rename(2), a file that is there is replaced.
func (h *Handler) move(q *request, in struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}) (any, error) {
	s, from, err := h.at(q, in.Source, api.RightWrite)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	to, err := relative(in.Destination)
	if err != nil {
		return nil, err
	}
	if from == "" || to == "" {
		return nil, api.Errorf(api.CodeInvalidRequest, "%s itself cannot be moved or replaced", home)
	}
	if old, err := s.Files().Stat(q.Context(), to); err == nil && old.Kind != "file" {
		return nil, errExists(to)
	}
	f, err := s.Files().Replace(q.command(), from, to)
	if err != nil {
		return nil, err
	}
	return object{"entry": entry(f)}, nil
}

// remove is idempotent, as envd's is.
func (h *Handler) remove(q *request, in pathRequest) (any, error) {
	s, name, err := h.at(q, in.Path, api.RightWrite)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if name == "" {
		return nil, api.Errorf(api.CodeInvalidRequest, "%s itself cannot be removed", home)
	}
	if err := s.Files().Delete(q.command(), name); err != nil && !isMissing(err) {
		return nil, err
	}
	return object{}, nil
}

func (h *Handler) listDir(q *request, in struct {
	Path  string `json:"path"`
	Depth uint32 `json:"depth"`
}) (any, error) {
	s, name, err := h.at(q, in.Path, api.RightRead)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	entries, err := list(q, s, name, max(1, in.Depth), nil)
	if err != nil {
		return nil, err
	}
	if entries == nil {
		entries = []object{}
	}
	return object{"entries": entries}, nil
}

// list appends the entries of a folder, and of the folders in it down to a depth.
func list(q *request, s *session.Session, folder string, depth uint32, to []object) ([]object, error) {
	files, truncated, err := s.Files().List(q.Context(), folder)
	if err != nil {
		return nil, err
	}
	if truncated || len(to)+len(files) > maxListed {
		return nil, api.Errorf(api.CodeLimitExceeded, "%s has more than %d entries; list a folder in it, or a smaller depth", absolute(folder), maxListed)
	}
	for _, f := range files {
		to = append(to, entry(f))
		if f.Kind == "directory" && depth > 1 {
			if to, err = list(q, s, f.Path, depth-1, to); err != nil && !isMissing(err) {
				return nil, err
			}
		}
	}
	return to, nil
}

func isMissing(err error) bool {
	known := new(api.Error)
	return errors.As(err, &known) && known.Code == api.CodeFileNotFound
}
