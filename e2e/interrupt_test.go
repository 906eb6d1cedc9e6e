package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/client"
)

// An interrupt names an execution. At the moment when that one ends, the interrupt must hit it or nothing.
func TestAThousandInterruptsAtTheEndOfACellHitNoOther(t *testing.T) {
	t.Parallel()
	const sessions, each = 4, 250
	s := start(t, options{})
	var all sync.WaitGroup
	for number := range sessions {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "import time; ran = []")
		socket, err := c.Attach(within(t), id, client.AttachOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer socket.Close()
			interruptAtTheEnd(t, socket, rand.New(rand.NewPCG(uint64(number), 1)), each)
		})
	}
	all.Wait()
}

func interruptAtTheEnd(t *testing.T, socket *client.Socket, random *rand.Rand, rounds int) {
	ctx := within(t)
	hits := 0
	for i := range rounds {
		code := "pass"
		if i%2 == 1 {
			code = fmt.Sprintf("time.sleep(%.5f)", random.Float64()*0.004)
		}
		target, err := socket.Execute(ctx, api.ExecutionRequest{Code: &code})
		if err != nil {
			t.Errorf("round %d: %v", i, err)
			return
		}
		next, err := socket.Execute(ctx, api.ExecutionRequest{Code: new(fmt.Sprintf("ran.append(%d)", i))})
		if err != nil {
			t.Errorf("round %d: %v", i, err)
			return
		}
		if _, err := socket.Do(ctx, "interrupt", map[string]string{"execution_id": target}); err != nil {
			t.Errorf("round %d: interrupt: %v", i, err)
			return
		}
		for {
			event, err := socket.Next(ctx)
			if err != nil {
				t.Errorf("round %d: %v", i, err)
				return
			}
			done, ok := event.Body.(api.ExecutionFinished)
			if !ok {
				continue
			}
			e := done.Execution
			if e.ID == target {
				hits += oneIf(e.Status != api.StatusOK)
				if e.State != api.VariablesKept || e.Status != api.StatusOK && e.Status != api.StatusInterrupted &&
					e.Status != api.StatusCancelled {
					t.Errorf("round %d: the interrupted cell ended %s %q %s", i, e.Status, e.Reason, e.State)
				}
			}
			if e.ID == next {
				if e.Status != api.StatusOK || e.Generation != 1 {
					t.Errorf("round %d: the cell behind ended %s %q in generation %d\n%s", i, e.Status, e.Reason, e.Generation, e.Text)
				}
				break
			}
		}
	}
	last, err := socket.Execute(ctx, api.ExecutionRequest{Code: new(fmt.Sprintf("assert ran == list(range(%d)), ran", rounds))})
	if err != nil {
		t.Error(err)
		return
	}
	for {
		event, err := socket.Next(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if done, ok := event.Body.(api.ExecutionFinished); ok && done.Execution.ID == last {
			if done.Execution.Status != api.StatusOK {
				t.Errorf("the variables: %s", done.Execution.Text)
			}
			t.Logf("%d of %d interrupts hit", hits, rounds)
			return
		}
	}
}

func TestAnInterruptEndsWhatItMeans(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	finish := func(execution string) api.Execution {
		t.Helper()
		events := collect(t, c.ExecutionEvents(within(t), id, execution, 0))
		return events[len(events)-1].Body.(api.ExecutionFinished).Execution
	}
	k := s.attach(t, id, "")
	begin := func(code string) string { // code that may print BEGUN first, if that is not its first line
		t.Helper()
		if !strings.Contains(code, "BEGUN") {
			code = "BEGUN\n" + code
		}
		cell := s.queue(t, id, strings.Replace(code, "BEGUN", "print('begun', flush=True)", 1))
		k.awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == cell })
		return cell
	}
	interrupt := func(execution string) {
		t.Helper()
		if err := c.Interrupt(within(t), id, execution); err != nil {
			t.Fatal(err)
		}
	}
	runOK(t, c, id, "import time, subprocess; kept = 1")

	running, first, second := begin("time.sleep(1000)"), s.queue(t, id, "print(1)"), s.queue(t, id, "print(2)")
	interrupt(first) // only that one, which is waiting
	wantEnd(t, finish(first), api.StatusCancelled, "interrupted", api.VariablesKept)
	interrupt(running) // only that one, which is running
	wantEnd(t, finish(running), api.StatusInterrupted, "interrupted", api.VariablesKept)
	wantEnd(t, finish(second), api.StatusOK, "", api.VariablesKept)

	running, first = begin("while True: pass"), s.queue(t, id, "print(1)")
	interrupt("") // all
	wantEnd(t, finish(running), api.StatusInterrupted, "interrupted", api.VariablesKept)
	wantEnd(t, finish(first), api.StatusCancelled, "interrupted", api.VariablesKept)

	caught := begin("try:\n    BEGUN\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    print('caught')")
	interrupt("")
	wantEnd(t, finish(caught), api.StatusOK, "", api.VariablesKept)

	child := begin("subprocess.run(['sleep', '1000'])")
	interrupt("")
	wantEnd(t, finish(child), api.StatusInterrupted, "interrupted", api.VariablesKept)

	interrupt("")      // idle: nothing
	interrupt(running) // it ended long ago: nothing
	if got := runOK(t, c, id, "print(kept)"); got != "1\n" {
		t.Errorf("the variables: %q", got)
	}
}
