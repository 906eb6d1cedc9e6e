package python

import (
	"context"
	"errors"
	"fmt"

	"talaria/kernel"
)

// The engines that execute cells.
const (
	EngineScript  = "script"  // runs one file of Python instead of cells; nobody configures it
	EngineStdlib  = "stdlib"  // the runner's own, which needs only the standard library
	EngineIPython = "ipython" // IPython's shell, which must be installed in the environment
	// EngineAuto is IPython if the environment has one that can be imported, else the standard library's engine. It is
	// for configurations only: an Environment has the one that was chosen.
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

// ValidEngine reports whether a configuration may use that name.
func ValidEngine(name string) bool {
	return name == EngineStdlib || name == EngineIPython || name == EngineAuto
}

// chooseEngine returns the engine of a discovered environment. With EngineAuto or no engine, it falls back to the
// standard library's, and if there is an IPython, the finding says why it was not chosen. ctx bounds the trial import,
// which is left out if one is remembered.
func chooseEngine(ctx context.Context, env kernel.Environment, wanted string, remembered trials) (string, kernel.Finding, error) {
	finding := kernel.Finding{Name: "engine of " + env.Name, OK: true}
	version := versionOf(env, "IPython")
	err := errors.New("it is not installed")
	switch {
	case wanted == EngineStdlib:
		finding.Detail = "stdlib, as configured"
		return EngineStdlib, finding, nil
	case version != "":
		err = tryIPython(ctx, env, remembered)
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

// tryIPython imports what a shell needs, unless that worked before in the same environment.
func tryIPython(ctx context.Context, env kernel.Environment, remembered trials) error {
	tried := "" // before the import, so that a change while it runs counts
	if remembered.dir != "" {
		tried = fingerprint(env)
	}
	if remembered.passed(env, tried) {
		return nil
	}
	_, err := runPython(ctx, env.Python, "-I", "-c", fmt.Sprintf(checkIPython, minIPython, minIPython))
	if err == nil {
		remembered.pass(env, tried)
	}
	return err
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return s + " "
}
