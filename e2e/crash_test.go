package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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
	seen  []line // valid once done is closed
}

// watch starts a witness; each event that it sees is also sent to seen if anybody listens.
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
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		id := session(t, s.Client(), api.SessionRequest{})
		random := rand.New(rand.NewPCG(7, uint64(len(who))))
		var witnesses []*witness
		for range 4 {
			witnesses = append(witnesses, killOnce(t, s, id, random)...)
			log := s.log(t, id)
			for _, w := range witnesses {
				sameLog(t, w.name, w.seen, log)
			}
		}
	})
}

// killOnce kills the server at some moment of a printing cell, and checks what it finds after a restart.
func killOnce(t *testing.T, s *Server, id string, random *rand.Rand) []*witness {
	t.Helper()
	c := s.Client()
	runOK(t, c, id, "alive = globals().get('alive', 0) + 1")
	inside, _ := s.daemon(t, id)
	printing, waiting := s.queue(t, id, slowLines), s.queue(t, id, "print('then', alive)")
	witnesses := s.killWhile(t, id, random)
	s.Restart(t)
	if !inside.alive() {
		t.Errorf("process %v went with the killed server", inside)
	}
	c = s.Client()
	before, err := c.Session(within(t), id)
	if err != nil || before.State != api.StateBusy || before.Kernel.Generation != 1 {
		t.Errorf("after the server was killed the session is %s, generation %d, %v", before.State, before.Kernel.Generation, err)
	}
	enough(t, c, id)
	e := s.ended(t, id, printing)
	if e.Status != api.StatusOK || e.State != api.VariablesKept {
		t.Errorf("the cell that ran ended %s %q", e.Status, e.Reason)
	}
	wantSlowLines(t, "the log", printed(e))
	if e := s.ended(t, id, waiting); e.Status != api.StatusOK || !strings.HasPrefix(e.Text, "then ") {
		t.Errorf("the cell that waited ended %s: %s", e.Status, e.Text)
	}
	events := past(t, c, id)
	if deaths := of[api.KernelDied](events); len(deaths) > 0 {
		t.Errorf("the log has the deaths %+v", deaths)
	}
	for i, event := range events {
		if event.Seq != int64(i)+1 {
			t.Fatalf("event %d of the log has seq %d", i+1, event.Seq)
		}
	}
	return witnesses
}

// killWhile kills the server after its clients have seen some events, and returns what each of them saw.
func (s *Server) killWhile(t *testing.T, id string, random *rand.Rand) []*witness {
	t.Helper()
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
	for range 5 + random.IntN(60) { // that many events, of any of them
		select {
		case <-tell:
		case <-time.After(patience):
			t.Fatal("no events come")
		}
	}
	s.Kill9()
	for _, w := range witnesses {
		<-w.done
		w.stop()
	}
	return witnesses
}

// ended waits for the end of an execution.
func (s *Server) ended(t *testing.T, session, execution string) api.Execution {
	t.Helper()
	c := s.Client()
	for _, err := range c.ExecutionEvents(within(t), session, execution, 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := c.Execution(within(t), session, execution)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestACrashOfTheHostIsToldAndLeavesNothing is row K07.
func TestACrashOfTheHostIsToldAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, both := range map[string]bool{"the host": false, "server and host": true} {
		t.Run(name, func(t *testing.T) {
			everyIdentity(t, func(t *testing.T, who identity) {
				t.Parallel()
				s := start(t, options{as: who})
				c := s.Client()
				id := session(t, c, api.SessionRequest{})
				runOK(t, c, id, "alive = True; open('kept.txt', 'w').write('bytes')")
				gone := s.marked(t, id)
				printing, waiting := s.queue(t, id, slowLines), s.queue(t, id, "print('never')")
				k := s.attach(t, id, "after=0")
				k.awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == printing })
				inside, host := s.kernels(t), s.host(t)
				if both {
					s.Kill9()
				}
				if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				if both {
					s.Restart(t)
				}
				e := s.ended(t, id, printing)
				wantEnd(t, e, api.StatusDied, "host_crash", api.VariablesLost)
				wantBegun(t, "the log", e.Outputs[0].Text)
				wantEnd(t, s.ended(t, id, waiting), api.StatusCancelled, "host_crash", api.VariablesLost)
				c = s.Client()
				events := past(t, c, id)
				if deaths := of[api.KernelDied](events); len(deaths) != 1 || deaths[0].Reason != "host_crash" || deaths[0].Generation != 1 {
					t.Errorf("the log has the deaths %+v", deaths)
				}
				next := run(t, c, id, "print('alive' in globals(), open('kept.txt').read())")
				if next.Generation != 2 || printed(next) != "False bytes\n" || *next.ExecutionCount != 1 {
					t.Errorf("the next cell: generation %d, count %d, %q", next.Generation, *next.ExecutionCount, next.Text)
				}
				for _, p := range append(inside, host) {
					if p.alive() {
						t.Errorf("process %v outlives its host", p)
					}
				}
				gone(t)
				if list := s.hosts(t); len(list) != 1 || list[0].PID == host.pid {
					t.Errorf("the hosts are %+v", list)
				}
			})
		})
	}
}

