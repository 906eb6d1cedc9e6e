// Package run runs programs of many languages to their end, each in a fresh sandbox of which nothing stays: it knows the
// toolchains of the machine, bounds what each owner runs at a time, and gives verdicts.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/oneshot"
	"talaria/kernel/python"
	"talaria/kernel/trace"
)

// Config says how programs are run. Runner, Environment and Toolchains are required.
type Config struct {
	Runner      oneshot.Runner
	Environment kernel.Environment // whose Python makes the sandboxes, and runs programs in Python
	Toolchains  []Toolchain
	// Concurrency is how many programs run at a time; others wait. 0: 4.
	Concurrency int64
	// OwnerRuns and TotalRuns bound the runs under way, waiting ones included, of one owner and of all. 0: 64 and 256.
	OwnerRuns, TotalRuns int
	// MaxTime, MaxMemory and MaxPIDs bound what requests may ask for. 0: five minutes, and any.
	MaxTime            time.Duration
	MaxMemory, MaxPIDs int64
	CPUs               float64 // that a program may use; 0: 1
}

// Manager runs programs. It is safe for concurrent use.
type Manager struct {
	cfg        Config
	toolchains map[string]Toolchain
	running    *semaphore.Weighted

	mu    sync.Mutex // guards the fields below
	runs  map[string]int
	total int
}

// New makes a manager. It starts nothing.
func New(cfg Config) *Manager {
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 4
	}
	if cfg.OwnerRuns == 0 {
		cfg.OwnerRuns = 64
	}
	if cfg.TotalRuns == 0 {
		cfg.TotalRuns = 256
	}
	if cfg.MaxTime == 0 {
		cfg.MaxTime = 5 * time.Minute
	}
	if cfg.CPUs == 0 {
		cfg.CPUs = 1
	}
	for _, most := range []*int64{&cfg.MaxMemory, &cfg.MaxPIDs} {
		if *most == 0 {
			*most = 1 << 62
		}
	}
	// Programs need neither libraries nor a runner before they ask for them.
	cfg.Environment.Name = "run"
	cfg.Environment.Engine, cfg.Environment.Preload = python.EngineScript, nil
	m := &Manager{cfg: cfg, toolchains: map[string]Toolchain{}, running: semaphore.NewWeighted(cfg.Concurrency), runs: map[string]int{}}
	for _, t := range cfg.Toolchains {
		m.toolchains[t.Language] = t
	}
	return m
}

// Run runs a program for an owner. The error is for the client unless the machine failed; a program that fails is a
// result. ctx bounds the run: when it ends, so does the program.
func (m *Manager) Run(ctx context.Context, owner string, r api.RunRequest) (api.RunResult, error) {
	trace.Step("program received")
	defer trace.Step("result made")
	if _, _, err := m.plan(r); err != nil { // before it counts
		return api.RunResult{}, err
	}
	leave, err := m.reserve(owner)
	if err != nil {
		return api.RunResult{}, err
	}
	defer leave()
	return m.carryOut(ctx, r)
}

// carryOut runs a program once others have ended that run already.
func (m *Manager) carryOut(ctx context.Context, r api.RunRequest) (api.RunResult, error) {
	if err := m.running.Acquire(ctx, 1); err != nil {
		return api.RunResult{}, errors.Join(context.Cause(ctx), err)
	}
	defer m.running.Release(1)
	l, request, err := m.plan(r)
	if err != nil {
		return api.RunResult{}, err
	}
	outcomes, err := m.cfg.Runner.Run(ctx, request)
	if err != nil {
		return api.RunResult{}, err
	}
	if len(outcomes) == 0 || len(outcomes) > len(request.Steps) {
		return api.RunResult{}, fmt.Errorf("a run of %d steps has %d outcomes", len(request.Steps), len(outcomes))
	}
	return l.resultOf(outcomes), nil
}

