package e2b

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/session"
	"talaria/store"
)

// heldHost has the first call of Stop for a session wait until goesOn is closed. It saves variables in place of the fake, which has none:
// a file is there, and its text does not matter.
type heldHost struct {
	session.Host
	dir    string        // of the sessions
	waits  chan struct{} // closed when the call waits
	goesOn chan struct{}

	mu     sync.Mutex // guards the fields below
	of     string     // the session; "": none
	broken string     // the session for which Stop fails once; "": none
	saving func(session string)
	silent chan struct{} // until it is closed, nothing is heard of the kernels; nil: it is
}

func (h *heldHost) Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error) {
	records, err := h.Host.Next(ctx, key, after)
	h.mu.Lock()
	silent := h.silent
	h.mu.Unlock()
	if silent != nil {
		<-silent
	}
	return records, err
}

func (h *heldHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	save, ok := c.(command.SaveVariables)
	h.mu.Lock()
	saving := h.saving
	h.mu.Unlock()
	if !ok || saving == nil {
		return h.Host.Do(ctx, key, c)
	}
	saving(key.Session)
	dirs, err := filepath.Glob(filepath.Join(h.dir, "*", "workspace"))
	for _, dir := range dirs {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, save.Path), []byte("variables"), 0o644))
	}
	return command.SavedVariables{Count: 1}, err
}

// onSave sets what happens while the variables of a session are saved.
func (h *heldHost) onSave(do func(session string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saving = do
}

func (h *heldHost) Stop(ctx context.Context, key record.Key, reason string) error {
	h.mu.Lock()
	held := h.of == key.Session
	if held {
		h.of = ""
	}
	broken := h.broken == key.Session
	if broken {
		h.broken = ""
	}
	h.mu.Unlock()
	if broken {
		return errors.New("the host does not respond")
	}
	if held {
		close(h.waits)
		<-h.goesOn
	}
	return h.Host.Stop(ctx, key, reason)
}

func (h *heldHost) hold(s *session.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of = s.Serial()
}

// fakeHandler returns a handler over a real database and fake kernels, and their host.
func fakeHandler(t *testing.T) (*Handler, *heldHost) {
	t.Helper()
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, "sessions"), 0o755))
	db, err := store.Open(t.Context(), dir, log)
	must(err)
	blobs, err := artifacts.Open(filepath.Join(dir, "artifacts"))
	must(err)
	fake := kerneltest.NewFake(kerneltest.Cells(func(c *kerneltest.Cell) {
		if c.Code == "sleep" {
			c.Sleep()
		}
	}))
	fake.Pipes = true
	kernels := host.NewHost(host.HostConfig{Backend: fake, JoinWindow: -1})
	held := &heldHost{Host: kernels, dir: filepath.Join(dir, "sessions"), waits: make(chan struct{}), goesOn: make(chan struct{})}
	sessions, err := session.Open(t.Context(), session.Config{
		Store: db, Artifacts: blobs, Host: held, Log: log, Version: "test", SessionsDir: filepath.Join(dir, "sessions"),
		Environments: []kernel.Environment{{Name: "default", Version: "3.11.2"}}, Tier: "fake", BootID: "boot",
		Defaults: session.DefaultLimits, Ceilings: session.DefaultCeilings, IdleTimeout: session.DefaultIdleTimeout,
	})
	must(err)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := errors.Join(sessions.Shutdown(ctx), kernels.Close(ctx), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return New(Config{
		Sessions: sessions, Log: log, Stall: time.Minute, Key: []byte("key"),
		UntilDrain: context.WithCancel,
		Problem: func(_ context.Context, err error, _ string) *api.Error {
			known := new(api.Error)
			if !errors.As(err, &known) {
				known = api.Errorf(api.CodeInternal, "%v", err)
			}
			return known
		},
	}), held
}

