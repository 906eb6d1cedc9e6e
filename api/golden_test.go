package api_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = api.At(time.Date(2026, 1, 2, 12, 0, 0, 345678901, time.UTC))

func ptr[T any](v T) *T { return &v }

func sampleExecution() api.Execution {
	return api.Execution{
		ID: "cell-1", SessionID: "chat:42", ExecutionCount: ptr(int64(1)), Code: "print(1)\n<b>", Status: api.StatusOK,
		State: api.VariablesKept, Text: "1\n", Artifacts: []api.Artifact{}, Generation: 1,
		Usage:     api.ExecutionUsage{DurationMS: 2, CPUMS: 1, PeakMemoryBytes: 1 << 20},
		CreatedAt: noon, StartedAt: &noon, FinishedAt: &noon,
	}
}

func refundable(e api.Execution) api.Execution { e.Refundable = true; return e }

func sampleBatchExecution() *api.BatchExecution {
	return &api.BatchExecution{
		ID: "b.0", SessionID: "chat:42", Status: api.StatusOK, State: api.VariablesKept, Text: "1\n", Usage: api.ExecutionUsage{DurationMS: 2, CPUMS: 1, PeakMemoryBytes: 1 << 20},
		Error: &api.BatchError{Ename: "E", Evalue: "v"}, CreatedAt: noon, StartedAt: &noon, FinishedAt: &noon,
	}
}

