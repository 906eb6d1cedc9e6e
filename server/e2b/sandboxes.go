package e2b

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/session"
)

// Metadata of a session that only this package writes. Clients of E2B do not see it.
const (
	ownMetadata  = "talaria.e2b."
	metaTemplate = ownMetadata + "template"
	metaEnd      = ownMetadata + "end_at" // Unix milliseconds
)

// defaultTimeout is how long a sandbox lives if its client does not say.
const defaultTimeout = 300

// defaultTemplates are the templates of E2B that stand for the default environment.
var defaultTemplates = []string{"", "base", "code-interpreter-v1", "code-interpreter"}

func (h *Handler) controlPlane() map[string]func(*request) error {
	routes := map[string]func(*request) error{
		"GET /sandboxes":                 h.listRunning,
		"GET /v2/sandboxes":              h.listSandboxes,
		"GET /sandboxes/{id}":            h.getSandbox,
		"DELETE /sandboxes/{id}":         h.killSandbox,
		"POST /sandboxes/{id}/timeout":   h.setTimeout,
		"POST /sandboxes/{id}/refreshes": h.refresh,
		"POST /sandboxes/{id}/pause":     h.pauseSandbox,
		"POST /sandboxes/{id}/resume":    h.resumeSandbox,
		"PUT /sandboxes/{id}/network":    h.setNetwork,
		"GET /sandboxes/{id}/metrics":    h.getMetrics,
	}
	for _, version := range []string{"", "/v2"} {
		routes["POST "+version+"/sandboxes"] = h.createSandbox
		routes["POST "+version+"/sandboxes/{id}/connect"] = h.connectSandbox
	}
	for pattern, what := range map[string]string{
		"POST /sandboxes/{id}/snapshots": "a snapshot",
		"POST /sandboxes/{id}/fork":      "a fork",
		"GET /snapshots":                 "a list of snapshots",
		"/templates/":                    "a way to build templates; use an environment of the server's configuration",
		"/secrets":                       "a store for secrets",
		"/volumes":                       "a volume",
	} {
		routes[pattern] = func(*request) error {
			return api.Errorf(api.CodeNotImplemented, "Talaria does not offer E2B clients %s", what)
		}
	}
	return routes
}

// newSandbox is the body of POST sandboxes.
type newSandbox struct {
	TemplateID string            `json:"templateID"`
	Timeout    *float64          `json:"timeout"`
	AutoPause  bool              `json:"autoPause"`
	Internet   *bool             `json:"allow_internet_access"`
	Network    *network          `json:"network"`
	Metadata   map[string]string `json:"metadata"`
	EnvVars    map[string]string `json:"envVars"`
	MCP        api.Raw           `json:"mcp"`
	IAM        api.Raw           `json:"iam"`
	Volumes    []api.Raw         `json:"volumeMounts"`
}

// network is what a sandbox may reach, in E2B's terms.
type network struct {
	AllowOut    []string `json:"allowOut"`
	DenyOut     []string `json:"denyOut"`
	Rules       api.Raw  `json:"rules"`
	EgressProxy api.Raw  `json:"egressProxy"`
	Internet    *bool    `json:"allow_internet_access"` // when it is changed
}

// everything is how E2B writes any address.
const everything = "0.0.0.0/0"

// request translates the network; nil leaves it as the session's default. Where E2B's default is the internet, a session's is
// none: only a client that asks for it gets it.
func (n *network) request(internet *bool) (*api.Network, error) {
	if n == nil {
		n = &network{}
	}
	if given(n.Rules) || given(n.EgressProxy) {
		return nil, api.Errorf(api.CodeNotImplemented, "network.rules and network.egressProxy are not supported; allow hosts with network.allowOut")
	}
	closed := internet != nil && !*internet || slices.Contains(n.DenyOut, everything)
	switch {
	case closed && len(n.AllowOut) > 0 && !slices.Contains(n.AllowOut, everything):
		return &api.Network{Mode: api.NetworkAllow, Allow: n.AllowOut}, nil
	case closed:
		return &api.Network{Mode: api.NetworkNone}, nil
	case len(n.DenyOut) > 0:
		return nil, api.Errorf(api.CodeNotImplemented, "network.denyOut can only be %q; list what is allowed in network.allowOut", everything)
	case internet != nil || slices.Contains(n.AllowOut, everything):
		return &api.Network{Mode: api.NetworkFull}, nil
	case len(n.AllowOut) > 0:
		return &api.Network{Mode: api.NetworkAllow, Allow: n.AllowOut}, nil
	}
	return nil, nil
}

