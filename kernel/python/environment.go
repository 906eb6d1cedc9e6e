// Package python finds the Pythons that sessions run, and describes what they have.
package python

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"talaria/kernel"
)

// minPython is the oldest Python that the runner works with.
var minPython = [2]int{3, 11}

// discoveryTimeout bounds how long one run of an interpreter may take while it is discovered.
var discoveryTimeout = time.Minute

// wantedModules make an environment preferable to another.
var wantedModules = []string{"numpy", "pandas", "matplotlib"}

// describe prints the fields of [description]. It imports none of the modules that it looks for, and reads their versions from the
// names of what their installers left: importlib.metadata takes three times as long as the interpreter's start.
const describe = `
import json, os, sys
wanted = {name.lower(): name for name in ("numpy", "pandas", "matplotlib", "IPython")}
modules = {}
for folder in sys.path:
    try:
        entries = os.listdir(folder)
    except OSError:
        continue
    for entry in entries:
        stem, ending = os.path.splitext(entry)
        if ending in (".dist-info", ".egg-info"):
            name, version = (stem.split("-") + [""])[:2]
            if version and name.lower() in wanted:
                modules.setdefault(wanted[name.lower()], version)
print(json.dumps({
    "version": list(sys.version_info[:3]), "executable": sys.executable, "path": sys.path, "modules": modules,
    "free_threaded": not getattr(sys, "_is_gil_enabled", lambda: True)(),
    "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix],
}))
`

// oldPython is a statement that every Python understands, so that an old one reports its version, not a syntax error.
const oldPython = "import sys; sys.stdout.write('%d.%d.%d' % sys.version_info[:3])"

// EnvironmentConfig is an environment as configured. An empty Python means the best one found, an empty Engine means
// EngineAuto.
type EnvironmentConfig struct {
	Name   string
	Python string
	Engine string

	// Trials is a directory to remember successful imports of IPython in, so that the next discovery of the unchanged
	// environment need not repeat them. Empty: each discovery imports it.
	Trials string
}

type description struct {
	Version    [3]int            `json:"version"`
	Executable string            `json:"executable"`
	Path       []string          `json:"path"`
	Modules    map[string]string `json:"modules"`
	Prefixes   []string          `json:"prefixes"`

	FreeThreaded bool `json:"free_threaded"`
}

// DiscoverEnvironment finds the interpreter of an environment and what it has. If none is configured, it looks at
// python3 on the PATH, /usr/bin/python3 and /usr/local/bin/python3, takes the one with the most of numpy, pandas and
// matplotlib (the first, if equal), and chooses an engine for it. The findings say what was looked at, also if there
// is an error. If ctx ends, the error is its cause, and there are no findings.
func DiscoverEnvironment(ctx context.Context, cfg EnvironmentConfig) (kernel.Environment, []kernel.Finding, error) {
	candidates := []string{cfg.Python}
	if cfg.Python == "" {
		candidates = []string{"/usr/bin/python3", "/usr/local/bin/python3"}
		if path, err := exec.LookPath("python3"); err == nil {
			candidates = slices.Insert(candidates, 0, path)
		}
	}
	candidates = distinct(candidates)
	type inspected struct {
		env kernel.Environment
		err error
	}
	all := make([]inspected, len(candidates))
	var wait sync.WaitGroup
	for i, python := range candidates {
		wait.Go(func() { all[i].env, all[i].err = inspectPython(ctx, python) })
	}
	wait.Wait()
	if ctx.Err() != nil { // the interpreters were killed, which says nothing about them
		return kernel.Environment{}, nil, context.Cause(ctx)
	}
	var best kernel.Environment
	var findings []kernel.Finding
	var errs []error
	bestScore := -1
	for i, python := range candidates {
		env, err := all[i].env, all[i].err
		finding := kernel.Finding{Name: "python " + python, OK: err == nil}
		switch {
		case errors.Is(err, os.ErrNotExist) && cfg.Python == "":
			continue
		case err != nil:
			finding.Detail = err.Error()
			finding.Remedy = "configure another interpreter, Python 3.11 or later and not built free-threaded"
			errs = append(errs, err)
		default:
			finding.Detail, finding.Remedy = describeModules(env)
			if s := score(env); s > bestScore {
				best, bestScore = env, s
			}
		}
		findings = append(findings, finding)
	}
	if bestScore < 0 {
		if len(errs) == 0 {
			errs = append(errs, errors.New("python3 not found; install it, or configure the interpreter to use"))
		}
		return kernel.Environment{}, findings, fmt.Errorf("find Python: %w", errors.Join(errs...))
	}
	best.Name = cfg.Name
	engine, finding, err := chooseEngine(ctx, best, cfg.Engine, trials{cfg.Trials})
	if ctx.Err() != nil {
		return kernel.Environment{}, nil, context.Cause(ctx)
	}
	findings = append(findings, finding)
	if err != nil {
		return kernel.Environment{}, findings, err
	}
	best.Engine = engine
	return best, findings, nil
}

