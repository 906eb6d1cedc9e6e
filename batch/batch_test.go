package batch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/artifacts"
	"talaria/batch"
	"talaria/kernel"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/session"
	"talaria/store"
	"talaria/store/storetest"
)

// rig is a manager over real sessions and a real database, whose kernels are scripted: see cell.
type rig struct {
	*batch.Manager
	t        *testing.T
	dir      string
	slots    int
	most     int64 // sessions of one owner; 0: any number
	db       *store.Store
	host     *host.Host
	between  func(session.Host) session.Host // what the sessions have in place of the host; nil: nothing
	sessions *session.Manager
	gate     chan struct{} // a cell "gate" ends when it is closed
	started  chan string   // receives the id of each cell "gate"

	mu  sync.Mutex // guards ran
	ran map[string]int
}

func newRig(t *testing.T, slots int) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), slots: slots, gate: make(chan struct{}), started: make(chan string, 100), ran: map[string]int{}}
	if err := os.Mkdir(filepath.Join(r.dir, "sessions"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.host = host.NewHost(host.HostConfig{Backend: kerneltest.NewFake(kerneltest.Cells(r.cell)), JoinWindow: -1})
	r.open()
	t.Cleanup(func() {
		err := errors.Join(r.Manager.Close(), r.sessions.Shutdown(context.Background()), r.host.Close(context.Background()), r.db.Close())
		if err != nil {
			t.Error(err)
		}
	})
	return r
}

// open starts a server on what the last one left.
func (r *rig) open() {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := store.Open(r.t.Context(), r.dir, log)
	if err != nil {
		r.t.Fatal(err)
	}
	blobs, err := artifacts.Open(filepath.Join(r.dir, "artifacts"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.db = db
	var kernels session.Host = r.host
	if r.between != nil {
		kernels = r.between(kernels)
	}
	r.sessions, err = session.Open(r.t.Context(), session.Config{
		Store: db, Artifacts: blobs, Host: kernels, Log: log, Version: "test", SessionsDir: filepath.Join(r.dir, "sessions"),
		Environments: []kernel.Environment{{Name: "default", Version: "3.11.2"}}, Tier: "fake", BootID: "boot",
		Defaults: session.DefaultLimits, Ceilings: session.DefaultCeilings, IdleTimeout: session.DefaultIdleTimeout,
		InlineBytes: session.DefaultInlineBytes, OwnerSessions: r.most, Checkpoints: api.CheckpointsManual,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.Manager, err = batch.Open(r.t.Context(), batch.Config{Sessions: r.sessions, Store: db, Log: log, Slots: r.slots}); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends the server as kill -9 would: nothing more is written, and the kernels continue.
func (r *rig) kill() {
	r.db.Close()
	r.Manager.Close()
	r.sessions.Close(context.Background())
}

// sql changes the database beside the server.
func (r *rig) sql(query string) {
	r.t.Helper()
	storetest.Exec(r.t, r.dir, query)
}

// cell runs print TEXT, fail, sleep, stubborn, gate, write FILE or cat FILE.
func (r *rig) cell(c *kerneltest.Cell) {
	r.mu.Lock()
	r.ran[c.ID]++
	r.mu.Unlock()
	workspace := fmt.Sprintf("/proc/self/fd/%d", c.Runner.Spec.Workspace.Fd())
	switch word, rest, _ := strings.Cut(c.Code, " "); word {
	case "print":
		c.Print(rest + "\n")
	case "fail":
		c.Raise("ValueError", rest)
	case "sleep":
		r.started <- c.ID
		c.Sleep()
	case "stubborn": // handles its interrupt
		r.started <- c.ID
		c.Interrupted()
		c.Print("stopped\n")
	case "gate":
		r.started <- c.ID
		<-r.gate
		c.Print("through\n")
	case "write":
		if err := os.WriteFile(filepath.Join(workspace, rest), []byte("x"), 0o644); err != nil {
			c.Raise("OSError", err.Error())
		}
	case "cat":
		b, err := os.ReadFile(filepath.Join(workspace, rest))
		if err != nil {
			c.Raise("OSError", err.Error())
			return
		}
		c.Print(string(b))
	}
}

func (r *rig) session(owner, id string) {
	r.t.Helper()
	s, err := r.sessions.Create(r.t.Context(), owner, api.SessionRequest{ID: &id})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Release()
}

// item is a cell; with a session other than "" it names it.
func item(session, code string) api.BatchItemRequest {
	one := api.BatchItemRequest{Code: &code}
	if session != "" {
		one.Session = &session
	}
	return one
}

func (r *rig) create(owner string, req api.BatchRequest) api.Batch {
	r.t.Helper()
	b, err := r.Create(r.t.Context(), owner, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// ended waits for the end of a job, and checks its events: each status once and in order, none missing.
func (r *rig) ended(owner, id string) api.Batch {
	r.t.Helper()
	events, err := r.Events(r.t.Context(), owner, id, 0, true)
	if err != nil {
		r.t.Fatal(err)
	}
	last := map[int]api.ExecutionStatus{}
	seq := int64(0)
	for e, err := range events {
		if err != nil {
			r.t.Fatal(err)
		}
		if seq++; e.Seq != seq {
			r.t.Fatalf("event %d stands at %d", e.Seq, seq)
		}
		if i := e.Item; i != nil {
			if before, known := last[i.Index]; known && before.Final() || i.Status == api.StatusRunning && known {
				r.t.Errorf("item %d is %s after it was %s", i.Index, i.Status, before)
			}
			last[i.Index] = i.Status
		}
	}
	b, err := r.Get(r.t.Context(), owner, id)
	if err != nil {
		r.t.Fatal(err)
	}
	if !b.Status.Final() || b.LastSeq != seq || b.Finished != b.Total || b.FinishedAt == nil {
		r.t.Errorf("after its last event, %d, the batch is %+v", seq, b)
	}
	for _, i := range b.Items {
		if last[i.Index] != i.Status || !i.Status.Final() {
			r.t.Errorf("item %d is %s, and the events say %s", i.Index, i.Status, last[i.Index])
		}
	}
	return b
}

// wantOnce checks that each of these executions ran once, and nothing else ran.
func (r *rig) wantOnce(b api.Batch, indexes ...int) {
	r.t.Helper()
	want := map[string]int{}
	for _, i := range indexes {
		want[fmt.Sprintf("%s.%d", b.ID, i)] = 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.ran, want) {
		r.t.Errorf("ran %v, want %v", r.ran, want)
	}
}

// sessionsOf counts the owner's sessions.
func (r *rig) sessionsOf(owner string) int {
	r.t.Helper()
	page, err := r.sessions.List(r.t.Context(), owner, session.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(page.Items)
}

func code(err error) api.Code {
	known := new(api.Error)
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}

func ptr[T any](v T) *T { return &v }

func TestItemsRunInTheirSessionsAndInSessionsOfTheirOwn(t *testing.T) {
	r := newRig(t, 4)
	r.session("ann", "s")
	withFile := item("", "cat in/a.txt")
	withFile.Files = map[string]api.BatchFile{"in/a.txt": api.BatchFile("from the batch")}
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{
		item("s", "print one"), item("s", "fail no"), item("", "print fresh"), withFile, item("", "write out"), item("s", "print last"),
	}})
	if b.Status != api.BatchQueued || b.Total != 6 || len(b.Items) != 6 || b.Items[0].SessionID != "s" || b.Items[2].SessionID != "" {
		t.Errorf("the new batch is %+v", b)
	}
	b = r.ended("ann", b.ID)
	if b.Status != api.BatchDone || b.Reason != "" || b.StartedAt == nil {
		t.Errorf("the batch is %+v", b)
	}
	for i, want := range []struct {
		status  api.ExecutionStatus
		text    string
		deleted bool
	}{{"ok", "one\n", false}, {"error", "ValueError", false}, {"ok", "fresh\n", true}, {"ok", "from the batch", true}, {"ok", "", false}, {"ok", "last\n", false}} {
		got := b.Items[i]
		if got.Status != want.status || !strings.Contains(got.Execution.Text, want.text) || got.SessionDeleted != want.deleted || got.Error != nil ||
			got.Execution.Status != got.Status || got.Execution.ID != got.ExecutionID || got.Execution.SessionID != got.SessionID {
			t.Errorf("item %d is %+v, %+v", i, got, got.Execution)
		}
	}
	if e := b.Items[1].Execution.Error; e == nil || e.Ename != "ValueError" || e.Evalue != "no" {
		t.Errorf("the error is %+v", e)
	}
	kept := b.Items[4]
	if a := kept.Execution.Artifacts; len(a) != 1 || a[0].Path != "out" {
		t.Errorf("the artifacts are %+v", a)
	}
	s, err := r.sessions.Get("ann", kept.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if e, err := s.Executions().Get(t.Context(), kept.ExecutionID); err != nil || e.Status != api.StatusOK || s.Info(t.Context()).Metadata["batch"] != b.ID {
		t.Errorf("the session that was kept has %+v, %v", e, err)
	}
	r.wantOnce(b, 0, 1, 2, 3, 4, 5)
}

func TestSessionsOfItemsAreDeletedUnlessTheyHoldMore(t *testing.T) {
	r := newRig(t, 2)
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "print 1"), item("", "write a"), item("", "print 2")}})
	r.ended("ann", b.ID)
	r.Manager.Close() // which waits for deletions
	if n := r.sessionsOf("ann"); n != 1 {
		t.Errorf("%d sessions are left, want the one with a file", n)
	}
}

func TestABatchThatCannotRunIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.session("bob", "bobs")
	many := make([]api.BatchItemRequest, api.MaxBatchItems+1)
	files := item("", "x")
	files.Files = map[string]api.BatchFile{}
	for i := range api.MaxBatchFiles + 1 {
		files.Files[fmt.Sprint(i)] = nil
	}
	one := []api.BatchItemRequest{item("", "x")}
	for name, test := range map[string]struct {
		req  api.BatchRequest
		want api.Code
		says string
	}{
		"no items":          {api.BatchRequest{}, api.CodeInvalidRequest, "items"},
		"too many items":    {api.BatchRequest{Items: many}, api.CodeLimitExceeded, "10000"},
		"no code":           {api.BatchRequest{Items: []api.BatchItemRequest{item("", "x"), {}}}, api.CodeInvalidRequest, "items.1.code"},
		"another's session": {api.BatchRequest{Items: []api.BatchItemRequest{item("bobs", "x")}}, api.CodeSessionNotFound, "items.0"},
		"too many files":    {api.BatchRequest{Items: []api.BatchItemRequest{files}}, api.CodeLimitExceeded, "items.0.files"},
		"no concurrency":    {api.BatchRequest{Items: one, Concurrency: ptr(int64(0))}, api.CodeInvalidRequest, "concurrency"},
		"no time":           {api.BatchRequest{Items: one, DeadlineS: ptr(0.0)}, api.CodeInvalidRequest, "deadline_s"},
	} {
		if _, err := r.Create(t.Context(), "ann", test.req); code(err) != test.want || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnItemThatCannotRunFailsAlone(t *testing.T) {
	r := newRig(t, 1)
	r.session("ann", "s")
	outside := item("", "x")
	outside.Files = map[string]api.BatchFile{"../a": nil}
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "gate"), outside, item("s", "print never"), item("", "print 1")}})
	<-r.started
	if err := r.sessions.Delete(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	close(r.gate)
	b = r.ended("ann", b.ID)
	for i, want := range []struct {
		status api.ExecutionStatus
		code   api.Code
	}{{"ok", ""}, {"failed", api.CodePathOutside}, {"failed", api.CodeSessionNotFound}, {"ok", ""}} {
		if got := b.Items[i]; got.Status != want.status || (got.Error != nil) != (want.code != "") || got.Error != nil && got.Error.Code != want.code {
			t.Errorf("item %d is %+v, %v", i, got, got.Error)
		}
	}
	if b.Status != api.BatchDone {
		t.Errorf("the batch is %s", b.Status)
	}
	r.wantOnce(b, 0, 3)
}

func TestAnItemWaitsForALimitThatIsReachedForTheMoment(t *testing.T) {
	r := newRig(t, 2)
	r.kill()
	r.most = 1
	r.open()
	r.session("ann", "s")
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("s", "print 1"), item("", "print 2")}})
	events, err := r.Events(t.Context(), "ann", b.ID, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Item != nil && e.Item.Status.Final() { // the item of the session that is in the way
			break
		}
	}
	if err := r.sessions.Delete(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	if b = r.ended("ann", b.ID); b.Items[0].Status != api.StatusOK || b.Items[1].Status != api.StatusOK {
		t.Errorf("the items are %+v", b.Items)
	}
	r.wantOnce(b, 0, 1)
}