// given reports whether a field holds more than null and emptiness.
func given(raw api.Raw) bool {
	return len(raw) > 0 && !slices.Contains([]string{"null", "{}", "[]"}, string(raw))
}

func (h *Handler) createSandbox(q *request) error {
	var body newSandbox
	if err := q.read(&body); err != nil {
		return err
	}
	if err := q.caller.Permit(""); err != nil {
		return err
	}
	seconds := float64(defaultTimeout)
	if body.Timeout != nil {
		seconds = *body.Timeout
	}
	req, err := h.sessionRequest(body, seconds)
	if err != nil {
		return err
	}
	s, err := h.Sessions.Create(q.command(), q.caller.Owner, req)
	if err != nil {
		return err
	}
	defer s.Release()
	info := s.Info(q.command())
	h.expiry.set(q.caller.Owner, info.ID, endOf(info))
	return q.answer(http.StatusCreated, h.opened(q.caller.Owner, s, info))
}

func (h *Handler) sessionRequest(body newSandbox, seconds float64) (req api.SessionRequest, err error) {
	if given(body.MCP) || given(body.IAM) || len(body.Volumes) > 0 {
		return req, api.Errorf(api.CodeNotImplemented, "mcp, iam and volumeMounts are not supported; leave them out")
	}
	end, err := endAfter(seconds)
	if err != nil {
		return req, err
	}
	metadata := map[string]string{metaTemplate: body.TemplateID, metaEnd: end}
	for key, value := range body.Metadata {
		if strings.HasPrefix(key, ownMetadata) {
			return req, api.Errorf(api.CodeInvalidRequest, "metadata key %.140q begins with %s, which is reserved", key, ownMetadata)
		}
		metadata[key] = value
	}
	req = api.SessionRequest{Metadata: &metadata, IdleTimeoutS: &seconds}
	if body.AutoPause {
		metadata[metaAutoPause] = "true"
		req.OnIdle = new(api.OnIdleHibernate)
	}
	if !slices.Contains(defaultTemplates, body.TemplateID) {
		known := func(e api.EnvironmentInfo) bool { return e.Name == body.TemplateID }
		if !slices.ContainsFunc(h.Sessions.Environments(), known) {
			return req, api.Errorf(api.CodeNotFound, "there is no template %.140q; use code-interpreter-v1, or an environment of the server's configuration", body.TemplateID)
		}
		req.Environment = &body.TemplateID
	}
	if req.Network, err = body.Network.request(body.Internet); err != nil {
		return req, err
	}
	if len(body.EnvVars) > 0 {
		req.Env = &body.EnvVars
	}
	return req, nil
}

// endAfter returns metaEnd for a sandbox that lives for so many seconds from now.
func endAfter(seconds float64) (string, error) {
	if !(seconds >= 1 && seconds <= 365*24*3600) {
		return "", api.Errorf(api.CodeInvalidRequest, "timeout must be between 1 second and a year")
	}
	return strconv.FormatInt(time.Now().Add(time.Duration(seconds*float64(time.Second))).UnixMilli(), 10), nil
}

