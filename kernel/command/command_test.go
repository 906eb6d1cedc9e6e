package command_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// messages are commands as servers and hosts of other versions encode them.
var messages = []struct {
	command command.Command
	name    string
	since   int
	encoded string
}{
	{command.Execution{ID: "e", Code: "1", Count: 2, Silent: true, AllowStdin: true, Timeout: time.Second, CPUTime: time.Minute},
		"execute", 1, `{"ID":"e","Code":"1","Count":2,"Silent":true,"AllowStdin":true,"Timeout":1000000000,"CPUTime":60000000000}`},
	{command.Interrupt{ExecutionID: "e"}, "interrupt", 1, `{"id":"e"}`},
	{command.AnswerInput{RequestID: "r", Value: "v"}, "input", 1, `{"request_id":"r","value":"v"}`},
	{command.RefuseInput{RequestID: "r"}, "refuse", 1, `{"id":"r"}`},
	{command.InstallOutput{RequestID: "r", Text: "t"}, "install_output", 3, `{"request_id":"r","value":"t"}`},
	{command.AnswerInstall{RequestID: "r", Result: command.InstallResult{
		Error: "no", Packages: []command.Package{{Name: "p", Version: "1"}}}},
		"installed", 3, `{"request_id":"r","result":{"error":"no","packages":[{"name":"p","version":"1"}]}}`},
	{command.AnswerTools{RequestID: "r", Tools: []command.ToolSpec{{
		Name: "n", Description: "d", Server: "s", Parameters: json.RawMessage(`{"type":"object"}`), Builtin: true, Gone: true}}},
		"tools", 5, `{"request_id":"r","tools":[{"name":"n","description":"d","server":"s","parameters":{"type":"object"},"builtin":true,"gone":true}]}`},
	{command.AnswerTool{RequestID: "r", Result: json.RawMessage(`[1]`), Run: true, Error: &command.ToolFailure{Code: "c", Message: "m"}},
		"tool_result", 5, `{"request_id":"r","result":[1],"run":true,"error":{"code":"c","message":"m"}}`},
	{command.ToolProgress{RequestID: "r", Message: "m"}, "tool_progress", 5, `{"request_id":"r","message":"m"}`},
	{command.CommMessage{ID: "m", Action: record.CommSend, Comm: "c", Target: "t", Data: json.RawMessage(`{"a":1}`),
		Metadata: map[string]json.RawMessage{"v": json.RawMessage(`2`)}, Buffers: [][]byte{[]byte("x")}},
		"comm_message", 7, `{"id":"m","action":"msg","comm":"c","target":"t","data":{"a":1},"metadata":{"v":2},"buffers":["eA=="]}`},
	{command.ListComms{}, "comms", 7, `{}`},
	{command.ReadUsage{}, "usage", 1, `{}`},
	{command.ChangeLimits{Limits: kernel.Limits{MemoryBytes: 1, CPUs: 0.5, PIDs: 2, DiskBytes: 3, TmpBytes: 4}},
		"change_limits", 1, `{"MemoryBytes":1,"CPUs":0.5,"PIDs":2,"DiskBytes":3,"TmpBytes":4}`},
	{command.ChangeNetwork{Network: kernel.Network{Mode: "allow", Allow: []string{"a:1"}, MaxConnections: 1, MaxBytes: 2}},
		"change_network", 1, `{"Mode":"allow","Allow":["a:1"],"MaxConnections":1,"MaxBytes":2,"NameServer":""}`},
	{command.Query{Kind: command.QueryComplete, Code: "a", Cursor: 1}, "ask", 2, `{"kind":"complete","code":"a","cursor":1}`},
	{command.Ping{}, "ping", 4, `{}`},
	{command.OpenTerminal{Size: command.TerminalSize{Rows: 2, Cols: 3}}, "open_terminal", 2, `{"size":{"Rows":2,"Cols":3}}`},
	{command.ListTerminals{}, "terminals", 2, `{}`},
	{command.ReadTerminal{ID: "1", After: 5}, "read_terminal", 2, `{"id":"1","after":5}`},
	{command.WriteTerminal{ID: "1", Data: []byte("x")}, "write_terminal", 2, `{"id":"1","data":"eA=="}`},
	{command.ResizeTerminal{ID: "1", Size: command.TerminalSize{Rows: 2, Cols: 3}}, "resize_terminal", 2,
		`{"id":"1","size":{"Rows":2,"Cols":3}}`},
	{command.CloseTerminal{ID: "1"}, "close_terminal", 2, `{"id":"1"}`},
	{command.StartProgram{Args: []string{"a"}, Env: map[string]string{"K": "v"}, Dir: "/d"}, "start_program", 7,
		`{"args":["a"],"env":{"K":"v"},"dir":"/d"}`},
	{command.StartProgram{Args: []string{"a"}, Tag: "t", Stdin: true}, "start_program", 9, `{"args":["a"],"tag":"t","stdin":true}`},
	{command.StartProgram{Args: []string{"a"}, Group: true}, "start_program", 13, `{"args":["a"],"group":true}`},
	{command.WriteProgram{ID: "1", Data: []byte("x")}, "write_program", 9, `{"id":"1","data":"eA=="}`},
	{command.CloseProgramInput{ID: "1"}, "close_program_input", 9, `{"id":"1"}`},
	{command.ListPrograms{}, "programs", 7, `{}`},
	{command.ReadProgram{ID: "1", Stdout: 2, Stderr: 3}, "read_program", 7, `{"id":"1","stdout":2,"stderr":3}`},
	{command.MakeCopy{ID: "c"}, "make_copy", 10, `{"id":"c"}`},
	{command.StepAside{ID: "c", For: "d"}, "step_aside", 14, `{"id":"c","for":"d"}`},
	{command.Resume{}, "resume", 14, `{}`},
	{command.WakeCopy{ID: "c"}, "wake_copy", 10, `{"id":"c"}`},
	{command.DropCopy{ID: "c"}, "drop_copy", 10, `{"id":"c"}`},
	{command.ListCopies{}, "copies", 10, `{}`},
	{command.SaveVariables{Path: "p", Seconds: 1.5, MaxBytes: 2}, "save_variables", 10, `{"path":"p","seconds":1.5,"max_bytes":2}`},
	{command.SaveCopy{ID: "c", Path: "p", Seconds: 1.5, MaxBytes: 2}, "save_copy", 12, `{"id":"c","path":"p","seconds":1.5,"max_bytes":2}`},
	{command.LoadVariables{Path: "p", Digest: "d"}, "load_variables", 10, `{"path":"p","digest":"d"}`},
	{command.AnswerAfter{RequestID: "r", CheckpointID: "c", Error: "no"}, "after", 11, `{"request_id":"r","checkpoint_id":"c","error":"no"}`},
	{command.SignalProgram{ID: "1", Signal: 9}, "signal_program", 7, `{"id":"1","signal":9}`},
	{command.SignalProgram{ID: "1", Signal: 9, Group: true}, "signal_program", 7, `{"id":"1","signal":9,"group":true}`},
}

