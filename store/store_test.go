package store_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"

	"talaria/api"
	"talaria/store"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.Begin(t.Context(), "boot-1"); err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t *testing.T, s *store.Store, f func(*store.Tx) error) {
	t.Helper()
	if err := s.Do(t.Context(), store.Write{Apply: f}); err != nil {
		t.Fatal(err)
	}
}

func sample(n int64, owner, clientID string) store.Session {
	return store.Session{
		N: n, ID: owner + "/" + clientID, Owner: owner, ClientID: clientID, Name: "a name", Environment: "default",
		Isolation: "default", UID: 7, Limits: api.Limits{MemoryBytes: 1, CPUs: 0.5}, IdleTimeoutMS: 5,
		Env: map[string]string{"A": "1"}, Secrets: map[string]string{}, Metadata: map[string]string{"chat": "42"},
		Packages: []string{"requests>=2"}, BuiltinTools: api.Raw(`["terminal"]`), Tools: []api.Tool{{Name: "weather", URL: "https://hooks.example.com/w"}}, MCPServers: []string{"tickets"}, Mounts: []api.Mount{{Source: "/srv/in", Target: "/data", Mode: "ro"}},
		State: api.StateIdle, Generation: 1, Layers: []string{"x"}, LogID: "l", FirstSeq: 1, CreatedAt: 10, LastActiveAt: 11,
	}
}

func TestARowReadsBackAsItWasWritten(t *testing.T) {
	s := open(t, t.TempDir())
	want := sample(1, "ann", "chat:1")
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(want) })
	n, id, err := s.FindSession(t.Context(), "ann", "chat:1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.SessionNumber(t.Context(), n)
	if got.ID != id {
		t.Errorf("the session with the number %d is %q, not %q", n, got.ID, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, _, err := s.FindSession(t.Context(), "bob", "chat:1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another owner's session: %v", err)
	}

	failure := &api.ErrorOutput{Ename: "E", Evalue: "v", Traceback: []string{"t"}}
	finished := int64(99)
	row := store.Execution{
		Session: 1, ID: "e1", Code: "1/0", TimeoutMS: 300_000, Status: api.StatusQueued, State: api.VariablesKept,
		Generation: 1, CreatedAt: 12, Artifacts: []api.Artifact{},
	}
	do(t, s, func(tx *store.Tx) (err error) {
		row.N, err = tx.InsertExecution(row)
		return err
	})
	got1, err := s.Execution(t.Context(), 1, "e1")
	if diff := cmp.Diff(row, got1); diff != "" || err != nil {
		t.Error(diff, err)
	}
	row.Status, row.Error, row.FinishedAt, row.Text = api.StatusError, failure, &finished, "text"
	do(t, s, func(tx *store.Tx) error { return tx.FinishExecution(row) })
	got1, err = s.Execution(t.Context(), 1, "e1")
	if diff := cmp.Diff(row, got1); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestIDsAreUniqueForTheirOwnerOnly(t *testing.T) {
	s := open(t, t.TempDir())
	do(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.InsertSession(sample(1, "ann", "x")), tx.InsertSession(sample(2, "bob", "x")))
	})
	twin := sample(3, "ann", "x")
	twin.ID = "another"
	err := s.Do(t.Context(), store.Write{Apply: func(tx *store.Tx) error { return tx.InsertSession(twin) }})
	if !errors.Is(err, store.ErrExists) {
		t.Errorf("a second session of that id: %v", err)
	}
}

func TestAWriteThatFailsLeavesTheOthersOfItsGroupAlone(t *testing.T) {
	s := open(t, t.TempDir())
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(sample(1, "ann", "x")) })
	boom := errors.New("boom")
	hold, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // keeps the writer busy, so that what follows becomes one group
		s.Do(context.Background(), store.Write{Apply: func(*store.Tx) error { close(held); <-hold; return nil }})
	})
	<-held
	errs := make([]error, 60)
	for i := range errs {
		wg.Go(func() {
			errs[i] = s.Do(context.Background(), store.Write{Apply: func(tx *store.Tx) error {
				err := tx.InsertEvent(1, store.Event{Seq: int64(i + 1), Type: "t", Body: []byte("{}"), Size: 2})
				if i%3 == 0 {
					return boom
				}
				return err
			}})
		})
	}
	close(hold)
	wg.Wait()
	for i, err := range errs {
		if want := i%3 == 0; errors.Is(err, boom) != want || (err != nil) != want {
			t.Errorf("write %d: %v", i, err)
		}
	}
	events, err := s.Events(t.Context(), 1, 0, 100)
	if err != nil || len(events) != 40 {
		t.Errorf("%d events (%v), want 40", len(events), err)
	}
}

