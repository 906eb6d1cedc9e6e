package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"talaria/api"
)

// answers is a Runs that notes what it is asked and answers always the same.
type answers struct {
	request api.RunRequest
	result  api.RunResult
}

func (a *answers) Run(_ context.Context, _ string, r api.RunRequest) (api.RunResult, error) {
	a.request = r
	return a.result, nil
}

func TestAResultIsTold(t *testing.T) {
	result := func(verdict api.Verdict, code int, reason, stdout, stderr string) api.RunResult {
		return api.RunResult{Verdict: verdict, RunStep: api.RunStep{ExitCode: code, Reason: reason, Stdout: stdout, Stderr: stderr}}
	}
	compile := result(api.VerdictCompileError, 1, "exit:1", "", "")
	compile.Compile = &api.RunStep{ExitCode: 1, Stderr: "no", Stdout: "!"}
	for name, c := range map[string]struct {
		result api.RunResult
		want   Executed
	}{
		"success":    {result(api.VerdictOK, 0, "", "2\n", "note"), Executed{0, "2\n", "note"}},
		"exit code":  {result(api.VerdictRuntimeError, 3, "exit:3", "", "words\n"), Executed{3, "", "words\n"}},
		"signal":     {result(api.VerdictRuntimeError, 139, "signal:SIGSEGV", "", "a"), Executed{139, "", "a\nthe program was ended by SIGSEGV\n"}},
		"limit":      {result(api.VerdictTimeLimit, 137, "time_limit", "1", ""), Executed{137, "1", "the program was ended: time limit\n"}},
		"never zero": {result(api.VerdictMemoryLimit, 0, "memory_limit", "", ""), Executed{1, "", "the program was ended: memory limit\n"}},
		"compiler":   {compile, Executed{1, "", "no!"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Run(t.Context(), &answers{result: c.result}, "o", []byte(`{"language":"c","code":""}`))
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
			files, err := RunFiles(t.Context(), &answers{result: c.result}, "o", []byte(`{"language":"c","files":[]}`))
			want := ExecutedFiles{strings.TrimSuffix(c.want.Output, "\n"), c.want.StdLog, c.want.Code}
			if err != nil || files != want {
				t.Errorf("%+v, %v; want %+v", files, err, want)
			}
		})
	}
}

func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"language":"python","code":"print(1)","more":{"a":[]}}`, `{"language":"c","files":[{"name":"a.c","content":""}],"entry_file":"a.c"}`,
		`{"language":5}`, `[`, `{"language":"\ud800"}`, strings.Repeat("[", 1000), `{"code":"","code":""}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, run := range []func(Runs) error{
			func(r Runs) error { _, err := Run(t.Context(), r, "o", body); return err },
			func(r Runs) error { _, err := RunFiles(t.Context(), r, "o", body); return err },
		} {
			if err := run(&answers{}); err != nil {
				if known := new(api.Error); !errors.As(err, &known) || known.Code != api.CodeInvalidRequest {
					t.Errorf("%q fails with %v", body, err)
				}
			}
		}
	})
}
