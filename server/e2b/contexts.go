package e2b

import (
	"net/http"
	"strings"

	"talaria/api"
	"talaria/session"
)

// home is the workspace, as clients of E2B call it.
const home = "/home/user"

// The languages of contexts. Only Python keeps variables from one cell to the next: the others run each cell in a fresh process.
const (
	languagePython     = "python"
	languageBash       = "bash"
	languageJavaScript = "javascript"
)

// contextLanguages are the languages of a sandbox's contexts. All run in its one session.
var contextLanguages = []string{languagePython, languageBash, languageJavaScript}

// languages are the names by which clients ask for a language.
var languages = map[string]string{
	"": languagePython, "python": languagePython, "py": languagePython, "python3": languagePython,
	"bash": languageBash, "sh": languageBash, "shell": languageBash,
	"javascript": languageJavaScript, "js": languageJavaScript, "node": languageJavaScript,
}

// codeContext is where cells run.
type codeContext struct {
	id       string
	language string
	cwd      string
	session  *session.Session // of whom the holder of the context releases it
}

func language(name string) (string, error) {
	known, ok := languages[strings.ToLower(name)]
	if !ok {
		return "", api.Errorf(api.CodeInvalidRequest, "language %.80q is not supported; use python, bash or javascript", name)
	}
	return known, nil
}

// defaultID names the context of a language that every sandbox has. It cannot be the id of a session.
func defaultID(language string) string { return "_" + language }

// context finds a context of a sandbox by its id, or the one of a language. The caller releases its session.
func (h *Handler) context(q *request, sandbox *session.Session, id, name string) (codeContext, error) {
	if id == "" {
		known, err := language(name)
		if err != nil {
			return codeContext{}, err
		}
		id = defaultID(known)
	}
	for _, one := range contextLanguages {
		if id == defaultID(one) {
			s, err := h.Sessions.Get(q.caller.Owner, sandbox.ID())
			return codeContext{id: id, language: one, cwd: home, session: s}, err
		}
	}
	return codeContext{}, api.Errorf(api.CodeNotFound, "Context %.140s not found", id)
}

func (c codeContext) model() object {
	return object{"id": c.id, "language": c.language, "cwd": c.cwd}
}

func (h *Handler) listContexts(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	list := []object{}
	for _, one := range contextLanguages {
		list = append(list, codeContext{id: defaultID(one), language: one, cwd: home}.model())
	}
	return q.answer(http.StatusOK, list)
}

// createContext refuses: a further interpreter would need the workspace of the sandbox, and sessions do not share theirs.
func (h *Handler) createContext(*request) error {
	return api.Errorf(api.CodeNotImplemented, "a sandbox has one context for each language here; for separate variables, create another sandbox")
}

func (h *Handler) restartContext(q *request) error {
	sandbox, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	defer sandbox.Release()
	c, err := h.context(q, sandbox, q.PathValue("id"), "")
	if err != nil {
		return err
	}
	defer c.session.Release()
	if err := c.session.Reset(q.command(), api.ResetRequest{}); err != nil {
		return err
	}
	return q.answer(http.StatusOK, nil)
}

func (h *Handler) deleteContext(q *request) error {
	sandbox, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	defer sandbox.Release()
	c, err := h.context(q, sandbox, q.PathValue("id"), "")
	if err != nil {
		return err
	}
	c.session.Release()
	return api.Errorf(api.CodeInvalidRequest, "context %.140s belongs to the sandbox; kill the sandbox, or restart the context", c.id)
}
