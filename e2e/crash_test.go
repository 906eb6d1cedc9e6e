package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// witness reads a session's events until its server dies; what it saw must be the log's forever.
type witness struct {
	stop  context.CancelFunc
	first chan struct{} // closed with the first event
	done  chan struct{}
	name  string
	seen  []line // once done is closed
}

// watch starts a witness; each seen event is told where anybody listens.
func (s *Server) watch(t *testing.T, name string, read reader, session string, after int64, tell chan<- line) *witness {
	ctx, cancel := context.WithCancel(t.Context())
	w := &witness{stop: cancel, first: make(chan struct{}), done: make(chan struct{}), name: name}
	go func() {
		defer close(w.done)
		_ = read(ctx, session, after, func(l line) bool { // it ends with the server
			if w.seen = append(w.seen, l); len(w.seen) == 1 {
				close(w.first)
			}
			select {
			case tell <- l:
			default:
			}
			return false
		})
	}()
	return w
}

func TestNothingThatAnybodySawIsLostWhenTheServerIsKilled(t *testing.T) {
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		id := session(t, s.Client(), api.SessionRequest{})
		random := rand.New(rand.NewPCG(7, uint64(len(who))))
		rounds := 8
		if who == asUser {
			rounds = 3
		}
		var witnesses []*witness
		for round := range rounds {
			witnesses = append(witnesses, killOnce(t, s, id, int64(round+1), random)...)
			log := s.log(t, id)
			for _, w := range witnesses {
				sameLog(t, w.name, w.seen, log)
			}
		}
	})
}

// killOnce kills the server at some moment of a printing cell, and checks what it finds after a restart.
func killOnce(t *testing.T, s *Server, id string, generation int64, random *rand.Rand) []*witness {
	t.Helper()
	c := s.Client()
	if e := run(t, c, id, "alive = True"); e.Generation != generation || e.Status != api.StatusOK {
		t.Fatalf("the first cell of a fresh kernel ended %s in generation %d, want %d", e.Status, e.Generation, generation)
	}
	printing, waiting := s.queue(t, id, slowLines), s.queue(t, id, "print('never')")
	tell := make(chan line)
	var witnesses []*witness
	for name, read := range s.readers() {
		witnesses = append(witnesses, s.watch(t, name, read, id, 0, tell))
	}
	for _, w := range witnesses {
		select {
		case <-w.first:
		case <-w.done:
			t.Fatalf("%s: no events come", w.name)
		}
	}
	for range 5 + random.IntN(60) { // so many events, of any of them
		select {
		case <-tell:
		case <-time.After(patience):
			t.Fatal("no events come")
		}
	}
	inside := descendants(s.PID())
	if len(inside) < 2 {
		t.Errorf("below the server there are only %v", inside)
	}
	s.Kill9()
	for _, w := range witnesses {
		<-w.done
		w.stop()
	}
	s.Restart(t)
	for _, p := range inside {
		if p.alive() {
			t.Errorf("process %v of the killed server lives", p)
		}
	}
	for _, left := range append(mounts(s.StateDir), groups(s.StateDir)...) {
		if !s.preparing(left) {
			t.Errorf("left of the killed server: %s", left)
		}
	}
	checkAfterCrash(t, s, id, printing, waiting, generation)
	return witnesses
}

// preparing reports whether a control group is of a sandbox that the present server has just made for itself.
func (s *Server) preparing(left string) bool {
	dir, ok := strings.CutPrefix(left, "control group ")
	if !ok {
		return false
	}
	own := false
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			if members, _ := os.ReadFile(path); len(members) > 0 {
				own = true
			}
		}
		return nil
	})
	return own
}

func checkAfterCrash(t *testing.T, s *Server, id, printing, waiting string, generation int64) {
	t.Helper()
	c := s.Client()
	info, err := c.Session(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if info.State != api.StateDead || info.Reason != "server_crash" {
		t.Errorf("after a crash the session is %s %q", info.State, info.Reason)
	}
	e, err := c.Execution(within(t), id, printing)
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, e, api.StatusDied, "server_crash", api.VariablesLost)
	if e, err = c.Execution(within(t), id, waiting); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, e, api.StatusCancelled, "server_crash", api.VariablesLost)
	events := past(t, c, id)
	if deaths := of[api.KernelDied](events); len(deaths) != int(generation) ||
		deaths[generation-1].Reason != "server_crash" || deaths[generation-1].Generation != generation {
		t.Errorf("after crash %d the log has the deaths %+v", generation, deaths)
	}
	next := run(t, c, id, "print('alive' in globals())")
	if next.Generation != generation+1 || printed(next) != "False\n" || *next.ExecutionCount != 1 {
		t.Errorf("the next cell: generation %d, count %d, %q", next.Generation, *next.ExecutionCount, next.Text)
	}
	events = past(t, c, id)
	if resets := of[api.KernelReset](events); len(resets) != int(generation) ||
		resets[generation-1] != (api.KernelReset{Reason: "restart", Generation: generation + 1}) {
		t.Errorf("after crash %d the log has the resets %+v", generation, resets)
	}
	for i, event := range events {
		if event.Seq != int64(i)+1 {
			t.Fatalf("event %d of the log has seq %d", i+1, event.Seq)
		}
	}
}

func TestSIGTERMEndsTheServerAndKeepsAllThatWas(t *testing.T) {
	endsInOrder(t, syscall.SIGTERM)
}

