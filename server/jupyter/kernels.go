package jupyter

import (
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/api/kernelwire"
	"talaria/session"
)

// kernel is a kernel as the REST API shows it.
type kernel struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	LastActivity   string `json:"last_activity"`
	ExecutionState string `json:"execution_state"`
	Connections    int    `json:"connections"`
	Reason         string `json:"reason,omitempty"` // why the last interpreter ended

	at time.Time // LastActivity
}

// defaultSpec is the name that clients and notebooks use for a Python kernel; it stands for the default environment.
const defaultSpec = "python3"

// executionState translates a session's state. A session without an interpreter counts as idle: the next cell starts one.
func executionState(s api.SessionState) string {
	switch s {
	case api.StateStarting:
		return "starting"
	case api.StateBusy:
		return "busy"
	}
	return "idle"
}

func (h *Handler) model(q *request, s api.Session) kernel {
	m := kernel{ID: kernelwire.KernelID(s.ID), Name: h.specOf(s.Environment), LastActivity: date(s.LastActiveAt.Time), at: s.LastActiveAt.Time,
		ExecutionState: executionState(s.State), Connections: h.kernels.connections(q.caller.Owner, s.ID)}
	if s.State == api.StateDead {
		m.Reason = s.Reason
	}
	return m
}

// models lists the kernels of all sessions that the caller may use.
func (h *Handler) models(q *request) ([]kernel, error) {
	list := []kernel{}
	err := h.each(q, func(s api.Session) { list = append(list, h.model(q, s)) })
	return list, err
}

// each calls do with the sessions of the caller, newest first.
func (h *Handler) each(q *request, do func(api.Session)) error {
	if q.caller.Session != "" {
		s, err := h.session(q, kernelwire.KernelID(q.caller.Session), api.RightRead)
		if err != nil {
			return err
		}
		defer s.Release()
		do(s.Info(q.Context()))
		return nil
	}
	filter := session.Filter{Page: api.PageQuery{Limit: api.MaxPage}}
	for {
		page, err := h.Sessions.List(q.Context(), q.caller.Owner, filter)
		if err != nil {
			return err
		}
		for _, s := range page.Items {
			do(s)
		}
		if filter.Page.Cursor = page.NextCursor; filter.Page.Cursor == "" {
			return nil
		}
	}
}

// specOf is the name of an environment's kernel specification.
func (h *Handler) specOf(environment string) string {
	if h.Environments[0].Name == environment {
		return defaultSpec
	}
	return environment
}

// spec describes an environment as a kernel specification. Clients drop one that has no argv, and never run it.
func spec(name string, e api.EnvironmentInfo) map[string]any {
	return map[string]any{
		"name": name,
		"spec": map[string]any{
			"argv": []string{"talaria", "kernel", "-f", "{connection_file}"}, "language": "python", "env": map[string]string{},
			"display_name": displayName(e), "interrupt_mode": "message", "metadata": map[string]any{"debugger": false},
		},
		"resources": map[string]string{},
	}
}

func displayName(e api.EnvironmentInfo) string {
	return "Python " + e.Python + " (" + e.Name + ", Talaria)"
}

func (h *Handler) specs() map[string]map[string]any {
	specs := map[string]map[string]any{}
	for i, e := range h.Environments {
		name := e.Name
		if i == 0 {
			name = defaultSpec
		}
		specs[name] = spec(name, e)
	}
	return specs
}

func (h *Handler) listSpecs(q *request) error {
	return q.answer(http.StatusOK, map[string]any{"default": defaultSpec, "kernelspecs": h.specs()})
}

func (h *Handler) getSpec(q *request) error {
	one, ok := h.specs()[q.PathValue("name")]
	if !ok {
		return api.Errorf(api.CodeNotFound, "Kernel spec %.140s not found", q.PathValue("name"))
	}
	return q.answer(http.StatusOK, one)
}

func (h *Handler) listKernels(q *request) error {
	list, err := h.models(q)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, list)
}