// endOf returns when a sandbox is killed or paused; the zero time for one that is paused, and for a session that ends by no time of
// E2B's.
func endOf(s api.Session) time.Time {
	ms, err := strconv.ParseInt(s.Metadata[metaEnd], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// opened is the answer that lets a client use a sandbox.
func (h *Handler) opened(owner string, s *session.Session, info api.Session) map[string]any {
	token := h.token(owner, s)
	return map[string]any{
		"templateID": templateOf(info), "sandboxID": info.ID, "clientID": "talaria", "alias": "", "envdVersion": envdVersion,
		"envdAccessToken": token, "trafficAccessToken": token,
	}
}

func templateOf(info api.Session) string {
	if name := info.Metadata[metaTemplate]; name != "" {
		return name
	}
	return info.Environment
}

// model is a sandbox as the control plane describes it.
func model(s api.Session) map[string]any {
	metadata := map[string]string{}
	for key, value := range s.Metadata {
		if !strings.HasPrefix(key, ownMetadata) {
			metadata[key] = value
		}
	}
	end := endOf(s)
	switch {
	case !end.IsZero():
	case s.ReapAt != nil:
		end = s.ReapAt.Time
	default:
		end = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	onTimeout := "kill"
	if s.Metadata[metaAutoPause] != "" {
		onTimeout = "pause"
	}
	return map[string]any{
		"sandboxID": s.ID, "templateID": templateOf(s), "clientID": "talaria", "alias": s.Name, "envdVersion": envdVersion,
		"startedAt": date(s.CreatedAt.Time), "endAt": date(end), "state": stateOf(s), "metadata": metadata,
		"cpuCount": int64(math.Ceil(max(1, s.Limits.CPUs))), "memoryMB": s.Limits.MemoryBytes >> 20, "diskSizeMB": s.Limits.DiskBytes >> 20,
		"allowInternetAccess": s.Network.Mode == api.NetworkFull, "volumeMounts": []any{},
		"lifecycle": map[string]any{"onTimeout": onTimeout, "autoResume": true},
	}
}

func stateOf(s api.Session) string {
	if s.State == api.StateHibernated {
		return statePaused
	}
	return "running"
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (h *Handler) getSandbox(q *request) error {
	s, err := h.named(q, q.PathValue("id"), api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	return q.answer(http.StatusOK, model(s.Info(q.Context())))
}

func (h *Handler) killSandbox(q *request) error {
	id := q.PathValue("id")
	s, err := h.named(q, id, "")
	if err != nil {
		return err
	}
	s.Release()
	if err := h.kill(q.command(), q.caller.Owner, id); err != nil {
		return err
	}
	return q.nothing()
}

// kill deletes a sandbox. If that fails, the sandbox still ends at its time.
func (h *Handler) kill(ctx context.Context, owner, id string) error {
	h.expiry.forget(owner, id)
	err := h.Sessions.Delete(ctx, owner, id)
	if err != nil {
		h.expiry.set(owner, id, time.Now().Add(retryEnd)) // expire looks up when the sandbox ends
	}
	return err
}

// listRunning answers GET sandboxes of the first version: all that run.
func (h *Handler) listRunning(q *request) error {
	return h.list(q, []string{"running"}, api.MaxPage)
}

func (h *Handler) listSandboxes(q *request) error {
	limit := 100
	if text := q.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 100 {
			return api.Errorf(api.CodeInvalidRequest, "limit must be between 1 and 100")
		}
	}
	states := q.URL.Query()["state"]
	if len(states) == 1 {
		states = strings.Split(states[0], ",")
	}
	return h.list(q, states, limit)
}

// list answers with a page of the owner's sandboxes, newest first.
func (h *Handler) list(q *request, states []string, limit int) error {
	if err := q.caller.Permit(""); err != nil {
		return err
	}
	metadata, after, err := listFilter(q.URL.Query())
	if err != nil {
		return err
	}
	template := q.URL.Query().Get("template")
	items := []map[string]any{}
	filter := session.Filter{Metadata: metadata, Page: api.PageQuery{Cursor: q.URL.Query().Get("nextToken")}}
	for {
		filter.Page.Limit = limit - len(items)
		page, err := h.Sessions.List(q.Context(), q.caller.Owner, filter)
		if err != nil {
			return err
		}
		for _, s := range page.Items {
			if s.Beside == "" && (len(states) == 0 || slices.Contains(states, stateOf(s))) && s.CreatedAt.After(after) &&
				(template == "" || templateOf(s) == template) {
				items = append(items, model(s))
			}
		}
		filter.Page.Cursor = page.NextCursor
		if page.NextCursor == "" || len(items) == limit {
			break
		}
	}
	if filter.Page.Cursor != "" {
		q.w.Header().Set("X-Next-Token", filter.Page.Cursor)
	}
	return q.answer(http.StatusOK, items)
}

// listFilter reads the filters of a list. The metadata is a query within the query, whose parts the SDK escapes once more.
func listFilter(query url.Values) (metadata map[string]string, after time.Time, err error) {
	pairs, err := url.ParseQuery(query.Get("metadata"))
	if err != nil {
		return nil, after, api.Errorf(api.CodeInvalidRequest, "metadata must be a query such as key=value")
	}
	metadata = map[string]string{}
	for key := range pairs {
		name, err1 := url.PathUnescape(key)
		value, err2 := url.PathUnescape(pairs.Get(key))
		if err1 != nil || err2 != nil {
			return nil, after, api.Errorf(api.CodeInvalidRequest, "metadata is not escaped correctly")
		}
		metadata[name] = value
	}
	if text := query.Get("startedAfter"); text != "" {
		if after, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, after, api.Errorf(api.CodeInvalidRequest, "startedAfter is not a time such as 2026-01-31T12:00:00Z")
		}
	}
	if order := query.Get("order"); order != "" && order != "desc" {
		return nil, after, api.Errorf(api.CodeNotImplemented, "sandboxes are listed newest first; leave out order")
	}
	return metadata, after, nil
}
