package frame

import (
	"encoding/json"
	"slices"

	"talaria/kernel/record"
)

// Expressions has the values of the expressions that came with an execution.
type Expressions struct {
	ID   string
	Body record.Expressions
}

func (Expressions) frame() {}

func decodeExpressions(f *fields) Expressions {
	e := Expressions{ID: f.name("id")}
	value, _ := f.take("values")
	switch {
	case value.Kind() != '{':
		f.fail("values", "not an object")
	case len(value) > record.MaxExpressions:
		f.fail("values", "too long")
	}
	e.Body.Values = json.RawMessage(slices.Clone(value))
	return e
}
