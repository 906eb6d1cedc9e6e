package frame

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

var frames = []struct {
	line string
	want Frame
}{
	{`{"type":"ready","mark":"0123abcd"}`, Ready{Mark: "0123abcd"}},
	{` {"type":"stream","id":"e","name":"stdout","text":"a\nb"} `, Stream{ID: "e", Name: "stdout", Text: []byte("a\nb")}},
	{`{"type":"stream","id":"e","name":"stderr","text":"","mark":9}`, Stream{ID: "e", Name: "stderr", Text: []byte{}, Mark: 9}},
	{`{"type":"clear","id":"e","wait":true,"mark":null}`, Clear{ID: "e", Wait: true}},
	{`{"type":"done","id":"e","status":"error","interrupted":true}`, Done{ID: "e", Failed: true, Interrupted: true}},
	{`{"type":"done","id":"e","status":"ok"}`, Done{ID: "e"}},
	{`{"type":"ask","id":"e","ask":"q.1","kind":"input","body":{"prompt":"? ","password":true}}`,
		Ask{ID: "e", Ask: "q.1", Body: record.InputRequest{Prompt: "? ", Password: true}}},
	{`{"type":"ask","id":"e","ask":"1","kind":"install","body":{"requirements":["a","b>=1"],"upgrade":true,"quiet":true}}`,
		Ask{ID: "e", Ask: "1", Body: record.PackageChange{Requirements: []string{"a", "b>=1"}, Upgrade: true, Quiet: true}}},
	{`{"type":"ask","ask":"1","kind":"install","body":{"remove":true,"requirements":["a"],"reinstall":true,"no_deps":true,"pre":true}}`,
		Ask{Ask: "1", Body: record.PackageChange{Remove: true, Requirements: []string{"a"}, Reinstall: true, NoDeps: true, Pre: true}}},
	{`{"type":"ask_end","ask":"1"}`, AskEnd{Ask: "1"}},
	{`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":["a","b"]}`,
		Error{ID: "e", Info: record.ErrorInfo{Ename: "E", Evalue: "v", Traceback: []string{"a", "b"}}}},
	{`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":["a","b","c"],"hint":"h","frames":[` +
		`{"file":"<cell 1>","line":2,"function":"f","user":true,"cell":"c1","traceback_start":1,"traceback_end":3},` +
		`{"file":"/l.py","line":3,"function":"g","user":false,"traceback_start":0,"traceback_end":1},` +
		`{"file":"/l.py","line":3,"function":"cut","traceback_start":3,"traceback_end":4},` +
		`{"file":"/l.py","line":3,"function":"turned","traceback_start":2,"traceback_end":1}]}`,
		Error{ID: "e", Info: record.ErrorInfo{Ename: "E", Evalue: "v", Traceback: []string{"a", "b", "c"}, Hint: "h", Frames: []record.ErrorFrame{
			{File: "<cell 1>", Line: 2, Function: "f", User: true, Cell: "c1", Start: 1, End: 3},
			{File: "/l.py", Line: 3, Function: "g", Start: 0, End: 1},
		}}}},
	{`{"type":"display","id":"e","data":{"text/plain":"x","application/json":{"a":[1]},"text/html":5,"no type":"y"},` +
		`"metadata":{"image/png":{"width":3}},"display_id":"d","update":true,"mark":2}`,
		Display{ID: "e", Mark: 2, Body: record.Display{
			Data:      map[string]json.RawMessage{"text/plain": json.RawMessage(`"x"`), "application/json": json.RawMessage(`{"a":[1]}`)},
			Metadata:  map[string]json.RawMessage{"image/png": json.RawMessage(`{"width":3}`)},
			DisplayID: "d", Update: true,
		}}},
	{`{"type":"result","id":"e","data":{"application/vnd.x.v1+json; v=1":null}}`,
		Result{ID: "e", Body: record.Result{
			Data:     map[string]json.RawMessage{"application/vnd.x.v1+json; v=1": json.RawMessage(`null`)},
			Metadata: map[string]json.RawMessage{},
		}}},
	{`{"type":"completion","request_id":"7","matches":["a","b"],"start":1,"end":3}`, QueryAnswer{RequestID: "7",
		Answer: command.Answer{Completion: &api.CompleteReply{Matches: []string{"a", "b"}, CursorStart: 1, CursorEnd: 3}}}},
	{`{"type":"inspection","request_id":"7","found":true,"data":{"text/plain":"x","text/html":5}}`, QueryAnswer{RequestID: "7",
		Answer: command.Answer{Inspection: &api.InspectReply{Found: true, Data: api.MIMEBundle{"text/plain": api.Raw(`"x"`)}}}}},
	{`{"type":"completeness","request_id":"7","status":"incomplete","indent":" \t"}`, QueryAnswer{RequestID: "7",
		Answer: command.Answer{Completeness: &api.IsCompleteReply{Status: "incomplete", Indent: " \t"}}}},
	{`{"type":"variables","request_id":"7","items":[{"name":"x","type":"ndarray","shape":[],"dtype":"int64",` +
		`"size_bytes":8,"preview":"5"},{"name":"y","type":"int","preview":"6"}],"total":1}`, QueryAnswer{RequestID: "7",
		Answer: command.Answer{Variables: &api.VariablesReply{Total: 2, Items: []api.Variable{
			{Name: "x", Type: "ndarray", Shape: []int64{}, Dtype: "int64", SizeBytes: new(int64(8)), Preview: "5"},
			{Name: "y", Type: "int", Preview: "6"},
		}}}}},
	{`{"type":"table_page","request_id":"7","state":"ok","offset":1,"total":3,"rows":[[1,"a",null],[2.5,"b",true]]}`,
		QueryAnswer{RequestID: "7", Answer: command.Answer{Table: &command.TablePage{State: command.TableOK, Page: api.TableReply{Offset: 1, Total: 3,
			Rows: [][]api.Raw{{api.Raw("1"), api.Raw(`"a"`), api.Raw("null")}, {api.Raw("2.5"), api.Raw(`"b"`), api.Raw("true")}}}}}}},
	{`{"type":"table_page","request_id":"7","state":"unsortable","reason":"why","offset":0,"total":0,"rows":[]}`,
		QueryAnswer{RequestID: "7", Answer: command.Answer{Table: &command.TablePage{State: command.TableUnsortable, Reason: "why",
			Page: api.TableReply{Rows: [][]api.Raw{}}}}}},
	// Bytes that are not text arrive as U+FFFD.
	{"{\"type\":\"stream\",\"id\":\"e\",\"name\":\"stdout\",\"text\":\"a\xffb\xe2\x82\"}",
		Stream{ID: "e", Name: "stdout", Text: []byte("a\ufffdb\ufffd")}},
	{`{"type":"stream","id":"e","name":"stdout","text":"\ud83d\ude00 \ud83d \ude00 \ud83d\u0041 \\ud83d \ud83d"}`,
		Stream{ID: "e", Name: "stdout", Text: []byte("😀 \ufffd \ufffd \ufffdA \\ud83d \ufffd")}},
	{`{"type":"stream","id":"e","name":"stdout","text":"ß \"\\\/\b\f\n\r\t \u20aC twelve bytes","mark":123456789012345}`,
		Stream{ID: "e", Name: "stdout", Text: []byte("ß \"\\/\b\f\n\r\t € twelve bytes"), Mark: 123456789012345}},
}

