package host_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestQueriesAreAnsweredWhileACellRuns(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Sleep() }))
	for _, running := range []bool{false, true} {
		if running {
			r.execute(command.Execution{ID: "e", Code: "sleep"})
		}
		for _, c := range []struct {
			q    command.Query
			want command.Answer
		}{
			{command.Query{Kind: command.QueryComplete, Code: "ab", Cursor: 2},
				command.Answer{Completion: &api.CompleteReply{Matches: []string{"ab"}, CursorEnd: 2}}},
			{command.Query{Kind: command.QueryInspect, Code: "ab", Detail: 1},
				command.Answer{Inspection: &api.InspectReply{Found: true, Data: api.MIMEBundle{"text/plain": api.Raw(`"ab 1"`)}}}},
			{command.Query{Kind: command.QueryIsComplete, Code: "ab"},
				command.Answer{Completeness: &api.IsCompleteReply{Status: api.SourceIncomplete, Indent: "    "}}},
			{command.Query{Kind: command.QueryVariables}, command.Answer{Variables: &api.VariablesReply{
				Items: []api.Variable{{Name: "x", Type: "int", Preview: "5"}}, Total: 7}}},
			{command.Query{Kind: command.QueryTable, Table: &command.TableQuery{Table: "t", Offset: 4, Count: 1}},
				command.Answer{Table: &command.TablePage{State: command.TableOK, Page: api.TableReply{
					Offset: 4, Total: 9, Rows: [][]api.Raw{{api.Raw("4"), api.Raw(`"a"`), api.Raw("null")}}}}}},
		} {
			got, err := r.ask(c.q)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("running %v: %s: %+v, %v", running, c.q.Kind, got, err)
			}
		}
	}
}

// ask asks until the kernel finds the time to answer, which it may not on a busy machine.
func (r *rig) ask(q command.Query) (command.Answer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for {
		answer, err := command.Ask(ctx, r.host, r.key, q)
		if !errors.Is(err, command.ErrKernelBusy) || ctx.Err() != nil {
			return answer, err
		}
	}
}

func TestAQueryWithoutAnAnswerFindsTheKernelBusy(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}))
	if _, err := command.Ask(t.Context(), r.host, r.key, command.Query{Kind: command.QueryComplete, Code: "hang"}); !errors.Is(err, command.ErrKernelBusy) {
		t.Errorf("a query without an answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := command.Ask(ctx, r.host, r.key, command.Query{Kind: command.QueryComplete, Code: "hang"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a query that its asker gave up: %v", err)
	}
	if _, err := r.ask(command.Query{Kind: command.QueryVariables}); err != nil {
		t.Errorf("the next query: %v", err)
	}
}

func TestAQueryOfADeadKernelFails(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) { c.Exit(3) }))
	if _, err := command.Ask(t.Context(), r.host, record.Key{Session: "other"}, command.Query{Kind: command.QueryVariables}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a kernel that is not there: %v", err)
	}
	r.execute(command.Execution{ID: "e"})
	r.untilDied()
	if _, err := command.Ask(t.Context(), r.host, r.key, command.Query{Kind: command.QueryVariables}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("a dead kernel: %v", err)
	}
}

// Answers that a cell forges change no other answer, and a real one gets through.
func TestForgedAnswersAreDropped(t *testing.T) {
	r := newRig(t, func(run *kerneltest.Runner) {
		run.Ready()
		completion := func(id, match string) {
			run.Send(map[string]any{"type": "completion", "request_id": id, "matches": []string{match}, "start": 0, "end": 0})
		}
		completion("0", "nobody asked") // before there is a query
		for {
			f, ok := run.Read()
			if !ok {
				return
			}
			completion("999", "nobody asked")
			run.Send(map[string]any{"type": "variables", "request_id": f.RequestID, "items": []any{}, "total": 0})
			run.Send(map[string]any{"type": "completion", "request_id": f.RequestID, "matches": 5, "start": 0, "end": 0})
			completion(f.RequestID, "the answer")
			completion(f.RequestID, "once more")
		}
	})
	for range 3 {
		answer, err := r.ask(command.Query{Kind: command.QueryComplete, Code: "x"})
		if err != nil || answer.Completion.Matches[0] != "the answer" {
			t.Errorf("%+v, %v", answer.Completion, err)
		}
	}
}

func TestQuestionsDoNotStandInTheWayOfAKernelThatDoesNotRead(t *testing.T) {
	read, before := make(chan struct{}), make(chan int, 1)
	r := newRig(t, func(run *kerneltest.Runner) {
		run.Ready()
		<-read
		for n := 0; ; n++ {
			if f, ok := run.Read(); !ok || f.Type == "execute" {
				before <- n
				return
			}
		}
	})
	large := command.Query{Kind: command.QueryComplete, Code: strings.Repeat("x", 1<<20)}
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if _, err := command.Ask(t.Context(), r.host, r.key, large); !errors.Is(err, command.ErrKernelBusy) {
				t.Errorf("ask: %v", err)
			}
		})
	}
	asking.Wait()
	r.execute(command.Execution{ID: "e"})
	close(read)
	if n := <-before; n > 3 {
		t.Errorf("%d questions of 1 MiB wait before an execution", n)
	}
}
