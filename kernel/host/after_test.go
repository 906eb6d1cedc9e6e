package host_test

import (
	"errors"
	"slices"
	"testing"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestACellAsksForWhatIsDoneAfterIt(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskAfter(map[string]any{"action": "checkpoint", "name": "a"})
		c.Print(c.Answer().Body.CheckpointID + "\n")
		c.AskAfter(map[string]any{"action": "rollback", "to": "a", "what": "all", "keep_user_edits": false})
		c.Print(c.Answer().Error + "\n")
	}))
	r.execute(command.Execution{ID: "e1"})
	asked := r.until(is[record.Asked])
	if got, want := asked[1].Body, (record.Asked{ID: "a1", Body: record.AfterCell{Name: "a"}}); got != want {
		t.Errorf("asked %+v, not %+v", got, want)
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.AnswerAfter{RequestID: "a2"}); !errors.Is(err, command.ErrNoAfterPending) {
		t.Errorf("an answer to nothing: %v", err)
	}
	if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: "a1"}); !errors.Is(err, command.ErrNoInputPending) {
		t.Errorf("a line of input: %v", err)
	}
	r.tell(command.AnswerAfter{RequestID: "a1", CheckpointID: "c7"})
	r.until(is[record.Asked])
	r.tell(command.AnswerAfter{RequestID: "a2", Error: "no"})
	got := r.untilFinished()
	if said, want := text(slices.Concat(r.seen), "stdout"), "c7\nno\n"; said != want {
		t.Errorf("the cell was told %q, not %q", said, want)
	}
	r.expect(slices.DeleteFunc(got, is[record.Stream]), "e1: after a2 answered", "e1: finished ok")
}

func TestACellMayNotAskForCheckpointsForEver(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		said := ""
		for range 40 {
			c.Withdraw(c.AskAfter(map[string]any{"action": "checkpoint"}))
			said = c.Answer().Error
		}
		c.Print(said)
	}))
	for _, id := range []string{"e1", "e2"} {
		r.execute(command.Execution{ID: id})
		got := r.untilFinished()
		if said, want := text(got, "stdout"), "a cell may ask for checkpoints and rollbacks 16 times; do the rest in another cell"; said != want {
			t.Errorf("%s was told %q, not %q", id, said, want)
		}
		if asked := len(slices.DeleteFunc(got, func(rec record.Record) bool { return !is[record.Asked](rec) })); asked != 16 {
			t.Errorf("%d asks of %s came through, not 16", asked, id)
		}
	}
}

func TestForgedAsksForCheckpointsAreRefused(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.Print("cell ")
		for _, body := range []map[string]any{
			{}, {"action": "delete"}, {"action": "checkpoint", "to": "a"}, {"action": "checkpoint", "name": 5},
			{"action": "rollback", "to": "a", "keep_user_edits": "yes"}, {"action": "rollback", "to": []string{"a"}},
		} {
			c.AskAfter(body) // dropped: nobody is asked, and no answer comes
		}
		c.Runner.Send(map[string]any{"type": "ask", "ask": "x1", "kind": "after", "body": map[string]any{"action": "checkpoint"}})
		c.Print(c.Answer().Error + "\n")
		c.Runner.Send(map[string]any{"type": "ask", "id": "other", "ask": "x2", "kind": "after", "body": map[string]any{"action": "checkpoint"}})
		c.Print(c.Answer().Error + "\n")
	}))
	r.execute(command.Execution{ID: "e1"})
	got := r.untilFinished()
	want := "cell checkpoints can be asked for only by the cell that runs, and by its threads and tasks\nthe cell that asked for it has ended\n"
	if said := text(got, "stdout"); said != want {
		t.Errorf("the cell was told %q, not %q", said, want)
	}
	if slices.ContainsFunc(got, is[record.Asked]) {
		t.Errorf("the session was asked: %s", words(got))
	}
}

func TestAServerOfAnEarlierVersionIsAskedForNoCheckpoints(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
		c.AskAfter(map[string]any{"action": "checkpoint"})
		c.Print(c.Answer().Error)
	}))
	r.key.Generation++
	if _, err := r.host.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{NoAfter: "the server is too old"}); err != nil {
		t.Fatal(err)
	}
	r.execute(command.Execution{ID: "e1"})
	r.expect(r.untilFinished(), "e1: started", `e1: stdout "the server is too old"`, "e1: finished ok")
}
