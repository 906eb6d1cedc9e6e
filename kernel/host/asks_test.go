package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

const two = "00000000000000000000000000000002"

// askBoth asks for a line and for packages without waiting for either answer: q1 and two.
func askBoth(c *kerneltest.Cell) {
	c.AskInput("? ")
	c.AskInstall(c.ID, "a")
}

var bothAsked = []string{"e1: started", `e1: input q1 "? " false`, "e1: install 2 [a]"}

// untilBoth reads until the second of two asks.
func (r *rig) untilBoth() []record.Record {
	r.Helper()
	return append(r.until(is[record.Asked]), r.until(is[record.Asked])...)
}

func (r *rig) tell(c command.Command) {
	r.Helper()
	if err := command.Tell(r.Context(), r.host, r.key, c); err != nil {
		r.Errorf("%s: %v", c.Spec().Name, err)
	}
}

func TestAsksOfTwoKindsAreOpenAtOnce(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		askBoth(c)
		for range 3 {
			f := c.Answer()
			c.Print(f.Type + " " + strings.TrimLeft(f.Ask, "0") + " " + f.Text + f.Body.Value + "\n")
		}
	}))
	r.execute(command.Execution{ID: "e1", AllowStdin: true})
	r.expect(r.untilBoth(), bothAsked...)
	a, err := r.host.Attach(t.Context(), r.key)
	if want := []command.OpenAsk{{Kind: record.AskInput, ID: "q1"}, {Kind: record.AskInstall, ID: two}}; err != nil || !slices.Equal(a.Asks, want) {
		t.Errorf("attached: %+v, %v", a, err)
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: two}); !errors.Is(err, command.ErrNoInputPending) {
		t.Errorf("a line for the installation: %v", err)
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: "q1"}); !errors.Is(err, command.ErrNoInstallPending) {
		t.Errorf("packages for the question: %v", err)
	}
	r.tell(command.InstallOutput{RequestID: two, Text: "Collecting"})
	r.tell(command.AnswerInstall{RequestID: two})
	r.tell(command.AnswerInput{RequestID: "q1", Value: "Ada"})
	got := r.untilFinished()
	if said, want := text(got, "stdout"), "progress 2 Collecting\nanswer 2 \nanswer q1 Ada\n"; said != want {
		t.Errorf("the cell was told %q, not %q", said, want)
	}
	r.expect(slices.DeleteFunc(got, is[record.Stream]), "e1: install 2 answered", "e1: input q1 answered", "e1: finished ok")
}

// TestAllAsksOfACellAreClosedTogether checks the one way in which asks are closed without an answer.
func TestAllAsksOfACellAreClosedTogether(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		do      func(r *rig, end chan struct{})
		how     string
		told    bool // the asker is still there to be told
	}{
		{"interrupt", 0, func(r *rig, _ chan struct{}) { r.tell(command.Interrupt{ExecutionID: "e1"}) }, "interrupted", true},
		{"time-out", 10 * time.Second, func(*rig, chan struct{}) { time.Sleep(host.MaxStandstill) }, "timeout", true},
		{"end of the cell", 0, func(_ *rig, end chan struct{}) { close(end) }, "interrupted", false},
		{"death", 0, func(r *rig, _ chan struct{}) { _ = r.host.Stop(context.Background(), r.key, "reset") }, "interrupted", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan kerneltest.Frame, 2)
				end := make(chan struct{})
				r := newRig(t, kerneltest.Cells(func(cell *kerneltest.Cell) {
					askBoth(cell)
					switch c.name {
					case "end of the cell":
						<-end
						return
					case "death":
						cell.Stuck()
					}
					told <- cell.Answer()
					told <- cell.Answer()
				}), withCPU(0))
				r.execute(command.Execution{ID: "e1", AllowStdin: true, Timeout: c.timeout})
				r.expect(r.untilBoth(), bothAsked...)
				c.do(r, end)
				got := r.until(isEnd)
				r.expect(got[:2], "e1: input q1 "+c.how, "e1: install 2 "+c.how)
				if a, err := r.host.Attach(t.Context(), r.key); err == nil && len(a.Asks) > 0 {
					t.Errorf("open after the end: %+v", a.Asks)
				}
				if !c.told {
					return
				}
				for _, want := range []kerneltest.Frame{
					{Type: "answer", Ask: "q1", Error: "input() was stopped: " + c.how},
					{Type: "answer", Ask: two, Error: "the installation was stopped: " + c.how},
				} {
					if got := <-told; got.Type != want.Type || got.Ask != want.Ask || got.Error != want.Error {
						t.Errorf("the asker was told %+v, not %+v", got, want)
					}
				}
			})
		})
	}
}

func TestTheClockStandsStillUntilTheLastAskIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			askBoth(c)
			c.Sleep()
		}), withCPU(0))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", AllowStdin: true, Timeout: 10 * time.Second})
		r.untilBoth()
		time.Sleep(time.Hour)
		r.tell(command.AnswerInput{RequestID: "q1"})
		time.Sleep(time.Hour)
		r.tell(command.AnswerInstall{RequestID: two})
		got := r.untilFinished()
		r.expect(got[len(got)-1:], "e1: finished timeout KeyboardInterrupt")
		if took, want := time.Since(began), 2*time.Hour+10*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

func TestTheClockStandsStillWhileACellWaitsForATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			c.CallTool("search", map[string]any{})
			c.Sleep()
		}), withCPU(0))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", Timeout: 10 * time.Second})
		r.until(is[record.Asked])
		time.Sleep(time.Hour)
		r.tell(command.AnswerTool{RequestID: "c1", Result: []byte("1")})
		r.untilFinished()
		if took, want := time.Since(began), time.Hour+10*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

func TestAnAskOfNoCellStopsNoClockAndOutlivesTheCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			c.AskInstall("", "a")
			c.Sleep()
		}), withCPU(0))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", Timeout: 10 * time.Second})
		r.expect(r.until(is[record.Asked]), "e1: started", ": install 1 [a]")
		r.untilFinished()
		if took, want := time.Since(began), 10*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		r.tell(command.AnswerInstall{RequestID: one})
		r.expect(r.until(is[record.AskClosed]), ": install 1 answered")
	})
}

func TestAnAskIsRefusedWithWords(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		if c.ID == "e2" {
			c.Runner.Send(map[string]any{"type": "ask", "ask": "late", "id": "e1", "kind": "input", "body": map[string]any{"prompt": ""}})
			c.Print(c.Answer().Error + "\n")
			c.AskInput("? ")
			c.AskInput("? ")
			c.Print(c.Answer().Error + "\n")
			return
		}
		c.AskInput("? ")
		c.Print(c.Answer().Error + "\n")
	}))
	for _, c := range []struct {
		execution command.Execution
		want      string
	}{
		{command.Execution{ID: "e1"}, "no client can answer input(): attach one to the session, or put the value into the code\n"},
		{command.Execution{ID: "e2", AllowStdin: true}, "the cell that asked for it has ended\nanother input() of this cell is waiting; answer that one first\n"},
	} {
		r.execute(c.execution)
		if got := text(r.untilFinished(), "stdout"); got != c.want {
			t.Errorf("%s was told %q, not %q", c.execution.ID, got, c.want)
		}
	}
}

func TestACellThatDoesNotWaitForAnswersMayNotAskForEver(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		said := ""
		for range 200 {
			c.Withdraw(c.AskInput("? "))
			said = c.Answer().Error
		}
		c.Print(said)
	}))
	for _, id := range []string{"e1", "e2"} {
		r.execute(command.Execution{ID: id, AllowStdin: true})
		got := r.untilFinished()
		if said, want := text(got, "stdout"), "this cell called input() 50 times without waiting for an answer; ask in another cell"; said != want {
			t.Errorf("%s was told %q, not %q", id, said, want)
		}
		asked := len(slices.DeleteFunc(got, func(rec record.Record) bool { return !is[record.Asked](rec) }))
		if asked != 50 {
			t.Errorf("%d asks of %s came through, not 50", asked, id)
		}
	}
}

// TestAnAttachmentIsReadByServersAndHostsOfEarlierVersions checks what versions up to 3 of the host protocol send and
// accept.
func TestAnAttachmentIsReadByServersAndHostsOfEarlierVersions(t *testing.T) {
	var a command.Attachment
	if err := json.Unmarshal([]byte(`{"Last":7,"Given":"e1","Installing":"q"}`), &a); err != nil {
		t.Fatal(err)
	}
	if a.Last != 7 || a.Given != "e1" || !slices.Equal(a.Asks, []command.OpenAsk{{Kind: record.AskInstall, ID: "q"}}) {
		t.Errorf("an earlier host's is read as %+v", a)
	}
	a.Asks = append([]command.OpenAsk{{Kind: record.AskInput, ID: "p"}}, a.Asks...)
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var earlier struct {
		Last              uint64
		Given, Installing string
	}
	if err := json.Unmarshal(b, &earlier); err != nil || earlier.Last != 7 || earlier.Given != "e1" || earlier.Installing != "q" {
		t.Errorf("an earlier server reads %s as %+v, %v", b, earlier, err)
	}
	var same command.Attachment
	if err := json.Unmarshal(b, &same); err != nil || !slices.Equal(same.Asks, a.Asks) {
		t.Errorf("%s is read as %+v, %v", b, same, err)
	}
}
