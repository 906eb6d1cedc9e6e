package execd

import (
	"errors"
	"strings"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// The metadata of sessions that this package made. The language is that of all cells of the context.
const (
	metaRole     = "talaria.execd"
	metaLanguage = "talaria.execd.language"
)

// The roles of sessions.
const (
	roleContext = "context" // made by a client, and deleted by it
	roleDefault = "default" // of requests that name no context
)

// defaultID is the session of an owner's requests that name no context: code in all languages, and commands. It is what execd takes
// for the sandbox.
const defaultID = "execd"

// The languages of contexts. JavaScript keeps nothing from one cell to the next: it runs each in a fresh process.
const (
	languagePython     = "python"
	languageBash       = "bash"
	languageJavaScript = "javascript"
)

// language returns the language that a client names, which is bash where it names none, as in execd.
func language(name string) (string, error) {
	switch strings.ToLower(name) {
	case "python":
		return languagePython, nil
	case "", "command", "bash":
		return languageBash, nil
	case "javascript":
		return languageJavaScript, nil
	}
	return "", api.Errorf(api.CodeInvalidRequest,
		"language %.80q is not supported here; use python, bash or javascript, or POST /v1/run for compiled languages", name)
}

// contextModel is a context as clients see it, and what they ask one for.
type contextModel struct {
	ID       string `json:"id,omitzero"`
	Language string `json:"language"`
	CWD      string `json:"cwd,omitzero"`
}

// codeContext is where cells run. Its holder releases the session.
type codeContext struct {
	*session.Session
	language string
}

func (c codeContext) model() contextModel { return contextModel{ID: c.ID(), Language: c.language} }

// context finds the context with that id, or the default one, which it makes if need be. Any session of the owner can be used by
// its id; one that this package has not made is a Python context.
func (h *Handler) context(q *request, asked contextModel) (codeContext, error) {
	if asked.ID == "" {
		name, err := language(asked.Language)
		if err != nil {
			return codeContext{}, err
		}
		s, err := h.sandbox(q)
		return codeContext{Session: s, language: name}, err
	}
	s, err := h.named(q, asked.ID)
	if err != nil {
		return codeContext{}, err
	}
	c := codeContext{Session: s, language: languageOf(s.Info(q.Context()).Metadata)}
	if asked.Language != "" && !strings.EqualFold(asked.Language, c.language) {
		s.Release()
		return codeContext{}, api.Errorf(api.CodeInvalidRequest, "context %.140q runs %s, not %.80q", asked.ID, c.language, asked.Language)
	}
	return c, nil
}

// named returns the session with that id. The caller releases it.
func (h *Handler) named(q *request, id string) (*session.Session, error) {
	s, err := h.Sessions.Get(q.caller.Owner, id)
	if known := new(api.Error); errors.As(err, &known) && known.Code == api.CodeSessionNotFound {
		return nil, api.Errorf(api.CodeSessionNotFound, "context %.140q not found: it was deleted, or it never existed", id)
	}
	return s, err
}

// sandbox returns the session of requests that name no context. The caller releases it.
func (h *Handler) sandbox(q *request) (*session.Session, error) {
	s, _, err := h.Sessions.Ensure(q.command(), q.caller.Owner, defaultID, sessionFor(roleDefault, languagePython), api.IfExistsKeep)
	return s, err
}

func languageOf(metadata map[string]string) string {
	if known := metadata[metaLanguage]; known != "" {
		return known
	}
	return languagePython
}

// sessionFor is what a session for a role and a language is made from.
func sessionFor(role, language string) api.SessionRequest {
	metadata := map[string]string{metaRole: role, metaLanguage: language}
	return api.SessionRequest{Metadata: &metadata}
}

func (h *Handler) createContext(q *request) error {
	var asked contextModel
	if err := q.read(&asked); err != nil {
		return err
	}
	if asked.Language == "" {
		return api.Errorf(api.CodeInvalidRequest, "language is missing; use python, bash or javascript")
	}
	name, err := language(asked.Language)
	if err != nil {
		return err
	}
	s, err := h.Sessions.Create(q.command(), q.caller.Owner, sessionFor(roleContext, name))
	if err != nil {
		return err
	}
	defer s.Release()
	made := codeContext{Session: s, language: name}
	if err := h.enter(q, made, asked.CWD); err != nil {
		return errors.Join(err, h.Sessions.Delete(q.command(), q.caller.Owner, s.ID()))
	}
	answer := made.model()
	answer.CWD = asked.CWD
	return q.answer(answer)
}

// enter makes folder the working directory of a context. Relative ones begin in the workspace.
func (h *Handler) enter(q *request, c codeContext, folder string) error {
	if folder == "" {
		return nil
	}
	ran, err := c.RunSilently(q.Context(), transfer.Enter(folder))
	if err != nil {
		return err
	}
	if ran.Status != api.StatusOK {
		reason := string(ran.Status)
		if ran.Error != nil {
			reason = ran.Error.Ename + ": " + ran.Error.Evalue
		}
		return api.Errorf(api.CodeInvalidRequest, "cwd %.200q cannot be the working directory: %.300s", folder, reason)
	}
	return nil
}

func (h *Handler) getContext(q *request) error {
	c, err := h.context(q, contextModel{ID: q.PathValue("id")})
	if err != nil {
		return err
	}
	defer c.Release()
	return q.answer(c.model())
}

func (h *Handler) listContexts(q *request) error {
	list := []contextModel{}
	err := h.each(q, q.URL.Query().Get("language"), func(s api.Session) error {
		list = append(list, contextModel{ID: s.ID, Language: languageOf(s.Metadata)})
		return nil
	})
	if err != nil {
		return err
	}
	return q.answer(list)
}

// each calls do with the contexts that clients have made, of one language or, with "", of all.
func (h *Handler) each(q *request, name string, do func(api.Session) error) error {
	filter := session.Filter{Metadata: map[string]string{metaRole: roleContext}, Page: api.PageQuery{Limit: 100}}
	if name != "" {
		known, err := language(name)
		if err != nil {
			return err
		}
		filter.Metadata[metaLanguage] = known
	}
	for {
		page, err := h.Sessions.List(q.Context(), q.caller.Owner, filter)
		if err != nil {
			return err
		}
		for _, s := range page.Items {
			if err := do(s); err != nil {
				return err
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		filter.Page.Cursor = page.NextCursor
	}
}

func (h *Handler) deleteContext(q *request) error {
	id := q.PathValue("id")
	c, err := h.context(q, contextModel{ID: id})
	if err != nil {
		return err
	}
	c.Release()
	if err := h.Sessions.Delete(q.command(), q.caller.Owner, id); err != nil {
		return err
	}
	return q.nothing()
}

// deleteContexts deletes the contexts of a language that clients have made.
func (h *Handler) deleteContexts(q *request) error {
	name := q.URL.Query().Get("language")
	if name == "" {
		return api.Errorf(api.CodeInvalidRequest, "language is missing in the query")
	}
	var ids []string
	err := h.each(q, name, func(s api.Session) error {
		ids = append(ids, s.ID)
		return nil
	})
	for _, id := range ids {
		deleted := h.Sessions.Delete(q.command(), q.caller.Owner, id)
		if known := new(api.Error); errors.As(deleted, &known) && known.Code == api.CodeSessionNotFound {
			continue // somebody else was faster
		}
		err = errors.Join(err, deleted)
	}
	if err != nil {
		return err
	}
	return q.nothing()
}
