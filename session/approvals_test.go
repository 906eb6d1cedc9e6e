package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/session"
)

// human is an attached client that can decide. It reads the log from where it stands.
type human struct {
	t    *testing.T
	s    *session.Session
	read int64
}

func attended(t *testing.T, s *session.Session) *human {
	t.Cleanup(s.Approvals().Attach())
	return &human{t, s, s.Journal().LastSeq()}
}

// next reads the log to the next event of a type.
func (h *human) next(typ string) api.EventBody {
	h.t.Helper()
	list := until(h.t, h.s, h.read, typ)
	last := list[len(list)-1]
	h.read = last.Seq
	return last.Body
}

func (h *human) asked() api.ApprovalRequested {
	h.t.Helper()
	return h.next("approval_request").(api.ApprovalRequested)
}

func (h *human) resolved() api.ApprovalResolved {
	h.t.Helper()
	return h.next("approval_resolved").(api.ApprovalResolved)
}

func decide(s *session.Session, id string, decision api.ApprovalDecision) error {
	return s.Approvals().Decide(context.Background(), id, api.ApprovalAnswer{Decision: decision, Reason: "said so"}, "ann")
}

func (h *human) decide(id string, decision api.ApprovalDecision) {
	h.t.Helper()
	if err := decide(h.s, id, decision); err != nil {
		h.t.Fatal(err)
	}
}

func (h *human) pending(want int) []api.Approval {
	h.t.Helper()
	p, err := h.s.Approvals().List(h.t.Context(), "pending", api.PageQuery{})
	if err != nil || len(p.Items) != want {
		h.t.Errorf("%d questions are open, want %d: %+v (%v)", len(p.Items), want, p.Items, err)
	}
	return p.Items
}

// caller calls a tool for each line of its code, "NAME ARGUMENTS", and prints what came of it.
func caller(c *toolCell) {
	for line := range strings.Lines(c.code) {
		name, arguments, _ := strings.Cut(strings.TrimSpace(line), " ")
		a, ok := c.Call(name, arguments)
		switch {
		case !ok:
			c.Print("interrupted\n")
		case a.Error != nil:
			c.Print(a.Error.Code + ": " + a.Error.Message + "\n")
		default:
			c.Print(string(a.Result) + "\n")
		}
	}
}

// answering is a client that answers each of its calls with their arguments.
func answering(t *testing.T, s *session.Session, clientID string, tools ...api.Tool) *toolClient {
	client := newToolClient()
	provide(t, s, client, clientID, tools...)
	go func() {
		for req := range client.requests {
			_ = s.Tools().Answer(client, api.ToolResult{CallID: req.CallID, Result: req.Arguments}) // it may be too late
		}
	}()
	t.Cleanup(func() { close(client.requests) })
	return client
}

var mail = api.Tool{Name: "mail", RequiresApproval: true}

func TestAToolThatRequiresApprovalAsks(t *testing.T) {
	r, _ := toolRig(t, caller)
	s := r.session(api.SessionRequest{})
	h := attended(t, s)
	answering(t, s, "", mail)
	id := submit(t, s, "mail {\"n\":1}\nmail {\"n\":2}\nmail {\"n\":3}\nmail {\"n\":4}")
	first := h.asked()
	if first.Kind != api.ApprovalTool || first.Summary != "call mail" || first.Detail != `{"n":1}` || first.CallID == "" ||
		time.Until(first.ExpiresAt.Time) < 200*time.Second {
		t.Errorf("%+v", first)
	}
	if list := h.pending(1); list[0].ApprovalID != first.ApprovalID || list[0].ExecutionID != id || list[0].Decision != "" {
		t.Errorf("%+v", list)
	}
	h.decide(first.ApprovalID, api.DecisionOnce)
	h.decide(h.asked().ApprovalID, api.DecisionDeny)
	h.decide(h.asked().ApprovalID, api.DecisionSession) // the third, and so the fourth
	want := "{\"n\":1}\ndenied: mail was not approved: said so\n{\"n\":3}\n{\"n\":4}\n"
	if e := wait(t, s, id); e.Text != want || e.ToolCalls != 4 {
		t.Errorf("%d calls: %s", e.ToolCalls, e.Text)
	}
	h.pending(0)
	p, err := s.Approvals().List(t.Context(), "", api.PageQuery{})
	if err != nil || len(p.Items) != 3 || p.Items[1].Decision != api.DecisionDeny || p.Items[1].By != "ann" || p.Items[1].Reason != "said so" ||
		p.Items[1].ResolvedAt == nil {
		t.Errorf("the audit has %+v (%v)", p, err)
	}
	if err := decide(s, first.ApprovalID, api.DecisionOnce); code(err) != api.CodeNoApprovalPending {
		t.Errorf("a second answer: %v", err)
	}
}

