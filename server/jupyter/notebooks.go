package jupyter

import (
	"cmp"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"talaria/api"
	"talaria/api/kernelwire"
	"talaria/server/transfer"
	"talaria/session"
)

// metaNotebooks is the metadata of a session with the notebooks that run in it, as a list in JSON.
const metaNotebooks = "jupyter.notebooks"

// maxNotebooks bounds the notebooks of one session.
const maxNotebooks = 32

// notebook is a session in Jupyter's sense: a file, and the kernel that runs it. Its path is that of an owner, until a client sees
// it.
type notebook struct {
	ID       string             `json:"id"`
	Path     string             `json:"path"`
	Name     string             `json:"name"`
	Type     string             `json:"type"`
	Kernel   *kernel            `json:"kernel,omitempty"` // nil in the metadata
	Notebook *map[string]string `json:"notebook,omitempty"`
}

// notebooksOf returns the notebooks of the session with this metadata.
func notebooksOf(metadata map[string]string) []notebook {
	return transfer.List[notebook](metadata, metaNotebooks)
}

// seen reports whether the caller may know of the notebook: the token of one session only of those in its workspace.
func (n notebook) seen(q *request) bool {
	return q.caller.Session == "" || strings.HasPrefix(n.Path, q.workspace())
}

// workspace is where an owner's token has the root of a caller with the token of one session; "" for an owner.
func (q *request) workspace() string {
	if q.caller.Session == "" {
		return ""
	}
	return kernelwire.KernelID(q.caller.Session) + "/"
}

// ownerPath returns the path that the caller gives a notebook as an owner has it.
func (q *request) ownerPath(name string) (string, error) {
	if q.caller.Session == "" {
		return name, nil
	}
	name = strings.Trim(name, "/")
	if !fs.ValidPath(name) || name == "." {
		return "", api.Errorf(api.CodePathOutside, "path %.200q leaves the workspace of the token's session; give one such as notes/a.ipynb", name)
	}
	return q.workspace() + name, nil
}

// in returns the notebook as the caller sees it, with the kernel of its session.
func (n notebook) in(h *Handler, q *request, s api.Session) notebook {
	n.Path = strings.TrimPrefix(n.Path, q.workspace())
	n.Kernel, n.Notebook = new(h.model(q, s)), nil
	if n.Type == typeNotebook {
		n.Notebook = &map[string]string{"path": n.Path, "name": n.Name}
	}
	return n
}

// isInside reports whether a notebook lies in the workspace of the session that runs it.
func (n notebook) isInside(s api.Session) bool {
	kernel, inside, _ := strings.Cut(strings.Trim(n.Path, "/"), "/")
	return inside != "" && kernel == kernelwire.KernelID(s.ID)
}

