package api

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// ExecuteCodeResult is an execution as the result of the tool execute_code, for a language model that reads text alone. The
// first four fields are always there.
type ExecuteCodeResult struct {
	Status          ExecuteCodeStatus `json:"status"`
	Output          string            `json:"output"` // all that the model has to see, the error included
	ToolCallsMade   int64             `json:"tool_calls_made"`
	DurationSeconds float64           `json:"duration_seconds"` // two decimals
	Error           string            `json:"error,omitzero"`
	Hint            string            `json:"hint,omitzero"`
	OutputTruncated bool              `json:"output_truncated,omitzero"` // a line in Output says how much is left out
	Truncation
	Warning     string            `json:"warning,omitzero"` // where all of a truncated output is
	Kernel      ExecuteCodeKernel `json:"kernel"`
	Artifacts   []Artifact        `json:"artifacts"`
	Refundable  bool              `json:"refundable,omitzero"`
	Guard       *Guard            `json:"guard,omitzero"`
	SessionID   string            `json:"session_id"`
	ExecutionID string            `json:"execution_id"`
}

// Truncation says how much of an output a result has. Its fields have the names that agents know from their own tool; what a
// cell wrote to stdout and stderr and its results are one text here. They are absent unless something is left out.
type Truncation struct {
	StdoutTruncated bool   `json:"stdout_truncated,omitzero"`
	BytesCaptured   int64  `json:"stdout_bytes_captured,omitzero"` // in the result
	BytesTotal      int64  `json:"stdout_bytes_total,omitzero"`
	BytesOmitted    int64  `json:"stdout_bytes_omitted,omitzero"`
	FullOutputURL   string `json:"full_output_url,omitzero"` // all of the text, without secrets
}

// ExecuteCodeStatus is how the tool's call ended.
type ExecuteCodeStatus string

// The ends of a call.
const (
	ExecuteCodeSuccess     ExecuteCodeStatus = "success"
	ExecuteCodeError       ExecuteCodeStatus = "error"
	ExecuteCodeTimeout     ExecuteCodeStatus = "timeout"
	ExecuteCodeInterrupted ExecuteCodeStatus = "interrupted"
)

// ExecuteCodeAdvice tells a model which argument to use when it gave none, or a shell command.
const ExecuteCodeAdvice = "execute_code takes Python source as the string \"code\"; write a shell command as a line that begins with \"!\""

// ExecuteCodeKernel says whether variables are there that the model counts on.
type ExecuteCodeKernel struct {
	Reused         bool   `json:"reused"`          // earlier cells ran in this interpreter
	ExecutionCount int64  `json:"execution_count"` // in this interpreter; 0 where the cell never started
	StateReset     bool   `json:"state_reset"`     // the variables of earlier cells were lost before this one
	Ended          string `json:"ended,omitzero"`  // why the interpreter ended with this cell
}

// TextCutMark ends the line that stands for what the text of an execution lacks: "[1,200 of 51,200 bytes were left out
// here]". Output that contains the same words looks as if it was cut.
const TextCutMark = " bytes were left out here]"

// ExecuteCode translates an execution that has ended.
func ExecuteCode(e Execution) ExecuteCodeResult {
	r := executeCodeResult(e)
	if r.OutputTruncated = strings.Contains(e.Text, TextCutMark); r.OutputTruncated {
		r.Truncation = truncation(e.Text)
		r.FullOutputURL = fmt.Sprintf("/v1/sessions/%s/executions/%s/text", url.PathEscape(e.SessionID), url.PathEscape(e.ID))
		r.Warning = "The middle of the output is left out; GET " + r.FullOutputURL + " returns all of it. " +
			"Print less, or write to a file and read parts of it."
	}
	return r
}

// cutLine is a line that stands for what the text of an execution lacks.
var cutLine = regexp.MustCompile(`(?m)^\[([0-9,]{1,19}) of [0-9,]{1,19}` + regexp.QuoteMeta(TextCutMark) + `$`)

// truncation counts what a text has and lacks.
func truncation(text string) Truncation {
	t := Truncation{StdoutTruncated: true, BytesCaptured: int64(len(text))}
	for _, line := range cutLine.FindAllStringSubmatch(text, -1) {
		omitted, err := strconv.ParseInt(strings.ReplaceAll(line[1], ",", ""), 10, 64)
		if err != nil {
			continue
		}
		t.BytesOmitted += omitted
		t.BytesCaptured -= int64(len(line[0]) + len("\n\n"))
	}
	t.BytesCaptured = max(t.BytesCaptured, 0)
	t.BytesTotal = t.BytesCaptured + t.BytesOmitted
	return t
}