// events has one event of every type; what they become on the wire is in testdata, for readers in every language.
var events = map[string]api.EventBody{
	"session_state":                 api.SessionStateEvent{State: api.StateDead, Reason: "idle_timeout"},
	"execution_queued":              api.ExecutionQueued{Code: "print(1)"},
	"execution_started":             api.ExecutionStarted{Code: "print(1)", ExecutionCount: ptr(int64(1))},
	"execution_finished":            api.ExecutionFinished{Execution: sampleExecution()},
	"execution_finished_refundable": api.ExecutionFinished{Execution: refundable(sampleExecution())},
	"stream":                        api.Stream{Name: "stdout", Text: "a <b> & \u00e9\u2028\n"},
	"stream_truncated":              api.Stream{Name: "stderr", Text: "[…]", Truncated: &api.Truncated{Bytes: 9, SHA256: "ab", URL: "/v1/artifacts/ab"}},
	"display_data":                  api.DisplayData{Data: api.MIMEBundle{"text/plain": api.Text("x"), "application/json": api.Raw(`{"a":[1]}`)}, DisplayID: "d"},
	"update_display_data":           api.UpdateDisplayData{Data: api.MIMEBundle{"text/plain": api.Text("y")}, DisplayID: "d"},
	"execute_result":                api.ExecuteResult{Data: api.MIMEBundle{"text/plain": api.Text("2")}, ExecutionCount: 1},
	"error":                         api.ErrorEvent{ErrorOutput: api.ErrorOutput{Ename: "ValueError", Evalue: "no", Traceback: []string{"a", "b"}}},
	"error_frames": api.ErrorEvent{ErrorOutput: api.ErrorOutput{
		Ename: "NameError", Evalue: "name 'prnt' is not defined", Hint: "did you mean 'print'?",
		Traceback: []string{
			"Traceback (most recent call last):", `  File "<cell 1>", line 1, in <module>`, "    prnt(1)", "    ^^^^",
			"NameError: name 'prnt' is not defined. Did you mean: 'print'?",
		},
		Frames: []api.ErrorFrame{{
			File: "<cell 1>", Line: 1, Function: "<module>", User: true, Cell: "cell-1", TracebackStart: 1, TracebackEnd: 4,
		}},
	}},
	"error_limit": api.ErrorEvent{ErrorOutput: api.ErrorOutput{Ename: "DiskLimit", Evalue: "full", Traceback: []string{"a"}},
		Limit: &api.Limit{Name: "disk_bytes", Value: 10, Used: 11}},
	"clear_output":      api.ClearOutput{Wait: true},
	"input_request":     api.InputRequested{RequestID: "r", Prompt: "? ", Password: true},
	"input_closed":      api.InputClosed{RequestID: "r", How: "answered"},
	"artifact":          api.ArtifactEvent{Artifact: api.Artifact{Path: "a/b.csv", Change: api.Created, Size: ptr(int64(2)), MediaType: "text/csv", SHA256: "ab", URL: "/v1/artifacts/ab"}, Data: []byte("hi")},
	"artifact_empty":    api.ArtifactEvent{Artifact: api.Artifact{Path: "e", Change: api.Modified, Size: ptr(int64(0)), MediaType: "text/plain", SHA256: "ab", URL: "/v1/artifacts/ab"}, Data: []byte{}},
	"artifact_deleted":  api.ArtifactEvent{Artifact: api.Artifact{Path: "gone", Change: api.Deleted}},
	"kernel_died":       api.KernelDied{Reason: "memory_limit", Generation: 2, Signal: "SIGKILL", Limit: &api.Limit{Name: "memory_bytes", Value: 10, Used: 11}},
	"kernel_died_exit":  api.KernelDied{Reason: "exit:7", Generation: 1, ExitCode: ptr(int64(7))},
	"kernel_reset":      api.KernelReset{Reason: "reset", Generation: 2},
	"package_installed": api.PackageInstalled{Requirements: []string{"a>=1"}, OK: true},
	"tool_call":         api.ToolCalled{CallID: "c", Tool: "search", Arguments: api.Raw(`{"query":"x"}`)},
	"tool_result":       api.ToolReturned{CallID: "c", OK: true, DurationMS: 12},
	"tool_result_error": api.ToolReturned{CallID: "c", Error: &api.ToolError{Code: "timeout", Message: "it took too long"}, DurationMS: 9},
	"approval_request": api.ApprovalRequested{ApprovalID: "a", CallID: "c", Kind: api.ApprovalTool, Summary: "call send_mail", Detail: `{"to":"x"}`,
		Patterns: []string{"rm -r"}, ExpiresAt: noon},
	"approval_resolved":         api.ApprovalResolved{ApprovalID: "a", Decision: api.DecisionDeny, By: "ann", Reason: "not today"},
	"approval_resolved_expired": api.ApprovalResolved{ApprovalID: "a", Decision: api.DecisionExpired},
	"comm_open": api.CommOpened{CommID: "w", TargetName: "jupyter.widget", Data: api.Raw(`{"state":{"value":7}}`),
		Metadata: map[string]api.Raw{"version": api.Raw(`"2.1.0"`)}, Buffers: [][]byte{{0, 255}}},
	"comm_msg":         api.CommSent{CommID: "w", Data: api.Raw(`{"method":"update"}`), Metadata: map[string]api.Raw{}},
	"comm_close":       api.CommClosed{CommID: "w", Data: api.Raw(`{}`), Metadata: map[string]api.Raw{}},
	"user_expressions": api.UserExpressions{Values: api.Raw(`{"n":{"status":"ok","data":{"text/plain":"3"},"metadata":{}}}`)},
	"comm_handled":     api.CommHandled{},
	"checkpoint_created": api.CheckpointCreated{Checkpoint: api.Checkpoint{ID: "c", Name: "before", ExecutionID: "cell-1", ExecutionCount: 1,
		CreatedAt: noon, Level: api.CheckpointLive, Bytes: 1 << 20, NotSaved: []api.NotSaved{{Name: "t", Type: "Thread", Reason: "a thread"}}}},
	"checkpoint_dropped":       api.CheckpointDropped{CheckpointID: "c", Reason: "keep"},
	"checkpoint_dropped_files": api.CheckpointDropped{CheckpointID: "c", Reason: "memory_limit", Level: api.CheckpointFiles},
	"kernel_woken":             api.KernelWoken{Generation: 2, NotRestored: []api.NotRestored{{Name: "g", Reason: "generator: it cannot be pickled"}}, DurationMS: 40},
	"session_forked":           api.SessionForked{SessionID: "chat:42", CheckpointID: "c", NotRestored: []api.NotRestored{}},
	"rolled_back": api.RolledBack{CheckpointID: "c", What: api.RollbackAll, Undo: "u",
		NotRestored: []api.NotRestored{{Name: "t", Reason: "a thread"}}},
	"document_changed":     api.DocumentChanged{Revision: 3},
	"execution_started_si": api.ExecutionStarted{Code: "1", ExecutionCount: nil},
}

