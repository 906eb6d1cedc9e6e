package jupyter

import (
	"cmp"
	"maps"
	"net/http"
	"strings"

	"talaria/api"
	"talaria/session"
)

// What the metadata of a session says of the notebook that it belongs to.
const (
	metaID   = "jupyter.session"
	metaPath = "jupyter.path"
	metaName = "jupyter.name"
	metaType = "jupyter.type"
)

// notebook is a session in Jupyter's sense: a file, and the kernel that runs it.
type notebook struct {
	ID       string             `json:"id"`
	Path     string             `json:"path"`
	Name     string             `json:"name"`
	Type     string             `json:"type"`
	Kernel   kernel             `json:"kernel"`
	Notebook *map[string]string `json:"notebook,omitempty"`
}

func (h *Handler) notebookOf(q *request, s api.Session) notebook {
	n := notebook{ID: s.Metadata[metaID], Path: s.Metadata[metaPath], Name: s.Metadata[metaName], Type: s.Metadata[metaType], Kernel: h.model(q, s)}
	if n.Type == "notebook" {
		n.Notebook = &map[string]string{"path": n.Path, "name": n.Name}
	}
	return n
}

func (h *Handler) listSessions(q *request) error {
	list := []notebook{}
	err := h.each(q, nil, func(s api.Session) {
		if s.Metadata[metaID] != "" {
			list = append(list, h.notebookOf(q, s))
		}
	})
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, list)
}