// distinct returns the list without duplicates, in its order.
func distinct(list []string) []string {
	var once []string
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// score counts the wanted modules.
func score(env kernel.Environment) int { return len(wantedModules) - len(lacking(env)) }

// lacking returns the wanted modules that an environment does not have.
func lacking(env kernel.Environment) []string {
	return slices.DeleteFunc(slices.Clone(wantedModules), func(wanted string) bool {
		return slices.ContainsFunc(env.Modules, func(module string) bool {
			name, _, _ := strings.Cut(module, " ")
			return name == wanted
		})
	})
}

// versionOf returns the version of a module that the environment has, or "".
func versionOf(e kernel.Environment, module string) string {
	for _, m := range e.Modules {
		if name, version, _ := strings.Cut(m, " "); name == module {
			return version
		}
	}
	return ""
}

func describeModules(env kernel.Environment) (detail, remedy string) {
	detail = env.Version + " at " + env.Python
	if len(env.Modules) > 0 {
		detail += " with " + strings.Join(env.Modules, ", ")
	}
	if missing := lacking(env); len(missing) > 0 {
		remedy = "install " + strings.Join(missing, ", ") + " to work with data and charts"
	}
	return detail, remedy
}

func inspectPython(ctx context.Context, python string) (kernel.Environment, error) {
	path, err := exec.LookPath(python)
	if err != nil {
		return kernel.Environment{}, fmt.Errorf("%s: %w", python, lookError(err))
	}
	if path, err = filepath.Abs(path); err != nil {
		return kernel.Environment{}, err
	}
	out, runErr := runPython(ctx, path, "-I", "-c", describe)
	if errors.Is(runErr, errNoAnswer) {
		return kernel.Environment{}, fmt.Errorf("%s %w; repair it, or configure the path of another interpreter", path, runErr)
	}
	var d description
	if runErr != nil || json.Unmarshal(out, &d) != nil {
		// Perhaps it is too old to describe itself.
		version, err := runPython(ctx, path, "-c", oldPython)
		var major, minor, patch int
		if _, scanErr := fmt.Sscanf(string(version), "%d.%d.%d", &major, &minor, &patch); err != nil || scanErr != nil {
			return kernel.Environment{}, fmt.Errorf("%s does not work as a Python (%w); install python3 (apt-get install python3), "+
				"or name another interpreter with --python", path, cmp.Or(runErr, err, scanErr, errNotDescribed))
		}
		d.Version = [3]int{major, minor, patch}
		if !tooOld(d.Version) {
			return kernel.Environment{}, fmt.Errorf("%s cannot describe itself: %w", path, runErr)
		}
	}
	version := fmt.Sprintf("%d.%d.%d", d.Version[0], d.Version[1], d.Version[2])
	if tooOld(d.Version) {
		return kernel.Environment{}, fmt.Errorf("%s is Python %s, older than %d.%d; configure the path of a newer interpreter",
			path, version, minPython[0], minPython[1])
	}
	if d.FreeThreaded {
		return kernel.Environment{}, fmt.Errorf("%s is Python %s built free-threaded, which the runner does not support; configure the path of an ordinary build",
			path, version)
	}
	if !filepath.IsAbs(d.Executable) {
		return kernel.Environment{}, fmt.Errorf("%s does not know its own path", path)
	}
	env := kernel.Environment{Python: d.Executable, Version: version}
	if env.Prefix, err = prefixes(d); err != nil {
		return kernel.Environment{}, err
	}
	for _, dir := range d.Path {
		if filepath.IsAbs(dir) && belowAny(dir, append(slices.Clone(env.Prefix), "/usr")) {
			env.Path = append(env.Path, dir)
		}
	}
	for _, name := range append(slices.Clone(wantedModules), "IPython") {
		if version, ok := d.Modules[name]; ok {
			env.Modules = append(env.Modules, name+" "+version)
		}
	}
	return env, nil
}

func tooOld(version [3]int) bool {
	return slices.Compare(version[:2], minPython[:]) < 0
}

// prefixes returns the directories outside /usr that an interpreter lies in, under each name that leads to them.
func prefixes(d description) ([]string, error) {
	real, err := filepath.EvalSymlinks(d.Executable)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", d.Executable, err)
	}
	var found []string
	for _, prefix := range d.Prefixes {
		resolved, err := filepath.EvalSymlinks(prefix)
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", prefix, err)
		}
		for _, dir := range []string{filepath.Clean(prefix), resolved} {
			if dir == "/" {
				return nil, fmt.Errorf("%s has the prefix /, which would show everything to a sandbox", d.Executable)
			}
			if !below(dir, "/usr") && !slices.Contains(found, dir) {
				found = append(found, dir)
			}
		}
	}
	for _, path := range []string{d.Executable, real} {
		if !belowAny(path, append(slices.Clone(found), "/usr", "/bin")) {
			return nil, fmt.Errorf("%s lies outside of its own prefix; configure the path of the real interpreter", path)
		}
	}
	slices.Sort(found)
	return found, nil
}

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func belowAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(path, dir) })
}

// maxLastLine is the longest line of an interpreter's standard error that is worth repeating.
const maxLastLine = 200

// errNoAnswer says that an interpreter hangs.
var errNoAnswer = errors.New("does not answer")

var errNotDescribed = errors.New("it does not describe itself as one")

// runPython runs an interpreter, which may be the script of a version manager that needs a home and a PATH. It fails with
// errNoAnswer after discoveryTimeout.
func runPython(ctx context.Context, args ...string) ([]byte, error) {
	hung := fmt.Errorf("%w: it ran for %v without ending", errNoAnswer, discoveryTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"LANG=C.UTF-8"}
	for _, name := range []string{"PATH", "HOME", "PYENV_ROOT", "PYENV_VERSION", "ASDF_DATA_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // what a script started, too
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if context.Cause(ctx) == hung {
			return nil, hung
		}
		last := strings.TrimSpace(stderr.String())
		last = last[strings.LastIndexByte(last, '\n')+1:]
		if last == "" || len(last) > maxLastLine { // it repeats the program that it was given
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s", err, last)
	}
	return stdout.Bytes(), nil
}

func lookError(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return os.ErrNotExist
	}
	return err
}
