package frame

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// The frames between host and runner are in kernel/runner/testdata as their sender writes them: host_*.json as this
// package writes them, runner_*.json as the tests of the runner write them (tests/test_frames.py). Each side reads the
// other's.
const goldenDir = "../runner/testdata"

var update = flag.Bool("update", false, "write the golden files of the frames that the host sends")

// hostFrames has a frame of every type that the host sends.
var hostFrames = map[string]any{
	"execute":        Execute{"execute", "cell-1", "print('<é>')\n", 3, false, true, map[string]string{"n": "1 + 2"}},
	"interrupt":      Interrupt{"interrupt", "cell-1"},
	"progress":       AskProgress{"progress", "0a1b", "Collecting numpy\n"},
	"answer_input":   AskAnswer{Type: "answer", Ask: "0a1b", Body: InputAnswer{"Ada"}},
	"answer_install": AskAnswer{Type: "answer", Ask: "0a1b", Body: ForInstall(command.InstallResult{Packages: []command.Package{{Name: "numpy", Version: "2.1"}, {Name: "old"}}}).Body},
	"answer_error":   AskAnswer{Type: "answer", Ask: "0a1b", Error: ForInstall(command.InstallResult{Error: "no such package"}).Error},
	"answer_tools": AskAnswer{Type: "answer", Ask: "0a1b", Body: ForTools([]command.ToolSpec{
		{Name: "web_search", Description: "Searches.", Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)},
		{Name: "gh__issues", Server: "gh"}, {Name: "terminal", Builtin: true}, {Name: "old", Gone: true},
	}).Body},
	"answer_tool":       AskAnswer{Type: "answer", Ask: "0a1b", Body: ForTool(command.AnswerTool{Result: json.RawMessage(`{"a":[1,"é"]}`)}).Body},
	"answer_tool_run":   AskAnswer{Type: "answer", Ask: "0a1b", Body: ForTool(command.AnswerTool{Run: true, Mounts: []string{"/data"}}).Body},
	"answer_after":      AskAnswer{Type: "answer", Ask: "0a1b", Body: ForAfter(command.AnswerAfter{CheckpointID: "0198"}).Body},
	"answer_tool_error": AskAnswer{Type: "answer", Ask: "0a1b", Error: "it took too long", Code: "timeout"},
	"complete":          ForQuery(command.Query{Kind: command.QueryComplete, Code: "valu", Cursor: 4}, "7"),
	"inspect":           ForQuery(command.Query{Kind: command.QueryInspect, Code: "value", Cursor: 5, Detail: 1}, "8"),
	"is_complete":       ForQuery(command.Query{Kind: command.QueryIsComplete, Code: "for x in y:", Cursor: 11}, "9"),
	"variables":         ForQuery(command.Query{Kind: command.QueryVariables}, "10"),
	"comm": ForComm(command.CommMessage{
		ID: "m1", Action: record.CommSend, Comm: "c1", Data: json.RawMessage(`{"method":"update","state":{"value":7}}`),
		Metadata: map[string]json.RawMessage{"version": json.RawMessage(`"2.1.0"`)}, Buffers: [][]byte{{0, 10, 255}, {}},
	}),
	"comm_open": ForComm(command.CommMessage{ID: "m2", Action: record.CommOpen, Comm: "c2", Target: "jupyter.widget.control"}),
	"save":      SaveOut{Type: "save", RequestID: "14", Path: "f", Seconds: 5, MaxBytes: 1 << 20},
	"load":      LoadOut{Type: "load", RequestID: "15", Path: "f", Digest: "0a1b0a1b"},
	"copy":      ForQuery(command.Query{Kind: command.QueryCopy}, "13"),
	"aside":     AsideOut{"aside", "14", 1234.5},
	"ping":      ForQuery(command.Query{Kind: command.QueryPing}, "12"),
	"table": ForQuery(command.Query{Kind: command.QueryTable, Table: &command.TableQuery{
		Table: "none", Filter: "a", Sort: []api.TableSort{{Column: 1, Descending: true}}, Offset: 20, Count: 10,
	}}, "11"),
}

