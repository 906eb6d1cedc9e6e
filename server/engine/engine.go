// Package engine serves clients of one-shot engines that compile and run one program for each request. It is a translation
// onto package run and keeps nothing.
package engine

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"talaria/api"
)

// Prefix is where the front is.
const Prefix = "/engine"

// Up is the text that GET of the front's root answers with.
const Up = "UP!"

// What a client sends is nested and has members up to these bounds.
const (
	maxDepth   = 20
	maxMembers = 10_000
)

// Runs runs programs. [run.Manager] is one.
type Runs interface {
	Run(ctx context.Context, owner string, r api.RunRequest) (api.RunResult, error)
}

// Execute is the body of POST /execute/.
type Execute struct {
	Language string  `json:"language"`
	Code     *string `json:"code"`
}

// Executed is its answer. Code is that of the program, or of the compiler if it failed; StdLog has standard error or the
// compiler's words, and for which limit the program was ended.
type Executed struct {
	Code   int    `json:"code"`
	Output string `json:"output"`
	StdLog string `json:"std_log"`
}

// ExecuteFiles is the body of POST /v2/execute/.
type ExecuteFiles struct {
	Language  string        `json:"language"`
	Files     []api.RunFile `json:"files"`
	EntryFile string        `json:"entry_file"`
	Stdin     string        `json:"stdin,omitempty"`
	Args      []string      `json:"args,omitempty"`
}

// ExecutedFiles is its answer. Stdout has no newline at its end.
type ExecutedFiles struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
}

// Run carries out a body of POST /execute/.
func Run(ctx context.Context, runs Runs, owner string, body []byte) (Executed, error) {
	var in Execute
	if err := decode(body, &in); err != nil {
		return Executed{}, err
	}
	result, err := runs.Run(ctx, owner, api.RunRequest{Language: in.Language, Code: in.Code})
	if err != nil {
		return Executed{}, err
	}
	return Executed{Code: code(result), Output: result.Stdout, StdLog: words(result)}, nil
}

// RunFiles carries out a body of POST /v2/execute/.
func RunFiles(ctx context.Context, runs Runs, owner string, body []byte) (ExecutedFiles, error) {
	var in ExecuteFiles
	if err := decode(body, &in); err != nil {
		return ExecutedFiles{}, err
	}
	result, err := runs.Run(ctx, owner, api.RunRequest{
		Language: in.Language, Files: in.Files, EntryFile: in.EntryFile, Stdin: in.Stdin, Args: in.Args,
	})
	if err != nil {
		return ExecutedFiles{}, err
	}
	return ExecutedFiles{Stdout: strings.TrimSuffix(result.Stdout, "\n"), Stderr: words(result), ExitCode: code(result)}, nil
}

// decode reads a body. Unlike our own API it passes over fields that it does not know.
func decode(body []byte, v any) error {
	if api.TooComplex(body, maxDepth, maxMembers) {
		return api.Errorf(api.CodeInvalidRequest, "the JSON is nested deeper than %d levels or has more than %d members", maxDepth, maxMembers)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return api.Errorf(api.CodeInvalidRequest, "the body is not the JSON that this path expects: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return nil
}

// code returns the exit code, which is never 0 unless the program succeeded.
func code(r api.RunResult) int {
	if r.ExitCode == 0 && r.Verdict != api.VerdictOK {
		return 1
	}
	return r.ExitCode
}

// words returns standard error or the compiler's words, and says which limit ended the program.
func words(r api.RunResult) string {
	text := r.Stderr
	if r.Verdict == api.VerdictCompileError && r.Compile != nil {
		text = r.Compile.Stderr + r.Compile.Stdout
	}
	reason := r.Reason
	if r.Verdict == api.VerdictOK || strings.HasPrefix(reason, "exit:") || reason == "" {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if signal, ok := strings.CutPrefix(reason, "signal:"); ok {
		return text + fmt.Sprintf("the program was ended by %s\n", signal)
	}
	return text + fmt.Sprintf("the program was ended: %s\n", strings.ReplaceAll(reason, "_", " "))
}

// Refuse answers with an error.
func Refuse(w http.ResponseWriter, problem *api.Error) {
	body, err := api.Marshal(map[string]string{"error": problem.Detail, "code": string(problem.Code)})
	if err != nil { // strings always encode
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(problem.Status)
	_, _ = w.Write(body)
}
