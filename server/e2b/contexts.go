package e2b

import (
	"crypto/rand"
	"encoding/json"
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

// The languages of contexts. JavaScript keeps nothing from one cell to the next: it runs each in a fresh process. The contexts that
// every sandbox has share its one interpreter; each further one for Python or bash is a session beside that of the sandbox, with an
// interpreter of its own.
const (
	languagePython     = "python"
	languageBash       = "bash"
	languageJavaScript = "javascript"
)

// contextLanguages are the languages of a sandbox's contexts.
var contextLanguages = []string{languagePython, languageBash, languageJavaScript}

// languages are the names by which clients ask for a language.
var languages = map[string]string{
	"": languagePython, "python": languagePython, "py": languagePython, "python3": languagePython,
	"bash": languageBash, "sh": languageBash, "shell": languageBash,
	"javascript": languageJavaScript, "js": languageJavaScript, "node": languageJavaScript,
}

const (
	// metaContexts is the metadata of a sandbox with the contexts for JavaScript that clients have made, as a list in JSON.
	metaContexts = ownMetadata + "contexts"
	// metaContext is the metadata of the session of a context, with what its client made it from, in JSON.
	metaContext = ownMetadata + "context"
)

// The bounds of the contexts that clients make.
const (
	maxContexts = 32
	maxFolder   = 1024 // bytes of a working directory
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
	for i, one := range append(ownContexts(), transfer.List[contextModel](s.Metadata(), metaContexts)...) {
		if id == one.ID {
			return codeContext{contextModel: one, made: i >= len(contextLanguages), session: s}, nil
		}
	}
	s.Release()
	if s, err = h.Sessions.Get(q.caller.Owner, id); err != nil {
		return codeContext{}, errNoContext(id)
	}
	model, ok := contextOf(s)
	if !ok || !s.IsBeside(sandbox) {
		s.Release()
		return codeContext{}, errNoContext(id)
	}
	return codeContext{contextModel: model, made: true, session: s}, nil
}

// contextOf returns the context whose session this is, if it is that of one.
func contextOf(s *session.Session) (model contextModel, ok bool) {
	ok = json.Unmarshal([]byte(s.Metadata()[metaContext]), &model) == nil
	model.ID = s.ID()
	return model, ok
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

// madeContexts are those that clients have made in the sandbox.
func madeContexts(q *request, sandbox *session.Session) (list []contextModel, err error) {
	beside, err := sandbox.Beside(q.Context())
	for _, s := range beside {
		if model, ok := contextOf(s); ok {
			list = append(list, model)
		}
		s.Release()
	}
	return append(list, transfer.List[contextModel](sandbox.Metadata(), metaContexts)...), err
}

// cell returns code as the interpreter runs it. A context for JavaScript has no interpreter, so a shell enters its folder first. In the
// tier landlock there is no home, and the workspace is where cells begin.
func (c codeContext) cell(code string) string {
	if !c.made || c.Language != languageJavaScript {
		return transfer.Cell(c.Language, code)
	}
	enter := "cd " + shellWord(c.CWD)
	if below, err := relative(c.CWD); err == nil {
		enter += " 2>/dev/null || cd " + shellWord("./"+below)
	}
	end := "end-" + rand.Text()
	return "%%bash\n" + enter + " && exec node <<'" + end + "'\n" + code + "\n" + end + "\n"
}

// shellWord quotes a word for a shell.
func shellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func (h *Handler) listContexts(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	made, err := madeContexts(q, s)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, append(ownContexts(), made...))
}

// createContext makes a context: one with an interpreter of its own, or one whose cells in JavaScript are processes of their own.
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
	release, err := h.turns.take(q.Context(), place{q.caller.Owner, s.ID()})
	if err != nil {
		return err
	}
	defer release()
	present, err := madeContexts(q, s)
	if err != nil {
		return err
	}
	if len(present) >= maxContexts {
		return api.Errorf(api.CodeLimitExceeded, "a sandbox can have at most %d additional contexts; delete some", maxContexts)
	}
	if known == languageJavaScript {
		err = h.changeScripts(q, s, func(list []contextModel) []contextModel { return append(list, made) })
	} else {
		made.ID, err = h.begin(q, s, made)
	}
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, made)
}

// begin makes the session of a context, and returns its id. A folder of the workspace is made if need be; another one must be there.
func (h *Handler) begin(q *request, sandbox *session.Session, made contextModel) (id string, err error) {
	text, err := api.Marshal(contextModel{Language: made.Language, CWD: made.CWD})
	if err != nil {
		return "", err
	}
	folder, err := relative(made.CWD)
	outside := err != nil
	switch {
	case outside:
		folder = made.CWD
	case folder != "":
		f, _, err := sandbox.Files().MakeFolder(q.command(), folder)
		if err != nil {
			return "", err
		}
		if f.Kind != "directory" {
			return "", api.Errorf(api.CodeInvalidRequest, "cwd %.200q cannot be the working directory: it is not a folder", made.CWD)
		}
	}
	s, err := sandbox.CreateBeside(q.command(), session.BesideRequest{
		Name: made.Language + " context", Metadata: map[string]string{metaContext: string(text)}, Folder: folder,
	})
	if err != nil {
		return "", err
	}
	defer s.Release()
	if outside {
		ran, err := s.RunSilently(q.Context(), transfer.Enter(folder))
		if err == nil && ran.Error != nil {
			err = api.Errorf(api.CodeInvalidRequest, "cwd %.200q cannot be the working directory: %.300s", made.CWD, ran.Error.Ename+": "+ran.Error.Evalue)
		}
		if err != nil {
			return "", errors.Join(err, h.Sessions.Delete(q.command(), q.caller.Owner, s.ID()))
		}
	}
	return s.ID(), nil
}

// changeScripts changes the list of a sandbox's contexts for JavaScript.
func (h *Handler) changeScripts(q *request, sandbox *session.Session, change func([]contextModel) []contextModel) error {
	return sandbox.UpdateMetadata(q.command(), api.SessionPatch{}, func(metadata map[string]string) error {
		return transfer.SetList(metadata, metaContexts, change(transfer.List[contextModel](metadata, metaContexts)))
	})
}

// restartContext starts the interpreter of a context again. One for JavaScript that a client has made has none.
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
	if !c.made || c.Language != languageJavaScript {
		if err := c.session.Reset(q.command(), api.ResetRequest{}); err != nil {
			return err
		}
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
	defer c.session.Release()
	switch {
	case !c.made:
		err = api.Errorf(api.CodeInvalidRequest, "context %.140s belongs to the sandbox; kill the sandbox, or restart the context", c.ID)
	case c.Language == languageJavaScript:
		err = h.changeScripts(q, sandbox, func(list []contextModel) []contextModel {
			return slices.DeleteFunc(list, func(one contextModel) bool { return one.ID == c.ID })
		})
	default:
		err = h.Sessions.Delete(q.command(), q.caller.Owner, c.ID)
	}
	if err != nil {
		return err
	}
	return q.nothing()
}
