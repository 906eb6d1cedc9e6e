package frame

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// Bounds of what the answer to a query may hold. Anything beyond them is left out.
const (
	maxMatches     = 1000
	maxMatchBytes  = 256 << 10 // of all matches
	maxIndent      = 1000
	maxInspection  = 1 << 20 // of one representation
	maxVariables   = 1000
	maxVariableLen = 1 << 10 // bytes of each text of a variable
	maxDimensions  = 64
	maxLosses      = 201 // of a copy or a saved state of the interpreter
	maxTableRows   = 500
	maxTableFields = 128
	maxTableCell   = 4 << 10 // bytes of JSON
	maxTableBytes  = 1 << 20 // of all cells
)

// QueryAnswer is the runner's answer to a query.
type QueryAnswer struct {
	RequestID string
	Answer    command.Answer
}

func (QueryAnswer) frame() {}

// answerOf decodes the rest of a frame that answers a query; it returns nil for any other type.
func answerOf(kind string, f *fields) Frame {
	var a command.Answer
	switch kind {
	case "completion":
		c := api.CompleteReply{Matches: f.lines("matches", maxMatchBytes), CursorStart: f.count("start"), CursorEnd: f.count("end")}
		c.Matches = c.Matches[:min(len(c.Matches), maxMatches)]
		if c.CursorStart > c.CursorEnd {
			f.fail("start", "beyond the end")
		}
		a.Completion = &c
	case "inspection":
		a.Inspection = &api.InspectReply{Found: f.flag("found"), Data: f.shown("data")}
	case "completeness":
		c := api.IsCompleteReply{Indent: f.matching("indent", isIndent)}
		c.Status = api.CompletenessStatus(f.oneOf("status", string(api.SourceComplete), string(api.SourceIncomplete),
			string(api.SourceInvalid), string(api.SourceUnknown)))
		a.Completeness = &c
	case "variables":
		v := api.VariablesReply{Items: f.variables("items"), Total: f.count("total")}
		v.Total = max(v.Total, int64(len(v.Items)))
		a.Variables = &v
	case "pong":
		a.Pong = &command.Pong{}
	case "copied":
		a.Copied = f.copied()
	case "saved":
		a.Saved = f.saved()
	case "loaded":
		a.Loaded = f.loaded()
	case "later":
		a.Later = true
	case "table_page":
		a.Table = f.tablePage()
	default:
		return nil
	}
	return QueryAnswer{RequestID: f.name("request_id"), Answer: a}
}

// copied decodes what the runner says of a copy of itself.
func (f *fields) copied() *command.Copied {
	c := command.Copied{PID: int(f.count("pid"))}
	c.Refused, c.Losses = f.short("reason"), f.losses("losses")
	return &c
}

// losses decodes a list of what is lost.
func (f *fields) losses(name string) (list []record.Loss) {
	f.each(name, func(value jsontext.Value) {
		of, err := splitFields(value)
		if err != nil {
			f.fail(name, err.Error())
			return
		}
		loss := record.Loss{Name: of.short("name"), Type: of.optionalShort("type"), Reason: of.short("reason")}
		if err := of.check(); err != nil {
			f.fail(name, err.Error())
		}
		if len(list) < maxLosses {
			list = append(list, loss)
		}
	})
	return list
}

// saved decodes what the runner says of variables that it has saved.
func (f *fields) saved() *command.SavedVariables {
	return &command.SavedVariables{
		Reason: f.short("reason"), Count: f.count("count"), Lost: f.losses("lost"), Bytes: f.count("bytes"), Digest: f.matching("digest", isDigest),
	}
}

// loaded decodes what the runner says of variables that it has loaded.
func (f *fields) loaded() *command.LoadedVariables {
	s := f.saved()
	return &command.LoadedVariables{Reason: s.Reason, Count: s.Count, Lost: s.Lost}
}

func isDigest(s string) bool { return s == "" || hexPattern.MatchString(s) }

func isIndent(s string) bool { return len(s) <= maxIndent && strings.Trim(s, " \t") == "" }

// shown returns a bundle without the values that are too long.
func (f *fields) shown(name string) api.MIMEBundle {
	shown := api.MIMEBundle{}
	for mime, value := range f.bundle(name) {
		if len(value) <= maxInspection {
			shown[mime] = api.Raw(bytes.Clone(value))
		}
	}
	return shown
}

// count returns a whole number from 0 up that JSON carries everywhere.
func (f *fields) count(name string) int64 {
	v, ok := f.take(name)
	if !ok {
		f.fail(name, "missing")
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 53)
	if err != nil {
		f.fail(name, "not a whole number")
	}
	return int64(n)
}

func (f *fields) variables(name string) []api.Variable {
	list := []api.Variable{}
	f.each(name, func(value jsontext.Value) {
		if len(list) == maxVariables {
			return
		}
		of, err := splitFields(value)
		if err != nil {
			f.fail(name, err.Error())
			return
		}
		v := api.Variable{
			Name: of.short("name"), Type: of.short("type"), Dtype: of.optionalShort("dtype"), Preview: of.short("preview"),
			Shape: of.shape("shape"),
		}
		if _, ok := of.take("size_bytes"); ok {
			size := of.count("size_bytes")
			v.SizeBytes = &size
		}
		if err := of.check(); err != nil {
			f.fail(name, err.Error())
		}
		list = append(list, v)
	})
	return list
}

func (f *fields) short(name string) string { return Truncate(f.text(name), maxVariableLen) }

func (f *fields) optionalShort(name string) string {
	if _, ok := f.take(name); !ok {
		return ""
	}
	return f.short(name)
}

// shape returns nil if there is none.
func (f *fields) shape(name string) []int64 {
	if _, ok := f.take(name); !ok {
		return nil
	}
	shape := []int64{}
	f.each(name, func(value jsontext.Value) {
		n, err := strconv.ParseUint(string(value), 10, 53)
		if err != nil || len(shape) == maxDimensions {
			f.fail(name, "no shape")
			return
		}
		shape = append(shape, int64(n))
	})
	return shape
}