func TestEveryEventHasItsGoldenFormAndReadsBackAsItself(t *testing.T) {
	shown := map[string]bool{}
	for _, body := range events {
		shown[body.EventType()] = true
	}
	for _, body := range api.EventBodies() {
		if !shown[body.EventType()] {
			t.Errorf("no event of type %s is checked", body.EventType())
		}
	}
	for name, body := range events {
		event := api.Event{Seq: 7, Time: noon, ExecutionID: "cell-1", Body: body}
		line, err := api.Marshal(event)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden(t, "event_"+name+".json", line)

		var back api.Event
		if err := back.UnmarshalJSON(line); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back.Body.EventType() != body.EventType() {
			t.Errorf("%s reads back as %T", name, back.Body)
		}
		again, err := api.Marshal(back)
		if err != nil || string(again) != string(line) {
			t.Errorf("%s: written again it is\n%s\nnot\n%s (%v)", name, again, line, err)
		}

		typ, encoded, err := api.EncodeBody(body)
		if err != nil {
			t.Fatal(err)
		}
		joined, err := api.Marshal(api.JoinEvent(7, noon, typ, "cell-1", encoded))
		if err != nil || string(joined) != string(line) {
			t.Errorf("%s: joined from the log it is\n%s\nnot\n%s (%v)", name, joined, line, err)
		}
	}
}

