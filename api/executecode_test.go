package api

import (
	"strings"
	"testing"
)

func failed(text, ename, evalue string, traceback ...string) Execution {
	return Execution{ID: "e1", SessionID: "s", Status: StatusError, State: VariablesKept, Text: text, ExecutionCount: new(int64(2)),
		Generation: 1, Error: &ErrorOutput{Ename: ename, Evalue: evalue, Traceback: traceback}}
}

// TestExecuteCodeResults holds P40, P41, P42, P43 and P47.
func TestExecuteCodeResults(t *testing.T) {
	simple := "Traceback (most recent call last):\n  File \"<cell 2>\", line 1, in <module>\nValueError: no"
	chained := "Traceback (most recent call last):\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" + simple
	for _, c := range []struct {
		name   string
		e      Execution
		status ExecuteCodeStatus
		output string
		error  string
	}{
		{"success", Execution{Status: StatusOK, Text: "hi\n"}, ExecuteCodeSuccess, "hi\n", ""},
		{"an exception", failed("hi\n"+simple, "ValueError", "no", strings.Split(simple, "\n")...), ExecuteCodeError,
			"hi\n--- stderr ---\n" + simple, simple},
		{"an exception after another, and a printed traceback", failed(simple+"\n"+chained, "ValueError", "no", strings.Split(chained, "\n")...),
			ExecuteCodeError, simple + "\n--- stderr ---\n" + chained, chained},
		{"a syntax error", failed("  File \"<cell 2>\", line 1\n    (\nSyntaxError: never closed", "SyntaxError", "never closed",
			"  File \"<cell 2>\", line 1", "    (", "SyntaxError: never closed"), ExecuteCodeError,
			"--- stderr ---\n  File \"<cell 2>\", line 1\n    (\nSyntaxError: never closed", "  File \"<cell 2>\", line 1\n    (\nSyntaxError: never closed"},
		{"a text that was cut", failed("hi", "ValueError", "a secret", simple), ExecuteCodeError, "hi\n--- stderr ---\nValueError", "ValueError"},
		{"timeout", Execution{Status: StatusTimeout, State: VariablesKept, Reason: "timeout"}, ExecuteCodeTimeout,
			"[the cell was stopped at its timeout (timeout_s, or limits.execution_timeout_s); the variables are kept]",
			"the cell was stopped at its timeout (timeout_s, or limits.execution_timeout_s); the variables are kept"},
		{"interrupted", Execution{Status: StatusInterrupted, State: VariablesLost, Text: "1\n"}, ExecuteCodeInterrupted,
			"1\n[the cell was interrupted; the interpreter had to be ended, and its variables are lost]",
			"the cell was interrupted; the interpreter had to be ended, and its variables are lost"},
		{"cancelled", Execution{Status: StatusCancelled, Reason: "stop_on_error"}, ExecuteCodeError,
			"[the cell did not run: stop_on_error]", "the cell did not run: stop_on_error"},
		{"died", Execution{Status: StatusDied, State: VariablesLost, Reason: "memory_limit"}, ExecuteCodeError,
			"[the interpreter ended while the cell ran (memory_limit); its variables are lost, files are kept]",
			"the interpreter ended while the cell ran (memory_limit); its variables are lost, files are kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ExecuteCode(c.e)
			if r.Status != c.status || r.Output != c.output || r.Error != c.error {
				t.Errorf("it is %s, %q, %q\nwant  %s, %q, %q", r.Status, r.Output, r.Error, c.status, c.output, c.error)
			}
		})
	}
}

// TestExecuteCodeTellsWhetherVariablesAreThere holds P47.
func TestExecuteCodeTellsWhetherVariablesAreThere(t *testing.T) {
	for _, c := range []struct {
		e    Execution
		want ExecuteCodeKernel
	}{
		{Execution{Status: StatusOK, Generation: 1, ExecutionCount: new(int64(1)), State: VariablesKept}, ExecuteCodeKernel{ExecutionCount: 1}},
		{Execution{Status: StatusOK, Generation: 1, ExecutionCount: new(int64(2)), State: VariablesKept}, ExecuteCodeKernel{Reused: true, ExecutionCount: 2}},
		{Execution{Status: StatusOK, Generation: 2, ExecutionCount: new(int64(1)), State: VariablesKept}, ExecuteCodeKernel{ExecutionCount: 1, StateReset: true}},
		{Execution{Status: StatusDied, Generation: 1, ExecutionCount: new(int64(3)), State: VariablesLost, Reason: "exit:7"},
			ExecuteCodeKernel{Reused: true, ExecutionCount: 3, Ended: "exit:7"}},
	} {
		if got := ExecuteCode(c.e).Kernel; got != c.want {
			t.Errorf("the kernel is %+v, want %+v", got, c.want)
		}
	}
	if got := ExecuteCode(Execution{Status: StatusOK, Usage: ExecutionUsage{DurationMS: 1236}}).DurationSeconds; got != 1.24 {
		t.Errorf("it took %v s", got)
	}
}

// TestExecuteCodeHintsAtTheMistakesThatModelsMake holds P46.
func TestExecuteCodeHintsAtTheMistakesThatModelsMake(t *testing.T) {
	for _, c := range []struct{ ename, evalue, want string }{
		{"ImportError", "cannot import name 'serch' from 'hermes_tools'", "search_tools"},
		{"NameError", "name 'json_parse' is not defined", "import json_parse"},
		{"ModuleNotFoundError", "No module named 'polars'", "%pip install"},
		{"AttributeError", "'dict' object has no attribute 'splitlines'", "take a field"},
		{"NameError", "name 'x' is not defined", ""},
		{"ValueError", "no", ""},
	} {
		r := ExecuteCode(failed("Traceback (most recent call last):\n"+c.ename, c.ename, c.evalue, "Traceback (most recent call last):", c.ename))
		if c.want == "" && r.Hint != "" || !strings.Contains(r.Hint, c.want) || !strings.HasSuffix(r.Output, r.Hint) {
			t.Errorf("%s: %s has the hint %q, and the output %q", c.ename, c.evalue, r.Hint, r.Output)
		}
	}
}

// TestExecuteCodeCountsWhatIsLeftOut holds P32.
func TestExecuteCodeCountsWhatIsLeftOut(t *testing.T) {
	const cut = "ab\n[1,200 of 1,202 bytes were left out here]\ncd\n[30 of 32 bytes were left out here]\n"
	r := ExecuteCode(Execution{ID: "e:1", SessionID: "chat:7", Status: StatusOK, Text: cut})
	want := Truncation{
		StdoutTruncated: true, BytesCaptured: 4, BytesOmitted: 1230, BytesTotal: 1234, FullOutputURL: "/v1/sessions/chat:7/executions/e:1/text",
	}
	if r.Truncation != want || !r.OutputTruncated || !strings.Contains(r.Warning, want.FullOutputURL) {
		t.Errorf("it is %+v %q, want %+v", r.Truncation, r.Warning, want)
	}
	if r := ExecuteCode(Execution{Status: StatusOK, Text: "[12 bytes]\n"}); r.OutputTruncated || r.Truncation != (Truncation{}) {
		t.Errorf("nothing is left out, and it is %+v", r)
	}
	huge := ExecuteCode(Execution{Status: StatusOK, Text: "[9,999,999,999,999 of 1 bytes were left out here]"})
	if huge.BytesCaptured < 0 || huge.BytesTotal < huge.BytesOmitted {
		t.Errorf("printed numbers are counted as %+v", huge.Truncation)
	}
}
