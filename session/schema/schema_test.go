package schema_test

import (
	"strings"
	"testing"

	"talaria/session/schema"
)

const search = `{
	"type": "object",
	"properties": {
		"query": {"type": "string"},
		"limit": {"type": "integer", "minimum": 1},
		"exact": {"type": "boolean"},
		"ratio": {"type": "number"},
		"page": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
		"filter": {"$ref": "#/$defs/filter"},
		"tags": {"type": "array", "items": {"type": "integer"}}
	},
	"required": ["query"],
	"additionalProperties": false,
	"$defs": {"filter": {"type": "object", "properties": {"year": {"type": "integer"}}}}
}`

func TestArgumentsAreConvertedWhereTheySayUnmistakablyWhatWasMeant(t *testing.T) {
	s, err := schema.Compile([]byte(search))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"query":"a","limit":5}`:                   `{"limit":5,"query":"a"}`,
		`{"query":"a","limit":"5"}`:                 `{"limit":5,"query":"a"}`,
		`{"query":"5"}`:                             `{"query":"5"}`,
		`{"query":5}`:                               `{"query":"5"}`,
		`{"query":"<b>","exact":"True"}`:            `{"exact":true,"query":"<b>"}`,
		`{"query":"a","ratio":"0.5"}`:               `{"query":"a","ratio":0.5}`,
		`{"query":"a","page":"3"}`:                  `{"page":3,"query":"a"}`,
		`{"query":"a","filter":"{\"year\":\"7\"}"}`: `{"filter":{"year":7},"query":"a"}`,
		`{"query":"a","tags":"[1,\"2\"]"}`:          `{"query":"a","tags":[1,2]}`,
		`{"query":"a","limit":12345678901234567}`:   `{"limit":12345678901234567,"query":"a"}`,
	} {
		if got, err := s.Arguments([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s became %s (%v), want %s", in, got, err, want)
		}
	}
}

func TestTheErrorNamesTheField(t *testing.T) {
	s, err := schema.Compile([]byte(search))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"query":"a","limit":"five"}`:       `argument "limit"`,
		`{"query":"a","limit":"5.5"}`:        `argument "limit"`,
		`{"query":"a","limit":0}`:            `argument "limit"`,
		`{"query":"a","filter":{"year":[]}}`: `argument "filter.year"`,
		`{"query":["a"]}`:                    `argument "query"`,
		`{"limit":1}`:                        `query`,
		`{"query":"a","more":1}`:             `more`,
		`[]`:                                 `must be an object`,
	} {
		if got, err := s.Arguments([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s became %s (%v), want an error with %s", in, got, err, want)
		}
	}
}

func TestASchemaRefersToNothingOutside(t *testing.T) {
	for in, want := range map[string]string{
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:      "self-contained",
		`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/schema"}}}`: "self-contained",
		`{"type":"objekt"}`:                   `"object"`,
		`{"type":"array"}`:                    `"object"`,
		`{"properties":{"a":{"type":"int"}}}`: "not a JSON Schema",
		`[]`:                                  "must be an object",
		`{`:                                   "not JSON",
	} {
		if _, err := schema.Compile([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %s", in, err, want)
		}
	}
}