func TestFramesAreDecoded(t *testing.T) {
	for _, c := range frames {
		got, err := Decode([]byte(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.line, got, c.want)
		}
	}
}

// bundle returns a display frame with n MIME types.
func bundle(n int) string {
	types := make([]string, n)
	for i := range types {
		types[i] = fmt.Sprintf(`"text/x%d":""`, i)
	}
	return `{"type":"display","id":"e","data":{` + strings.Join(types, ",") + `}}`
}

func installs(body string) string {
	return `{"type":"ask","ask":"1","kind":"install","body":` + body + `}`
}

func nested(n int) string {
	return `{"type":"result","id":"e","data":{"application/json":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	for _, line := range []string{
		`x`, `[]`, `null`, `"ready"`, `{}`, `{"type":1}`, `{"type":"ready"`, `{"type":"ready","mark":"0123abcd"}{}`,
		`{"type":"root","id":"e"}`,
		`{"type":"ready","mark":"zz"}`, `{"type":"ready","mark":12345678}`,
		`{"type":"stream","id":"e","name":"stdin","text":""}`,
		`{"type":"stream","id":"e","name":"stdout"}`, `{"type":"stream","id":"e","name":"stdout","text":null}`,
		`{"type":"stream","id":"e","name":"stdout","text":"","mark":-1}`,
		`{"type":"stream","id":"e","name":"stdout","text":"","mark":1.5}`,
		`{"type":"stream","id":"e","name":"stdout","text":"","mark":"1"}`,
		`{"type":"stream","id":"e","name":"stdout","text":"","Text":""}`,
		`{"type":"stream","id":"e","id":"f","name":"stdout","text":""}`,
		`{"type":"stream","id":["e"],"name":"stdout","text":""}`,
		`{"type":"stream","id":"` + strings.Repeat("e", 300) + `","name":"stdout","text":""}`,
		`{"type":"ask","ask":"1","kind":"install"}`, `{"type":"ask","ask":"1","kind":"install","body":null}`,
		`{"type":"ask","ask":"1","kind":"install","body":["a"]}`, `{"type":"ask","ask":"1","kind":"install","body":"a"}`,
		`{"type":"ask","ask":"1","kind":"other","body":{}}`, `{"type":"ask","ask":"1","body":{"requirements":["a"]}}`,
		`{"type":"ask","ask":"a b","kind":"install","body":{"requirements":["a"]}}`,
		`{"type":"ask","kind":"install","body":{"requirements":["a"]}}`,
		`{"type":"ask","ask":"1","kind":"install","body":{"requirements":["a"]},"more":1}`,
		installs(`{}`), installs(`{"requirements":[]}`), installs(`{"requirements":"a"}`), installs(`{"requirements":["a",1]}`),
		installs(`{"requirements":["a",""]}`), installs(`{"requirements":["a"],"index":"http://x"}`),
		installs(`{"requirements":["a"],"quiet":1}`),
		installs(`{"requirements":["` + strings.Repeat("a", record.MaxRequirementLen+1) + `"]}`),
		installs(`{"requirements":["a"` + strings.Repeat(`,"a"`, record.MaxRequirements) + `]}`),
		`{"type":"ask_end","ask":""}`, `{"type":"ask_end"}`,
		`{"type":"done","id":"e","status":"fine"}`, `{"type":"done","id":"e","status":"ok","interrupted":1}`,
		`{"type":"done","id":"e","status":"ok","text":""}`,
		`{"type":"ask","id":"e","ask":"q","kind":"input","body":{"password":true}}`,
		`{"type":"ask","id":"e","ask":"q","kind":"input","body":{"prompt":"","requirements":["a"]}}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":"t"}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":["t",1]}`,
		`{"type":"completion","request_id":"7","matches":["a",1],"start":0,"end":0}`,
		`{"type":"completion","request_id":"7","matches":"a","start":0,"end":0}`,
		`{"type":"completion","request_id":"7","matches":[],"start":2,"end":1}`,
		`{"type":"completion","request_id":"7","matches":[],"start":-1,"end":1}`,
		`{"type":"completion","request_id":"7","matches":[],"start":0,"end":1e9}`,
		`{"type":"completion","matches":[],"start":0,"end":0}`,
		`{"type":"completion","request_id":"7","matches":[],"start":0,"end":0,"more":1}`,
		`{"type":"inspection","request_id":"7","found":true}`, `{"type":"inspection","request_id":"7","found":1,"data":{}}`,
		`{"type":"completeness","request_id":"7","status":"perhaps","indent":""}`,
		`{"type":"completeness","request_id":"7","status":"complete","indent":"import os"}`,
		`{"type":"completeness","request_id":"7","status":"complete","indent":"` + strings.Repeat(" ", 2000) + `"}`,
		`{"type":"variables","request_id":"7","items":{},"total":0}`, `{"type":"variables","request_id":"7","items":[1],"total":0}`,
		`{"type":"variables","request_id":"7","items":[{"name":"x","type":"int"}],"total":0}`,
		`{"type":"variables","request_id":"7","items":[{"name":"x","type":"int","preview":"","href":""}],"total":0}`,
		`{"type":"variables","request_id":"7","items":[{"name":"x","type":"int","preview":"","shape":[-1]}],"total":0}`,
		`{"type":"variables","request_id":"7","items":[{"name":"x","type":"int","preview":"","shape":[` +
			strings.Repeat("1,", 200) + `1]}],"total":0}`,
		`{"type":"variables","request_id":"7","items":[{"name":"x","type":"int","preview":"","size_bytes":-1}],"total":0}`,
		`{"type":"variables","request_id":"7","items":[{"name":"x","type":"int","preview":"","size_bytes":1e300}],"total":0}`,
		`{"type":"table_page","request_id":"7","state":"fine","offset":0,"total":0,"rows":[]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":2,"total":1,"rows":[]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":-1,"total":1,"rows":[]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":{}}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":[1]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":[[[1]]]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":[[{"html":"<b>"}]]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":2,"rows":[[1],[1,2]]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":[["` + strings.Repeat("x", 5000) + `"]]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":[[` + strings.Repeat("1,", 200) + `1]]}`,
		`{"type":"table_page","request_id":"7","state":"ok","offset":0,"total":1,"rows":[` + strings.Repeat("[1],", 600) + `[1]]}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"hint":5}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"frames":{}}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"frames":[5]}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"frames":[{"file":"f"}]}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"frames":[{"file":"f","function":"f","line":-1}]}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"frames":[{"file":"f","function":"f","user":1}]}`,
		`{"type":"error","id":"e","ename":"E","evalue":"v","traceback":[],"frames":[{"file":"f","function":"f","more":1}]}`,
		`{"type":"display","id":"e","data":[]}`, `{"type":"display","id":"e"}`,
		`{"type":"display","id":"e","data":{"application/json":{"a":1,"a":2}}}`,
		`{"type":"display","id":"e","data":{"application/json":NaN}}`,
		`{"type":"display","id":"e","data":{},"metadata":{"` + strings.Repeat("m", 300) + `":1}}`,
		bundle(maxMIMETypes + 1), nested(maxDepth),
		`{"type":"display","id":"e","data":{"application/json":{` + strings.Repeat(`"":0,`, maxMembers+1) + `"":0}}}`,
	} {
		if f, err := Decode([]byte(line)); err == nil {
			t.Errorf("%.120s: decoded as %+v", line, f)
		}
	}
	for _, line := range []string{bundle(maxMIMETypes), nested(maxDepth - 2)} {
		if _, err := Decode([]byte(line)); err != nil {
			t.Errorf("%.120s: %v", line, err)
		}
	}
}

