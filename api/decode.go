package api

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What a client sends is nested and has members up to these bounds.
const (
	maxDepth   = 200
	maxMembers = 1 << 20
)

// Unmarshal decodes one JSON value into v, strictly: an unknown or repeated field, a name in another case, a wrong
// type, trailing data, invalid UTF-8 or an unpaired surrogate escape is an invalid_request [Error] that names the
// field. v is unspecified after an error.
func Unmarshal(data []byte, v any) error {
	if TooComplex(data, maxDepth, maxMembers) {
		return Errorf(CodeInvalidRequest, "the JSON is nested deeper than %d levels or has more than %d members",
			maxDepth, maxMembers)
	}
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	return Errorf(CodeInvalidRequest, "%s", explain(err))
}

// TooComplex reports whether JSON is nested deeper than depth or has more than members members, without decoding it:
// the decoders' own bounds are far higher. It counts first, which is cheap, and looks only where needed.
func TooComplex(data []byte, depth, members int) bool {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= depth &&
		bytes.Count(data, []byte{':'}) <= members {
		return false
	}
	inString := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth--
		case c == '}' || c == ']':
			depth++
		case c == ':':
			members--
		}
		if depth < 0 || members < 0 {
			return true
		}
	}
	return false
}

func explain(err error) string {
	var sem *json.SemanticError
	if errors.As(err, &sem) {
		field := pointer(sem.JSONPointer)
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Sprintf("unknown field %s", field)
		}
		if own := new(Error); errors.As(err, &own) {
			return fmt.Sprintf("%s: %s", field, own.Detail)
		}
		if sem.Err != nil && sem.GoType != nil && sem.GoType.String() == "api.Time" {
			return fmt.Sprintf("%s: %v", field, sem.Err)
		}
		want := "another type"
		if sem.GoType != nil {
			want = typeName(sem.GoType.String())
		}
		got := ""
		if sem.JSONKind != 0 {
			got = ", not " + kindName(sem.JSONKind)
		}
		return fmt.Sprintf("%s must be %s%s", field, want, got)
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Sprintf("field %s is given twice", pointer(syn.JSONPointer))
		}
		where := ""
		if p := pointer(syn.JSONPointer); p != "the body" {
			where = " in " + p
		}
		return fmt.Sprintf("not valid JSON%s at byte %d: %s", where, syn.ByteOffset, cause(syn.Err))
	}
	return "not valid JSON: " + cause(err)
}

func cause(err error) string {
	if err == nil {
		return "syntax error"
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

func pointer(p jsontext.Pointer) string {
	if p == "" {
		return "the body"
	}
	var names []string
	for token := range p.Tokens() {
		names = append(names, token)
	}
	return fmt.Sprintf("%q", strings.Join(names, "."))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 'f', 't':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "this"
}

func typeName(goType string) string {
	t := strings.TrimLeft(goType, "*")
	switch {
	case t == "bool":
		return "a boolean"
	case t == "string" || t == "api.Time" || t == "api.NetworkMode" || t == "api.GuardMode" || t == "api.CheckpointMode" || t == "api.OnIdle" || t == "api.CheckpointLevel" || t == "api.RollbackPart" || t == "api.IsolationMode":
		return "a string"
	case strings.HasPrefix(t, "int") || strings.HasPrefix(t, "uint"):
		return "a whole number"
	case strings.HasPrefix(t, "float"):
		return "a number"
	case strings.HasPrefix(t, "[]"):
		return "an array"
	}
	return "an object"
}

// UnmarshalLoose decodes one JSON value into v as [Unmarshal] does, except that it passes over unknown fields: for clients of
// other protocols, which send fields of many versions.
func UnmarshalLoose(data []byte, v any) error {
	if TooComplex(data, maxDepth, maxMembers) {
		return Errorf(CodeInvalidRequest, "the JSON is nested deeper than %d levels or has more than %d members",
			maxDepth, maxMembers)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return Errorf(CodeInvalidRequest, "%s", explain(err))
	}
	return nil
}