// runnerFrames has what the host reads in a frame of every type that the runner sends.
var runnerFrames = map[string]Frame{
	"ready":  Ready{Mark: "0123abcd"},
	"stream": Stream{ID: "cell-1", Name: "stdout", Text: []byte("<é>\n"), Mark: 1},
	"display": Display{ID: "cell-1", Mark: 2, Body: record.Display{
		Data:      map[string]json.RawMessage{"text/plain": json.RawMessage(`"x"`)},
		Metadata:  map[string]json.RawMessage{"image/png": json.RawMessage(`{"width":3}`)},
		DisplayID: "d", Update: true,
	}},
	"clear": Clear{ID: "cell-1", Wait: true, Mark: 3},
	"result": Result{ID: "cell-1", Body: record.Result{
		Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"2"`)}, Metadata: map[string]json.RawMessage{},
	}},
	"error": Error{ID: "cell-1", Info: record.ErrorInfo{
		Ename: "ZeroDivisionError", Evalue: "division by zero", Hint: "divide by something else",
		Traceback: []string{"Traceback (most recent call last):", `  File "<cell 1>", line 1, in <module>`, "ZeroDivisionError: division by zero"},
		Frames:    []record.ErrorFrame{{File: "<cell 1>", Line: 1, Function: "<module>", User: true, Cell: "cell-1", Start: 1, End: 2}},
	}},
	"ask_input": Ask{ID: "cell-1", Ask: "0a1b", Body: record.InputRequest{Prompt: "Who? ", Password: true}},
	"ask_install": Ask{ID: "cell-1", Ask: "0a1b", Body: record.PackageChange{
		Requirements: []string{"numpy>=2", "a"}, Upgrade: true, Reinstall: true, NoDeps: true, Pre: true, Quiet: true,
	}},
	"ask_install_of_no_cell": Ask{Ask: "0a1b", Body: record.PackageChange{Remove: true, Requirements: []string{"a"}}},
	"ask_end":                AskEnd{Ask: "0a1b"},
	"ask_tools":              Ask{ID: "cell-1", Ask: "0a1b", Body: record.ToolsRequest{}},
	"ask_tool":               Ask{ID: "cell-1", Ask: "0a1b", Body: record.ToolCall{Tool: "web_search", Arguments: json.RawMessage(`{"query":"\u00e9","limit":5}`)}},
	"ask_checkpoint":         Ask{ID: "cell-1", Ask: "0a1b", Body: record.AfterCell{Name: "before é", Level: "saved"}},
	"ask_rollback":           Ask{ID: "cell-1", Ask: "0a1b", Body: record.AfterCell{Rollback: true, To: "before é", What: "files", KeepUserEdits: true}},
	"tool_end":               ToolEnd{ID: "cell-1", Body: record.ToolEnded{CallID: "0a1b", Code: "not_found", Message: "no such file", DurationMS: 12}},
	"tool_end_ok":            ToolEnd{ID: "cell-1", Body: record.ToolEnded{CallID: "0a1b", OK: true}},
	"comm": Comm{ID: "cell-1", Mark: 4, Body: record.Comm{
		Action: record.CommOpen, ID: "c1", Target: "jupyter.widget", Data: json.RawMessage(`{"state":{"value":7}}`),
		Metadata: map[string]json.RawMessage{"version": json.RawMessage(`"2.1.0"`)}, Buffers: [][]byte{{0, 10, 255}, {}},
	}},
	"expressions": Expressions{ID: "cell-1", Body: record.Expressions{Values: json.RawMessage(
		`{"n":{"status":"ok","data":{"text/plain":"3"},"metadata":{}},"m":{"status":"error","ename":"NameError","evalue":"m","traceback":["NameError: m"]}}`)}},
	"comm_end": CommEnd{ID: "comm~m1"},
	"done":     Done{ID: "cell-1", Failed: true, Interrupted: true},
	"completion": QueryAnswer{RequestID: "7", Answer: command.Answer{Completion: &api.CompleteReply{
		Matches: []string{"value"}, CursorStart: 0, CursorEnd: 4,
	}}},
	"inspection": QueryAnswer{RequestID: "8", Answer: command.Answer{Inspection: &api.InspectReply{
		Found: true, Data: api.MIMEBundle{"text/plain": api.Raw(`"int"`)},
	}}},
	"completeness": QueryAnswer{RequestID: "9", Answer: command.Answer{Completeness: &api.IsCompleteReply{
		Status: api.SourceIncomplete, Indent: "    ",
	}}},
	"variables": QueryAnswer{RequestID: "10", Answer: command.Answer{Variables: &api.VariablesReply{
		Items: []api.Variable{{Name: "value", Type: "int", Preview: "5"}}, Total: 1,
	}}},
	"copied": QueryAnswer{RequestID: "13", Answer: command.Answer{Copied: &command.Copied{PID: 7, Copy: command.Copy{
		Losses: []record.Loss{{Name: "t", Reason: "a thread"}}}}}},
	"later": QueryAnswer{RequestID: "13", Answer: command.Answer{Later: true}},
	"saved": QueryAnswer{RequestID: "14", Answer: command.Answer{Saved: &command.SavedVariables{
		Count: 2, Bytes: 900, Digest: "0a1b0a1b", Lost: []record.Loss{{Name: "g", Type: "generator", Reason: "it runs"}}}}},
	"loaded": QueryAnswer{RequestID: "15", Answer: command.Answer{Loaded: &command.LoadedVariables{Reason: "it is damaged"}}},
	"pong":   QueryAnswer{RequestID: "12", Answer: command.Answer{Pong: &command.Pong{}}},
	"table_page": QueryAnswer{RequestID: "11", Answer: command.Answer{Table: &command.TablePage{
		State: command.TableOK, Page: api.TableReply{Offset: 20, Total: 21, Rows: [][]api.Raw{{api.Raw(`1`), api.Raw(`"a"`)}}},
	}}},
}

func TestTheHostSendsTheGoldenFrames(t *testing.T) {
	for name, frame := range hostFrames {
		line, err := Encode(frame)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(goldenDir, "host_"+name+".json")
		got := strings.TrimPrefix(string(line), "\n")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s: the host sends %s, not %s (%v)", name, got, want, err)
		}
	}
}

func TestTheHostReadsTheGoldenFrames(t *testing.T) {
	for name, want := range runnerFrames {
		line, err := os.ReadFile(filepath.Join(goldenDir, "runner_"+name+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := Decode(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the host reads %#v, %v, not %#v", name, got, err, want)
		}
	}
}

func TestEveryGoldenFrameIsTested(t *testing.T) {
	files, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		sender, name, _ := strings.Cut(strings.TrimSuffix(file.Name(), ".json"), "_")
		if hostFrames[name] == nil && sender == "host" || runnerFrames[name] == nil && sender == "runner" {
			t.Errorf("%s is not among the frames of this test", file.Name())
		}
	}
}
