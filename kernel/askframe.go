package kernel

import (
	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
)

const maxPrompt = 64 << 10 // bytes; what is longer is cut

// The frames about asks. An askEndFrame withdraws one.
type (
	askFrame struct {
		id   string // of the execution, or ""
		ask  string
		body AskBody
	}
	askEndFrame struct{ ask string }
	progressOut struct {
		Type string `json:"type"`
		Ask  string `json:"ask"`
		Text string `json:"text"`
	}
	answerOut struct {
		Type  string `json:"type"`
		Ask   string `json:"ask"`
		Body  any    `json:"body,omitzero"`
		Error string `json:"error,omitzero"` // "" with a body
	}
)

func (askFrame) frame()    {}
func (askEndFrame) frame() {}

// askBodies decode the body of an ask frame of each kind, and bound it.
var askBodies = map[AskKind]func(body *fields) AskBody{AskInput: decodeInput, AskInstall: decodeInstall}

// decodeAsk decodes the rest of an ask frame.
func decodeAsk(f *fields) askFrame {
	a := askFrame{id: f.optionalName("id"), ask: f.matching("ask", api.ValidID)}
	decode, ok := askBodies[AskKind(f.text("kind"))]
	if !ok {
		f.fail("kind", "unknown word")
		return a
	}
	value, _ := f.take("body")
	body, err := splitFields(value)
	if err == nil {
		a.body = decode(body)
		err = body.check()
	}
	if err != nil {
		f.fail("body", err.Error())
	}
	return a
}

// inputAnswer is the body of the answer.
type inputAnswer struct {
	Value string `json:"value"`
}

func decodeInput(f *fields) AskBody {
	return InputRequest{Prompt: truncate(f.text("prompt"), maxPrompt), Password: f.flag("password")}
}

// installAnswer is the body of the answer.
type installAnswer struct {
	Packages []Package `json:"packages"`
}

// installAnswerOf is the answer that tells how a change of packages ended.
func installAnswerOf(r InstallResult) answerOut {
	if r.Error != "" {
		return answerOut{Error: r.Error}
	}
	return answerOut{Body: installAnswer{append([]Package{}, r.Packages...)}}
}

func decodeInstall(f *fields) AskBody {
	return PackageChange{
		Requirements: f.requirements("requirements"),
		Remove:       f.flag("remove"), Upgrade: f.flag("upgrade"), Reinstall: f.flag("reinstall"), NoDeps: f.flag("no_deps"),
		Pre: f.flag("pre"), Quiet: f.flag("quiet"),
	}
}

// requirements is an array of texts, not empty.
func (f *fields) requirements(name string) (list []string) {
	f.each(name, func(value jsontext.Value) {
		text := f.unquote(name, value, nil)
		if len(text) == 0 || len(text) > MaxRequirementLen || len(list) == MaxRequirements {
			f.fail(name, "too many, or one that is empty or too long")
			return
		}
		list = append(list, string(text))
	})
	if len(list) == 0 {
		f.fail(name, "none")
	}
	return list
}
