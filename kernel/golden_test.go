package kernel

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"talaria/api"
)

// The frames between host and runner stand in runner/testdata as their sender writes them: host_*.json as it is written
// here, runner_*.json as the tests of the runner write them (tests/test_frames.py). Each side reads those of the other.
const goldenDir = "runner/testdata"

var update = flag.Bool("update", false, "write the golden files of the frames that the host sends")

// hostFrames has a frame of every type that the host sends.
var hostFrames = map[string]any{
	"execute":        executeOut{"execute", "cell-1", "print('<é>')\n", 3, false, true},
	"interrupt":      interruptOut{"interrupt", "cell-1"},
	"progress":       progressOut{"progress", "0a1b", "Collecting numpy\n"},
	"answer_input":   answerOut{Type: "answer", Ask: "0a1b", Body: inputAnswer{"Ada"}},
	"answer_install": answerOut{Type: "answer", Ask: "0a1b", Body: installAnswerOf(InstallResult{Packages: []Package{{"numpy", "2.1"}, {"old", ""}}}).Body},
	"answer_error":   answerOut{Type: "answer", Ask: "0a1b", Error: installAnswerOf(InstallResult{Error: "no such package"}).Error},
	"complete":       queryFrame(Query{Kind: QueryComplete, Code: "valu", Cursor: 4}, "7"),
	"inspect":        queryFrame(Query{Kind: QueryInspect, Code: "value", Cursor: 5, Detail: 1}, "8"),
	"is_complete":    queryFrame(Query{Kind: QueryIsComplete, Code: "for x in y:", Cursor: 11}, "9"),
	"variables":      queryFrame(Query{Kind: QueryVariables}, "10"),
	"table": queryFrame(Query{Kind: QueryTable, Table: &TableQuery{
		Table: "none", Filter: "a", Sort: []api.TableSort{{Column: 1, Descending: true}}, Offset: 20, Count: 10,
	}}, "11"),
}

// runnerFrames has what the host reads in a frame of every type that the runner sends.
var runnerFrames = map[string]frame{
	"ready":  readyFrame{mark: "0123abcd"},
	"stream": streamFrame{id: "cell-1", name: "stdout", text: []byte("<é>\n"), mark: 1},
	"display": displayFrame{id: "cell-1", mark: 2, body: Display{
		Data:      map[string]json.RawMessage{"text/plain": json.RawMessage(`"x"`)},
		Metadata:  map[string]json.RawMessage{"image/png": json.RawMessage(`{"width":3}`)},
		DisplayID: "d", Update: true,
	}},
	"clear": clearFrame{id: "cell-1", wait: true, mark: 3},
	"result": resultFrame{id: "cell-1", body: Result{
		Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"2"`)}, Metadata: map[string]json.RawMessage{},
	}},
	"error": errorFrame{id: "cell-1", info: ErrorInfo{
		Ename: "ZeroDivisionError", Evalue: "division by zero", Hint: "divide by something else",
		Traceback: []string{"Traceback (most recent call last):", `  File "<cell 1>", line 1, in <module>`, "ZeroDivisionError: division by zero"},
		Frames:    []ErrorFrame{{File: "<cell 1>", Line: 1, Function: "<module>", User: true, Cell: "cell-1", Start: 1, End: 2}},
	}},
	"ask_input": askFrame{id: "cell-1", ask: "0a1b", body: InputRequest{Prompt: "Who? ", Password: true}},
	"ask_install": askFrame{id: "cell-1", ask: "0a1b", body: PackageChange{
		Requirements: []string{"numpy>=2", "a"}, Upgrade: true, Reinstall: true, NoDeps: true, Pre: true, Quiet: true,
	}},
	"ask_install_of_no_cell": askFrame{ask: "0a1b", body: PackageChange{Remove: true, Requirements: []string{"a"}}},
	"ask_end":                askEndFrame{ask: "0a1b"},
	"done":                   doneFrame{id: "cell-1", failed: true, interrupted: true},
	"completion": answerFrame{requestID: "7", answer: Answer{Completion: &api.CompleteReply{
		Matches: []string{"value"}, CursorStart: 0, CursorEnd: 4,
	}}},
	"inspection": answerFrame{requestID: "8", answer: Answer{Inspection: &api.InspectReply{
		Found: true, Data: api.MIMEBundle{"text/plain": api.Raw(`"int"`)},
	}}},
	"completeness": answerFrame{requestID: "9", answer: Answer{Completeness: &api.IsCompleteReply{
		Status: api.SourceIncomplete, Indent: "    ",
	}}},
	"variables": answerFrame{requestID: "10", answer: Answer{Variables: &api.VariablesReply{
		Items: []api.Variable{{Name: "value", Type: "int", Preview: "5"}}, Total: 1,
	}}},
	"table_page": answerFrame{requestID: "11", answer: Answer{Table: &TablePage{
		State: TableOK, Page: api.TableReply{Offset: 20, Total: 21, Rows: [][]api.Raw{{api.Raw(`1`), api.Raw(`"a"`)}}},
	}}},
}

func TestTheHostSendsTheGoldenFrames(t *testing.T) {
	for name, frame := range hostFrames {
		line, err := encodeFrame(frame)
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
		if got, err := decodeFrame(line); err != nil || !reflect.DeepEqual(got, want) {
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