// testSandbox creates a sandbox whose kernel has started and whose end is at that time, perhaps with more metadata.
func (h *Handler) testSandbox(t *testing.T, end time.Time, more ...string) *session.Session {
	t.Helper()
	metadata := map[string]string{metaTemplate: "base", metaEnd: strconv.FormatInt(end.UnixMilli(), 10)}
	for _, key := range more {
		metadata[key] = "true"
	}
	s, err := h.Sessions.Create(t.Context(), "ann", api.SessionRequest{Metadata: &metadata, IdleTimeoutS: new(60.0)})
	if err != nil {
		t.Fatal(err)
	}
	return started(t, s)
}

func started(t *testing.T, s *session.Session) *session.Session {
	t.Helper()
	t.Cleanup(s.Release)
	if _, err := s.Wake(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// testContext creates a context of a sandbox, whose kernel has started.
func testContext(t *testing.T, sandbox *session.Session) *session.Session {
	t.Helper()
	made, err := sandbox.CreateBeside(t.Context(), session.BesideRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return started(t, made)
}

// post returns the answer to a POST.
func (h *Handler) post(t *testing.T, path, body string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)), Caller{
		Owner: "ann", Permit: func(api.Right) error { return nil },
		Body: func() ([]byte, func(), error) { return []byte(body), func() {}, nil },
		Intake: func(r io.Reader) ([]byte, func(), error) {
			data, err := io.ReadAll(r)
			return data, func() {}, err
		},
	})
	return answer
}

func TestASandboxWhoseEndTakesLongHoldsUpNoOther(t *testing.T) {
	h, held := fakeHandler(t)
	slow := h.testSandbox(t, time.Now().Add(-time.Minute))
	held.hold(slow)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	<-held.waits
	other := h.testSandbox(t, time.Now().Add(-time.Minute))
	h.expiry.set("ann", slow.ID(), time.Now()) // it is not ended twice
	h.expiry.set("ann", other.ID(), time.Now())
	<-other.Deleted()
	cancel()
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	select {
	case <-ended:
		t.Error("Run does not wait for the end of a sandbox")
	case <-slow.Deleted():
		t.Error("the end of a sandbox did not take long")
	case <-time.After(100 * time.Millisecond):
	}
	close(held.goesOn)
	<-slow.Deleted()
	<-ended
}

func TestASandboxThatCouldNotBeKilledStillEnds(t *testing.T) {
	h, held := fakeHandler(t)
	s := h.testSandbox(t, time.Now().Add(-time.Minute))
	h.expiry.set("ann", s.ID(), time.Now().Add(time.Hour))
	defer h.expiry.stop()
	held.mu.Lock()
	held.broken = s.Serial()
	held.mu.Unlock()
	if err := h.kill(t.Context(), "ann", s.ID()); err == nil {
		t.Fatal("the sandbox was killed although its host does not respond")
	}
	h.expiry.mu.Lock()
	timer := h.expiry.timers[place{"ann", s.ID()}]
	h.expiry.mu.Unlock()
	if timer == nil {
		t.Error("the sandbox has no timer")
	}
	h.expire(t.Context(), place{"ann", s.ID()})
	select {
	case <-s.Deleted():
	default:
		t.Error("the sandbox is still there after its end")
	}
}

func TestTheServerDoesNotWaitForVariablesOfASandboxWhoseTimeIsOver(t *testing.T) {
	h, held := fakeHandler(t)
	s := h.testSandbox(t, time.Now().Add(-time.Minute), metaAutoPause)
	made := testContext(t, s)
	saves, goesOn := make(chan string, 8), make(chan struct{})
	held.onSave(func(serial string) { saves <- serial; <-goesOn })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { h.Run(ctx); close(ended) }()
	if serial := <-saves; serial != made.Serial() {
		t.Errorf("the first to hibernate is %s, want %s", serial, made.Serial())
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("Run waits for the variables")
	}
	close(goesOn)
	<-ended
	if _, err := made.Wake(t.Context()); err != nil { // after what was begun
		t.Error(err)
	}
	if state := s.Info(t.Context()).State; state != api.StateIdle || len(saves) > 0 {
		t.Errorf("the sandbox is %s, and variables were saved %d times more", state, len(saves))
	}
}