func TestCommandsAreEncodedAsOtherVersionsEncodeThem(t *testing.T) {
	checked := map[string]bool{}
	for _, m := range messages {
		checked[m.name] = true
		if spec := m.command.Spec(); spec.Name != m.name || spec.Since != m.since {
			t.Errorf("%T: name %q since %d, want %q since %d", m.command, spec.Name, spec.Since, m.name, m.since)
		}
		encoded, err := json.Marshal(m.command)
		if err != nil || string(encoded) != m.encoded {
			t.Errorf("%T is %s (%v), want %s", m.command, encoded, err, m.encoded)
		}
		decoded, err := command.Decode(m.name, encoded)
		if err != nil || !reflect.DeepEqual(decoded, m.command) {
			t.Errorf("%s is decoded as %#v (%v)", m.name, decoded, err)
		}
	}
	if names := command.Names(); len(names) != len(checked) {
		t.Errorf("%d commands are checked, and there are %v", len(checked), names)
	}
	if !(command.Execution{}).Spec().Waits {
		t.Error("a cell does not wait for a host that is stopped for a while, and its kernel would be ended")
	}
	if _, err := command.Decode("none", nil); !errors.Is(err, command.ErrUnknown) {
		t.Errorf("a command that nobody knows: %v", err)
	}
	if _, err := command.Decode("interrupt", []byte("[1]")); err == nil || errors.Is(err, command.ErrUnknown) {
		t.Errorf("a command that is not an object: %v", err)
	}
}