// kernelRequest is the body of POST kernels.
type kernelRequest struct {
	Name string            `json:"name"`
	Path string            `json:"path"` // of the notebook, for people
	Env  map[string]string `json:"env"`
	ID   string            `json:"kernel_id"`
}

// noSpec is the answer to a kernel name that does not exist, as clients know it.
func (h *Handler) noSpec(q *request, name string) error {
	names := slices.Sorted(maps.Keys(h.specs()))
	text := "No such kernel: " + name + "; available: " + strings.Join(names, ", ")
	return q.answer(http.StatusNotImplemented, map[string]string{"message": text, "short_message": "No such kernel: " + name})
}

// environment returns the environment of a kernel specification; nil is the default one.
func (h *Handler) environment(spec string) (name *string, ok bool) {
	if spec == "" || spec == defaultSpec {
		return nil, true
	}
	for _, e := range h.Environments {
		if e.Name == spec {
			return &e.Name, true
		}
	}
	return nil, false
}

// create makes a session for a kernel. The caller releases it. Without a session, the answer was given already or is err.
func (h *Handler) create(q *request, r kernelRequest, metadata map[string]string) (*session.Session, error) {
	if q.caller.Session != "" { // the token's session is the only kernel that there is
		return h.session(q, kernelwire.KernelID(q.caller.Session), api.RightRun)
	}
	if err := q.caller.Permit(""); err != nil {
		return nil, err
	}
	environment, ok := h.environment(r.Name)
	if !ok {
		return nil, h.noSpec(q, r.Name)
	}
	req := api.SessionRequest{Environment: environment, Metadata: &metadata}
	if name := path.Base(r.Path); r.Path != "" && name != "/" {
		req.Name = &name
	}
	if r.ID != "" {
		id, ok := kernelwire.SessionID(r.ID)
		if !ok {
			return nil, api.Errorf(api.CodeInvalidRequest, "the kernel_id %.140q is not valid", r.ID)
		}
		req.ID = &id
	}
	if len(r.Env) > 0 {
		req.Env = &r.Env
	}
	return h.Sessions.Create(q.command(), q.caller.Owner, req)
}

func (h *Handler) createKernel(q *request) error {
	var r kernelRequest
	if err := q.read(&r); err != nil {
		return err
	}
	s, err := h.create(q, r, map[string]string{})
	if s == nil {
		return err
	}
	defer s.Release()
	m := h.model(q, s.Info(q.command()))
	q.w.Header().Set("Location", Prefix+"/api/kernels/"+url.PathEscape(m.ID))
	return q.answer(http.StatusCreated, m)
}

func (h *Handler) getKernel(q *request) error {
	s, err := h.session(q, q.PathValue("id"), api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	return q.answer(http.StatusOK, h.model(q, s.Info(q.Context())))
}

// deleteKernel deletes the session. For a caller that has only this session, it lets go of it: the session is not the caller's.
func (h *Handler) deleteKernel(q *request) error {
	id := q.PathValue("id")
	s, err := h.session(q, id, api.RightRead)
	if err != nil {
		return err
	}
	s.Release()
	if q.caller.Session == "" {
		if err := h.delete(q, id); err != nil {
			return err
		}
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) delete(q *request, kernel string) error {
	id, _ := kernelwire.SessionID(kernel)
	return h.Sessions.Delete(q.command(), q.caller.Owner, id)
}

func (h *Handler) interruptKernel(q *request) error {
	s, err := h.session(q, q.PathValue("id"), api.RightRun)
	if err != nil {
		return err
	}
	defer s.Release()
	if err := s.Interrupt(q.command(), ""); err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) restartKernel(q *request) error {
	s, err := h.session(q, q.PathValue("id"), api.RightRun)
	if err != nil {
		return err
	}
	defer s.Release()
	if err := s.Reset(q.command(), api.ResetRequest{}); err != nil {
		return err
	}
	return q.answer(http.StatusOK, h.model(q, s.Info(q.command())))
}
