// Package schema checks the arguments of a tool's call against the tool's JSON Schema.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema describes the arguments of a tool: an object. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema

	mu     sync.Mutex // guards the budget of the check that runs
	budget *budget
}

// Compile reads the JSON Schema of a tool's parameters, draft 2020-12 unless it names another one. It refers to nothing
// outside of itself.
func Compile(parameters []byte) (*Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(parameters))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New(`it must be an object, such as {"type": "object", "properties": {}}`)
	}
	if kind, given := object["type"]; given && kind != "object" {
		return nil, errors.New(`its "type" must be "object": the arguments of a call are an object`)
	}
	if err := checkCost(doc); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(sealed{})
	b := &budget{}
	b.collect(c)
	if err := c.AddResource(place, doc); err != nil {
		return nil, fmt.Errorf("it is not a JSON Schema: %w", err)
	}
	compiled, err := c.Compile(place)
	if err != nil {
		return nil, fmt.Errorf("it is not a JSON Schema: %s", strings.TrimPrefix(err.Error(), fmt.Sprintf("%q is not valid against metaschema: ", place)))
	}
	b.install()
	return &Schema{compiled: compiled, budget: b}, nil
}

// place is the base of references inside a schema.
const place = "tool:///parameters"

// sealed loads nothing.
type sealed struct{}

// Load implements [jsonschema.URLLoader].
func (sealed) Load(url string) (any, error) {
	return nil, fmt.Errorf("it refers to %q, but a tool's schema must be self-contained", url)
}

// Arguments returns the arguments as a tool is to get them: as they are where they satisfy the schema, else with values
// of the wrong type converted where they say unmistakably what was meant, such as "5" for an integer. The error names
// the field.
func (s *Schema) Arguments(arguments []byte) ([]byte, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(arguments))
	if err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the arguments must be an object")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget.left = maxSteps
	// A converted object may hold further values to convert.
	for range maxDepth {
		failed, err := s.validate(object)
		if err != nil {
			return nil, err
		}
		if failed == nil {
			return encode(object)
		}
		if !convert(object, leaves(failed)) {
			return nil, describe(failed)
		}
	}
	failed, err := s.validate(object)
	if failed != nil {
		err = describe(failed)
	}
	if err != nil {
		return nil, err
	}
	return encode(object)
}

// maxDepth bounds how often the arguments are converted.
const maxDepth = 8

// validate checks an object. s.mu is held.
func (s *Schema) validate(object map[string]any) (failed *jsonschema.ValidationError, err error) {
	defer func() {
		if r := recover(); r == errTooMuch {
			failed, err = nil, errTooMuch
		} else if r != nil {
			panic(r)
		}
	}()
	err = s.compiled.Validate(object)
	if failed := new(jsonschema.ValidationError); errors.As(err, &failed) {
		return failed, nil
	}
	return nil, err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// leaves are the failures that have no further cause.
func leaves(e *jsonschema.ValidationError) (all []*jsonschema.ValidationError) {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// convert replaces values of the wrong type below object, and reports whether it did.
func convert(object map[string]any, failures []*jsonschema.ValidationError) (changed bool) {
	done := map[string]bool{}
	for _, f := range failures {
		wrong, ok := f.ErrorKind.(*kind.Type)
		at := strings.Join(f.InstanceLocation, "/")
		if !ok || done[at] || len(f.InstanceLocation) == 0 {
			continue
		}
		value, set := find(object, f.InstanceLocation)
		if set == nil {
			continue
		}
		for _, want := range wrong.Want {
			if better, ok := converted(value, want); ok {
				set(better)
				done[at], changed = true, true
				break
			}
		}
	}
	return changed
}

// find returns the value at a place below v, and what replaces it there.
func find(v any, at []string) (value any, set func(any)) {
	for _, step := range at {
		switch in := v.(type) {
		case map[string]any:
			v, set = in[step], func(better any) { in[step] = better }
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil, nil
			}
			v, set = in[i], func(better any) { in[i] = better }
		default:
			return nil, nil
		}
	}
	return v, set
}

// converted is a value as the type that was wanted, where there is only one way to read it so.
func converted(v any, want string) (any, bool) {
	switch v := v.(type) {
	case string:
		return read(strings.TrimSpace(v), want)
	case json.Number:
		if f, err := v.Float64(); want == "integer" && err == nil && f == float64(int64(f)) {
			return json.Number(strconv.FormatInt(int64(f), 10)), true
		}
		if want == "string" {
			return v.String(), true
		}
	case bool:
		if want == "string" {
			return strconv.FormatBool(v), true
		}
	}
	return nil, false
}

// read reads a text that holds a value of another type.
func read(text, want string) (any, bool) {
	switch want {
	case "boolean":
		switch strings.ToLower(text) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		return nil, false
	case "integer", "number", "object", "array":
	default:
		return nil, false
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, false
	}
	switch v := v.(type) {
	case json.Number:
		if want == "integer" {
			_, err := v.Int64()
			return v, err == nil
		}
		return v, want == "number"
	case map[string]any:
		return v, want == "object"
	case []any:
		return v, want == "array"
	}
	return nil, false
}

var english = message.NewPrinter(language.English)

// describe returns the first failure as an error for the caller of the tool, with the name of the field.
func describe(e *jsonschema.ValidationError) error {
	all := leaves(e)
	first := slices.MinFunc(all, func(a, b *jsonschema.ValidationError) int {
		return len(b.InstanceLocation) - len(a.InstanceLocation)
	})
	text := first.ErrorKind.LocalizedString(english)
	if first.ErrorKind == nil || len(first.InstanceLocation) == 0 {
		return fmt.Errorf("arguments: %s", text)
	}
	return fmt.Errorf("argument %q: %s", strings.Join(first.InstanceLocation, "."), text)
}