func TestSandboxesOfOneOwnerDoNotKeepOthersFromTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExpiry()
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan place, 2*endsAtOnce)
		var running sync.WaitGroup
		running.Go(func() {
			e.each(ctx, func(p place) { ends <- p; <-ctx.Done() })
		})
		for i := range 2 * endsAtOnce {
			e.set("ann", strconv.Itoa(i), time.Now())
		}
		synctest.Wait()
		for len(ends) > 0 {
			<-ends
		}
		bob := place{"bob", "0"}
		e.set(bob.owner, bob.id, time.Now())
		synctest.Wait()
		select {
		case p := <-ends:
			if p != bob {
				t.Errorf("the sandbox %v ends", p)
			}
		default:
			t.Error("bob's sandbox does not end")
		}
		cancel()
		running.Wait()
		e.stop()
	})
}

func TestFewSandboxesEndAtOnceAndNoneTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExpiry()
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		now, most := map[place]int{}, 0
		calls := map[place]int{}
		var running sync.WaitGroup
		running.Go(func() {
			e.each(ctx, func(p place) {
				mu.Lock()
				now[p]++
				calls[p]++
				if now[p] > 1 {
					t.Errorf("%s ends twice at once", p.id)
				}
				most = max(most, len(now))
				owners := map[string]int{}
				for p := range now {
					if owners[p.owner]++; owners[p.owner] > ownerEndsAtOnce {
						t.Errorf("%d of one owner's end at once", owners[p.owner])
					}
				}
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				delete(now, p)
				mu.Unlock()
			})
		})
		for i := range 3 * endsAtOnce {
			e.set(strconv.Itoa(i/3), strconv.Itoa(i), time.Now().Add(time.Second))
		}
		time.Sleep(10 * time.Second)
		first := place{}
		mu.Lock()
		for first = range now {
			break
		}
		mu.Unlock()
		e.set(first.owner, first.id, time.Now())
		time.Sleep(10 * time.Minute)
		cancel()
		running.Wait()
		e.stop()
		if most != endsAtOnce {
			t.Errorf("%d end at once, want %d", most, endsAtOnce)
		}
		for p, n := range calls {
			if want := map[bool]int{true: 2, false: 1}[p == first]; n != want {
				t.Errorf("%s was ended %d times, want %d", p.id, n, want)
			}
		}
		if len(calls) != 3*endsAtOnce {
			t.Errorf("%d were ended", len(calls))
		}
	})
}

// TestAContextThatIsDeletedMeanwhileIsNotMissed holds that its sandbox does not look gone to who pauses it or lets it live longer.
func TestAContextThatIsDeletedMeanwhileIsNotMissed(t *testing.T) {
	for action, body := range map[string]string{"pause": "", "timeout": `{"timeout":600}`} {
		t.Run(action, func(t *testing.T) {
			h, held := fakeHandler(t)
			s := h.testSandbox(t, time.Now().Add(time.Minute))
			made := testContext(t, s)
			held.hold(made)
			deleted, answered := make(chan error, 1), make(chan *httptest.ResponseRecorder, 1)
			go func() { deleted <- h.Sessions.Delete(context.Background(), "ann", made.ID()) }()
			<-held.waits
			go func() { answered <- h.post(t, "/sandboxes/"+s.ID()+"/"+action, body) }()
			time.Sleep(300 * time.Millisecond) // by now it waits for the context, or the test proves nothing
			close(held.goesOn)
			if err := <-deleted; err != nil {
				t.Error(err)
			}
			answer := <-answered
			if answer.Code == http.StatusNotFound { // this fake has no variables to save, which is another error
				t.Errorf("%s is answered with %d %s", action, answer.Code, answer.Body)
			}
		})
	}
}