func executeCodeResult(e Execution) ExecuteCodeResult {
	r := ExecuteCodeResult{
		Status: ExecuteCodeSuccess, Output: e.Text, ToolCallsMade: e.ToolCalls, Refundable: e.Refundable, Guard: e.Guard,
		DurationSeconds: math.Round(float64(e.Usage.DurationMS)/10) / 100,
		Artifacts:       append([]Artifact{}, e.Artifacts...), SessionID: e.SessionID, ExecutionID: e.ID,
	}
	if e.ExecutionCount != nil {
		r.Kernel.ExecutionCount = *e.ExecutionCount
		r.Kernel.Reused = *e.ExecutionCount > 1
		r.Kernel.StateReset = *e.ExecutionCount == 1 && e.Generation > 1
	}
	if e.State == VariablesLost {
		r.Kernel.Ended = e.Reason
	}
	switch e.Status {
	case StatusOK:
		return r
	case StatusError:
		r.Status = ExecuteCodeError
		r.Output, r.Error = splitError(e)
		r.Hint = executeCodeHint(e.Error)
		r.Output = lines(r.Output, "--- stderr ---", r.Error, r.Hint)
		return r
	case StatusTimeout:
		r.Status = ExecuteCodeTimeout
		r.Error = "the cell was stopped at its timeout (timeout_s, or limits.execution_timeout_s)" + kept(e)
	case StatusInterrupted:
		r.Status = ExecuteCodeInterrupted
		r.Error = "the cell was interrupted" + kept(e)
	case StatusCancelled:
		r.Status = ExecuteCodeError
		if r.Error = "the cell did not run: " + e.Reason; e.Reason == string(StatusInterrupted) {
			r.Status = ExecuteCodeInterrupted
		}
	case StatusDied:
		r.Status = ExecuteCodeError
		r.Error = fmt.Sprintf("the interpreter ended while the cell ran (%s); its variables are lost, files are kept", e.Reason)
	}
	r.Output = lines(e.Text, "["+r.Error+"]")
	return r
}

func kept(e Execution) string {
	if e.State == VariablesLost {
		return "; the interpreter had to be ended, and its variables are lost"
	}
	return "; the variables are kept"
}

// lines joins the texts that are not empty, each on lines of its own.
func lines(texts ...string) string {
	var list []string
	for _, text := range texts {
		if text = strings.TrimRight(text, "\n"); text != "" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "\n")
}

const tracebackHead = "Traceback (most recent call last):"

// splitError takes the traceback from the end of the execution's text, where secrets are redacted and colours are gone.
func splitError(e Execution) (printed, failure string) {
	if e.Error == nil {
		return e.Text, "the cell failed"
	}
	head, times := `  File "`, 1 // a syntax error has no other head
	if n := strings.Count(strings.Join(e.Error.Traceback, "\n"), tracebackHead); n > 0 {
		head, times = tracebackHead, n // one for each exception of a chain
	}
	at := len(e.Text)
	for range times {
		before := strings.LastIndex(e.Text[:at], head)
		if before < 0 {
			break
		}
		at = before
	}
	if at == len(e.Text) { // the text is too short for it
		return e.Text, e.Error.Ename
	}
	return e.Text[:at], strings.TrimRight(e.Text[at:], "\n")
}

// executeCodeHint is what to do about the mistakes that models make most in code that calls tools, or "".
func executeCodeHint(e *ErrorOutput) string {
	if e == nil {
		return ""
	}
	switch message := e.Evalue; {
	case e.Ename == "ImportError" && strings.Contains(message, "hermes_tools"):
		return "Hint: hermes_tools has only the tools of this session; call hermes_tools.search_tools(\"\") to list them."
	case e.Ename == "NameError" && namesHelper(message):
		return "Hint: import the helper first: from hermes_tools import json_parse, shell_quote, retry"
	case e.Ename == "ModuleNotFoundError" && e.Hint == "":
		return "Hint: the module is not installed; install it with %pip install NAME, or use the standard library."
	case e.Ename == "AttributeError" && strings.HasPrefix(message, "'dict' object has no attribute"),
		e.Ename == "TypeError" && strings.Contains(message, "JSON object must be str") && strings.Contains(message, "not dict"):
		return "Hint: tools return dicts, not text: take a field, such as result[\"output\"], before you treat it as a string."
	}
	return ""
}

func namesHelper(message string) bool {
	for _, helper := range []string{"json_parse", "shell_quote", "retry"} {
		if strings.Contains(message, "'"+helper+"'") {
			return true
		}
	}
	return false
}