func TestCommittedRunsBeforeDoReturnsAndInOrder(t *testing.T) {
	s := open(t, t.TempDir())
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(sample(1, "ann", "x")) })
	var order []int64 // only Committed touches it
	var sequence store.Sequence
	var seq int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			var mine int64
			err := s.Do(context.Background(), store.Write{
				Apply: func(tx *store.Tx) error {
					seq++
					mine = seq
					return tx.InsertEvent(1, store.Event{Seq: mine, Type: "t", Body: []byte("{}")})
				},
				Committed: func() { order = append(order, mine) },
				Sequence:  &sequence,
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	do(t, s, func(*store.Tx) error { return nil })
	for i, n := range order {
		if n != int64(i+1) {
			t.Fatalf("committed in the order %v", order)
		}
	}
	if len(order) != 50 {
		t.Errorf("%d of 50 were told", len(order))
	}
}

func TestSyncFlushesALogThatIsThere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if info, err := os.Stat(filepath.Join(dir, "talaria.db-wal")); err != nil || info.Size() == 0 {
		t.Fatalf("there is no log: %v", err)
	}
	if err := s.Sync(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil { // which removes the log
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("without a log: %v", err)
	}
}

func TestALockOutlivesItsServerForAMoment(t *testing.T) {
	dir := t.TempDir()
	child := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	if err := child.Lock(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = child.Unlock() })
	open(t, dir)
}

