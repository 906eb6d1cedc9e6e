package frame

import (
	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

const maxPrompt = 64 << 10 // bytes; a longer prompt is cut

// The frames about asks. An askEndFrame withdraws an ask.
type (
	Ask struct {
		ID   string // of the execution, or ""
		Ask  string
		Body record.AskBody
	}
	AskEnd      struct{ Ask string }
	AskProgress struct {
		Type string `json:"type"`
		Ask  string `json:"ask"`
		Text string `json:"text"`
	}
	AskAnswer struct {
		Type  string `json:"type"`
		Ask   string `json:"ask"`
		Body  any    `json:"body,omitzero"`
		Error string `json:"error,omitzero"` // "" if there is a body
		Code  string `json:"code,omitzero"`  // the kind of error, if code inside may branch on it
	}
)

func (Ask) frame()    {}
func (AskEnd) frame() {}

// askBodies has, for each kind, the function that decodes and bounds the body of an ask frame.
var askBodies = map[record.AskKind]func(body *fields) record.AskBody{
	record.AskInput: decodeInput, record.AskInstall: decodeInstall, record.AskTools: decodeTools, record.AskTool: decodeTool,
	record.AskAfter: decodeAfter,
}

// decodeAsk decodes the rest of an ask frame.
func decodeAsk(f *fields) Ask {
	a := Ask{ID: f.optionalName("id"), Ask: f.matching("ask", api.ValidID)}
	decode, ok := askBodies[record.AskKind(f.text("kind"))]
	if !ok {
		f.fail("kind", "unknown word")
		return a
	}
	value, _ := f.take("body")
	body, err := splitFields(value)
	if err == nil {
		a.Body = decode(body)
		err = body.check()
	}
	if err != nil {
		f.fail("body", err.Error())
	}
	return a
}

// InputAnswer is the body of the answer to an input ask.
type InputAnswer struct {
	Value string `json:"value"`
}

func decodeInput(f *fields) record.AskBody {
	return record.InputRequest{Prompt: Truncate(f.text("prompt"), maxPrompt), Password: f.flag("password")}
}

// installAnswer is the body of the answer to an install ask.
type installAnswer struct {
	Packages []command.Package `json:"packages"`
}

// ForInstall returns the answer that reports how a change of packages ended.
func ForInstall(r command.InstallResult) AskAnswer {
	if r.Error != "" {
		return AskAnswer{Error: r.Error}
	}
	return AskAnswer{Body: installAnswer{append([]command.Package{}, r.Packages...)}}
}

func decodeInstall(f *fields) record.AskBody {
	return record.PackageChange{
		Requirements: f.requirements("requirements"),
		Remove:       f.flag("remove"), Upgrade: f.flag("upgrade"), Reinstall: f.flag("reinstall"), NoDeps: f.flag("no_deps"),
		Pre: f.flag("pre"), Quiet: f.flag("quiet"),
	}
}

// requirements returns an array of texts that is not empty.
func (f *fields) requirements(name string) (list []string) {
	f.each(name, func(value jsontext.Value) {
		text := f.unquote(name, value, nil)
		if len(text) == 0 || len(text) > record.MaxRequirementLen || len(list) == record.MaxRequirements {
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
