package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// watcher is an attached client that can decide.
type watcher struct {
	t *testing.T
	*client.Socket
}

func watch(t *testing.T, c *client.Client, id string) watcher {
	t.Helper()
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return watcher{t, socket}
}

// provide provides tools that answer with their arguments.
func (w watcher) provide(tools ...api.Tool) {
	w.t.Helper()
	var list []client.ToolFunc
	for _, tool := range tools {
		list = append(list, client.ToolFunc{Tool: tool, Call: func(_ context.Context, call api.ToolRequest) (any, error) {
			return json.RawMessage(call.Arguments), nil
		}})
	}
	if _, err := w.ServeTools(within(w.t), "provider", list...); err != nil {
		w.t.Fatal(err)
	}
}

func (w watcher) start(code string) string { w.t.Helper(); return w.startFor(code, 60) }

// startFor starts a cell that may run so long.
func (w watcher) startFor(code string, seconds float64) string {
	w.t.Helper()
	id, err := w.Execute(within(w.t), api.ExecutionRequest{Code: &code, TimeoutS: &seconds})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// event waits for the next event of a kind.
func event[T api.EventBody](w watcher) T {
	w.t.Helper()
	for {
		e, err := w.Next(within(w.t))
		if err != nil {
			w.t.Fatal(err)
		}
		if body, ok := e.Body.(T); ok {
			return body
		}
	}
}

func (w watcher) decide(id string, decision api.ApprovalDecision) {
	w.t.Helper()
	if err := w.Approve(within(w.t), id, api.ApprovalAnswer{Decision: decision, Reason: "because"}); err != nil {
		w.t.Fatal(err)
	}
}

func wantProblem(t *testing.T, err error, codes ...api.Code) {
	t.Helper()
	var problem *api.Error
	if errors.As(err, &problem) {
		for _, code := range codes {
			if problem.Code == code {
				return
			}
		}
	}
	t.Errorf("the error is %v, not %v", err, codes)
}

const callSend = `
import hermes_tools
def call(n):
    try:
        return hermes_tools.send(n=n)
    except hermes_tools.ApprovalDenied as e:
        return f"{type(e).__name__}: {e}"
`

var send = api.Tool{Name: "send", RequiresApproval: true, Idempotent: true}

func TestApprovalsOfToolCalls(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, callSend)
	w := watch(t, c, id)
	w.provide(send)

	t.Run("the clock stands still", func(t *testing.T) {
		w.startFor("print(call(1))", 6)
		question := event[api.ApprovalRequested](w)
		time.Sleep(6500 * time.Millisecond) // longer than the cell may run
		w.decide(question.ApprovalID, api.DecisionOnce)
		if e := event[api.ExecutionFinished](w).Execution; e.Text != "{'n': 1}\n" {
			t.Errorf("%s: %s", e.Status, e.Text)
		}
	})
	t.Run("the cell learns the reason", func(t *testing.T) {
		w.start("print(call(2))")
		w.decide(event[api.ApprovalRequested](w).ApprovalID, api.DecisionDeny)
		if e := event[api.ExecutionFinished](w).Execution; !strings.Contains(e.Text, "ApprovalDenied: ") || !strings.Contains(e.Text, "because") {
			t.Errorf("%s: %s", e.Status, e.Text)
		}
	})
	t.Run("two clients race", func(t *testing.T) {
		other := watch(t, c, id)
		for n := range 5 {
			w.start("print(call(3))")
			question := event[api.ApprovalRequested](w).ApprovalID
			var errs [2]error
			var both sync.WaitGroup
			both.Go(func() { errs[0] = w.Approve(within(t), question, api.ApprovalAnswer{Decision: api.DecisionOnce}) })
			both.Go(func() { errs[1] = other.Approve(within(t), question, api.ApprovalAnswer{Decision: api.DecisionDeny}) })
			both.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("race %d: %v, %v", n, errs[0], errs[1])
			}
			wantProblem(t, errors.Join(errs[:]...), api.CodeNoApprovalPending)
			end := event[api.ApprovalResolved](w)
			e := event[api.ExecutionFinished](w).Execution
			if yes := errs[0] == nil; end.Decision.Approved() != yes || (e.Text == "{'n': 3}\n") != yes || end.By == "" {
				t.Errorf("race %d: %+v, %v, %s", n, end, errs, e.Text)
			}
		}
	})
	t.Run("an interrupt withdraws it", func(t *testing.T) {
		w.start("call(4)")
		question := event[api.ApprovalRequested](w).ApprovalID
		if err := c.Interrupt(within(t), id, ""); err != nil {
			t.Fatal(err)
		}
		if end := event[api.ApprovalResolved](w); end.ApprovalID != question || end.Decision != api.DecisionCancelled {
			t.Errorf("%+v", end)
		}
		if e := event[api.ExecutionFinished](w).Execution; e.Status != api.StatusInterrupted {
			t.Errorf("%+v", e)
		}
		wantProblem(t, c.Approve(within(t), id, question, api.ApprovalAnswer{Decision: api.DecisionOnce}), api.CodeNoApprovalPending)
		runOK(t, c, id, "assert call")
	})
	t.Run("strangers cannot decide", func(t *testing.T) {
		strangers(t, s, w, id)
	})
	t.Run("a thousand questions", func(t *testing.T) {
		if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Limits: &api.LimitsRequest{ToolCalls: new(int64(1000))}}); err != nil {
			t.Fatal(err)
		}
		w.start("import asyncio\nanswers = await asyncio.gather(*(hermes_tools.aio.send(n=n) for n in range(1000)), return_exceptions=True)\n" +
			"print(sum(isinstance(a, hermes_tools.ApprovalDenied) for a in answers))")
		for denied := 0; denied < 1000-api.MaxApprovals; {
			if event[api.ApprovalResolved](w).Decision == api.DecisionDeny {
				denied++
			}
		}
		open, err := c.PendingApprovals(within(t), id)
		if err != nil || len(open) != api.MaxApprovals {
			t.Fatalf("%d questions are open (%v)", len(open), err)
		}
		w.decide(open[50].ApprovalID, api.DecisionSession)
		if e := event[api.ExecutionFinished](w).Execution; e.Text != "900\n" {
			t.Errorf("%s: %s", e.Status, e.Text)
		}
	})
}