func TestASessionThatIsDeletedEndsItsItem(t *testing.T) {
	r := newRig(t, 1)
	r.session("ann", "s")
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("s", "sleep"), item("", "print 1")}})
	<-r.started
	if err := r.sessions.Delete(t.Context(), "ann", "s"); err != nil {
		t.Fatal(err)
	}
	if b = r.ended("ann", b.ID); b.Items[0].Status != api.StatusDied || b.Items[1].Status != api.StatusOK {
		t.Errorf("the items are %+v", b.Items)
	}
}

func TestOtherOwnersSeeNothing(t *testing.T) {
	r := newRig(t, 1)
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "print 1")}})
	if _, err := r.Get(t.Context(), "bob", b.ID); code(err) != api.CodeBatchNotFound {
		t.Errorf("get: %v", err)
	}
	if _, err := r.Cancel(t.Context(), "bob", b.ID); code(err) != api.CodeBatchNotFound {
		t.Errorf("cancel: %v", err)
	}
	if _, err := r.Events(t.Context(), "bob", b.ID, 0, false); code(err) != api.CodeBatchNotFound {
		t.Errorf("events: %v", err)
	}
	for owner, want := range map[string]int{"ann": 1, "bob": 0} {
		if page, err := r.List(t.Context(), owner, api.PageQuery{}); err != nil || len(page.Items) != want {
			t.Errorf("%s sees %+v, %v", owner, page, err)
		}
	}
	if b = r.ended("ann", b.ID); b.Status != api.BatchDone {
		t.Errorf("it is %s", b.Status)
	}
}

