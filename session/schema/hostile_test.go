package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"talaria/session/schema"
)

// TestASchemaWhoseReferencesExplodeIsRejected has definitions that refer to the one before twice, so that the last one
// stands for a million schemas.
func TestASchemaWhoseReferencesExplodeIsRejected(t *testing.T) {
	var defs strings.Builder
	for i := 1; i <= 20; i++ {
		fmt.Fprintf(&defs, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	bomb := fmt.Sprintf(`{"type":"object","$defs":{"d0":{}%s},"$ref":"#/$defs/d20"}`, defs.String())
	if _, err := schema.Compile([]byte(bomb)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("%v, want an error that names the limit", err)
	}
}

// TestARecursiveSchemaAndALargeEnumAreAccepted has schemas that are unusual and harmless.
func TestARecursiveSchemaAndALargeEnumAreAccepted(t *testing.T) {
	for _, harmless := range []string{
		`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`,
		`{"type":"object","properties":{"n":{"enum":[` + numbers(2000) + `]}}}`,
		`{"type":"object","properties":{"s":{"pattern":"^(a+)+$"}}}`,
	} {
		if _, err := schema.Compile([]byte(harmless)); err != nil {
			t.Errorf("%.60s: %v", harmless, err)
		}
	}
}

func numbers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(1000 + i)
	}
	return strings.Join(all, ",")
}
