package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
	"talaria/store"
)

// dead ends the session's kernel.
func dead(t *testing.T, s *session.Session) {
	t.Helper()
	if e := execute(t, s, "exit 1"); e.Status != api.StatusDied {
		t.Fatalf("the cell that ends the kernel is %s", e.Status)
	}
	until(t, s, 0, "kernel_died")
	// The death is a change of its own, and this one comes after it.
	if err := s.Update(t.Context(), api.SessionPatch{}); err != nil {
		t.Fatal(err)
	}
}

// unload unloads unused sessions until so many are loaded. What a session did last may not have ended yet.
func unload(r *rig, left int) {
	for r.UnloadUnused(); r.Loaded() > left; r.UnloadUnused() {
		runtime.Gosched()
	}
}

func get(t *testing.T, r *rig, id string) *session.Session {
	t.Helper()
	s, err := r.Get("ann", id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnUnusedSessionIsUnloadedAndComesBackAsItWas(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{
		ID: ptr("a"), Name: ptr("name"), Metadata: &map[string]string{"k": "v"}, Env: &map[string]string{"A": "b"},
	})
	execute(t, s, "write kept text\nprint one")
	dead(t, s)
	before := s.Info(t.Context())
	log := shape(now(t, s))
	s.Release()
	unload(r, 0)
	s = get(t, r, "a")
	if after := s.Info(t.Context()); !reflect.DeepEqual(before, after) {
		t.Errorf("the session was\n%+v\nand is\n%+v", before, after)
	}
	if now := shape(now(t, s)); now != log {
		t.Errorf("the log was\n%s\nand is\n%s", log, now)
	}
	e := execute(t, s, "write added text\nprint two")
	if len(e.Artifacts) != 1 || e.Artifacts[0].Path != "added" {
		t.Errorf("the cell made %v, not only the file that is new", e.Artifacts)
	}
	if text := textAfterLoss(e, "Python exited with status 1"); text != "two\n" {
		t.Errorf("the cell printed %q", text)
	}
	now(t, s) // without gaps
}

func TestASessionThatIsNeededStaysLoaded(t *testing.T) {
	r := scripted(t, nil)
	kernel := r.session(api.SessionRequest{ID: ptr("kernel")})
	execute(t, kernel, "print 1")
	kernel.Release()
	running := r.session(api.SessionRequest{ID: ptr("running")})
	cell := submit(t, running, "sleep")
	waitFor(t, running, cell, "execution_started")
	running.Release()
	used := r.session(api.SessionRequest{ID: ptr("used")})
	dead(t, used)
	r.UnloadUnused()
	if n := r.Loaded(); n != 3 {
		t.Errorf("%d sessions are loaded, not the one with a kernel, the one with a cell, and the one that is used", n)
	}
	if again := get(t, r, "used"); again != used {
		t.Error("a session in use was loaded a second time")
	}
	used.Release()
	r.UnloadUnused()
	if n := r.Loaded(); n != 3 {
		t.Errorf("%d sessions are loaded: a session left while one of two users had it", n)
	}
}

func TestAListLoadsNoSession(t *testing.T) {
	r := scripted(t, nil)
	want := map[string]api.Session{}
	for _, id := range []string{"a", "b", "c"} {
		s := r.session(api.SessionRequest{ID: &id, Name: ptr("name of " + id)})
		execute(t, s, "print "+id)
		dead(t, s)
		want[id] = s.Info(t.Context())
		s.Release()
	}
	unload(r, 0)
	page, err := r.List(t.Context(), "ann", session.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range page.Items {
		if !reflect.DeepEqual(item, want[item.ID]) {
			t.Errorf("the list has\n%+v\nwant\n%+v", item, want[item.ID])
		}
		delete(want, item.ID)
	}
	if len(want) > 0 {
		t.Errorf("the list lacks %v", want)
	}
	if n := r.Loaded(); n != 0 {
		t.Errorf("the list has loaded %d sessions", n)
	}
}

// watched is a context that signals when somebody begins to wait for its end.
type watched struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

// A change goes to the database also when its caller has left: the session may not leave before it has arrived.
func TestASessionStaysUntilItsWritesHaveArrived(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("a")})
	dead(t, s)
	entered, leave := make(chan struct{}), make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { // holds up the writes
		r.db.Do(context.Background(), store.Write{Apply: func(*store.Tx) error { close(entered); <-leave; return nil }})
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	keeping := &watched{Context: ctx, waits: make(chan struct{})}
	left := make(chan error)
	go func() { left <- s.Keep(keeping) }()
	<-keeping.waits
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller left with %v", err)
	}
	s.Release()
	r.UnloadUnused()
	if n := r.Loaded(); n != 1 {
		t.Errorf("%d sessions are loaded while a change is on its way", n)
	}
	close(leave)
	others.Wait()
	if err := r.db.Do(t.Context(), store.Write{Apply: func(*store.Tx) error { return nil }}); err != nil { // comes after it
		t.Fatal(err)
	}
	s = get(t, r, "a")
	if err := s.Keep(t.Context()); err != nil { // so does what this one publishes
		t.Fatal(err)
	}
	s.Release()
	unload(r, 0)
}