// strangers tries to decide with every token that may not, and then with one that may.
func strangers(t *testing.T, s *Server, w watcher, id string) {
	c := s.Client()
	run := w.start("print(call(5))")
	question := event[api.ApprovalRequested](w).ApprovalID
	yes := api.ApprovalAnswer{Decision: api.DecisionOnce}
	reader := client.New(s.URL, sessionToken(t, c, id, api.RightRead))
	wantProblem(t, reader.Approve(within(t), id, question, yes), api.CodeForbidden)
	attached := watch(t, reader, id)
	wantProblem(t, attached.Approve(within(t), question, yes), api.CodeForbidden)
	wantProblem(t, client.New(s.URL, s.owner(t, "eve")).Approve(within(t), id, question, yes), api.CodeSessionNotFound)
	runner := client.New(s.URL, sessionToken(t, c, id, api.RightRun))
	if err := runner.Approve(within(t), id, question, yes); err != nil {
		t.Error(err)
	}
	if end := event[api.ApprovalResolved](w); !strings.HasPrefix(end.By, "token ") {
		t.Errorf("%+v", end)
	}
	if e := event[api.ExecutionFinished](w).Execution; e.ID != run || e.Text != "{'n': 5}\n" {
		t.Errorf("%+v", e)
	}

	alone := session(t, c, api.SessionRequest{Approvals: new(api.ApprovalsAll)})
	watch(t, client.New(s.URL, sessionToken(t, c, alone, api.RightRead)), alone) // it may only read
	e, err := c.Execute(within(t), alone, api.ExecutionRequest{Code: new("1")})
	if err != nil || e.Status != api.StatusCancelled || e.Reason != "denied" {
		t.Errorf("with a visitor attached: %+v (%v)", e, err)
	}
	list, err := c.Approvals(within(t), alone, api.PageQuery{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Decision != api.DecisionExpired {
		t.Fatalf("%+v (%v)", list, err)
	}
	wantProblem(t, c.Approve(within(t), alone, list.Items[0].ApprovalID, yes), api.CodeNoApprovalPending)
}

// sessionToken makes a token for a session with one right.
func sessionToken(t *testing.T, c *client.Client, id string, right api.Right) string {
	t.Helper()
	made, err := c.CreateToken(within(t), id, api.SessionTokenRequest{Rights: []api.Right{right}})
	if err != nil {
		t.Fatal(err)
	}
	return made.Token
}

func TestDestructiveCellsAskBeforeTheyReachAMount(t *testing.T) {
	t.Parallel()
	s, dir := shared(t, asUser)
	c := s.Client()
	precious := filepath.Join(dir, "out", "precious.csv")
	if err := os.WriteFile(precious, []byte("1"), 0o666); err != nil {
		t.Fatal(err)
	}
	id := session(t, c, api.SessionRequest{
		Approvals: new(api.ApprovalsDestructive), Mounts: &[]api.Mount{{Source: dir + "/out", Target: "/mnt/out", Mode: "rw"}},
	})
	w := watch(t, c, id)
	runOK(t, c, id, "data = open('/mnt/out/precious.csv').read()")
	for _, code := range []string{
		"import os\nos.remove('/mnt/out/precious.csv')", "!rm -rf /mnt/out/*", "%%bash\nfind /mnt/out -delete",
	} {
		w.start(code)
		question := event[api.ApprovalRequested](w)
		if question.Kind != api.ApprovalCell || len(question.Patterns) == 0 || question.Detail != code {
			t.Errorf("%+v", question)
		}
		w.decide(question.ApprovalID, api.DecisionDeny)
		if e := event[api.ExecutionFinished](w).Execution; e.Status != api.StatusCancelled || e.Reason != "denied" {
			t.Errorf("%q: %+v", code, e)
		}
	}
	w.start("!rm -rf /")
	if end := event[api.ApprovalResolved](w); end.Decision != api.DecisionDeny || end.By != "policy" {
		t.Errorf("%+v", end)
	}
	w.start("from hermes_tools import terminal\nprint(terminal('rm /mnt/out/precious.csv')['exit_code'])")
	question := event[api.ApprovalRequested](w)
	if question.Kind != api.ApprovalTool {
		t.Errorf("%+v", question)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Fatal(err)
	}
	w.decide(question.ApprovalID, api.DecisionOnce)
	if e := event[api.ExecutionFinished](w).Execution; e.Text != "0\n" {
		t.Errorf("%s: %s", e.Status, e.Text)
	}
	if _, err := os.Stat(precious); err == nil {
		t.Error("an approved command did not run")
	}
}

func TestAnOpenQuestionSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{Approvals: new(api.ApprovalsAll)})
	w := watch(t, s.Client(), id)
	run := w.start(callSend + "print(call(7))")
	cell := event[api.ApprovalRequested](w)

	s.Kill9()
	s.Restart(t)
	c := s.Client()
	w = watch(t, c, id)
	w.provide(send)
	if err := c.Approve(within(t), id, cell.ApprovalID, api.ApprovalAnswer{Decision: api.DecisionOnce}); err != nil {
		t.Fatal(err)
	}
	call := event[api.ApprovalRequested](w)
	if call.Kind != api.ApprovalTool {
		t.Fatalf("%+v", call)
	}

	s.Kill9()
	s.Restart(t)
	c = s.Client()
	w = watch(t, c, id)
	w.provide(send)
	open, err := c.PendingApprovals(within(t), id)
	if err != nil || len(open) != 1 || open[0].ApprovalID != call.ApprovalID {
		t.Fatalf("%+v (%v)", open, err)
	}
	w.decide(call.ApprovalID, api.DecisionOnce)
	if e := event[api.ExecutionFinished](w).Execution; e.ID != run || e.Text != "{'n': 7}\n" {
		t.Errorf("%s: %s", e.Status, e.Text)
	}
}
