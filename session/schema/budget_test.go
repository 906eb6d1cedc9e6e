package schema_test

import (
	"strconv"
	"strings"
	"testing"

	"talaria/session/schema"
)

// TestCheckingArgumentsEnds has small schemas and small arguments whose check would go on for years.
func TestCheckingArgumentsEnds(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 60) + "{}" + strings.Repeat("}", 60)
	for name, c := range map[string]struct{ schema, arguments string }{
		"a recursive reference": {`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep},
		"a recursive reference that fails": {
			`{"not":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`,
			strings.Replace(deep, "{}", "[]", 1),
		},
		"a dynamic reference": {
			`{"$dynamicAnchor":"n","type":"object","properties":{"a":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}}`, deep,
		},
		"draft 7": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, deep,
		},
		"references into embedded schemas": {embedded(40), `{}`},
		"many items": {
			`{"properties":{"l":{"items":{"allOf":[` + strings.Repeat(`{"minimum":0},`, 5000) + `{}]}}}}`,
			`{"l":[` + strings.Repeat("1,", 100_000) + `1]}`,
		},
		"a large enum": {
			`{"properties":{"l":{"items":{"enum":[` + numbers(5000) + `]}}}}`, `{"l":[` + strings.Repeat("1,", 100_000) + `1]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Compile([]byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Arguments([]byte(c.arguments)); err == nil || !strings.Contains(err.Error(), "too much work") {
				t.Errorf("%.200v, want an error that says what to do", err)
			}
		})
	}
}

// embedded has schemas with an $id of their own, each of which refers to the one before twice.
func embedded(n int) string {
	var b strings.Builder
	b.WriteString(`{"$defs":{"d0":{"$id":"d0","$defs":{"x":{"type":"object","minProperties":0}}}`)
	for i := 1; i <= n; i++ {
		ref := `{"$ref":"d` + strconv.Itoa(i-1) + `#/$defs/x"}`
		b.WriteString(`,"d` + strconv.Itoa(i) + `":{"$id":"d` + strconv.Itoa(i) + `","$defs":{"x":{"allOf":[` + ref + `,` + ref + `]}}}`)
	}
	return b.String() + `},"$ref":"d` + strconv.Itoa(n) + `#/$defs/x"}`
}

// TestADeepSchemaIsRejected goes beyond the depth that the decoder of JSON allows.
func TestADeepSchemaIsRejected(t *testing.T) {
	for levels, want := range map[int]string{100: "", 200: "256 levels", 4_000: "256 levels", 10_000: "JSON"} {
		deep := strings.Repeat(`{"properties":{"a":`, levels) + "{}" + strings.Repeat("}}", levels)
		_, err := schema.Compile([]byte(deep))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d levels: %.200v, want %q", levels, err, want)
		}
	}
}

// TestLargeArgumentsAreAccepted has as many values as arguments of 1 MiB can have.
func TestLargeArgumentsAreAccepted(t *testing.T) {
	s, err := schema.Compile([]byte(`{"properties":{"l":{"type":"array","items":{"type":"integer"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Arguments([]byte(`{"l":[` + strings.Repeat("1,", 1<<19) + `1]}`)); err != nil {
		t.Error(err)
	}
}

// FuzzSchema checks that no schema and no arguments do more than fail.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(search), []byte(`{"query":"a","limit":"5"}`))
	f.Add([]byte(embedded(3)), []byte(`{}`))
	f.Add([]byte(`{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`), []byte(`{"a":{"a":1}}`))
	f.Fuzz(func(t *testing.T, parameters, arguments []byte) {
		s, err := schema.Compile(parameters)
		if err != nil {
			return
		}
		once, err := s.Arguments(arguments)
		if err != nil {
			return
		}
		if twice, err := s.Arguments(once); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s, and that %s (%v)", arguments, once, twice, err)
		}
	})
}