// notebookRequest is the body of POST and PATCH sessions.
type notebookRequest struct {
	Path   *string `json:"path"`
	Name   *string `json:"name"`
	Type   *string `json:"type"`
	Kernel *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"kernel"`
}

// find returns the newest session with this metadata.
func (h *Handler) find(q *request, key, value string) (found *api.Session, err error) {
	err = h.each(q, map[string]string{key: value}, func(s api.Session) {
		if found == nil {
			found = &s
		}
	})
	return found, err
}

func (h *Handler) createSession(q *request) error {
	var r notebookRequest
	if err := q.read(&r); err != nil {
		return err
	}
	if r.Path == nil || *r.Path == "" || r.Type == nil || *r.Type == "" {
		return api.Errorf(api.CodeInvalidRequest, "fields \"path\" and \"type\" are required")
	}
	if err := q.caller.Permit(""); err != nil {
		return err
	}
	known, err := h.find(q, metaPath, *r.Path)
	if err != nil {
		return err
	}
	if known != nil {
		return q.answer(http.StatusCreated, h.notebookOf(q, *known))
	}
	metadata := map[string]string{metaID: newID(), metaPath: *r.Path, metaType: *r.Type, metaName: ""}
	if r.Name != nil {
		metadata[metaName] = *r.Name
	}
	s, err := h.kernelFor(q, r, metadata)
	if s == nil {
		return err
	}
	defer s.Release()
	n := h.notebookOf(q, s.Info(q.command()))
	q.w.Header().Set("Location", Prefix+"/api/sessions/"+n.ID)
	return q.answer(http.StatusCreated, n)
}

// kernelFor returns the session for a notebook: the one of the kernel that the request names, or a new one.
func (h *Handler) kernelFor(q *request, r notebookRequest, metadata map[string]string) (*session.Session, error) {
	id, name := "", ""
	if r.Kernel != nil {
		id, name = r.Kernel.ID, r.Kernel.Name
	}
	if id == "" {
		if s := h.sessionAround(q, metadata[metaPath]); s != nil {
			id = kernelID(s.Info(q.command()).ID)
			s.Release()
		}
	}
	if id == "" {
		return h.create(q, kernelRequest{Name: name, Path: metadata[metaPath]}, metadata)
	}
	s, err := h.session(q, id, "")
	if err != nil {
		return nil, err
	}
	if err := h.describe(q, s, metadata); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// sessionAround returns the session in whose workspace a notebook lies, by its path in the contents API, or nil. That session
// is the notebook's kernel, so that the notebook sees the files beside it.
func (h *Handler) sessionAround(q *request, path string) *session.Session {
	kernel, inside, _ := strings.Cut(strings.Trim(path, "/"), "/")
	if inside == "" {
		return nil
	}
	s, err := h.session(q, kernel, api.RightRun)
	if err != nil {
		return nil
	}
	return s
}

// isInside reports whether the notebook of a session lies in the session's own workspace.
func isInside(s api.Session) bool {
	kernel, inside, _ := strings.Cut(strings.Trim(s.Metadata[metaPath], "/"), "/")
	return inside != "" && kernel == kernelID(s.ID)
}

// describe adds to the metadata of a session; "" removes an entry.
func (h *Handler) describe(q *request, s *session.Session, entries map[string]string) error {
	metadata := maps.Clone(s.Info(q.command()).Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	maps.Copy(metadata, entries)
	maps.DeleteFunc(metadata, func(key, value string) bool { return value == "" && strings.HasPrefix(key, "jupyter.") })
	return s.Update(q.command(), api.SessionPatch{Metadata: &metadata})
}

func (h *Handler) notebook(q *request) (*api.Session, error) {
	found, err := h.find(q, metaID, q.PathValue("id"))
	if err == nil && found == nil {
		err = api.Errorf(api.CodeNotFound, "Session not found: session_id=%.140q", q.PathValue("id"))
	}
	return found, err
}

func (h *Handler) getSession(q *request) error {
	found, err := h.notebook(q)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, h.notebookOf(q, *found))
}

// patchSession renames a notebook, or gives it another kernel: the old one ends where the request names a kernel to start, as in
// Jupyter.
func (h *Handler) patchSession(q *request) error {
	var r notebookRequest
	if err := q.read(&r); err != nil {
		return err
	}
	found, err := h.notebook(q)
	if err != nil {
		return err
	}
	old, err := h.session(q, kernelID(found.ID), "")
	if err != nil {
		return err
	}
	defer old.Release()
	entries := map[string]string{metaID: found.Metadata[metaID]}
	for key, given := range map[string]*string{metaPath: r.Path, metaName: r.Name, metaType: r.Type} {
		entries[key] = *cmp.Or(given, new(found.Metadata[key]))
	}
	restarts := r.Kernel != nil && r.Kernel.ID == "" && r.Kernel.Name != "" && isInside(*found)
	if restarts { // it has no other kernel, and its file would go with this one
		if err := old.Reset(q.command(), api.ResetRequest{}); err != nil {
			return err
		}
	}
	moves := !restarts && r.Kernel != nil && (r.Kernel.ID != "" && r.Kernel.ID != kernelID(found.ID) || r.Kernel.ID == "" && r.Kernel.Name != "")
	if !moves {
		if err := h.describe(q, old, entries); err != nil {
			return err
		}
		return q.answer(http.StatusOK, h.notebookOf(q, old.Info(q.command())))
	}
	fresh, err := h.kernelFor(q, r, entries)
	if fresh == nil {
		return err
	}
	defer fresh.Release()
	if r.Kernel.ID == "" {
		err = h.delete(q, kernelID(found.ID))
	} else {
		err = h.describe(q, old, map[string]string{metaID: "", metaPath: "", metaName: "", metaType: ""})
	}
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, h.notebookOf(q, fresh.Info(q.command())))
}

func (h *Handler) deleteSession(q *request) error {
	found, err := h.notebook(q)
	if err != nil {
		return err
	}
	if q.caller.Session == "" {
		if isInside(*found) {
			err = h.leave(q, found)
		} else {
			err = h.delete(q, kernelID(found.ID))
		}
		if err != nil {
			return err
		}
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// leave ends the kernel of a notebook that lies in its session's workspace: the session starts over and keeps its files.
func (h *Handler) leave(q *request, found *api.Session) error {
	s, err := h.session(q, kernelID(found.ID), "")
	if err != nil {
		return err
	}
	defer s.Release()
	if err := s.Reset(q.command(), api.ResetRequest{}); err != nil {
		return err
	}
	return h.describe(q, s, map[string]string{metaID: "", metaPath: "", metaName: "", metaType: ""})
}
