package indextest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sdist is a source distribution to be made.
type Sdist struct {
	Name, Version string
	Files         map[string]string // by path from its folder, setup.py or pyproject.toml among them
}

// File makes it.
func (s Sdist) File() File {
	base := strings.ReplaceAll(s.Name, "-", "_") + "-" + s.Version
	files := maps.Clone(s.Files)
	files["PKG-INFO"] = fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", s.Name, s.Version)
	var out bytes.Buffer
	g := gzip.NewWriter(&out)
	t := tar.NewWriter(g)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		err := t.WriteHeader(&tar.Header{Name: base + "/" + path, Mode: 0o644, Size: int64(len(files[path]))})
		if err == nil {
			_, err = t.Write([]byte(files[path]))
		}
		if err != nil {
			panic(err) // to memory
		}
	}
	_, _ = t.Close(), g.Close()
	return File{Name: base + ".tar.gz", Content: out.Bytes()}
}

// Backend is the project that [Built] needs to be built: a PEP 517 backend without any requirements.
const Backend = "carpenter"

// Built is a source distribution that [Backend] builds, in an environment that has it from the index. module is its one
// module; prelude is run at the build.
func Built(name, version, module, source, prelude string) File {
	return Sdist{Name: name, Version: version, Files: map[string]string{
		"pyproject.toml": fmt.Sprintf("[build-system]\nrequires = [%q]\nbuild-backend = %q\n", Backend+">=1", Backend),
		"order.json":     fmt.Sprintf(`{"name": %q, "version": %q, "module": %q}`, name, version, module),
		module + ".py":   source, "prelude.py": prelude,
	}}.File()
}

func backend() File {
	return Wheel{Name: Backend, Version: "1.0", Files: map[string]string{Backend + ".py": `
import json, os, zipfile

def _order():
    with open("order.json") as f:
        return json.load(f)

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    order = _order()
    with open("prelude.py") as f:
        exec(f.read(), {})
    base = order["name"].replace("-", "_") + "-" + order["version"]
    info = base + ".dist-info/"
    name = base + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as z:
        with open(order["module"] + ".py") as f:
            z.writestr(order["module"] + ".py", f.read())
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %(name)s\nVersion: %(version)s\n" % order)
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: carpenter\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return name
`}}.File()
}