// Sessions leave and come while clients use them: each cell runs once, and the log has no gap.
func TestUnloadingRacesWithUse(t *testing.T) {
	const clients, rounds = 6, 12
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("a")})
	dead(t, s)
	s.Release()
	over := make(chan struct{})
	var unloading, using sync.WaitGroup
	for range 2 {
		unloading.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					r.UnloadUnused()
					runtime.Gosched()
				}
			}
		})
	}
	for client := range clients {
		using.Go(func() {
			for round := range rounds {
				s, err := r.Get("ann", "a")
				if err != nil {
					t.Error(err)
					return
				}
				code := "print 1"
				if round%3 == 0 {
					code = "exit 1"
				}
				id := fmt.Sprintf("%d.%d", client, round)
				if _, err := s.Submit(t.Context(), api.ExecutionRequest{ID: &id, Code: &code}, false); err != nil {
					t.Error(err)
				}
				if round%2 == 0 {
					s.Release() // the next user sees its end
					continue
				}
				if e, err := s.Wait(t.Context(), id); err != nil || !e.Status.Final() {
					t.Errorf("%s is %s: %v", id, e.Status, err)
				}
				s.Release()
			}
		})
	}
	using.Wait()
	close(over)
	unloading.Wait()
	s = get(t, r, "a")
	for client := range clients {
		for round := range rounds {
			if e, err := s.Wait(t.Context(), fmt.Sprintf("%d.%d", client, round)); err != nil || !e.Status.Final() {
				t.Errorf("%d.%d is %s: %v", client, round, e.Status, err)
			}
		}
	}
	now(t, s) // fails where the log has a gap
}

func TestOneLoadForAllThatAskAtOnce(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("a")})
	dead(t, s)
	s.Release()
	unload(r, 0)
	var got [16]*session.Session
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i], _ = r.Get("ann", "a") })
	}
	all.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatalf("the callers have %v", got)
		}
	}
}

func TestAnUnloadedSessionCanBeDeletedAndResetAndOutlivesTheServer(t *testing.T) {
	r := scripted(t, nil)
	for _, id := range []string{"deleted", "reset", "kept"} {
		s := r.session(api.SessionRequest{ID: &id})
		dead(t, s)
		s.Release()
	}
	unload(r, 0)
	if err := r.Delete(t.Context(), "ann", "deleted"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get("ann", "deleted"); code(err) != api.CodeSessionNotFound {
		t.Errorf("a deleted session is got with %v", err)
	}
	s := get(t, r, "reset")
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Error(err)
	}
	if state := s.Info(t.Context()).State; state != api.StateIdle {
		t.Errorf("after its reset the session is %s", state)
	}
	s.Release()
	unload(r, 1) // the one with a kernel
	if got := r.Stats(t.Context()).Sessions; got[api.StateDead] != 1 || got[api.StateIdle] != 1 {
		t.Errorf("the server counts %v", got)
	}
	r.leave()
	r.open()
	if e := execute(t, get(t, r, "kept"), "print 1"); e.Status != api.StatusOK {
		t.Errorf("a cell under the next server is %s", e.Status)
	}
}

// manySessions fills a state directory with sessions whose kernels ended long ago.
func manySessions(t testing.TB, r *rig, count int) {
	t.Helper()
	if err := r.db.Do(t.Context(), store.Write{Apply: func(tx *store.Tx) error {
		for i := range count {
			row := store.Session{
				N: int64(i + 1), ID: fmt.Sprintf("id-%05d", i), Owner: "ann", ClientID: fmt.Sprintf("chat:%d", i), Environment: "default",
				Isolation: "default", Limits: session.DefaultLimits, Network: api.Network{Mode: api.NetworkNone}, State: api.StateDead,
				Reason: "idle_timeout", Generation: 1, LogID: "log", FirstSeq: 1, Layers: []string{}, Packages: []string{},
				CreatedAt: time.Now().UnixMilli(), LastActiveAt: time.Now().UnixMilli(),
			}
			if err := tx.InsertSession(row); err != nil {
				return err
			}
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		for _, folder := range []string{"workspace", "packages"} {
			if err := os.MkdirAll(filepath.Join(r.dir, "sessions", fmt.Sprintf("id-%05d", i), folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Sessions that were used once cost the server nothing but their rows.
func TestManyIdleSessionsTakeNoMemory(t *testing.T) {
	const count = 2_000
	r := scripted(t, nil)
	manySessions(t, r, count)
	r.leave()
	began := time.Now()
	r.open()
	t.Logf("a server with %d sessions starts in %v", count, time.Since(began))
	before := heap()
	for q := (api.PageQuery{Limit: 1000}); ; {
		page, err := r.List(t.Context(), "ann", session.Filter{Page: q})
		if err != nil {
			t.Fatal(err)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	for i := range count {
		get(t, r, fmt.Sprintf("chat:%d", i)).Release()
		if i%500 == 499 { // each holds descriptors while it is loaded
			r.UnloadUnused()
		}
	}
	unload(r, 0)
	grown := heap() - before
	t.Logf("%d idle sessions take %d bytes of heap", count, grown)
	if grown > 2<<20 { // loaded, they take more than three times as much
		t.Errorf("%d idle sessions take %d bytes of heap", count, grown)
	}
}
