package api

// RunRequest asks for one program to be run to its end in a fresh sandbox. Either Code or Files is given.
type RunRequest struct {
	Language  string    `json:"language"`
	Code      *string   `json:"code,omitempty"`
	Files     []RunFile `json:"files,omitempty"`
	EntryFile string    `json:"entry_file,omitempty"` // of Files, the one to run
	Stdin     string    `json:"stdin,omitempty"`
	Args      []string  `json:"args,omitempty"`
	Limits    RunLimits `json:"limits,omitzero"`
	// CompileLimits bound the compiler, apart from the program.
	CompileLimits RunLimits `json:"compile_limits,omitzero"`
}

// RunFile is a file of a run. Name is a path relative to the directory that the program runs in.
type RunFile struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// RunLimits bound a program; what is absent has a default.
type RunLimits struct {
	TimeS       *float64 `json:"time_s,omitempty"` // on the wall
	CPUS        *float64 `json:"cpu_s,omitempty"`  // of all processes together
	MemoryBytes *int64   `json:"memory_bytes,omitempty"`
	PIDs        *int64   `json:"pids,omitempty"`
	OutputBytes *int64   `json:"output_bytes,omitempty"` // of stdout and stderr together
}

// Verdict says in a judge's word how a run ended.
type Verdict string

// The verdicts.
const (
	VerdictOK           Verdict = "ok"
	VerdictCompileError Verdict = "compile_error"
	VerdictRuntimeError Verdict = "runtime_error"
	VerdictTimeLimit    Verdict = "time_limit"
	VerdictMemoryLimit  Verdict = "memory_limit"
	VerdictOutputLimit  Verdict = "output_limit"
)

// RunResult is what came of a run. If the program was not compiled, it has the exit code of the compiler and no output.
type RunResult struct {
	Language string  `json:"language"`
	Verdict  Verdict `json:"verdict"`
	RunStep
	Compile *RunStep `json:"compile,omitzero"`
}

// RunStep is the outcome of one program. ExitCode is 128 plus the number of the signal if one ended it.
type RunStep struct {
	Stdout   string         `json:"stdout"`
	Stderr   string         `json:"stderr"`
	ExitCode int            `json:"exit_code"`
	Signal   string         `json:"signal,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Usage    ExecutionUsage `json:"usage"`
}