func TestSIGTERMEndsTheServerAndLeavesTheKernels(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	inside, _ := s.daemon(t, id)
	printing, waiting, seen, _ := endsInOrder(t, s, id, syscall.SIGTERM)
	if !inside.alive() {
		t.Errorf("process %v went with its server", inside)
	}
	s.Restart(t)
	sameLog(t, "a reader of before", seen, s.log(t, id))
	enough(t, s.Client(), id)
	e := s.ended(t, id, printing)
	if e.Status != api.StatusOK || e.Generation != 1 {
		t.Errorf("the cell that ran ended %s %q in generation %d", e.Status, e.Reason, e.Generation)
	}
	wantSlowLines(t, "the log", printed(e))
	if e := s.ended(t, id, waiting); e.Status != api.StatusOK || e.Text != "later\n" {
		t.Errorf("the cell that waited ended %s: %s", e.Status, e.Text)
	}
}

func TestSIGINTEndsTheServerAndTheKernels(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	printing, waiting, seen, inside := endsInOrder(t, s, id, syscall.SIGINT)
	for _, p := range inside {
		if p.alive() {
			t.Errorf("process %v outlives its server", p)
		}
	}
	if list := s.hosts(t); len(list) > 0 {
		t.Errorf("there are the hosts %+v", list)
	}
	s.Restart(t)
	c := s.Client()
	sameLog(t, "a reader of before", seen, s.log(t, id))
	wantEnd(t, s.ended(t, id, printing), api.StatusDied, "server_shutdown", api.VariablesLost)
	wantEnd(t, s.ended(t, id, waiting), api.StatusCancelled, "server_shutdown", api.VariablesLost)
	if deaths := of[api.KernelDied](past(t, c, id)); len(deaths) != 1 || deaths[0].Reason != "server_shutdown" {
		t.Errorf("the log has the deaths %+v", deaths)
	}
	if got := runOK(t, c, id, "print(open('kept.txt').read())"); got != "bytes\n" {
		t.Errorf("the workspace has %q", got)
	}
	if resets := of[api.KernelReset](past(t, c, id)); len(resets) != 1 || resets[0].Reason != "restart" {
		t.Errorf("the log has the resets %+v", resets)
	}
}

// endsInOrder ends a busy server with a signal, and checks that its clients are told.
func endsInOrder(t *testing.T, s *Server, id string, sig syscall.Signal) (printing, waiting string, seen []line, inside []process) {
	t.Helper()
	c := s.Client()
	runOK(t, c, id, "print('before'); open('kept.txt', 'w').write('bytes')")
	printing, waiting = s.queue(t, id, slowLines), s.queue(t, id, "print('later')")
	k := s.attach(t, id, "after=0")
	k.awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == printing })
	inside = s.kernels(t)
	w := s.watch(t, "NDJSON", s.readers()["NDJSON"], id, 0, nil)
	<-w.first
	held := make(chan answer, 1)
	go func() { // a waiting request gets the execution so far
		a, _ := s.tryDo(t.Context(), call{method: "POST", path: "/v1/sessions/" + id + "/executions", body: `{"code":"1","id":"held"}`})
		held <- a
	}()
	k.awaits(t, func(h head, _ []byte) bool { return h.Type == "execution_queued" && h.ExecutionID == "held" })

	took, state := s.Signal(t, sig)
	if !state.Success() {
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
	return printing, waiting, w.seen, inside
}

func TestTheHostIsStoppedByCommandAndBySignal(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	for generation, stop := range []func(){
		func() { s.stopHosts(t) },
		func() { _ = syscall.Kill(s.host(t).pid, syscall.SIGTERM) },
	} {
		runOK(t, c, id, "alive = 1")
		printing := s.queue(t, id, slowLines)
		s.attach(t, id, "after=0").awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == printing })
		inside := s.kernels(t)
		stop()
		e := s.ended(t, id, printing)
		wantEnd(t, e, api.StatusDied, "server_shutdown", api.VariablesLost)
		wantBegun(t, "the log", e.Outputs[0].Text)
		if next := run(t, c, id, "print('alive' in globals())"); next.Generation != int64(generation+2) || printed(next) != "False\n" {
			t.Errorf("the next cell: generation %d, %q", next.Generation, next.Text)
		}
		for _, p := range inside {
			if p.alive() {
				t.Errorf("process %v outlives its host", p)
			}
		}
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
	// More than sockets buffer, so that the server has written some of it.
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

// checkSessionsOnDisk checks that the state directory has a folder for each session and no others.
func checkSessionsOnDisk(t *testing.T, s *Server, c *client.Client) {
	t.Helper()
	page, err := c.Sessions(within(t), client.SessionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(s.StateDir, "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name()[0] == '.' }) // the host's own folders
	if len(entries) != len(page.Items) {
		t.Errorf("%d sessions have %d folders: %v", len(page.Items), len(entries), entries)
	}
}
