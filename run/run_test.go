package run

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/oneshot"
)

// scripted is a runner that notes requests and answers with outcomes.
type scripted struct {
	requests []oneshot.Request
	outcomes []oneshot.Outcome
	began    chan struct{} // if set, gets a value when a run begins
	hold     chan struct{} // if set, runs wait until it is closed
}

func (s *scripted) Run(ctx context.Context, r oneshot.Request) ([]oneshot.Outcome, error) {
	if s.hold != nil {
		s.began <- struct{}{}
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return s.outcomes, nil
	}
	s.requests = append(s.requests, r)
	return s.outcomes, nil
}

// everything are toolchains that lack nothing but Rust's.
func everything() []Toolchain {
	var all []Toolchain
	for _, l := range languages {
		t := Toolchain{Language: l.name, Package: l.pkg, Programs: map[string]string{}}
		for _, p := range l.programs {
			t.Programs[p] = "/usr/bin/" + p
		}
		if l.name == "rust" {
			t.Missing = "rustc"
		}
		all = append(all, t)
	}
	return all
}

func codeOf(err error) api.Code {
	if known := new(api.Error); errors.As(err, &known) {
		return known.Code
	}
	return ""
}

func TestRequestsBecomeCommands(t *testing.T) {
	java := "package a.b;\npublic final class Greeter {}"
	for name, c := range map[string]struct {
		request api.RunRequest
		want    string // the commands, with scripts marked
	}{
		"python": {api.RunRequest{Language: "py", Code: new("x"), Args: []string{"a", "b"}}, "script main.py a b"},
		"c++": {api.RunRequest{Language: "C++", EntryFile: "b.cpp", Files: []api.RunFile{{Name: "a.cc"}, {Name: "b.cpp"}, {Name: "c.h"}}},
			"/usr/bin/g++ -std=gnu++20 -O2 -pipe -o .program ./b.cpp ./a.cc; ./.program"},
		"java": {api.RunRequest{Language: "java", Code: &java, Limits: api.RunLimits{MemoryBytes: new(int64(100 << 20))}},
			"/usr/bin/javac -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 -J-Xmx1228m -d .classes -encoding UTF-8 ./Greeter.java; " +
				"/usr/bin/java -XX:+UseSerialGC -XX:-UsePerfData -Xmx60m -cp .classes a.b.Greeter"},
		"go module": {api.RunRequest{Language: "go", EntryFile: "cmd/main.go", Files: []api.RunFile{{Name: "go.mod"}, {Name: "cmd/main.go"}}},
			"/usr/bin/go build -o .program ./cmd; ./.program"},
		"hyphen": {api.RunRequest{Language: "c", Code: new(""), EntryFile: "-o.c"}, "/usr/bin/gcc -O2 -pipe -o .program ./-o.c -lm; ./.program"},
	} {
		t.Run(name, func(t *testing.T) {
			runner := &scripted{outcomes: []oneshot.Outcome{{}}}
			m := New(Config{Runner: runner, Toolchains: everything()})
			if _, err := m.Run(t.Context(), "o", c.request); err != nil {
				t.Fatal(err)
			}
			var commands []string
			for _, s := range runner.requests[0].Steps {
				command := strings.Join(s.Args, " ")
				if s.Script != "" {
					command = "script " + s.Script + " " + command
				}
				commands = append(commands, command)
			}
			if got := strings.Join(commands, "; "); got != c.want {
				t.Errorf("runs %q, want %q", got, c.want)
			}
		})
	}
}

// A compiler is bounded by what it computes. The time that it may wait for a busy machine is longer.
func TestCompilersHaveTimeToWait(t *testing.T) {
	code := new("x")
	for name, c := range map[string]struct {
		request   api.RunRequest
		most      time.Duration
		time, cpu time.Duration
	}{
		"default":       {api.RunRequest{Language: "c", Code: code}, time.Hour, 2 * time.Minute, 30 * time.Second},
		"go":            {api.RunRequest{Language: "go", Code: code}, time.Hour, 8 * time.Minute, 2 * time.Minute},
		"ceiling":       {api.RunRequest{Language: "go", Code: code}, time.Minute, time.Minute, 2 * time.Minute},
		"asks for time": {api.RunRequest{Language: "c", Code: code, CompileLimits: api.RunLimits{TimeS: new(50.0)}}, time.Hour, 50 * time.Second, 0},
		"asks for both": {api.RunRequest{Language: "c", Code: code, CompileLimits: api.RunLimits{TimeS: new(50.0), CPUS: new(7.0)}}, time.Hour,
			50 * time.Second, 7 * time.Second},
		"asks for CPU time": {api.RunRequest{Language: "c", Code: code, CompileLimits: api.RunLimits{CPUS: new(60.0)}}, time.Hour,
			2 * time.Minute, time.Minute},
	} {
		runner := &scripted{outcomes: []oneshot.Outcome{{}}}
		m := New(Config{Runner: runner, Toolchains: everything(), MaxTime: c.most})
		if _, err := m.Run(t.Context(), "o", c.request); err != nil {
			t.Fatal(err)
		}
		if step := runner.requests[0].Steps[0]; step.Time != c.time || step.CPUTime != c.cpu {
			t.Errorf("%s: the compiler may take %v and %v of CPU time, want %v and %v", name, step.Time, step.CPUTime, c.time, c.cpu)
		}
	}
}

