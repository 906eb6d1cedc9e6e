package execd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/server/transfer"
)

// texts of the events that output in pieces gives.
func texts(pieces ...string) (list []string) {
	l := lines{name: typeStdout}
	for i, p := range pieces {
		for _, e := range l.take([]byte(p), i == len(pieces)-1) {
			list = append(list, e.Text)
		}
	}
	return list
}

func TestOutputIsSentLineByLine(t *testing.T) {
	for _, c := range []struct{ pieces, want []string }{
		{[]string{""}, nil},
		{[]string{"a\nb\n"}, []string{"a", "b"}},
		{[]string{"a", "b\n", "c"}, []string{"ab", "c"}},
		{[]string{"a\n\n\nb"}, []string{"a", "\n", "\n", "b"}},
		{[]string{"a\r\n\r\nb\r", "\n"}, []string{"a", "\n", "b"}},
		{[]string{"\xc3", "\xa9\n\xff\n"}, []string{"é", "\uFFFD"}},
	} {
		if got := texts(c.pieces...); !slices.Equal(got, c.want) {
			t.Errorf("%q comes as %q, want %q", c.pieces, got, c.want)
		}
	}
	long := strings.Repeat("é", maxLine) + "\nend"
	got := texts(long[:maxLine+1], long[maxLine+1:])
	if strings.Join(got[:len(got)-1], "") != long[:len(long)-4] || got[len(got)-1] != "end" {
		t.Errorf("a long line comes in %d events", len(got))
	}
	for _, text := range got {
		if len(text) > maxLine || !utf8.ValidString(text) {
			t.Errorf("an event has %d bytes", len(text))
		}
	}
}

func FuzzOutputIsKept(f *testing.F) {
	for _, seed := range []string{"a\nb", "\r\n", "é\xff\n\n", strings.Repeat("x", 100)} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, output []byte, cut int) {
		at := min(max(cut, 0), len(output))
		whole, halves := texts(string(output)), texts(string(output[:at]), string(output[at:]))
		if len(output) <= maxLine && !slices.Equal(whole, halves) {
			t.Errorf("%q cut at %d comes as %q, not %q", output, at, halves, whole)
		}
		for _, text := range halves {
			if text == "" || len(text) > maxLine*3 || !utf8.ValidString(text) {
				t.Errorf("%q gives the event %q", output, text)
			}
		}
	})
}

func TestTheLastEventSaysHowAnExecutionEnded(t *testing.T) {
	start := api.Time{Time: time.Unix(100, 0)}
	end := api.Time{Time: start.Add(1500 * time.Millisecond)}
	var fine translation
	if got := fine.end(api.Execution{Status: api.StatusOK, StartedAt: &start, FinishedAt: &end}, 7); len(got) != 1 || got[0].Type != typeComplete || got[0].ExecutionTime != 1500 {
		t.Errorf("success is %+v", got)
	}
	failed := translation{failed: true}
	if got := failed.end(api.Execution{Status: api.StatusError}, 7); got != nil {
		t.Errorf("after the error comes %+v", got)
	}
	var cancelled translation
	if got := cancelled.end(api.Execution{Status: api.StatusCancelled, Reason: "interrupted"}, 7); len(got) != 1 || got[0].Error == nil ||
		got[0].Error.Evalue != "cancelled: interrupted; the variables are kept" {
		t.Errorf("a cell that never ran is %+v", got)
	}
	var died translation
	if got := died.end(api.Execution{Status: api.StatusDied, Reason: "memory_limit", State: api.VariablesLost}, 7); len(got) != 1 ||
		got[0].Error.Ename != "KernelDied" || !strings.Contains(got[0].Error.Evalue, "memory_limit; the variables are lost") {
		t.Errorf("a death is %+v", got)
	}
}

func TestExitCodesAreTheValuesOfErrors(t *testing.T) {
	if e := exit(0, 0); e.Type != typeComplete || e.Error != nil {
		t.Errorf("success is %+v", e)
	}
	for _, c := range []struct {
		code, signal int
		want         string
	}{{3, 0, "3"}, {0, 9, "137"}} {
		if e := exit(c.code, c.signal); e.Type != typeError || e.Error.Evalue != c.want {
			t.Errorf("code %d, signal %d: %+v", c.code, c.signal, e.Error)
		}
	}
}

func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"code":"print(1)","context":{"id":"a","language":"python","cwd":"/tmp"}}`, `{"code":"1","context":{"language":"JAVA"}}`,
		`{"command":"ls","cwd":"/tmp","timeout":1000,"envs":{"A":"b"}}`, `{"argv":["a",""],"background":true}`, `{"command":"a","argv":[]}`,
		`{"timeout":1e308,"command":"a"}`, `{"code":5}`, `[`, `null`, `{"code":"\ud800"}`, strings.Repeat("[", 1000),
	} {
		f.Add([]byte(body))
	}
	known := func(err error) bool { return errors.As(err, new(*api.Error)) }
	f.Fuzz(func(t *testing.T, body []byte) {
		var run runRequest
		if err := api.UnmarshalLoose(body, &run); err != nil && !known(err) {
			t.Errorf("%q fails with %v", body, err)
		} else if err == nil {
			if name, err := language(run.Context.Language); err != nil && !known(err) || err == nil && !strings.HasSuffix(transfer.Cell(name, run.Code), run.Code) {
				t.Errorf("%q is the cell %q (%v)", body, transfer.Cell(name, run.Code), err)
			}
		}
		var command commandRequest
		if err := api.UnmarshalLoose(body, &command); err != nil {
			return
		}
		if p, err := command.program(); err != nil && !known(err) || err == nil && len(p.Args) == 0 {
			t.Errorf("%q starts %q (%v)", body, p.Args, err)
		}
	})
}