func TestAnAnswerIsCutToItsBounds(t *testing.T) {
	long := strings.Repeat("ß", 1<<20)
	item := `{"name":"` + long + `","type":"x","preview":"y"}`
	for _, c := range []struct {
		line string
		size func(command.Answer) int
		most int
	}{
		{`{"type":"completion","request_id":"7","start":0,"end":0,"matches":["` + long + `","a"]}`,
			func(a command.Answer) int { return len(strings.Join(a.Completion.Matches, "")) }, maxMatchBytes},
		{`{"type":"completion","request_id":"7","start":0,"end":0,"matches":[` + strings.Repeat(`"",`, 100_000) + `""]}`,
			func(a command.Answer) int { return len(a.Completion.Matches) }, maxMatches},
		{`{"type":"inspection","request_id":"7","found":true,"data":{"text/plain":"` + long + `"}}`,
			func(a command.Answer) int { return len(a.Inspection.Data) }, 0},
		{`{"type":"variables","request_id":"7","total":0,"items":[` + item + `]}`,
			func(a command.Answer) int { return len(a.Variables.Items[0].Name) }, maxVariableLen},
		{`{"type":"variables","request_id":"7","total":0,"items":[` +
			strings.Repeat(`{"name":"x","type":"x","preview":"y"},`, 5000) + `{"name":"x","type":"x","preview":"y"}]}`,
			func(a command.Answer) int { return len(a.Variables.Items) }, maxVariables},
	} {
		f, err := Decode([]byte(c.line))
		if err != nil {
			t.Errorf("%.60s: %v", c.line, err)
			continue
		}
		if got := c.size(f.(QueryAnswer).Answer); got > c.most {
			t.Errorf("%.60s: %d, want at most %d", c.line, got, c.most)
		}
	}
}