func (h *Handler) listSessions(q *request) error {
	list := []notebook{}
	err := h.each(q, func(s api.Session) {
		for _, n := range notebooksOf(s.Metadata) {
			if n.seen(q) {
				list = append(list, n.in(h, q, s))
			}
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

// find returns a notebook of the caller that is wanted, of the newest session that has one, and that session; nil for none.
func (h *Handler) find(q *request, wanted func(notebook) bool) (found notebook, in *api.Session, err error) {
	err = h.each(q, func(s api.Session) {
		list := notebooksOf(s.Metadata)
		if i := slices.IndexFunc(list, func(n notebook) bool { return n.seen(q) && wanted(n) }); i >= 0 && in == nil {
			found, in = list[i], &s
		}
	})
	return found, in, err
}

// createSession gives a notebook a kernel. With the token of one session, its kernel is the only one that there is.
func (h *Handler) createSession(q *request) error {
	var r notebookRequest
	if err := q.read(&r); err != nil {
		return err
	}
	if r.Path == nil || *r.Path == "" || r.Type == nil || *r.Type == "" {
		return api.Errorf(api.CodeInvalidRequest, "fields \"path\" and \"type\" are required")
	}
	if err := q.caller.Permit(api.RightRun); err != nil {
		return err
	}
	path, err := q.ownerPath(*r.Path)
	if err != nil {
		return err
	}
	known, in, err := h.find(q, func(n notebook) bool { return n.Path == path })
	if err != nil {
		return err
	}
	if in != nil {
		return q.answer(http.StatusCreated, known.in(h, q, *in))
	}
	n := notebook{ID: newID(), Path: path, Type: *r.Type}
	if r.Name != nil {
		n.Name = *r.Name
	}
	s, err := h.kernelFor(q, r, n)
	if s == nil {
		return err
	}
	defer s.Release()
	q.w.Header().Set("Location", Prefix+"/api/sessions/"+n.ID)
	return q.answer(http.StatusCreated, n.in(h, q, s.Info(q.command())))
}

// kernelFor returns the session for a notebook: the one of the kernel that the request names, or a new one.
func (h *Handler) kernelFor(q *request, r notebookRequest, n notebook) (*session.Session, error) {
	id, name := "", ""
	if r.Kernel != nil {
		id, name = r.Kernel.ID, r.Kernel.Name
	}
	if id == "" {
		if s := h.sessionAround(q, n.Path); s != nil {
			id = kernelwire.KernelID(s.Info(q.command()).ID)
			s.Release()
		}
	}
	if id == "" {
		metadata := map[string]string{}
		if err := transfer.SetList(metadata, metaNotebooks, []notebook{n}); err != nil {
			return nil, err
		}
		return h.create(q, kernelRequest{Name: name, Path: n.Path}, metadata)
	}
	s, err := h.session(q, id, api.RightRun)
	if err != nil {
		return nil, err
	}
	if err := h.add(q, s, n); err != nil {
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

// describe changes the notebooks of a session.
func (h *Handler) describe(q *request, s *session.Session, change func([]notebook) []notebook) error {
	return s.UpdateMetadata(q.command(), api.SessionPatch{}, func(metadata map[string]string) error {
		list := change(notebooksOf(metadata))
		if len(list) > maxNotebooks {
			return api.Errorf(api.CodeLimitExceeded, "the session runs %d notebooks and consoles, which is the limit; shut one down", maxNotebooks)
		}
		return transfer.SetList(metadata, metaNotebooks, list)
	})
}

// add adds a notebook to those of a session, or changes it.
func (h *Handler) add(q *request, s *session.Session, n notebook) error {
	return h.describe(q, s, func(list []notebook) []notebook {
		if i := slices.IndexFunc(list, n.is); i >= 0 {
			list[i] = n
			return list
		}
		return append(list, n)
	})
}

// drop removes a notebook from those of a session.
func (h *Handler) drop(q *request, s *session.Session, n notebook) error {
	return h.describe(q, s, func(list []notebook) []notebook { return slices.DeleteFunc(list, n.is) })
}

func (n notebook) is(other notebook) bool { return n.ID == other.ID }

func (h *Handler) notebook(q *request) (notebook, *api.Session, error) {
	id := q.PathValue("id")
	found, in, err := h.find(q, func(n notebook) bool { return n.ID == id })
	if err == nil && in == nil {
		err = api.Errorf(api.CodeNotFound, "Session not found: session_id=%.140q", id)
	}
	return found, in, err
}

func (h *Handler) getSession(q *request) error {
	found, in, err := h.notebook(q)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, found.in(h, q, *in))
}

// patchSession renames a notebook, or gives it another kernel: the old one ends where the request names a kernel to start, as in
// Jupyter.
func (h *Handler) patchSession(q *request) error {
	var r notebookRequest
	if err := q.read(&r); err != nil {
		return err
	}
	found, in, err := h.notebook(q)
	if err != nil {
		return err
	}
	old, err := h.session(q, kernelwire.KernelID(in.ID), api.RightRun)
	if err != nil {
		return err
	}
	defer old.Release()
	n := found
	n.Name, n.Type = *cmp.Or(r.Name, &n.Name), *cmp.Or(r.Type, &n.Type)
	if r.Path != nil {
		if n.Path, err = q.ownerPath(*r.Path); err != nil {
			return err
		}
	}
	restarts := r.Kernel != nil && r.Kernel.ID == "" && r.Kernel.Name != "" && found.isInside(*in)
	if restarts { // it has no other kernel, and its file would go with this one
		if err := old.Reset(q.command(), api.ResetRequest{}); err != nil {
			return err
		}
	}
	moves := !restarts && r.Kernel != nil && (r.Kernel.ID != "" && r.Kernel.ID != kernelwire.KernelID(in.ID) || r.Kernel.ID == "" && r.Kernel.Name != "")
	if !moves {
		if err := h.add(q, old, n); err != nil {
			return err
		}
		return q.answer(http.StatusOK, n.in(h, q, old.Info(q.command())))
	}
	fresh, err := h.kernelFor(q, r, n)
	if fresh == nil {
		return err
	}
	defer fresh.Release()
	switch {
	case fresh.ID() == in.ID: // the notebook has moved into its workspace
	case r.Kernel.ID == "":
		err = h.delete(q, kernelwire.KernelID(in.ID))
	default:
		err = h.drop(q, old, found)
	}
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, n.in(h, q, fresh.Info(q.command())))
}

func (h *Handler) deleteSession(q *request) error {
	found, in, err := h.notebook(q)
	if err != nil {
		return err
	}
	if q.caller.Session == "" && !found.isInside(*in) {
		err = h.delete(q, kernelwire.KernelID(in.ID))
	} else {
		err = h.leave(q, found, in)
	}
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// leave shuts down a notebook that lies in its session's workspace. The session starts over and keeps its files; for the token of
// one session it goes on, since it is not the caller's.
func (h *Handler) leave(q *request, found notebook, in *api.Session) error {
	s, err := h.session(q, kernelwire.KernelID(in.ID), api.RightRun)
	if err != nil {
		return err
	}
	defer s.Release()
	if q.caller.Session == "" {
		if err := s.Reset(q.command(), api.ResetRequest{}); err != nil {
			return err
		}
	}
	return h.drop(q, s, found)
}