func TestCancellationInterruptsWhatRunsAndDropsWhatWaits(t *testing.T) {
	r := newRig(t, 2)
	r.session("ann", "s")
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{
		item("s", "sleep"), item("", "stubborn"), item("s", "print never"), item("", "print never"),
	}})
	<-r.started
	<-r.started
	b, err := r.Cancel(t.Context(), "ann", b.ID)
	if err != nil || b.Status != api.BatchCancelled || b.Reason != api.BatchReasonRequest {
		t.Fatalf("the batch is %+v, %v", b, err)
	}
	for i, want := range []api.ExecutionStatus{api.StatusInterrupted, api.StatusOK, api.StatusCancelled, api.StatusCancelled} {
		if got := b.Items[i]; got.Status != want || (got.ExecutionID == "") != (i > 1) {
			t.Errorf("item %d is %+v, want %s", i, got, want)
		}
	}
	if text := b.Items[1].Execution.Text; text != "stopped\n" {
		t.Errorf("the cell that handled its interrupt printed %q", text)
	}
	r.ended("ann", b.ID)
	r.wantOnce(b, 0, 1)
	if again, err := r.Cancel(t.Context(), "ann", b.ID); err != nil || again.LastSeq != b.LastSeq {
		t.Errorf("cancelled again it is %+v, %v", again, err)
	}
}