func TestADecisionForTheSessionHoldsUntilItsReset(t *testing.T) {
	r, _ := toolRig(t, caller)
	s := r.session(api.SessionRequest{ID: ptr("s")})
	h := attended(t, s)
	answering(t, s, "", mail)
	id := submit(t, s, "mail {}")
	h.decide(h.asked().ApprovalID, api.DecisionSession)
	wait(t, s, id)
	if e := execute(t, s, "mail {}"); e.Text != "{}\n" {
		t.Error(e.Text)
	}
	r.kill()
	r.open()
	s = again(r)
	h = attended(t, s)
	answering(t, s, "", mail)
	if e := execute(t, s, "mail {}"); e.Text != "{}\n" {
		t.Errorf("after a restart: %s", e.Text)
	}
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	id = submit(t, s, "mail {}")
	h.decide(h.asked().ApprovalID, api.DecisionDeny)
	if e := wait(t, s, id); !strings.HasPrefix(e.Text, "denied") {
		t.Errorf("after a reset: %s", e.Text)
	}
}

func TestWithNobodyToAskTheAnswerIsNoAtOnce(t *testing.T) {
	r, _ := toolRig(t, caller)
	s := r.session(api.SessionRequest{})
	detach := s.Attach() // it can answer input() only
	defer detach()
	answering(t, s, "", mail)
	e := execute(t, s, "mail {}")
	if e.Text != "denied: mail was not approved: nobody was asked: no client that can decide is attached\n" {
		t.Error(e.Text)
	}
	h := &human{t, s, 0}
	id := h.asked().ApprovalID
	if end := h.resolved(); end.ApprovalID != id || end.Decision != api.DecisionExpired || end.By != "" {
		t.Errorf("%+v", end)
	}
	if err := decide(s, id, api.DecisionOnce); code(err) != api.CodeNoApprovalPending {
		t.Error(err)
	}
}

func TestAnUnansweredQuestionExpires(t *testing.T) {
	host := newToolHost(caller)
	r := newRig(t, nil, func(cfg *session.Config) { cfg.Host, cfg.ApprovalTimeout = host, 20*time.Millisecond })
	s := r.session(api.SessionRequest{})
	h := attended(t, s)
	answering(t, s, "", mail)
	if e := execute(t, s, "mail {}"); e.Text != "denied: mail was not approved: nobody answered in time\n" {
		t.Error(e.Text)
	}
	id := h.asked().ApprovalID
	if end := h.resolved(); end.Decision != api.DecisionExpired {
		t.Errorf("%+v", end)
	}
	if err := decide(s, id, api.DecisionOnce); code(err) != api.CodeNoApprovalPending {
		t.Errorf("after the time: %v", err)
	}
}

// together makes several equal calls at once.
func together(n int) func(*toolCell) {
	return func(c *toolCell) {
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				if a, ok := c.Call("mail", "{}"); ok && a.Error == nil {
					c.Print("sent\n")
				}
			})
		}
		calls.Wait()
	}
}

// joined waits until a session has taken so many calls.
func joined(t *testing.T, s *session.Session, n int) {
	t.Helper()
	for seq := s.Journal().LastSeq(); strings.Count(shape(now(t, s)), "tool_call") < n; seq = s.Journal().LastSeq() {
		until(t, s, seq, "tool_call")
	}
}