func TestAnExceptionIsCutToItsBounds(t *testing.T) {
	lines := strings.Repeat(`"`+strings.Repeat("ß", 1000)+`",`, 5000)
	line := `{"type":"error","id":"e","ename":"` + strings.Repeat("N", 5000) + `","evalue":"` +
		strings.Repeat("v", maxEvalue-1) + `ßß","traceback":[` + lines + `"end"]}`
	f, err := Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	info := f.(Error).Info
	if len(info.Ename) != maxEname || info.Evalue != strings.Repeat("v", maxEvalue-1) {
		t.Errorf("ename of %d bytes, evalue of %d", len(info.Ename), len(info.Evalue))
	}
	if all := strings.Join(info.Traceback, ""); len(all) > maxTraceback || len(all) < maxTraceback/2 || !utf8.ValidString(all) {
		t.Errorf("traceback of %d bytes", len(all))
	}
}

func FuzzDecodeFrame(f *testing.F) {
	for _, c := range frames {
		f.Add([]byte(c.line))
	}
	f.Add([]byte(nested(199)))
	f.Add([]byte(`{"type":"stream","id":"e","name":"stdout","text":"\ud800\udbff\udc00\`))
	f.Fuzz(func(t *testing.T, line []byte) {
		decoded, err := Decode(line)
		if err != nil {
			return
		}
		switch d := decoded.(type) {
		case Stream:
			checkText(t, d.ID, d.Name, string(d.Text))
		case Display:
			checkText(t, d.ID, d.Body.DisplayID)
			checkBundle(t, d.Body.Data, maxMIMETypes)
			checkBundle(t, d.Body.Metadata, maxMIMETypes)
		case Result:
			checkText(t, d.ID)
			checkBundle(t, d.Body.Data, maxMIMETypes)
			checkBundle(t, d.Body.Metadata, maxMIMETypes)
		case Error:
			checkText(t, d.ID, d.Info.Ename, d.Info.Evalue)
			checkText(t, d.Info.Traceback...)
		case Ask:
			checkText(t, d.ID, d.Ask)
			if input, ok := d.Body.(record.InputRequest); ok {
				checkText(t, input.Prompt)
			}
		}
	})
}

// FuzzDecodeStream compares the short cut for stream frames with the general decoder.
func FuzzDecodeStream(f *testing.F) {
	for _, c := range frames {
		f.Add([]byte(c.line))
	}
	for _, end := range []string{``, `"`, `"}`, `",}`, `","mark":0}`, `","mark":01}`, `","mark":9007199254740993}`, `","mark":9} `,
		`\u`, `\u12g4"}`, `\ud83d\ude00"}`, `\ude00\ud83d"}`, `\x"}`, "\x1f\"}", "\xff\"}", `","name":"stdout"}`} {
		f.Add([]byte(`{"type":"stream","id":"e","name":"stderr","text":"twenty or more bytes` + end))
		f.Add([]byte(`{"type":"stream","id":"e\n","name":"stdout","text":"` + end))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := decodeStream(line)
		if !ok {
			return
		}
		want, err := decodeAnyFrame(line)
		if err != nil || !reflect.DeepEqual(want, Frame(got)) {
			t.Errorf("%q:\ngot  %+v\nwant %+v, %v", line, got, want, err)
		}
	})
}