// The first server is killed when the sessions have the cells, before it has written that.
func TestCancellationEndsWhatAnEarlierServerBegan(t *testing.T) {
	r := newRig(t, 2)
	defer close(r.gate)
	r.session("ann", "s")
	other := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "gate")}})
	events, err := r.Events(t.Context(), "ann", other.ID, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Item != nil && e.Item.Status == api.StatusRunning {
			break
		}
	}
	<-r.started
	r.sql(`CREATE TRIGGER broken BEFORE UPDATE ON batch_items BEGIN SELECT RAISE(ABORT, 'the test breaks this'); END`)
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "sleep"), item("s", "sleep")}})
	<-r.started
	<-r.started
	r.kill()
	r.sql(`DROP TRIGGER broken`)
	r.slots = 1 // which the other batch has, so the items wait
	r.open()

	b, err = r.Cancel(t.Context(), "ann", b.ID)
	if err != nil || b.Status != api.BatchCancelled || b.Items[0].Status != api.StatusCancelled || b.Items[1].Status != api.StatusInterrupted {
		t.Errorf("the batch is %+v, %v", b, err)
	}
	r.ended("ann", b.ID)
	r.Manager.Close() // which waits for deletions
	if n := r.sessionsOf("ann"); n != 2 {
		t.Errorf("%d sessions are left, want s and that of the other batch", n)
	}
}

