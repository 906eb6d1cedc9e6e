package record

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"talaria/kernel"
)

var recordTime = time.Unix(1_700_000_000, 123_456_789)

// sampleRecords has one record of every kind, and some that are empty or odd.
func sampleRecords(key Key) []Record {
	bodies := []Body{
		Started{},
		Stream{Name: "stdout", Text: "héllo\n\x00"},
		Stream{Name: "stderr"},
		Display{
			Data:      map[string]json.RawMessage{"text/plain": json.RawMessage(`"shown"`)},
			Metadata:  map[string]json.RawMessage{"width": json.RawMessage(`3`)},
			DisplayID: "d1", Update: true,
		},
		Display{Data: map[string]json.RawMessage{}, Metadata: map[string]json.RawMessage{}},
		Result{Data: map[string]json.RawMessage{"text/plain": json.RawMessage(`"2"`)}, Metadata: map[string]json.RawMessage{}},
		Raised{Error: ErrorInfo{Ename: "ValueError", Evalue: "<no>", Traceback: []string{"a", "b"}}},
		Clear{Wait: true},
		Asked{ID: "q1", Body: InputRequest{Prompt: "? ", Password: true}},
		AskClosed{Kind: AskInput, ID: "q1", How: "answered"},
		Finished{Status: OK, Usage: ExecutionUsage{Duration: time.Second, CPU: 2, PeakMemory: 3}},
		Finished{Status: Errored, Error: &ErrorInfo{Ename: "E", Traceback: []string{}}},
		Died{
			Reason: "memory_limit", Exit: kernel.Exit{Code: 1, Signal: syscall.SIGKILL, Limit: kernel.LimitMemory, Lost: true},
			Usage: ExecutionUsage{Duration: 1}, TimedOut: true, Limit: &LimitHit{Name: "memory_bytes", Value: 1, Used: 2},
		},
		Raised{Error: ErrorInfo{Ename: "E", Traceback: []string{"a"}, Hint: "h", Frames: []ErrorFrame{
			{File: "f", Line: 1, Function: "g", User: true, Cell: "e1", Start: 0, End: 1},
		}}},
		Asked{ID: "q2", Body: PackageChange{
			Remove: true, Requirements: []string{"a", "b>=1"}, Upgrade: true, Reinstall: true, NoDeps: true, Pre: true, Quiet: true,
		}},
		AskClosed{Kind: AskInstall, ID: "q2", How: "timeout"},
		Asked{ID: "q3", Body: ToolsRequest{}},
		AskClosed{Kind: AskTools, ID: "q3", How: "answered"},
		Asked{ID: "q4", Body: ToolCall{Tool: "__import__", Arguments: json.RawMessage(`{"a":[1]}`)}},
		AskClosed{Kind: AskTool, ID: "q4", How: "interrupted"},
		Asked{ID: "q5", Body: AfterCell{Name: "before", Level: "saved"}},
		AskClosed{Kind: AskAfter, ID: "q5", How: "answered"},
		Asked{ID: "q6", Body: AfterCell{Rollback: true, To: "before", What: "files", KeepUserEdits: true}},
		ToolEnded{CallID: "q4", OK: true, DurationMS: 7},
		ToolEnded{CallID: "q4", Code: "not_found", Message: "no"},
		Comm{
			Action: CommOpen, ID: "c1", Target: "jupyter.widget", Data: json.RawMessage(`{"state":{}}`),
			Metadata: map[string]json.RawMessage{"version": json.RawMessage(`"2.1.0"`)}, Buffers: [][]byte{{0, 255, '\n'}, {1}},
		},
		Comm{Action: CommClose, ID: "c1", Data: json.RawMessage(`{}`), Metadata: map[string]json.RawMessage{}},
		CommHandled{},
		Expressions{Values: json.RawMessage(`{"a":{"status":"ok"}}`)},
	}
	records := make([]Record, len(bodies))
	for i, body := range bodies {
		id := "e1"
		if i%3 == 2 {
			id = ""
		}
		records[i] = Record{Key: key, KSeq: uint64(40 + i), Time: recordTime.Add(time.Duration(i)), ExecutionID: id, Body: body}
	}
	return records
}