func TestEqualQuestionsAreOneAndOnceIsForOneOfThem(t *testing.T) {
	for decision, want := range map[api.ApprovalDecision][2]int{ // further questions, calls made
		api.DecisionOnce: {3, 4}, api.DecisionSession: {0, 4}, api.DecisionDeny: {0, 0},
	} {
		t.Run(string(decision), func(t *testing.T) {
			r, _ := toolRig(t, together(4))
			s := r.session(api.SessionRequest{})
			h := attended(t, s)
			answering(t, s, "", mail)
			id := submit(t, s, "")
			joined(t, s, 4)
			h.pending(1)
			h.decide(h.asked().ApprovalID, decision)
			for range want[0] {
				h.pending(1)
				h.decide(h.asked().ApprovalID, decision)
			}
			if e := wait(t, s, id); strings.Count(e.Text, "sent") != want[1] {
				t.Errorf("%d calls were made, want %d", strings.Count(e.Text, "sent"), want[1])
			}
			h.pending(0)
		})
	}
}

func TestOnlyTheFirstOfManyAnswersWins(t *testing.T) {
	r, _ := toolRig(t, caller)
	s := r.session(api.SessionRequest{})
	h := attended(t, s)
	answering(t, s, "", mail)
	id := submit(t, s, "mail {}")
	question := h.asked().ApprovalID
	var all sync.WaitGroup
	won := make(chan api.ApprovalDecision, 20)
	for i := range cap(won) {
		all.Go(func() {
			decision := []api.ApprovalDecision{api.DecisionOnce, api.DecisionDeny}[i%2]
			switch err := decide(s, question, decision); {
			case err == nil:
				won <- decision
			case code(err) != api.CodeNoApprovalPending:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d answers won", len(won))
	}
	decision := <-won
	if end := h.resolved(); end.Decision != decision {
		t.Errorf("%s won, and the log says %s", decision, end.Decision)
	}
	if e := wait(t, s, id); strings.HasPrefix(e.Text, "denied") != (decision == api.DecisionDeny) {
		t.Errorf("%s: %s", decision, e.Text)
	}
}

func TestAQuestionIsWithdrawnWithWhateverAsked(t *testing.T) {
	for name, end := range map[string]func(*human, *toolClient) error{
		"interrupt":    func(h *human, _ *toolClient) error { return h.s.Interrupt(h.t.Context(), "") },
		"reset":        func(h *human, _ *toolClient) error { return h.s.Reset(h.t.Context(), api.ResetRequest{}) },
		"its provider": func(h *human, c *toolClient) error { h.s.Tools().Withdraw(c); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := toolRig(t, caller)
			s := r.session(api.SessionRequest{})
			h := attended(t, s)
			client := answering(t, s, "", mail)
			id := submit(t, s, "mail {}")
			question := h.asked().ApprovalID
			if err := end(h, client); err != nil {
				t.Fatal(err)
			}
			if end := h.resolved(); end.ApprovalID != question || end.Decision != api.DecisionCancelled || end.By != "" {
				t.Errorf("%+v", end)
			}
			wait(t, s, id)
			h.pending(0)
			if err := decide(s, question, api.DecisionOnce); code(err) != api.CodeNoApprovalPending {
				t.Error(err)
			}
		})
	}
}

func TestDestructiveAsksForToolsThatChangeSomething(t *testing.T) {
	r, _ := toolRig(t, caller)
	s := r.session(api.SessionRequest{Approvals: ptr(api.ApprovalsDestructive)})
	h := attended(t, s)
	answering(t, s, "", api.Tool{Name: "look", ReadOnly: true}, api.Tool{Name: "send"})
	id := submit(t, s, "look {}\nsend {}")
	if q := h.asked(); q.Summary != "call send" {
		t.Errorf("%+v", q)
	} else {
		h.decide(q.ApprovalID, api.DecisionOnce)
	}
	if e := wait(t, s, id); e.Text != "{}\n{}\n" {
		t.Error(e.Text)
	}
}

func TestWithAllEachCellAsks(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Approvals: ptr(api.ApprovalsAll)})
	if info := s.Info(t.Context()); info.Approvals != api.ApprovalsAll {
		t.Errorf("the session says %q", info.Approvals)
	}
	h := attended(t, s)
	first := submit(t, s, "print one")
	q := h.asked()
	if q.Kind != api.ApprovalCell || q.Detail != "print one" {
		t.Errorf("%+v", q)
	}
	second, third := submit(t, s, "print two", func(r *api.ExecutionRequest) { r.StopOnError = ptr(true) }), submit(t, s, "print three")
	h.decide(q.ApprovalID, api.DecisionOnce)
	if e := wait(t, s, first); e.Text != "one\n" || e.Status != api.StatusOK {
		t.Errorf("%+v", e)
	}
	h.decide(h.asked().ApprovalID, api.DecisionDeny)
	if e := wait(t, s, second); e.Status != api.StatusCancelled || e.Reason != "denied" || e.State != api.VariablesKept || e.StartedAt != nil {
		t.Errorf("a denied cell: %+v", e)
	}
	if e := wait(t, s, third); e.Status != api.StatusCancelled || e.Reason != "stop_on_error" {
		t.Errorf("behind a denied cell: %+v", e)
	}
	interrupted, last := submit(t, s, "print four"), submit(t, s, "print five")
	question := h.asked().ApprovalID
	if err := s.Interrupt(t.Context(), interrupted); err != nil {
		t.Fatal(err)
	}
	if end := h.resolved(); end.ApprovalID != question || end.Decision != api.DecisionCancelled {
		t.Errorf("%+v", end)
	}
	if e := wait(t, s, interrupted); e.Status != api.StatusCancelled || e.Reason != "interrupted" {
		t.Errorf("%+v", e)
	}
	h.decide(h.asked().ApprovalID, api.DecisionSession)
	if e := wait(t, s, last); e.Text != "five\n" {
		t.Errorf("%+v", e)
	}
	if e := execute(t, s, "print six"); e.Text != "six\n" {
		t.Errorf("after a decision for the session: %+v", e)
	}
}

