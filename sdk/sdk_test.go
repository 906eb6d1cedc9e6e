package sdk

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestPackingTheSameSourcesGivesTheSameBytes(t *testing.T) {
	first, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range first {
		if len(data) == 0 || !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs between two runs, or is empty", name)
		}
	}
}

func TestVersionIsTheSameEverywhere(t *testing.T) {
	var manifest struct{ Version string }
	data, err := os.ReadFile("typescript/package.json")
	if err != nil || json.Unmarshal(data, &manifest) != nil || manifest.Version != Version {
		t.Errorf("package.json has version %q, not %s (%v)", manifest.Version, Version, err)
	}
	python, err := os.ReadFile("python/talaria/__init__.py")
	if err != nil || !strings.Contains(string(python), `__version__ = "`+Version+`"`) {
		t.Errorf("the Python package has not version %s (%v)", Version, err)
	}
}

func TestModuleIsOneFile(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(files[Module], []byte("import ")) {
		t.Error("talaria.js imports another file; pages load it alone")
	}
}