func TestASecondServerIsRefusedAndAGuestIsNot(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler)); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("a second server: %v", err)
	}
	guest, err := store.OpenGuest(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.PutToken(t.Context(), "tok", "ann", false); err != nil {
		t.Fatal(err)
	}
	if err := guest.Close(); err != nil {
		t.Fatal(err)
	}
	if owner, first, ok := s.Owner(t.Context(), "tok"); owner != "ann" || first || !ok {
		t.Errorf("Owner = %q, %v, %v", owner, first, ok)
	}
	if _, _, ok := s.Owner(t.Context(), "tokk"); ok {
		t.Error("a token that nobody has is good")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(t.Context(), store.Write{Apply: func(*store.Tx) error { return nil }}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
	open(t, dir) // the lock is free again
}

func TestTheLastServerIsKnown(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if last, err := s.Begin(t.Context(), "boot-1"); err != nil || !last.First || !last.Clean {
		t.Errorf("at first: %+v, %v", last, err)
	}
	do(t, s, func(tx *store.Tx) error { return tx.InsertSession(sample(41, "ann", "x")) })
	do(t, s, func(tx *store.Tx) error { return tx.DeleteSession(41) })
	s.Close()
	s, _ = store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if last, err := s.Begin(t.Context(), "boot-2"); err != nil || last.First || last.Clean || last.BootID != "boot-1" || last.LastN != 41 {
		t.Errorf("after a crash: %+v, %v", last, err)
	}
	if err := s.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = openOnly(t, dir)
	if last, err := s.Begin(t.Context(), "boot-2"); err != nil || !last.Clean || last.BootID != "boot-2" {
		t.Errorf("after an orderly end: %+v, %v", last, err)
	}
}

func openOnly(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSessionsAreListedByStateAndMetadataNewestFirst(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir()))
	do(t, s, func(tx *store.Tx) error {
		for n := int64(1); n <= 6; n++ {
			row := sample(n, "ann", string(rune('a'+n)))
			if n%2 == 0 {
				row.State, row.Metadata = api.StateDead, map[string]string{"chat": "42", "k.ey\"": "v'"}
			}
			if err := tx.InsertSession(row); err != nil {
				return err
			}
		}
		return tx.InsertSession(sample(7, "bob", "x"))
	})
	for name, c := range map[string]struct {
		f    store.SessionFilter
		want []int64
	}{
		"all":      {store.SessionFilter{Limit: 10}, []int64{6, 5, 4, 3, 2, 1}},
		"page":     {store.SessionFilter{Limit: 2, Before: 5}, []int64{4, 3}},
		"dead":     {store.SessionFilter{Limit: 10, State: api.StateDead}, []int64{6, 4, 2}},
		"metadata": {store.SessionFilter{Limit: 10, Metadata: map[string]string{"k.ey\"": "v'", "chat": "42"}}, []int64{6, 4, 2}},
		"none":     {store.SessionFilter{Limit: 10, Metadata: map[string]string{"chat": "4"}}, nil},
	} {
		c.f.Owner = "ann"
		rows, err := s.Sessions(t.Context(), c.f)
		var got []int64
		for _, r := range rows {
			got = append(got, r.N)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %s %v", name, diff, err)
		}
	}
}

func insertRef(tx *store.Tx, session int64, digest, kind string) error {
	_, err := tx.InsertRef(session, store.Ref{Digest: digest, Kind: kind, MediaType: "text/plain"})
	return err
}

func TestDeletingASessionTakesAllOfItAndNothingElse(t *testing.T) {
	s := open(t, t.TempDir())
	do(t, s, func(tx *store.Tx) error {
		for n := int64(1); n <= 2; n++ {
			if err := tx.InsertSession(sample(n, "ann", string(rune('a'+n)))); err != nil {
				return err
			}
			_, err := tx.InsertExecution(store.Execution{Session: n, ID: "e", Status: api.StatusQueued, State: api.VariablesKept})
			err = errors.Join(err, tx.InsertEvent(n, store.Event{Seq: 1, Type: "t", ExecutionID: "e", Body: []byte("{}")}),
				insertRef(tx, n, "both", store.RefPublic), tx.InsertArtifact(n, store.Artifact{Seq: 1, Path: "p", Change: api.Created}))
			if err != nil {
				return err
			}
		}
		return insertRef(tx, 1, "mine", store.RefEvent)
	})
	do(t, s, func(tx *store.Tx) error { return tx.DeleteSession(1) })
	if e, err := s.Events(t.Context(), 1, 0, 10); len(e) > 0 || err != nil {
		t.Errorf("events are left: %v %v", e, err)
	}
	if e, err := s.Events(t.Context(), 2, 0, 10); len(e) != 1 || err != nil {
		t.Errorf("the other's events: %v %v", e, err)
	}
	if d, err := s.AllDigests(t.Context()); len(d) != 1 || err != nil || d[0] != "both" {
		t.Errorf("digests: %v %v", d, err)
	}
	if mt, err := s.PublicRef(t.Context(), "ann", "both"); mt != "text/plain" || err != nil {
		t.Errorf("PublicRef = %q, %v", mt, err)
	}
	if _, err := s.PublicRef(t.Context(), "bob", "both"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another owner's digest: %v", err)
	}
	if n, err := s.CountExecutions(t.Context()); n != 1 || err != nil {
		t.Errorf("%d executions, %v", n, err)
	}
}

func TestALoginEndsWithItsTokenItsTimeOrItsLogout(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := t.Context()
	for token, owner := range map[string]string{"tal_a": "alice", "tal_b": "bob"} {
		if err := s.PutToken(ctx, token, owner, owner == "alice"); err != nil {
			t.Fatal(err)
		}
	}
	login := func(token string, until time.Time) string {
		t.Helper()
		value, err := s.Login(ctx, token, until)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	later := time.Now().Add(time.Hour)
	a, b, out, over := login("tal_a", later), login("tal_b", later), login("tal_b", later), login("tal_b", time.Now())
	if owner, first, ok := s.LoginOwner(ctx, a); owner != "alice" || !first || !ok {
		t.Errorf("the login is %q's, %v %v", owner, first, ok)
	}
	if _, err := s.Login(ctx, "none", later); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a token that is none: %v", err)
	}
	for _, of := range []string{"tal_a", over} {
		if _, _, ok := s.LoginOwner(ctx, of); ok {
			t.Errorf("%q is a login", of)
		}
	}
	before, err := s.Revocations(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Logout(ctx, out), s.RevokeToken(ctx, store.TokenID("tal_a"))); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Revocations(ctx); err != nil || after != before+2 {
		t.Errorf("%d revocations after %d, %v", after, before, err)
	}
	for login, good := range map[string]bool{a: false, out: false, b: true} {
		if _, _, ok := s.LoginOwner(ctx, login); ok != good {
			t.Errorf("a login is good: %v, want %v", ok, good)
		}
	}
	if _, _, ok := s.Owner(ctx, "tal_a"); ok {
		t.Error("the token is still good")
	}
	if err := s.RevokeToken(ctx, store.TokenID("tal_a")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	list, err := s.ListTokens(ctx)
	if err != nil || len(list) != 1 || list[0].Owner != "bob" || list[0].ID != store.TokenID("tal_b") || list[0].First {
		t.Errorf("the tokens are %+v, %v", list, err)
	}
}

func TestACutLogTakesWhatHadItsPlaceThere(t *testing.T) {
	s := open(t, t.TempDir())
	ids := []string{"before", "across", "after"}
	do(t, s, func(tx *store.Tx) error {
		if err := tx.InsertSession(sample(1, "ann", "x")); err != nil {
			return err
		}
		for i, seq := range []int64{1, 3, 6} { // each is queued, starts, and ends two later
			n, err := tx.InsertExecution(store.Execution{Session: 1, ID: ids[i], QueuedSeq: seq, Status: api.StatusQueued, State: api.VariablesKept})
			err = errors.Join(err, tx.FinishExecution(store.Execution{N: n, Status: api.StatusOK, State: api.VariablesKept, StartedSeq: seq + 1,
				FinishedSeq: seq + 2, FinishedAt: &seq}))
			if err != nil {
				return err
			}
		}
		for seq := int64(1); seq <= 8; seq++ {
			e := store.Event{Seq: seq, Type: "t", ExecutionID: ids[min((seq-1)/2, 2)], Size: 10, Digest: "body"}
			err := errors.Join(tx.InsertEvent(1, e), tx.InsertArtifact(1, store.Artifact{Seq: seq, Path: "p", Change: api.Created}),
				insertRef(tx, 1, "body", store.RefEvent))
			if err != nil {
				return err
			}
		}
		all := int64(8 * (10 + store.EventCost))
		if err := tx.PutDocument(1, api.Document{Through: 8}); err != nil {
			return err
		}
		return tx.Advance(1, store.Progress{LastSeq: new(int64(8)), LogBytes: all})
	})
	do(t, s, func(tx *store.Tx) error { return tx.TruncateLog(1, 4) })
	row, err := s.SessionNumber(t.Context(), 1)
	if err != nil || row.LastSeq != 4 || row.LogBytes != 4*(10+store.EventCost) {
		t.Errorf("the log ends at %d and has %d bytes, %v", row.LastSeq, row.LogBytes, err)
	}
	if list, err := s.Artifacts(t.Context(), 1, 0, 10); err != nil || len(list) != 4 || list[0].Seq != 4 {
		t.Errorf("the artifacts are %+v, %v", list, err)
	}
	if d, err := s.Document(t.Context(), 1); err != nil || d.Through != 4 {
		t.Errorf("the document has the executions through %d, %v", d.Through, err)
	}
	do(t, s, func(tx *store.Tx) error { // others take the places
		for seq := int64(5); seq <= 8; seq++ {
			if err := tx.InsertEvent(1, store.Event{Seq: seq, Type: "t", ExecutionID: "new", Body: []byte("{}")}); err != nil {
				return err
			}
		}
		return nil
	})
	for i, want := range []int{2, 2, 0} {
		if list, err := s.ExecutionEvents(t.Context(), 1, ids[i], 0, 10); err != nil || len(list) != want {
			t.Errorf("the execution %s has %d events, %v", ids[i], len(list), err)
		}
	}
	do(t, s, func(tx *store.Tx) error {
		_, _, unused, err := tx.TrimLog(1, 5)
		if len(unused) != 1 {
			t.Errorf("the bodies that nothing has any more are %q", unused)
		}
		return err
	})
}