func TestSIGINTEndsTheServerAndKeepsAllThatWas(t *testing.T) {
	endsInOrder(t, syscall.SIGINT)
}

func endsInOrder(t *testing.T, sig syscall.Signal) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "print('before'); open('kept.txt', 'w').write('bytes')")
	printing, waiting := s.queue(t, id, slowLines), s.queue(t, id, "print('never')")
	k := s.attach(t, id, "after=0")
	k.awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == printing })
	inside := descendants(s.PID())
	w := s.watch(t, "NDJSON", s.readers()["NDJSON"], id, 0, nil)
	<-w.first
	held := make(chan answer, 1)
	go func() { // a request that waits gets the execution so far
		a, _ := s.tryDo(t.Context(), call{method: "POST", path: "/v1/sessions/" + id + "/executions", body: `{"code":"1","id":"held"}`})
		held <- a
	}()
	k.awaits(t, func(h head, _ []byte) bool { return h.Type == "execution_queued" && h.ExecutionID == "held" })

	took, state := s.Signal(t, sig)
	if took > 5*time.Second || !state.Success() {
		t.Errorf("%v: the server ended after %v with %v", sig, took, state)
	}
	if code, _ := k.untilClose(t); code != 1001 {
		t.Errorf("%v: the socket was closed with %d, want 1001", sig, code)
	}
	if a := <-held; a.status != 202 {
		t.Errorf("%v: a waiting request got %d %.200s", sig, a.status, a.body)
	}
	<-w.done
	w.stop()
	for _, p := range inside {
		if p.alive() {
			t.Errorf("process %v outlives its server", p)
		}
	}
	s.Restart(t)
	c = s.Client()
	log := s.log(t, id)
	sameLog(t, "a reader of before", w.seen, log)
	e, err := c.Execution(within(t), id, printing)
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, e, api.StatusDied, "server_shutdown", api.VariablesLost)
	if e, err = c.Execution(within(t), id, waiting); err != nil {
		t.Fatal(err)
	}
	wantEnd(t, e, api.StatusCancelled, "server_shutdown", api.VariablesLost)
	if deaths := of[api.KernelDied](past(t, c, id)); len(deaths) != 1 || deaths[0].Reason != "server_shutdown" {
		t.Errorf("the log has the deaths %+v", deaths)
	}
	if got := runOK(t, c, id, "print(open('kept.txt').read())"); got != "bytes\n" {
		t.Errorf("the workspace has %q", got)
	}
	if resets := of[api.KernelReset](past(t, c, id)); len(resets) != 1 || resets[0].Reason != "restart" {
		t.Errorf("the log has the resets %+v", resets)
	}
	list, err := c.Executions(within(t), id, api.PageQuery{})
	if err != nil || len(list.Items) != 5 || printed(list.Items[4]) != "before\n" {
		t.Errorf("past executions: %d, %v", len(list.Items), err)
	}
}

func TestASecondServerOnAStateDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "x = 1")
	out, err := s.command(within(t), "serve", "--state-dir", s.StateDir, "--addr", "127.0.0.1:0").CombinedOutput()
	if err == nil {
		t.Errorf("a second server ran, and ended well: %s", out)
	}
	if !strings.Contains(string(out), "state directory") || strings.Contains(string(out), "goroutine") {
		t.Errorf("the second server says only %q", out)
	}
	if got := runOK(t, s.Client(), id, "print(x)"); got != "1\n" {
		t.Errorf("the first server's kernel says %q", got)
	}
}

// A crash while files are being written leaves none of the unfinished ones.
func TestACrashLeavesNoUnfinishedFiles(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	body, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	uploaded := make(chan error, 1)
	go func() {
		_, _, err := c.PutFile(t.Context(), id, "folder/half.bin", body)
		uploaded <- err
	}()
	// More than sockets hold, so that the server has written some of it.
	if _, err := feed.WriteString(strings.Repeat("half a file, ", 3<<20)); err != nil {
		t.Fatal(err)
	}
	s.Kill9()
	feed.Close()
	if err := <-uploaded; err == nil {
		t.Error("an upload to a killed server went well")
	}
	s.Restart(t)
	c = s.Client()
	for _, folder := range []string{"", "folder"} {
		list, err := c.Files(within(t), id, folder)
		if err != nil && folder == "" {
			t.Fatal(err)
		}
		for _, f := range list {
			if f.Kind != "directory" {
				t.Errorf("after the crash there is %s, %d bytes", f.Path, f.Size)
			}
		}
	}
	if got := runOK(t, c, id, "import os; print([n for _, _, names in os.walk('.') for n in names])"); got != "[]\n" {
		t.Errorf("the session sees %s", got)
	}
	if _, err := c.ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Error(err)
	}
	checkSessionsOnDisk(t, s, c)
}

// checkSessionsOnDisk checks that the state directory has a folder for each session and no other.
func checkSessionsOnDisk(t *testing.T, s *Server, c *client.Client) {
	t.Helper()
	page, err := c.Sessions(within(t), client.SessionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	s.Terminate(t) // so that it makes nothing for itself
	entries, err := os.ReadDir(filepath.Join(s.StateDir, "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(page.Items) {
		t.Errorf("%d sessions have %d folders: %v", len(page.Items), len(entries), entries)
	}
}