func TestResourcesHaveTheirGoldenForm(t *testing.T) {
	e := refundable(sampleExecution())
	e.Outputs = []api.Output{
		{OutputType: "stream", Name: "stdout", Text: "1\n"},
		{OutputType: "display_data", Data: api.MIMEBundle{"text/plain": api.Text("x")}},
		{OutputType: "execute_result", Data: api.MIMEBundle{"text/plain": api.Text("2")}, ExecutionCount: 1},
		{OutputType: "error", Error: api.ErrorOutput{Ename: "E", Evalue: "v", Traceback: []string{"t"}, Hint: "not in notebooks"}},
	}
	for name, v := range map[string]any{
		"execution": e,
		"execution_queued": api.Execution{
			ID: "q", SessionID: "s", Code: "1", Status: api.StatusQueued, State: api.VariablesKept, CreatedAt: noon, Generation: 1,
			Outputs: []api.Output{},
		},
		"session": api.Session{
			ID: "chat:42", State: api.StateIdle, Environment: "default", Isolation: api.Isolation{Tier: "namespace"}, Beside: "chat:7",
			Network: api.Network{Mode: api.NetworkNone}, LogID: "l", FirstSeq: 1, LastSeq: 9, ReapAt: &noon, CreatedAt: noon,
			LastActiveAt: noon, Kernel: api.Kernel{Generation: 1, Python: "3.11.2", Engine: "stdlib", StartedAt: &noon},
			PendingInput: &api.PendingInput{RequestID: "r", ExecutionID: "e", Prompt: "? "},
		},
		"batch": api.Batch{
			ID: "b", Status: api.BatchCancelled, Reason: api.BatchReasonDeadline, Concurrency: 2, DeadlineAt: &noon, Total: 4, Finished: 4,
			LastSeq: 8, CreatedAt: noon, StartedAt: &noon, FinishedAt: &noon, Items: []api.BatchItem{
				{Index: 0, Status: api.StatusOK, SessionID: "chat:42", ExecutionID: "b.0", Execution: sampleBatchExecution()},
				{Index: 1, Status: api.StatusOK, SessionID: "b.1", ExecutionID: "b.1", SessionDeleted: true, Execution: sampleBatchExecution()},
				{Index: 2, Status: api.StatusFailed, Error: api.Errorf(api.CodePathOutside, "no")},
				{Index: 3, Status: api.StatusCancelled},
			},
		},
		"batch_listed":    api.Batch{ID: "b", Status: api.BatchQueued, Total: 1, LastSeq: 1, CreatedAt: noon},
		"batch_event_job": api.BatchEvent{Seq: 1, Time: noon, Type: api.BatchEventJob, Status: api.BatchQueued},
		"batch_event_item": api.BatchEvent{Seq: 3, Time: noon, Type: api.BatchEventItem, Item: &api.BatchItem{
			Index: 0, Status: api.StatusRunning, SessionID: "chat:42", ExecutionID: "b.0"}},
		"batch_request": api.BatchRequest{Concurrency: ptr(int64(2)), DeadlineS: ptr(60.0), Items: []api.BatchItemRequest{
			{Session: ptr("chat:42"), Code: ptr("print(1)")},
			{Code: ptr("1"), Files: map[string]api.BatchFile{"a.txt": api.BatchFile("text"), "a.bin": {0, 255}}},
		}},
		"problem":   api.Errorf(api.CodeSessionNotFound, "you have no session %q", "x"),
		"page_last": api.Page[api.File]{Items: nil},
		"rendering": api.Rendering{Parts: []api.RenderPart{
			{Kind: api.RenderText, Text: "<pre>a &lt; b</pre>", Format: api.RenderHTML, Caption: "(1/2)"},
			{Kind: api.RenderPhoto, Caption: "Cell 1 · 0.1 s", Artifacts: []api.RenderArtifact{{
				SHA256: "ab", URL: api.RenderedFileURL("chat:42", "cell-1", "ab"), MediaType: "image/png", FileName: "chart-1.png", Size: ptr(int64(9))}}},
			{Kind: api.RenderDocument, FileName: "stdout.txt", Artifacts: []api.RenderArtifact{{
				SHA256: "cd", URL: api.ArtifactURL("cd"), MediaType: "text/plain; charset=utf-8", FileName: "stdout.txt"}}},
		}},
		"rendering_empty": api.Rendering{},
		"page":            api.Page[api.File]{Items: []api.File{{Name: "a", Path: "d/a", Kind: "file", Size: 1, ModifiedAt: noon, MediaType: "text/plain"}}, NextCursor: "c"},
		"reply":           api.Reply{Type: "reply", ID: api.Raw(`"1"`), OK: true, Result: api.ExecuteReply{ExecutionID: "e"}},
		"reply_complete": api.Reply{Type: "reply", ID: api.Raw(`"c"`), OK: true, Result: api.CompleteReply{
			Matches: []string{"groupby"}, CursorStart: 3, CursorEnd: 6}},
		"reply_inspect": api.Reply{Type: "reply", ID: api.Raw(`"i"`), OK: true, Result: api.InspectReply{
			Found: true, Data: api.MIMEBundle{"text/plain": api.Text("Type: int")}}},
		"reply_is_complete": api.Reply{Type: "reply", ID: api.Raw(`"i"`), OK: true, Result: api.IsCompleteReply{
			Status: api.SourceIncomplete, Indent: "    "}},
		"reply_variables": api.Reply{Type: "reply", ID: api.Raw(`"v"`), OK: true, Result: api.VariablesReply{
			Items: []api.Variable{
				{Name: "a", Type: "ndarray", Shape: []int64{}, Dtype: "int64", SizeBytes: new(int64(8)), Preview: "5"},
				{Name: "n", Type: "int", Preview: "5"},
			}, Total: 1200}},
		"execution_pending": api.Execution{
			ID: "p", SessionID: "s", Code: "search('x')", Status: api.StatusRunning, State: api.VariablesKept, CreatedAt: noon, Generation: 1,
			Outputs: []api.Output{}, ToolCalls: 1,
			PendingToolCalls: []api.PendingToolCall{{CallID: "c", Tool: "search", Arguments: api.Raw(`{"query":"x"}`)}},
		},
		"execution_failed": api.Execution{
			ID: "f", SessionID: "s", ExecutionCount: ptr(int64(4)), Code: "prnt(1)", Status: api.StatusDied, Reason: "memory_limit",
			State: api.VariablesLost, Undone: true, OutputsOmitted: true, Text: "t\n", Artifacts: []api.Artifact{}, Generation: 1,
			Error: &api.ErrorOutput{Ename: "KernelDied", Evalue: "memory limit", Traceback: []string{"t"}, Hint: "use less memory"},
			Guard: &api.Guard{Kind: api.GuardRepeatedFailure, Count: 3, Hint: "look at the error again"}, TruncatedBytes: 9,
			RejectedTools: []api.RejectedTool{{Name: "__import__", Reason: "it begins with an underscore"}},
			CreatedAt:     noon, StartedAt: &noon, FinishedAt: &noon,
		},
		"tool_request": api.ToolRequest{
			Type: "tool_request", CallID: "c", ExecutionID: "e", Tool: "search", Arguments: api.Raw(`{"query":"x"}`), Deadline: noon,
		},
		"tool_cancel": api.ToolCancel{Type: "tool_cancel", CallID: "c", Reason: "interrupted"},
		"reply_tools": api.Reply{Type: "reply", ID: api.Raw(`"t"`), OK: true, Result: api.ToolsReply{
			Accepted: []string{"search"}, Rejected: []api.RejectedTool{{Name: "__import__", Reason: "it begins with an underscore"}}}},
		"map": api.MapResult{
			Items: []api.MapItem{
				{Value: api.Raw(`[1,"a"]`), Status: api.MapOK, Text: "x\n", Duration: 3, Artifacts: []api.Artifact{
					{Path: "map/m/0/a.txt", Change: api.Created, Size: new(int64(1)), MediaType: "text/plain", URL: api.FileURL("chat:42", "map/m/0/é #.txt")}}},
				{Index: 1, Status: api.MapDied, Reason: "signal:SIGKILL", Outputs: []api.Output{}, Artifacts: []api.Artifact{}},
				{Index: 2, Status: api.MapError, Error: &api.ErrorOutput{Ename: "E", Evalue: "v", Traceback: []string{"t"}}, Text: "t\n"},
			},
			Summary: api.MapSummary{Type: api.MapSummaryType, ExecutionID: "m", Status: api.StatusOK, Items: 3, OK: 1, Failed: 2, Duration: 9},
		},
		"reply_error": api.Reply{Type: "reply", ID: api.Raw("null"), Error: api.Errorf(api.CodeInvalidRequest, "no")},
	} {
		line, err := api.Marshal(v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden(t, name+".json", line)
	}
}

func golden(t *testing.T, name string, line []byte) {
	t.Helper()
	pretty := jsontext.Value(append([]byte(nil), line...))
	if err := pretty.Indent(jsontext.WithIndent("  ")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, append(pretty, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(pretty)+"\n" != string(want) {
		t.Errorf("%s is now\n%s\nnot\n%s", name, pretty, want)
	}
}

func TestAnEventOfAnUnknownTypeIsKeptAsItCame(t *testing.T) {
	const line = `{"seq":3,"time":"2026-01-02T12:00:00.345Z","type":"from_the_future","x":[1,{"y":2}]}`
	var e api.Event
	if err := e.UnmarshalJSON([]byte(line)); err != nil {
		t.Fatal(err)
	}
	again, err := api.Marshal(e)
	if err != nil || string(again) != line || e.Seq != 3 || e.Body.EventType() != "from_the_future" {
		t.Errorf("%s (%v), seq %d", again, err, e.Seq)
	}
}

func TestBadBodiesAreNamedInTheError(t *testing.T) {
	type inner struct {
		Size *int64 `json:"size"`
	}
	type body struct {
		Code  *string           `json:"code"`
		Inner *inner            `json:"inner"`
		Env   map[string]string `json:"env"`
	}
	for in, want := range map[string]string{
		`{"cod":"x"}`:                     `unknown field "cod"`,
		`{"Code":"x"}`:                    `unknown field "Code"`,
		`{"inner":{"big":1}}`:             `unknown field "inner.big"`,
		`{"code":1}`:                      `"code" must be a string, not a number`,
		`{"inner":{"size":"1"}}`:          `"inner.size" must be a whole number, not a string`,
		`{"inner":{"size":1.5}}`:          `"inner.size" must be a whole number`,
		`{"env":{"A":null,"B":1}}`:        `"env.B" must be a string, not a number`,
		`{"code":"a","code":"b"}`:         `field "code" is given twice`,
		`{"code":"a"} x`:                  `not valid JSON`,
		`{"code":"a"`:                     `not valid JSON`,
		``:                                `not valid JSON`,
		`[]`:                              `the body must be an object, not an array`,
		`"x"`:                             `the body must be an object, not a string`,
		"{\"code\":\"\xff\"}":             `not valid JSON`,
		`{"code":"\ud800"}`:               `not valid JSON`,
		strings.Repeat(`[`, 100_000):      `nested deeper`,
		`{"code":"` + "\x01" + `"}`:       `not valid JSON`,
		`{"env":{"A":"x","A":"y"}}`:       `field "env.A" is given twice`,
		"\xef\xbb\xbf" + `{"code":"bom"}`: `not valid JSON`,
	} {
		var b body
		err := api.Unmarshal([]byte(in), &b)
		e, ok := err.(*api.Error)
		if !ok || e.Code != api.CodeInvalidRequest || e.Status != 400 || !strings.Contains(e.Detail, want) {
			t.Errorf("%.60q: %v, want %s", in, err, want)
		}
	}
	var b body
	if err := api.Unmarshal([]byte(` {"code":"\ud83d\ude00 [[[[", "inner":{"size":5}, "env":null} `), &b); err != nil {
		t.Error(err)
	}
}

func TestTimesHaveThreeDigitsOfASecond(t *testing.T) {
	for nanos, want := range map[int]string{0: ".000Z", 5e8: ".500Z", 58e7: ".580Z", 999999999: ".999Z"} {
		b, err := api.Marshal(api.At(time.Date(2026, 1, 2, 3, 4, 5, nanos, time.FixedZone("", 3600))))
		if want = `"2026-01-02T02:04:05` + want + `"`; string(b) != want || err != nil {
			t.Errorf("%s (%v), want %s", b, err, want)
		}
	}
}

func TestOutputsFold(t *testing.T) {
	var f api.Outputs
	show := func(text, id string) api.DisplayData {
		return api.DisplayData{Data: api.MIMEBundle{"text/plain": api.Text(text)}, DisplayID: id}
	}
	for _, b := range []api.EventBody{
		api.Stream{Name: "stdout", Text: "gone"},
		api.ClearOutput{Wait: true},
		api.Stream{Name: "stdout", Text: "a"}, api.Stream{Name: "stdout", Text: "b"}, api.Stream{Name: "stderr", Text: "c"},
		show("1", "d"), api.ExecutionStarted{}, show("2", "d"),
		api.UpdateDisplayData{Data: api.MIMEBundle{"text/plain": api.Text("3")}, DisplayID: "d"},
		api.UpdateDisplayData{Data: api.MIMEBundle{"text/plain": api.Text("x")}, DisplayID: "unknown"},
		api.ClearOutput{Wait: true},
	} {
		f.Add(b)
	}
	line, err := api.Marshal(f.List())
	want := `[{"output_type":"stream","name":"stdout","text":"ab"},{"output_type":"stream","name":"stderr","text":"c"},` +
		`{"output_type":"display_data","data":{"text/plain":"3"},"metadata":{}},` +
		`{"output_type":"display_data","data":{"text/plain":"3"},"metadata":{}}]`
	if err != nil || string(line) != want {
		t.Errorf("%s (%v)\nwant\n%s", line, err, want)
	}
	f.Add(api.ClearOutput{})
	if got := f.List(); len(got) != 0 {
		t.Errorf("after clear_output: %v", got)
	}
}

// The page's types are written by hand, from these.
func TestThePagesTypesKnowEveryEventStateAndStatus(t *testing.T) {
	source, err := os.ReadFile("../web/src/proto/types.ts")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, body := range api.EventBodies() {
		words = append(words, body.EventType())
	}
	for _, state := range api.SessionStates {
		words = append(words, string(state))
	}
	for _, status := range api.ExecutionStatuses {
		words = append(words, string(status))
	}
	for _, word := range words {
		if !strings.Contains(string(source), `"`+word+`"`) {
			t.Errorf("types.ts lacks %q", word)
		}
	}
}

func TestFilesOfABatchAreTextOrBase64(t *testing.T) {
	for in, want := range map[string]string{
		`"text"`: "text", `""`: "", `{"base64":"AP8="}`: "\x00\xff", ` {"base64":""}`: "", `"\u00e9"`: "é",
	} {
		var req api.BatchItemRequest
		if err := api.Unmarshal([]byte(`{"files":{"a":`+in+`}}`), &req); err != nil || string(req.Files["a"]) != want {
			t.Errorf("%s is %q, %v", in, req.Files["a"], err)
		}
	}
	for _, in := range []string{`null`, `1`, `{}`, `{"base64":null}`, `{"base64":"*"}`, `{"base64":"","x":1}`, `["a"]`, `"\ud800"`} {
		var req api.BatchItemRequest
		err := api.Unmarshal([]byte(`{"files":{"a":`+in+`}}`), &req)
		if e, ok := err.(*api.Error); !ok || e.Code != api.CodeInvalidRequest {
			t.Errorf("%s is taken: %q, %v", in, req.Files["a"], err)
		}
	}
	var req api.BatchRequest
	if err := api.Unmarshal([]byte(`{"items":[{"code":"1","branch":"s"}]}`), &req); err == nil || !strings.Contains(err.Error(), `"items.0.branch"`) {
		t.Errorf("a field that does not exist: %v", err)
	}
}
