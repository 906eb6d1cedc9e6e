package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
	"talaria/session"
	"talaria/session/processes"
)

// soon bounds what takes no time unless sessions wait for each other.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func beside(t *testing.T, main *session.Session) *session.Session {
	t.Helper()
	s, err := main.CreateBeside(t.Context(), session.BesideRequest{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

// A session beside another one can be found before its creation returns, though it takes some attempts to use it that early.
func TestASessionBesideAnotherOneIsUsedWhileItIsCreated(t *testing.T) {
	r := newRig(t, echo, nil)
	main := r.session(api.SessionRequest{})
	if _, err := main.Wake(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var using sync.WaitGroup
		for range 4 {
			using.Go(func() {
				for {
					list, err := main.Beside(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if len(list) == 0 {
						continue
					}
					if _, err := list[0].Wake(soon(t)); err != nil {
						t.Error(err)
					}
					list[0].Release()
					return
				}
			})
		}
		stuck := time.AfterFunc(time.Minute, func() { panic("the session waits for the one beside it, which waits for the session") })
		s, err := main.CreateBeside(t.Context(), session.BesideRequest{})
		if err != nil {
			t.Fatal(err)
		}
		using.Wait()
		stuck.Stop()
		s.Release()
		if err := r.Delete(t.Context(), "ann", s.ID()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASessionWhoseKernelCannotStartForOthersHasNone(t *testing.T) {
	r := newRig(t, echo, nil)
	r.fake.Shell = kerneltest.Lines
	main := r.saved(api.SessionRequest{Approvals: ptr(api.ApprovalsAll)})
	user := attended(t, main)
	waiting := submit(t, main, "1")
	question := user.asked()
	r.fake.CreateErr = errors.New("no sandbox")
	var other *session.Session
	for _, need := range []struct {
		what string
		use  func() error
	}{
		{"a new session beside it", func() error {
			other = beside(t, main)
			return second(other.Wake(t.Context())) // after its own attempt
		}},
		{"a session beside it", func() error { return second(other.Wake(t.Context())) }},
		{"a terminal", func() error { return second(main.Terminals().Open(t.Context(), api.TerminalRequest{})) }},
		{"a program", func() error {
			return second(main.Programs().Start(t.Context(), processes.Request{Args: []string{"true"}}))
		}},
	} {
		if err := need.use(); code(err) != api.CodeKernelStart {
			t.Errorf("%s: %v", need.what, err)
		}
		if info := main.Info(t.Context()); info.State != api.StateHibernated || info.Reason != "start_failed" {
			t.Errorf("after %s the session is %s, %q", need.what, info.State, info.Reason)
		}
	}
	r.fake.CreateErr = nil
	user.decide(question.ApprovalID, api.DecisionOnce)
	if e := wait(t, main, waiting); e.Status != api.StatusOK || e.Text != "1" {
		t.Errorf("the cell that waited for an answer is %s, %q", e.Status, e.Text)
	}
}

// savingHost saves variables in place of the scripts, which have none: a file is there, and its text does not matter.
type savingHost struct {
	session.Host
	dir string // of the sessions

	mu      sync.Mutex // guards saving and loading
	saving  func(session string)
	loading func(key record.Key)
}

// onLoad sets what happens before variables are loaded; nil: nothing.
func (h *savingHost) onLoad(do func(record.Key)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loading = do
}

// onSave sets what happens while a session's variables are saved; nil: nothing.
func (h *savingHost) onSave(do func(session string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.saving = do
}

func (h *savingHost) Do(ctx context.Context, key record.Key, c command.Command) (any, error) {
	switch c := c.(type) {
	case command.SaveVariables:
		h.mu.Lock()
		saving := h.saving
		h.mu.Unlock()
		if saving != nil {
			saving(key.Session)
		}
		dirs, err := filepath.Glob(filepath.Join(h.dir, "*", "workspace")) // whose does not matter, either
		for _, dir := range dirs {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, c.Path), []byte("variables of "+key.Session), 0o644))
		}
		return command.SavedVariables{Count: 1}, err
	case command.LoadVariables:
		h.mu.Lock()
		loading := h.loading
		h.mu.Unlock()
		if loading != nil {
			loading(key)
		}
		_, err := command.Ask(ctx, h.Host, key, command.Ping{})
		return command.LoadedVariables{Count: 1}, err
	}
	return h.Host.Do(ctx, key, c)
}

// saving returns a rig whose sessions have variables, and a session with two beside it, all of which have a kernel.
func saving(t *testing.T, tweak func(*session.Config)) (r *rig, host *savingHost, main, one, two *session.Session) {
	host = new(savingHost)
	r = newRig(t, echo, func(cfg *session.Config) {
		if host.Host != cfg.Host { // the one of the last server may be in use
			host.Host, host.dir = cfg.Host, cfg.SessionsDir
		}
		cfg.Host, cfg.OnIdle = host, api.OnIdleHibernate
		if tweak != nil {
			tweak(cfg)
		}
	})
	main = r.session(api.SessionRequest{ID: ptr("main")})
	one, two = beside(t, main), beside(t, main)
	for _, s := range []*session.Session{main, one, two} {
		if e := execute(t, s, "1"); e.Status != api.StatusOK {
			t.Fatalf("the first cell is %s", e.Status)
		}
	}
	return r, host, main, one, two
}

// wantVariables checks that no session has lost the variables of its first kernel.
func wantVariables(t *testing.T, state api.SessionState, sessions ...*session.Session) {
	t.Helper()
	for _, s := range sessions {
		if info := s.Info(t.Context()); info.State != state {
			t.Errorf("session %s is %s, %q", s.ID(), info.State, info.Reason)
		}
		if got := shape(now(t, s)); strings.Contains(got, "died:") || strings.Contains(got, "reset:") {
			t.Errorf("the log of session %s is %s", s.ID(), got)
		}
		if e := execute(t, s, "1"); e.Status != api.StatusOK || e.Generation != 1 {
			t.Errorf("a cell of session %s is %s in generation %d", s.ID(), e.Status, e.Generation)
		}
	}
}

func TestASessionThatIsUsedWhileTheOneItIsBesideHibernatesKeepsItsVariables(t *testing.T) {
	_, host, main, one, two := saving(t, nil)
	saved := 0
	host.onSave(func(serial string) {
		if saved++; saved != 2 {
			return
		}
		other := one // that hibernates already
		if serial == one.Serial() {
			other = two
		}
		if e := execute(t, other, "1"); e.Status != api.StatusOK {
			t.Errorf("the cell meanwhile is %s", e.Status)
		}
	})
	if _, err := main.Hibernate(t.Context()); err != nil {
		t.Error(err)
	}
	if saved != 4 {
		t.Errorf("variables were saved %d times", saved)
	}
	for _, s := range []*session.Session{main, one, two} {
		if info := s.Info(t.Context()); info.State != api.StateHibernated {
			t.Errorf("session %s is %s", s.ID(), info.State)
		}
	}
	host.onSave(nil)
	wantVariables(t, api.StateHibernated, one, two)
	wantVariables(t, api.StateIdle, main)
}

func TestASessionDoesNotHibernateWhileThoseBesideItAreUsedAgainAndAgain(t *testing.T) {
	_, host, main, one, two := saving(t, nil)
	host.onSave(func(serial string) {
		other := one
		if serial == one.Serial() {
			other = two
		}
		if e := execute(t, other, "1"); e.Status != api.StatusOK {
			t.Errorf("the cell meanwhile is %s", e.Status)
		}
	})
	if _, err := main.Hibernate(t.Context()); code(err) != api.CodeKernelBusy {
		t.Errorf("it answers %v", err)
	}
	host.onSave(nil)
	for _, s := range []*session.Session{one, two} {
		execute(t, s, "1")
	}
	wantVariables(t, api.StateIdle, main, one, two)
	if _, err := main.Hibernate(t.Context()); err != nil {
		t.Error(err)
	}
	wantVariables(t, api.StateHibernated, main, one, two)
}

func TestASessionBesideOneWhoseVariablesAreBeingSavedStartsAfterwards(t *testing.T) {
	_, host, main, one, two := saving(t, nil)
	var id string
	host.onSave(func(serial string) {
		if serial == main.Serial() {
			id = submit(t, one, "1")
			until(t, one, one.Journal().LastSeq()-1, "session_state") // it starts, and waits
		}
	})
	if _, err := main.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, one, id); e.Status != api.StatusOK || e.Generation != 1 {
		t.Errorf("the cell is %s in generation %d", e.Status, e.Generation)
	}
	host.onSave(nil)
	wantVariables(t, api.StateHibernated, two)
	wantVariables(t, api.StateIdle, main, one)
}

// lateHost is slow to find the kernels of sessions beside another one again.
type lateHost struct {
	session.Host
	main string
}

func (h lateHost) Attach(ctx context.Context, key record.Key) (command.Attachment, error) {
	if h.main != "" && key.Session != h.main {
		time.Sleep(300 * time.Millisecond)
	}
	return h.Host.Attach(ctx, key)
}

func TestTheNextServerDoesNotReapASessionThatOthersUse(t *testing.T) {
	serial := ""
	r, _, main, one, two := saving(t, func(cfg *session.Config) { cfg.Host = lateHost{cfg.Host, serial} })
	if err := main.Update(t.Context(), api.SessionPatch{IdleTimeoutS: new(0.1)}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // it does not count as idle, but would now if it were alone
	serial = main.Serial()
	r.leave()
	r.open()
	wantVariables(t, api.StateIdle, r.find("main"), r.find(one.ID()), r.find(two.ID()))
}

func TestASessionThatIsUsedWhileItsHostEndsKeepsItsVariables(t *testing.T) {
	r, host, main, one, two := saving(t, nil)
	keys, err := r.host.Kernels(t.Context())
	if err != nil || len(keys) != 3 {
		t.Fatalf("the kernels are %v, %v", keys, err)
	}
	host.onSave(func(serial string) {
		if serial != two.Serial() {
			return
		}
		for one.Info(t.Context()).State != api.StateHibernated {
			time.Sleep(time.Millisecond)
		}
		execute(t, one, "1")
	})
	r.HostEnds(t.Context(), keys)
	for _, s := range []*session.Session{main, one, two} {
		if info := s.Info(t.Context()); info.State != api.StateHibernated {
			t.Errorf("session %s is %s", s.ID(), info.State)
		}
	}
	host.onSave(nil)
	wantVariables(t, api.StateHibernated, one, two)
	wantVariables(t, api.StateIdle, main)
}

func TestASessionHibernatesWhenItsHostEndsThoughOneBesideItIsBusy(t *testing.T) {
	r, _, main, one, two := saving(t, nil)
	id := submit(t, one, "hang")
	waitFor(t, one, id, "execution_started")
	keys, err := r.host.Kernels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.HostEnds(t.Context(), keys)
	if e := wait(t, one, id); e.Status != api.StatusDied || e.Reason != "beside_ended" {
		t.Errorf("the cell is %s, %q", e.Status, e.Reason)
	}
	wantVariables(t, api.StateHibernated, main, two)
}

func TestASessionDoesNotWaitForThoseBesideAnotherOneWhenItsHostEnds(t *testing.T) {
	r, host, main, one, two := saving(t, nil)
	other, err := r.Create(t.Context(), "bob", api.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Release)
	execute(t, other, "1")
	keys, err := r.host.Kernels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	saved := make(chan struct{})
	order := make(chan string, 4)
	host.onSave(func(serial string) {
		if serial == other.Serial() {
			close(saved)
		} else if serial != main.Serial() {
			select {
			case <-saved:
			case <-time.After(time.Minute):
			}
		}
		order <- serial
	})
	r.HostEnds(t.Context(), keys)
	close(order)
	var got []string
	for serial := range order {
		got = append(got, serial)
	}
	if len(got) != 4 || got[0] != other.Serial() || got[3] != main.Serial() {
		t.Errorf("variables are saved in the order %q; the other session is %s, and %s has others beside it", got, other.Serial(), main.Serial())
	}
	host.onSave(nil)
	wantVariables(t, api.StateHibernated, one, two, other)
	wantVariables(t, api.StateIdle, main)
}
