package python_test

import (
	"slices"
	"testing"

	"talaria/kernel/python"
)

func TestMissingModulesAreNamed(t *testing.T) {
	modules := []string{"json", "nosuchmodule", "os.path", "nosuchpackage.part", "-c", "", "two words"}
	missing, err := python.Missing(t.Context(), "/usr/bin/python3", modules)
	if want := []string{"nosuchmodule", "nosuchpackage.part", "-c", "", "two words"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("%q (%v), want %q", missing, err, want)
	}
	if _, err := python.Missing(t.Context(), "/nowhere/python3", modules); err == nil {
		t.Error("no interpreter finds modules")
	}
}