func TestTheShortWayTakesWhatOurRunnerWrites(t *testing.T) {
	for _, end := range []string{`"}`, `","mark":7}`} {
		line := `{"type":"stream","id":"0198c1de-7a55-7b21-9d2e-000000000001","name":"stdout","text":"\u20ac\n\ud83d\ude00` + end
		if f, ok := decodeStream([]byte(line)); !ok || string(f.Text) != "€\n😀" || (f.Mark == 7) != (len(end) > 2) {
			t.Errorf("%s: %+v, %v", line, f, ok)
		}
	}
}

func checkText(t *testing.T, all ...string) {
	for _, s := range all {
		if !utf8.ValidString(s) {
			t.Fatalf("invalid UTF-8 %q", s)
		}
	}
}

// checkBundle checks what everything after the decoder relies on: that the values can be written again unchanged.
func checkBundle(t *testing.T, bundle map[string]json.RawMessage, most int) {
	if bundle == nil || len(bundle) > most {
		t.Fatalf("%d entries", len(bundle))
	}
	for name, value := range bundle {
		if _, err := api.Marshal(api.Raw(value)); err != nil || !utf8.Valid(value) || !utf8.ValidString(name) {
			t.Fatalf("%q: %s: %v", name, value, err)
		}
		if _, err := json.Marshal(value); err != nil {
			t.Fatalf("%q: %s: %v", name, value, err)
		}
	}
}