func TestOutcomesBecomeVerdicts(t *testing.T) {
	l := languageOf("python")
	for want, o := range map[string]oneshot.Outcome{
		"ok ":                              {},
		"runtime_error exit:3":             {Code: 3},
		"runtime_error signal:SIGSEGV":     {Signal: syscall.SIGSEGV},
		"time_limit time_limit":            {Signal: syscall.SIGKILL, Limit: oneshot.LimitTime},
		"time_limit cpu_limit":             {Signal: syscall.SIGKILL, Limit: oneshot.LimitCPU},
		"output_limit output_limit":        {Signal: syscall.SIGKILL, Limit: oneshot.LimitOutput},
		"memory_limit memory_limit":        {Signal: syscall.SIGKILL, Limit: kernel.LimitMemory},
		"runtime_error out_of_memory":      {Signal: syscall.SIGKILL, Limit: "out_of_memory"},
		"runtime_error disk_limit":         {Signal: syscall.SIGKILL, Limit: oneshot.LimitDisk},
		"memory_limit memory_limit ":       {Code: 1, Stderr: []byte("Traceback\nMemoryError\n")},
		"memory_limit memory_limit  child": {Code: 1, OOMKills: 1},
		"ok  although a child was killed":  {OOMKills: 1},
	} {
		verdict, reason := l.verdictOf(o)
		if got := string(verdict) + " " + reason; !strings.HasPrefix(want, got) {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
	result := languageOf("c").resultOf([]oneshot.Outcome{{Code: 1, Stderr: []byte("error")}})
	if result.Verdict != api.VerdictCompileError || result.ExitCode != 1 || result.Stderr != "" || result.Compile.Stderr != "error" {
		t.Errorf("a compiler that fails: %+v", result)
	}
	killed := stepOf(oneshot.Outcome{Signal: syscall.SIGKILL, Stdout: []byte("a\xff")}, "")
	if killed.ExitCode != 137 || killed.Signal != "SIGKILL" || killed.Stdout != "a\uFFFD" {
		t.Errorf("a program that was killed: %+v", killed)
	}
}

func TestALanguageThatIsMissingNamesItsPackage(t *testing.T) {
	m := New(Config{Runner: &scripted{}, Toolchains: everything()})
	for _, language := range []string{"rust", "cobol"} {
		_, err := m.Run(t.Context(), "o", api.RunRequest{Language: language, Code: new("")})
		if codeOf(err) != api.CodeLanguageUnavailable {
			t.Errorf("%s: %v", language, err)
		}
		if language == "rust" && !strings.Contains(err.Error(), "apt-get install rustc") {
			t.Errorf("the error names no package: %v", err)
		}
	}
}

func TestOwnersRunSoManyAtATimeAndOthersWait(t *testing.T) {
	runner := &scripted{outcomes: []oneshot.Outcome{{}}, began: make(chan struct{}, 8), hold: make(chan struct{})}
	m := New(Config{Runner: runner, Toolchains: everything(), Concurrency: 1, OwnerRuns: 2, TotalRuns: 3})
	request := api.RunRequest{Language: "python", Code: new("")}
	ended := make(chan error, 8)
	begin := func(owner string) {
		leave, err := m.reserve(owner)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer leave()
			_, err := m.carryOut(t.Context(), request)
			ended <- err
		}()
	}
	begin("a")
	<-runner.began
	begin("a") // waits for the first
	if _, err := m.Run(t.Context(), "a", request); codeOf(err) != api.CodeTooManyRequests || !strings.Contains(err.Error(), "run.owner_runs") {
		t.Errorf("a third run of an owner: %v", err)
	}
	begin("b")
	if _, err := m.Run(t.Context(), "c", request); codeOf(err) != api.CodeTooManyRequests || !strings.Contains(err.Error(), "run.total_runs") {
		t.Errorf("a fourth run: %v", err)
	}
	close(runner.hold)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Run(t.Context(), "a", request); err != nil {
		t.Errorf("after all have ended: %v", err)
	}
}

func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"language":"python","code":"print(1)","stdin":"x","args":["a"],"limits":{"time_s":1,"cpu_s":0.5,"memory_bytes":67108864,"pids":4,"output_bytes":10}}`,
		`{"language":"java","files":[{"name":"a/B.java","content":"package a;"},{"name":"../x","content":""}],"entry_file":"a/B.java"}`,
		`{"language":"go","files":[{"name":"go.mod","content":""},{"name":"\u0000","content":""}]}`,
		`{"language":"c++","code":"","compile_limits":{"time_s":1e309}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r api.RunRequest
		if api.Unmarshal(body, &r) != nil {
			return
		}
		runner := &scripted{outcomes: []oneshot.Outcome{{}}}
		m := New(Config{Runner: runner, Toolchains: everything(), MaxMemory: 1 << 30, MaxPIDs: 512})
		_, err := m.Run(t.Context(), "o", r)
		if err != nil {
			if codeOf(err) == "" {
				t.Errorf("%q fails with %v, which no client understands", body, err)
			}
			return
		}
		for _, file := range runner.requests[0].Files {
			if strings.HasPrefix(file.Name, "/") || strings.Contains("/"+file.Name+"/", "/../") || strings.ContainsRune(file.Name, 0) {
				t.Errorf("%q makes the file %q", body, file.Name)
			}
		}
		for _, s := range runner.requests[0].Steps {
			if s.Time <= 0 || s.Time > m.cfg.MaxTime || s.OutputBytes < 0 || s.OutputBytes > maxOutputBytes || s.Limits.MemoryBytes <= 0 ||
				s.Limits.MemoryBytes > max(1<<30, minMemoryBytes) || s.Limits.PIDs <= 0 || s.Limits.PIDs > 512+overhead {
				t.Errorf("%q has the bounds %+v", body, s)
			}
		}
	})
}
