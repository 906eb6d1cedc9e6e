package e2b

import (
	"crypto/rand"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

// home is the workspace, as clients of E2B call it.
const home = "/home/user"

// The languages of contexts. JavaScript keeps nothing from one cell to the next: it runs each in a fresh process. All others of a
// sandbox are kept by its one interpreter, where each further context has a namespace.
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

// metaContexts is the metadata of a sandbox with the contexts that clients have made, as a list in JSON.
const metaContexts = ownMetadata + "contexts"

// The bounds of the contexts that clients make.
const (
	maxContexts = 32
	maxFolder   = 1024 // bytes of a working directory
	maxOpen     = 64   // executions of a sandbox among which those of a context are looked for
)

// contextModel is a context as clients see it.
type contextModel struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	CWD      string `json:"cwd"`
}

// codeContext is where cells run.
type codeContext struct {
	contextModel
	made    bool             // by a client
	session *session.Session // of whom the holder of the context releases it
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
	s, err := h.Sessions.Get(q.caller.Owner, sandbox.ID())
	if err != nil {
		return codeContext{}, err
	}
	metadata := s.Info(q.Context()).Metadata
	for i, one := range append(ownContexts(), madeContexts(metadata)...) {
		if id == one.ID {
			return codeContext{contextModel: one, made: i >= len(contextLanguages), session: s}, nil
		}
	}
	s.Release()
	return codeContext{}, errNoContext(id)
}

func errNoContext(id string) error {
	return api.Errorf(api.CodeNotFound, "Context %.140s not found", id)
}

// ownContexts are those that every sandbox has.
func ownContexts() []contextModel {
	var list []contextModel
	for _, one := range contextLanguages {
		list = append(list, contextModel{ID: defaultID(one), Language: one, CWD: home})
	}
	return list
}

// madeContexts are those that clients have made in the sandbox with this metadata.
func madeContexts(metadata map[string]string) []contextModel {
	return transfer.List[contextModel](metadata, metaContexts)
}

// cell returns code as the interpreter runs it. JavaScript has no namespace, so a shell goes to the folder of its context first. In the
// tier landlock there is no home, and the workspace is where cells begin.
func (c codeContext) cell(code string) string {
	if !c.made {
		return transfer.Cell(c.Language, code)
	}
	below, err := relative(c.CWD)
	inside := err == nil
	if c.Language != languageJavaScript {
		folder := c.CWD
		if inside {
			folder = below
		}
		return c.magic() + folder + "\n" + transfer.Cell(c.Language, code)
	}
	enter := "cd " + shellWord(c.CWD)
	if inside {
		enter += " 2>/dev/null || cd " + shellWord("./"+below)
	}
	end := "end-" + rand.Text()
	return "%%bash\n" + enter + " && exec node <<'" + end + "'\n" + code + "\n" + end + "\n"
}

// magic is how each cell begins in a further context, unless it is JavaScript.
func (c codeContext) magic() string { return "%%namespace " + c.ID + " " }

// shellWord quotes a word for a shell.
func shellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func (h *Handler) listContexts(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	return q.answer(http.StatusOK, append(ownContexts(), madeContexts(s.Info(q.Context()).Metadata)...))
}

// createContext makes a context: one with variables of its own, or one whose cells in JavaScript are processes of their own.
func (h *Handler) createContext(q *request) error {
	var asked contextModel
	if err := q.read(&asked); err != nil {
		return err
	}
	known, err := language(asked.Language)
	if err != nil {
		return err
	}
	if len(asked.CWD) > maxFolder || strings.ContainsAny(asked.CWD, "\x00\r\n") {
		return api.Errorf(api.CodeInvalidRequest, "cwd %.200q is not valid: it has more than %d bytes, or a line break", asked.CWD, maxFolder)
	}
	made := contextModel{ID: uuid.NewString(), Language: known, CWD: path.Clean(asked.CWD)}
	if !path.IsAbs(asked.CWD) {
		made.CWD = path.Join(home, asked.CWD)
	}
	s, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	defer s.Release()
	err = s.UpdateMetadata(q.command(), api.SessionPatch{}, func(metadata map[string]string) error {
		list := append(madeContexts(metadata), made)
		if len(list) > maxContexts {
			return api.Errorf(api.CodeLimitExceeded, "a sandbox can have %d additional contexts; delete some", maxContexts)
		}
		return transfer.SetList(metadata, metaContexts, list)
	})
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, made)
}

// restartContext starts the interpreter of the sandbox again. A context that a client has made only loses its cells and its state:
// other contexts have theirs in the same interpreter.
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
	if c.made {
		err = c.forget(q)
	} else {
		err = c.session.Reset(q.command(), api.ResetRequest{})
	}
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, nil)
}

// forget ends the cells of a context that a client has made, and drops its state. An interpreter that is not there has none.
func (c codeContext) forget(q *request) error {
	state := c.session.Info(q.command()).State
	if c.Language == languageJavaScript || state != api.StateIdle && state != api.StateBusy {
		return nil
	}
	var open []string // newest first, so that none of them begins when the running one ends
	_, err := c.session.Executions().List(q.command(), api.PageQuery{Limit: maxOpen}, func(e api.Execution) (bool, error) {
		if !e.Status.Final() && strings.HasPrefix(e.Code, c.magic()) {
			open = append(open, e.ID)
		}
		return true, nil
	})
	for _, id := range open {
		err = errors.Join(err, c.session.Interrupt(q.command(), id))
	}
	if err == nil {
		_, err = c.submit(q.command(), "%namespace -d "+c.ID, true)
	}
	return err
}

func (h *Handler) deleteContext(q *request) error {
	s, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	defer s.Release()
	id := q.PathValue("id")
	if slices.ContainsFunc(ownContexts(), func(c contextModel) bool { return c.ID == id }) {
		return api.Errorf(api.CodeInvalidRequest, "context %.140s belongs to the sandbox; kill the sandbox, or restart the context", id)
	}
	gone := codeContext{made: true, session: s}
	err = s.UpdateMetadata(q.command(), api.SessionPatch{}, func(metadata map[string]string) error {
		list := madeContexts(metadata)
		i := slices.IndexFunc(list, func(c contextModel) bool { return c.ID == id })
		if i < 0 {
			return errNoContext(id)
		}
		gone.contextModel = list[i]
		return transfer.SetList(metadata, metaContexts, slices.Delete(list, i, i+1))
	})
	if err == nil {
		err = gone.forget(q)
	}
	if err != nil {
		return err
	}
	return q.nothing()
}