func TestTheDeadlineCancels(t *testing.T) {
	r := newRig(t, 1)
	b := r.create("ann", api.BatchRequest{DeadlineS: ptr(0.05), Items: []api.BatchItemRequest{item("", "sleep"), item("", "sleep"), item("", "sleep")}})
	if b.DeadlineAt == nil {
		t.Error("it has no deadline")
	}
	if b = r.ended("ann", b.ID); b.Status != api.BatchCancelled || b.Reason != api.BatchReasonDeadline || b.Items[2].Status != api.StatusCancelled {
		t.Errorf("the batch is %+v", b)
	}
}

func TestAKilledServersBatchGoesOnAndRunsNothingTwice(t *testing.T) {
	r := newRig(t, 3)
	r.session("ann", "s")
	items := []api.BatchItemRequest{item("s", "gate"), item("", "gate"), item("", "gate"), item("s", "print then")}
	for i := range 6 {
		items = append(items, item("", fmt.Sprint("print ", i)))
	}
	b := r.create("ann", api.BatchRequest{Items: items})
	for range 3 {
		<-r.started
	}
	r.kill()
	close(r.gate)
	r.open()
	b = r.ended("ann", b.ID)
	var all []int
	for i, one := range b.Items {
		all = append(all, i)
		if one.Status != api.StatusOK {
			t.Errorf("item %d is %+v", i, one)
		}
	}
	r.wantOnce(b, all...)
	r.Manager.Close()
	if n := r.sessionsOf("ann"); n != 1 {
		t.Errorf("%d sessions are left", n)
	}
}

// stuck is a host that ends no kernel until it is free.
type stuck struct {
	session.Host
	called, free chan struct{}
}

func (s stuck) Stop(ctx context.Context, key record.Key, reason string) error {
	select {
	case s.called <- struct{}{}:
	default:
	}
	select {
	case <-s.free:
		return s.Host.Stop(ctx, key, reason)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestCloseDoesNotWaitForAHostThatDoesNotAnswer(t *testing.T) {
	r := newRig(t, 1)
	r.kill()
	called, free := make(chan struct{}, 1), make(chan struct{})
	t.Cleanup(func() { close(free) })
	r.between = func(h session.Host) session.Host { return stuck{h, called, free} }
	r.open()
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "print 1")}})
	r.ended("ann", b.ID)
	<-called // to delete the session of the item
	closed := make(chan error, 1)
	go func() { closed <- r.Manager.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Close waits for the host, and a server would not end")
	}
}

func TestEventsResumeAfterAnyPosition(t *testing.T) {
	r := newRig(t, 2)
	b := r.create("ann", api.BatchRequest{Items: []api.BatchItemRequest{item("", "print 1"), item("", "print 2")}})
	b = r.ended("ann", b.ID)
	for after := range b.LastSeq + 1 {
		events, err := r.Events(t.Context(), "ann", b.ID, after, after%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for e, err := range events {
			if n++; err != nil || e.Seq != after+n {
				t.Errorf("after %d: event %d, %v", after, e.Seq, err)
			}
		}
		if n != b.LastSeq-after {
			t.Errorf("%d events after %d of %d", n, after, b.LastSeq)
		}
	}
	if _, err := r.Events(t.Context(), "ann", b.ID, b.LastSeq+1, true); code(err) != api.CodeInvalidRequest {
		t.Errorf("beyond the end: %v", err)
	}
}

func TestOneOwnerMayHaveSoManyBatchesUnderWay(t *testing.T) {
	r := newRig(t, 1)
	req := api.BatchRequest{Items: []api.BatchItemRequest{item("", "gate")}}
	var ids []string
	for range 16 {
		ids = append(ids, r.create("ann", req).ID)
	}
	if _, err := r.Create(t.Context(), "ann", req); code(err) != api.CodeTooManyRequests {
		t.Errorf("one more: %v", err)
	}
	close(r.gate)
	for _, id := range ids {
		r.ended("ann", id)
	}
	r.ended("ann", r.create("ann", req).ID)
}