// plan makes the steps of a request.
func (m *Manager) plan(r api.RunRequest) (*language, oneshot.Request, error) {
	none := oneshot.Request{}
	l, toolchain, err := m.language(r.Language)
	if err != nil {
		return nil, none, err
	}
	program, err := l.sourceOf(r)
	if err != nil {
		return nil, none, err
	}
	if err := checkArgs(r.Args); err != nil {
		return nil, none, err
	}
	most := bound{time: m.cfg.MaxTime, memory: m.cfg.MaxMemory, pids: m.cfg.MaxPIDs, output: maxOutputBytes}
	b := bound{time: DefaultTime, memory: DefaultMemoryBytes, pids: DefaultPIDs, output: DefaultOutputBytes}
	b.lower(most)
	if err := b.apply(r.Limits, "limits", most); err != nil {
		return nil, none, err
	}
	compiler := bound{memory: compileMemory, pids: compilePIDs, output: compileOutput}
	compileCPU := cmp.Or(l.cpu, compileCPU)
	compiler.time = compileWaits * compileCPU
	if r.CompileLimits.TimeS == nil { // who says how long it may take does not expect another limit
		compiler.cpu = compileCPU
	}
	compiler.lower(most)
	if err := compiler.apply(r.CompileLimits, "compile_limits", most); err != nil {
		return nil, none, err
	}
	request := oneshot.Request{Env: m.cfg.Environment, Files: program.files}
	if l.compile != nil {
		program.memory = compiler.memory
		step := compiler.step(m.cfg.CPUs)
		step.Args, step.Env = l.compile(toolchain, program), l.env
		request.Steps = append(request.Steps, step)
	}
	program.memory = b.memory
	step := b.step(m.cfg.CPUs)
	step.Args, step.Stdin = append(l.command(toolchain, program), r.Args...), []byte(r.Stdin)
	if l.script {
		step.Script, step.Args = step.Args[0], step.Args[1:]
	}
	request.Steps = append(request.Steps, step)
	return l, request, nil
}

// lower brings defaults below the operator's ceilings.
func (b *bound) lower(most bound) {
	b.time, b.memory, b.pids = min(b.time, most.time), min(b.memory, most.memory), min(b.pids, most.pids)
}

// language returns a language that can be used here.
func (m *Manager) language(name string) (*language, Toolchain, error) {
	if name == "" {
		return nil, Toolchain{}, api.Errorf(api.CodeInvalidRequest, "field \"language\" is missing")
	}
	l := languageOf(name)
	if l == nil {
		return nil, Toolchain{}, api.Errorf(api.CodeLanguageUnavailable, "unknown language %.80q; the languages are %v", name, Names())
	}
	t, ok := m.toolchains[l.name]
	if !ok || t.Missing != "" {
		return nil, t, api.Errorf(api.CodeLanguageUnavailable,
			"%s is not installed on the server: %s is missing; install it with: apt-get install %s", l.name, t.Missing, l.pkg)
	}
	return l, t, nil
}

// reserve counts a run of an owner until leave is called.
func (m *Manager) reserve(owner string) (leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.runs[owner] >= m.cfg.OwnerRuns:
		return nil, api.Errorf(api.CodeTooManyRequests, "%d of your runs are running or waiting, the server's limit for one owner (run.owner_runs); wait for one to end", m.runs[owner])
	case m.total >= m.cfg.TotalRuns:
		return nil, api.Errorf(api.CodeTooManyRequests, "%d runs are running or waiting, the server's limit (run.total_runs); try again soon", m.total)
	}
	m.runs[owner]++
	m.total++
	return func() { m.exit(owner) }, nil
}

func (m *Manager) exit(owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total--
	if m.runs[owner]--; m.runs[owner] == 0 {
		delete(m.runs, owner)
	}
}

// resultOf returns the outcomes of a run as clients see them.
func (l *language) resultOf(outcomes []oneshot.Outcome) api.RunResult {
	last := outcomes[len(outcomes)-1]
	result := api.RunResult{Language: l.name}
	if l.compile == nil {
		verdict, reason := l.verdictOf(last)
		result.Verdict, result.RunStep = verdict, stepOf(last, reason)
		return result
	}
	_, reason := l.verdictOf(outcomes[0])
	compile := stepOf(outcomes[0], reason)
	result.Compile = &compile
	if len(outcomes) == 1 {
		result.Verdict = api.VerdictCompileError
		result.RunStep = api.RunStep{ExitCode: compile.ExitCode, Signal: compile.Signal, Reason: compile.Reason}
		return result
	}
	verdict, reason := l.verdictOf(last)
	result.Verdict, result.RunStep = verdict, stepOf(last, reason)
	return result
}
