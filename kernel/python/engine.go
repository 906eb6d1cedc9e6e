package python

import (
	"context"
	"errors"
	"fmt"

	"talaria/kernel"
)

// The engines that execute cells.
const (
	EngineStdlib  = "stdlib"  // the runner's own, which needs nothing but the standard library
	EngineIPython = "ipython" // IPython's shell, which the environment has to have
	// EngineAuto is IPython where the environment has one that can be imported, else the standard library's. It is
	// for configurations: an Environment has what was chosen.
	EngineAuto = "auto"
)

// minIPython is the oldest major version of IPython that the runner works with.
const minIPython = 8

// checkIPython fails with one line that names the problem. It imports what a shell needs.
const checkIPython = `
import sys
try:
    import IPython.core.interactiveshell, IPython.core.history
    wrong = IPython.version_info[0] < %d and "it is older than version %d"
except Exception as e:
    wrong = f"{type(e).__name__}: {e}"
sys.exit(wrong or 0)
`

// ValidEngine reports whether a configuration may name it.
func ValidEngine(name string) bool {
	return name == EngineStdlib || name == EngineIPython || name == EngineAuto
}

// chooseEngine is the engine of an environment that was found. With EngineAuto, or none, it falls back to the standard
// library's, and the finding says why where there is an IPython. ctx bounds the try of an import.
func chooseEngine(ctx context.Context, env kernel.Environment, wanted string) (string, kernel.Finding, error) {
	finding := kernel.Finding{Name: "engine of " + env.Name, OK: true}
	version := versionOf(env, "IPython")
	err := errors.New("it is not installed")
	switch {
	case wanted == EngineStdlib:
		finding.Detail = "stdlib, as configured"
		return EngineStdlib, finding, nil
	case version != "":
		_, err = runPython(ctx, env.Python, "-I", "-c", fmt.Sprintf(checkIPython, minIPython, minIPython))
	case wanted != EngineIPython:
		finding.Detail = "stdlib, since there is no IPython"
		return EngineStdlib, finding, nil
	}
	if err == nil {
		finding.Detail = "ipython " + version
		return EngineIPython, finding, nil
	}
	finding.OK = false
	finding.Remedy = fmt.Sprintf("install IPython %d or newer for %s, or configure engine: stdlib", minIPython, env.Python)
	err = fmt.Errorf("IPython %scannot be used: %w", spaced(version), err)
	if wanted != EngineIPython {
		finding.Detail = "stdlib, since " + err.Error()
		return EngineStdlib, finding, nil
	}
	finding.Detail = err.Error()
	return "", finding, fmt.Errorf("environment %s, engine ipython: %w; %s", env.Name, err, finding.Remedy)
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return s + " "
}