func TestAPauseWaitsForAContextThatIsUsedMeanwhile(t *testing.T) {
	h, held := fakeHandler(t)
	s := h.testSandbox(t, time.Now().Add(time.Minute))
	contexts := make([]*session.Session, 2)
	for i := range contexts {
		contexts[i] = testContext(t, s)
	}
	used := make(chan error, 1)
	var once sync.Once
	held.onSave(func(serial string) { // the first one hibernates already
		if serial == contexts[1].Serial() {
			once.Do(func() { used <- sleep(t, contexts[0]) })
		}
	})
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- h.post(t, "/sandboxes/"+s.ID()+"/pause", "") }()
	if err := <-used; err != nil {
		t.Fatal(err)
	}
	select {
	case answer := <-answered:
		t.Fatalf("the pause is answered with %d %s", answer.Code, answer.Body)
	case <-time.After(300 * time.Millisecond): // by now it waits for the cell, or the test proves nothing
	}
	if err := contexts[0].Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if answer := <-answered; answer.Code != http.StatusNoContent {
		t.Errorf("the pause is answered with %d %s", answer.Code, answer.Body)
	}
	for _, one := range append(contexts, s) {
		if info := one.Info(t.Context()); info.State != api.StateHibernated {
			t.Errorf("session %s is %s, %q", info.ID, info.State, info.Reason)
		}
	}
}

// sleep has a cell of the session run until it is interrupted, and returns when it runs.
func sleep(t *testing.T, s *session.Session) error {
	id, err := s.Submit(t.Context(), api.ExecutionRequest{Code: new("sleep")}, true)
	if err != nil {
		return err
	}
	for e, err := range s.Journal().ExecutionEvents(t.Context(), id, 0) {
		if err != nil || e.Body.EventType() == "execution_started" {
			return err
		}
	}
	return errors.New("the cell has not started")
}

func TestContextsLiveAsLongAsTheirSandbox(t *testing.T) {
	h, _ := fakeHandler(t)
	s := h.testSandbox(t, time.Now().Add(time.Minute))
	context := testContext(t, s)
	if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: new(900.0)}); err != nil { // and not of the context
		t.Fatal(err)
	}
	if answer := h.post(t, "/sandboxes/"+s.ID()+"/timeout", `{"timeout": 600}`); answer.Code != http.StatusNoContent {
		t.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	if got := []float64{s.Info(t.Context()).IdleTimeoutS, context.Info(t.Context()).IdleTimeoutS}; !slices.Equal(got, []float64{900, 600}) {
		t.Errorf("the sandbox and the context may be idle for %v s", got)
	}
}

func TestAPauseWaitsForACellThatHasNotBegun(t *testing.T) {
	h, held := fakeHandler(t)
	held.onSave(func(string) {})
	s := h.testSandbox(t, time.Now().Add(time.Minute))
	silent := make(chan struct{})
	held.mu.Lock()
	held.silent = silent
	held.mu.Unlock()
	id, err := s.Submit(t.Context(), api.ExecutionRequest{Code: new("pass")}, false)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- h.post(t, "/sandboxes/"+s.ID()+"/pause", "{}") }()
	select {
	case answer := <-answered:
		t.Errorf("%d before the cell has ended: %s", answer.Code, answer.Body)
		answered <- answer
	case <-time.After(100 * time.Millisecond):
	}
	if state := s.Info(t.Context()).State; state != api.StateIdle {
		t.Errorf("the sandbox is %s before the cell has begun", state)
	}
	close(silent)
	if answer := <-answered; answer.Code != http.StatusNoContent {
		t.Errorf("%d: %s", answer.Code, answer.Body)
	}
	if e, err := s.Executions().Get(t.Context(), id); err != nil || e.Status != api.StatusOK {
		t.Errorf("the cell is %s, %v", e.Status, err)
	}
}