// Until its question is open there is nothing to withdraw; for a large cell that takes a while.
func TestACellThatIsCancelledBeforeItsQuestionIsOpenLeavesNone(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Approvals: ptr(api.ApprovalsAll)})
	h := attended(t, s)
	for i := range 3 {
		id := submit(t, s, "print "+strings.Repeat("x", 8<<20))
		time.Sleep(time.Duration(i+1) * 10 * time.Millisecond) // until it is being asked about
		if err := s.Interrupt(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wait(t, s, id)
		if err := s.Update(t.Context(), api.SessionPatch{Name: ptr("later")}); err != nil { // the session's goroutine has gone on
			t.Fatal(err)
		}
		h.pending(0)
	}
}

func TestADeletedSessionAsksNoLonger(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x"), Approvals: ptr(api.ApprovalsAll)})
	h := attended(t, s)
	id := submit(t, s, "print one")
	question := h.asked().ApprovalID
	ended := make(chan api.Execution)
	go func() {
		e, _ := s.Wait(context.Background(), id)
		ended <- e
	}()
	if err := r.Delete(t.Context(), "ann", "x"); err != nil {
		t.Fatal(err)
	}
	if e := next(t, ended); e.Status != api.StatusCancelled {
		t.Errorf("%+v", e)
	}
	if err := decide(s, question, api.DecisionOnce); err == nil {
		t.Error("a deleted session took a decision")
	}
}