func encodeAll(t testing.TB, records []Record) []byte {
	t.Helper()
	var b []byte
	for _, r := range records {
		var err error
		if b, err = Append(b, r); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestRecordsAreDecodedAsTheyWereEncoded(t *testing.T) {
	key := Key{Session: "s", Generation: 3}
	want := sampleRecords(key)
	got, err := Decode(key, encodeAll(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	stream, err := AppendStream(nil, 41, recordTime.Add(1), "e1", "stdout", []byte("héllo\n\x00"))
	if alike := encodeAll(t, want[1:2]); err != nil || string(stream) != string(alike) {
		t.Errorf("text of a stream is encoded as %q, %v, and by itself as %q", alike, err, stream)
	}
}

// TestTheEncodingIsThatOfVersion1 fixes the bytes: another version of this program reads them.
func TestTheEncodingIsThatOfVersion1(t *testing.T) {
	const want = "16000000" + "4627f80e" + "2800000000000000" + "15cd853dfe9c9717" + "01" + "026531" + "7b7d"
	if got := hex.EncodeToString(encodeAll(t, sampleRecords(Key{})[:1])); got != want {
		t.Errorf("started is\n%s\nwant\n%s", got, want)
	}
	for i, want := range []string{
		"{}", "\x06stdouthéllo\n\x00", "\x06stderr", "\x01\x02d1\x01\ntext/plain\x07\"shown\"\x01\x05width\x013", "\x00\x00\x00\x00",
		"\x01\ntext/plain\x03\"2\"\x00",
		`{"Error":{"Ename":"ValueError","Evalue":"<no>","Traceback":["a","b"]}}`,
		`{"Wait":true}`, `{"RequestID":"q1","Prompt":"? ","Password":true}`, `{"RequestID":"q1","How":"answered"}`,
		`{"Status":"ok","Error":null,"Usage":{"Duration":1000000000,"CPU":2,"PeakMemory":3}}`,
		`{"Status":"error","Error":{"Ename":"E","Evalue":"","Traceback":[]},"Usage":{"Duration":0,"CPU":0,"PeakMemory":0}}`,
		`{"Reason":"memory_limit","Exit":{"Code":1,"Signal":9,"Limit":"memory_limit","Lost":true},` +
			`"Usage":{"Duration":1,"CPU":0,"PeakMemory":0},"TimedOut":true,"Limit":{"Name":"memory_bytes","Value":1,"Used":2}}`,
		`{"Error":{"Ename":"E","Evalue":"","Traceback":["a"],"Hint":"h","Frames":[` +
			`{"File":"f","Line":1,"Function":"g","User":true,"Cell":"e1","Start":0,"End":1}]}}`,
		`{"RequestID":"q2","Change":{"Remove":true,"Requirements":["a","b>=1"],"Upgrade":true,"Reinstall":true,` +
			`"NoDeps":true,"Pre":true,"Quiet":true}}`,
		`{"RequestID":"q2","How":"timeout"}`,
	} {
		raw, _, err := Cut(encodeAll(t, sampleRecords(Key{})[i:i+1]))
		if err != nil || string(raw.body) != want {
			t.Errorf("body %d is %q, %v, want %q", i, raw.body, err, want)
		}
	}
	for i, kind := range []byte{1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9, 10, 5, 11, 12} {
		if got := kindOf(sampleRecords(Key{})[i].Body); got != kind {
			t.Errorf("kind of body %d is %d, want %d", i, got, kind)
		}
	}
}

func TestDecodingTellsWhatIsWrong(t *testing.T) {
	all := encodeAll(t, sampleRecords(Key{})[:2])
	first := len(encodeAll(t, sampleRecords(Key{})[:1]))
	unknown := Begin(nil, 41, recordTime, 77, "e1")
	unknown, _ = End(append(unknown, "whatever"...), 0)
	cases := []struct {
		name string
		b    []byte
		n    int
		want error
	}{
		{"cut off in the head", all[:first+5], 1, ErrTornRecord},
		{"cut off in the body", all[:len(all)-1], 1, ErrTornRecord},
		{"a byte changed", flip(all, len(all)-1), 1, ErrCorruptRecord},
		{"too short a length", append(append([]byte{}, all[:first]...), make([]byte, 64)...), 1, ErrCorruptRecord},
		{"too great a length", append(append([]byte{}, all[:first]...), 255, 255, 255, 255, 0, 0, 0, 0), 1, ErrCorruptRecord},
		{"a number left out", append(append([]byte{}, all[:first]...), encodeAll(t, sampleRecords(Key{})[2:3])...), 1, ErrCorruptRecord},
		{"an unknown kind", append(append([]byte{}, all[:first]...), unknown...), 1, ErrUnknownRecord},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			records, err := Decode(Key{}, c.b)
			if len(records) != c.n || !errors.Is(err, c.want) {
				t.Errorf("%d records, %v", len(records), err)
			}
		})
	}
}

func flip(b []byte, at int) []byte {
	b = append([]byte{}, b...)
	b[at] ^= 0x10
	return b
}

func TestARecordThatIsTooLargeIsRefused(t *testing.T) {
	defer runtime.GC() // tests of memory need a small heap to start with
	dst := []byte("before")
	got, err := Append(dst, Record{Body: Stream{Name: "stdout", Text: strings.Repeat("x", MaxEncoded)}})
	if err == nil || string(got) != "before" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func FuzzDecodeRecords(f *testing.F) {
	f.Add(encodeAll(f, sampleRecords(Key{})))
	for _, r := range sampleRecords(Key{}) {
		f.Add(encodeAll(f, []Record{r}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// The decoder of bodies sees the fuzzer's bodies only if the check sum is right.
		if size, err := Size(b); err == nil && size <= len(b) {
			b = append([]byte{}, b...)
			if _, err := End(b[:size], 0); err != nil {
				t.Fatal(err)
			}
		}
		records, err := Decode(Key{Session: "s"}, b)
		if err != nil && !errors.Is(err, ErrTornRecord) && !errors.Is(err, ErrCorruptRecord) && !errors.Is(err, ErrUnknownRecord) {
			t.Errorf("an error of no kind: %v", err)
		}
		again, err := Decode(Key{Session: "s"}, encodeAll(t, records))
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if diff := cmp.Diff(records, again); diff != "" {
			t.Error(diff)
		}
	})
}
