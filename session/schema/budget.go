package schema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work of checking the arguments of one call: the subschemas that values are compared with. References multiply
// them, so that a schema of a hundred bytes could take for ever.
const maxSteps = 3_000_000

var errTooMuch = errors.New("checking the arguments against the tool's schema takes too much work; simplify its references, or pass less")

// budget counts the steps of one check. The library offers no way to end a check, so spend panics with errTooMuch, which
// validate recovers.
type budget struct {
	left    int
	schemas []*jsonschema.Schema // all that were compiled
}

func (b *budget) spend(steps int) {
	if b.left -= steps; b.left < 0 {
		panic(errTooMuch)
	}
}

// collect makes a compiler report each schema that it compiles.
func (b *budget) collect(c *jsonschema.Compiler) {
	c.AssertVocabs()
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "tool:///budget",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			b.schemas = append(b.schemas, ctx.Enqueue(nil)) // itself
			return nil, nil
		},
	})
}

// install makes each schema spend before it looks at what is below it. The format is what a check asks first, of values of
// every type.
func (b *budget) install() {
	for _, s := range b.schemas {
		once, each := children(s)
		before := s.Format
		s.Format = &jsonschema.Format{Validate: func(v any) error {
			size := 0
			switch v := v.(type) {
			case map[string]any:
				size = len(v)
			case []any:
				size = len(v)
			}
			b.spend(1 + once + size*each)
			if before == nil {
				return nil
			}
			return before.Validate(v)
		}}
		if before != nil {
			s.Format.Name = before.Name
			if before.Name == "regex" { // which the library would check itself, past Validate
				s.Format.Name = "regular expression"
			}
		}
	}
	b.schemas = nil
}

// children returns how many steps the schemas below one take for each value: those that are compared once, and those that
// may be compared with each item or property.
func children(s *jsonschema.Schema) (once, each int) {
	for _, list := range [][]*jsonschema.Schema{
		{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.ContentSchema}, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems,
	} {
		for _, child := range list {
			once += weight(child)
		}
	}
	if s.DynamicRef != nil {
		once += weight(s.DynamicRef.Ref)
	}
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		for _, child := range m {
			once += weight(child)
		}
	}
	for _, dependency := range s.Dependencies {
		once += weightOf(dependency)
	}
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		for _, child := range list {
			once += weight(child)
		}
	}
	for _, child := range s.PatternProperties {
		each += weight(child)
	}
	for _, child := range []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems} {
		each += weight(child)
	}
	for _, child := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		each += weightOf(child)
	}
	return once, each
}

func weightOf(child any) int {
	s, _ := child.(*jsonschema.Schema)
	return weight(s)
}

// weight is what a schema takes before it spends: an enum is compared value by value.
func weight(s *jsonschema.Schema) int {
	switch {
	case s == nil:
		return 0
	case s.Enum != nil:
		return 1 + len(s.Enum.Values)
	}
	return 1
}