// TestOpenQuestionsSurviveTheServer holds that a restart never makes a yes of an open question, and no hang either.
func TestOpenQuestionsSurviveTheServer(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r, h := toolRig(t, func(c *toolCell) {
				if strings.HasPrefix(c.code, "together") {
					together(2)(c)
					return
				}
				caller(c)
			})
			s := r.session(api.SessionRequest{ID: ptr("x"), Approvals: ptr(api.ApprovalsAll)})
			who := attended(t, s)
			tools := []api.Tool{{Name: "mail", Idempotent: true}, {Name: "pay"}}
			client := newToolClient()
			provide(t, s, client, "bank", tools...)
			again := func() {
				t.Helper()
				end(r)
				r.open()
				var err error
				if s, err = r.Get("ann", "x"); err != nil {
					t.Fatal(err)
				}
				who = &human{t, s, who.read} // nobody is attached yet
			}

			cell := submit(t, s, "mail {}\npay {}")
			question := who.asked()
			again()
			provide(t, s, client, "bank", tools...)
			who.decide(question.ApprovalID, api.DecisionSession) // and all later cells
			call := who.asked()
			again()
			if list := who.pending(1); list[0].ApprovalID != call.ApprovalID {
				t.Fatalf("%+v", list)
			}
			provide(t, s, client, "bank", tools...)
			if len(client.requests) > 0 {
				t.Fatal("a call was handed over that nobody approved")
			}
			who.decide(call.ApprovalID, api.DecisionOnce)
			req := next(t, client.requests)
			if err := s.Tools().Answer(client, api.ToolResult{CallID: req.CallID, Result: api.Raw("1")}); err != nil {
				t.Fatal(err)
			}
			who.asked() // to pay: its client cannot get the call again
			again()
			if e := wait(t, s, cell); e.Text != "1\nprovider_gone: the provider of pay has disconnected\n" {
				t.Error(e.Text)
			}
			if end := who.resolved(); end.Decision != api.DecisionCancelled {
				t.Errorf("%+v", end)
			}

			provide(t, s, client, "bank", tools...)
			equal := submit(t, s, "together")
			who.asked()
			joined(t, s, 4)
			again()
			who.decide(who.pending(1)[0].ApprovalID, api.DecisionDeny)
			if e := wait(t, s, equal); e.Text != "" {
				t.Errorf("nobody approved, and: %s", e.Text)
			}
			who.pending(0)
			h.once(t)
		})
	}
}

func TestOpeningTheNetworkAsks(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Network.MaxMode = api.NetworkFull })
	s := r.session(api.SessionRequest{Approvals: ptr(api.ApprovalsDestructive)})
	patch := func(ctx context.Context, mode api.NetworkMode, allow ...string) chan error {
		done := make(chan error, 1)
		go func() {
			done <- s.Update(ctx, api.SessionPatch{Network: &api.Network{Mode: mode, Allow: allow}, Name: ptr("changed")})
		}()
		return done
	}
	if err := next(t, patch(t.Context(), api.NetworkFull)); code(err) != api.CodeApprovalDenied {
		t.Errorf("with nobody to ask: %v", err)
	}
	h := attended(t, s)
	denied := patch(t.Context(), api.NetworkAllow, "example.com:443")
	q := h.asked()
	if q.Kind != api.ApprovalNetwork || q.Summary != "let the session reach example.com:443" {
		t.Errorf("%+v", q)
	}
	h.decide(q.ApprovalID, api.DecisionDeny)
	if err := next(t, denied); code(err) != api.CodeApprovalDenied || !strings.Contains(err.Error(), "said so") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := patch(ctx, api.NetworkFull)
	h.asked()
	cancel()
	if err := next(t, left); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if end := h.resolved(); end.Decision != api.DecisionCancelled {
		t.Errorf("%+v", end)
	}
	if info := s.Info(t.Context()); info.Network.Mode != api.NetworkNone || info.Name == "changed" {
		t.Errorf("%+v", info)
	}
	approved := patch(t.Context(), api.NetworkFull)
	h.decide(h.asked().ApprovalID, api.DecisionOnce)
	if err := next(t, approved); err != nil {
		t.Error(err)
	}
	if err := next(t, patch(t.Context(), api.NetworkNone)); err != nil { // which closes it
		t.Error(err)
	}
	h.pending(0)
}

