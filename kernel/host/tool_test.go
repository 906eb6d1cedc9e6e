package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestACellListsToolsAndCallsThem(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskTools()
		c.Print(c.Answer().Body.Tools[0].Name + "\n")
		c.CallTool("a", map[string]any{"n": 1})
		c.CallTool("b", map[string]any{})
		for range 3 {
			f := c.Answer()
			c.Print(fmt.Sprintf("%s %s %s%s%s\n", f.Type, f.Ask, f.Text, f.Body.Result, f.Error))
		}
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.until(is[record.Asked]), "e1: started", "e1: tools t1")
	r.tell(command.AnswerTools{RequestID: "t1", Tools: []command.ToolSpec{{Name: "a"}}})
	r.expect(r.until(is[record.AskClosed]), "e1: tools t1 answered")
	r.until(is[record.Asked])
	if got, want := r.until(is[record.Asked]), "e1: tool c3 b {}"; word(got[len(got)-1]) != want {
		t.Errorf("got %s, want %s", words(got), want)
	}
	r.tell(command.ToolProgress{RequestID: "c2", Message: "half"})
	r.tell(command.AnswerTool{RequestID: "c3", Error: &command.ToolFailure{Code: "timeout", Message: "too slow"}})
	r.tell(command.AnswerTool{RequestID: "c2", Result: json.RawMessage(`{"x":1}`)})
	got := r.untilFinished()
	if said, want := text(got, "stdout"), "progress c2 half\nanswer c3 too slow\nanswer c2 {\"x\":1}\n"; said != want {
		t.Errorf("the cell was told %q, not %q", said, want)
	}
	for _, c := range []command.Command{command.AnswerTool{RequestID: "c2"}, command.AnswerTools{RequestID: "t1"}, command.ToolProgress{RequestID: "c9"}} {
		if err := command.Tell(t.Context(), r.host, r.key, c); !errors.Is(err, command.ErrNoCallPending) {
			t.Errorf("%s of nothing: %v", c.Spec().Name, err)
		}
	}
}

// TestOnlyACallThatTheRunnerWasGivenEnds checks that a hostile runner can report only on calls that it was given.
func TestOnlyACallThatTheRunnerWasGivenEnds(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.EndTool("c9", "", "")
		call := c.CallTool("terminal", map[string]any{})
		if !c.Answer().Body.Run {
			t.Error("the runner was not told to carry the call out")
		}
		c.EndTool(call, "not_found", "no")
		c.EndTool(call, "", "")
	}))
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.until(is[record.Asked]), "e1: started", "e1: tool c1 terminal {}")
	r.tell(command.AnswerTool{RequestID: "c1", Run: true})
	r.expect(r.untilFinished(), "e1: tool c1 answered", "e1: tool c1 ended false not_found no", "e1: finished ok")
}

func TestAServerOfAnEarlierVersionIsAskedForNoTools(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskTools()
		c.Print(c.Answer().Error)
	}))
	r.key.Generation++
	if _, err := r.host.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{NoTools: "the server is too old"}); err != nil {
		t.Fatal(err)
	}
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", `e1: stdout "the server is too old"`, "e1: finished ok")
}

// TestTheEndOfACallComesWithTheNextCall checks that a reader is woken once for the end of a call and the next one, and is
// not left waiting for an end that nothing follows.
func TestTheEndOfACallComesWithTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pause = 100 * time.Microsecond // between the answer and the next call
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			for _, tool := range []string{"a", "b"} {
				c.CallTool(tool, map[string]any{})
				c.Answer()
				time.Sleep(pause)
			}
			c.Stuck()
		}))
		r.execute(command.Execution{ID: "e1"})
		r.expect(r.until(is[record.Asked]), "e1: started", "e1: tool c1 a {}")
		for _, want := range []struct {
			call, batch string
			after       time.Duration
		}{
			{"c1", "e1: tool c1 answered\ne1: tool c2 b {}", pause},
			{"c2", "e1: tool c2 answered", 5 * time.Millisecond},
		} {
			answered := time.Now().Add(time.Microsecond) // once the reader waits
			time.AfterFunc(time.Microsecond, func() {
				if err := command.Tell(t.Context(), r.host, r.key, command.AnswerTool{RequestID: want.call}); err != nil {
					t.Error(err)
				}
			})
			batch, err := r.host.Next(t.Context(), r.key, uint64(len(r.seen)))
			if err != nil {
				t.Fatal(err)
			}
			r.seen = append(r.seen, batch...)
			if got, took := words(batch), time.Since(answered); got != want.batch || took != want.after {
				t.Errorf("after %v the reader got\n%s\nwant, after %v,\n%s", took, got, want.after, want.batch)
			}
		}
	})
}