func TestInstallingPackagesAsks(t *testing.T) {
	r, index := packaged(t, nil)
	s := r.session(api.SessionRequest{Approvals: ptr(api.ApprovalsDestructive), Packages: &[]string{"a==1"}})
	<-index.in // those that it was created with ask for nothing
	<-index.out
	if e := execute(t, s, "install b==1"); !strings.Contains(e.Text, "not approved: nobody was asked") {
		t.Error(e.Text)
	}
	h := attended(t, s)
	id := submit(t, s, "install b==1")
	q := h.asked()
	if q.Kind != api.ApprovalPackages || q.Summary != "install b==1" {
		t.Errorf("%+v", q)
	}
	h.decide(q.ApprovalID, api.DecisionDeny)
	if e := wait(t, s, id); !strings.Contains(e.Text, "not approved: said so") {
		t.Error(e.Text)
	}
	id = submit(t, s, "install b==1")
	h.asked()
	if err := s.Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if end := h.resolved(); end.Decision != api.DecisionCancelled {
		t.Errorf("%+v", end)
	}
	wait(t, s, id)
	if len(index.in) > 0 {
		t.Error("something was installed")
	}
	id = submit(t, s, "install b==1")
	h.decide(h.asked().ApprovalID, api.DecisionOnce)
	wait(t, s, id)
	<-index.in
	<-index.out
}

func TestAThousandQuestionsAreBounded(t *testing.T) {
	r, _ := toolRig(t, func(c *toolCell) {
		var calls sync.WaitGroup
		for i := range 1000 {
			calls.Go(func() {
				if a, ok := c.Call("mail", fmt.Sprintf(`{"n":%d}`, i)); !ok || a.Error != nil {
					c.Print("no\n")
				}
			})
		}
		calls.Wait()
	})
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: ptr(int64(1000))}})
	h := attended(t, s)
	answering(t, s, "", mail)
	id := submit(t, s, "")
	joined(t, s, 1000)
	h.decide(h.pending(api.MaxApprovals)[7].ApprovalID, api.DecisionSession)
	if e := wait(t, s, id); strings.Count(e.Text, "no") != 1000-api.MaxApprovals {
		t.Errorf("%d calls failed", strings.Count(e.Text, "no"))
	}
	h.pending(0)
}

func TestAQuestionShowsHostileTextAsItIs(t *testing.T) {
	r, _ := toolRig(t, caller)
	s := r.session(api.SessionRequest{Secrets: &map[string]string{"KEY": "hunter2hunter2"}})
	h := attended(t, s)
	answering(t, s, "", mail)
	nasty := "\x1b[2J\x00\r\u202eevil\u2066\u200b\ue000\u00a0 hunter2hunter2 \n" + strings.Repeat("€", 200_000)
	arguments, err := json.Marshal(map[string]string{"a": nasty, "\u202ekey": ""})
	if err != nil {
		t.Fatal(err)
	}
	submit(t, s, "mail "+string(arguments))
	q := h.asked()
	for _, bad := range []string{"\x1b", "\x00", "\r", "\u202e", "\u2066", "\u200b", "\ue000", "\u00a0", "hunter2hunter2"} {
		if strings.Contains(q.Detail+q.Summary, bad) {
			t.Errorf("%q is shown", bad)
		}
	}
	if len(q.Detail) > api.MaxApprovalDetail || !utf8.ValidString(q.Detail) || !strings.Contains(q.Detail, " bytes in total]") {
		t.Errorf("%d bytes, ending in %q", len(q.Detail), q.Detail[len(q.Detail)-60:])
	}
	for _, answer := range []api.ApprovalAnswer{
		{Decision: "yes"}, {Decision: api.DecisionExpired}, {Decision: api.DecisionOnce, Reason: strings.Repeat("x", api.MaxApprovalReason+1)},
	} {
		if err := s.Approvals().Decide(t.Context(), q.ApprovalID, answer, "ann"); code(err) != api.CodeInvalidRequest {
			t.Errorf("%.40s: %v", answer.Decision, err)
		}
	}
	if err := s.Approvals().Decide(t.Context(), q.ApprovalID, api.ApprovalAnswer{Decision: api.DecisionDeny, Reason: "\x1b[1mno\u202e"}, "ann"); err != nil {
		t.Fatal(err)
	}
	if end := h.resolved(); end.Reason != `\u{1b}[1mno\u{202e}` {
		t.Errorf("%q", end.Reason)
	}
}
