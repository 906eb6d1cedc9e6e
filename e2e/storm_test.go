package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
)

// The cells of the storm. Each goes on until it is told to stop, and counts in n.
const (
	// hashedLines prints numbered lines, each with the hash of all lines before it.
	hashedLines = `import hashlib, os, time
hash, n = hashlib.sha256(), 0
while not os.path.exists("enough"):
    line = f"{n} {hash.hexdigest()}\n"
    hash.update(line.encode())
    print(line, end="")
    n += 1
    if n % 50 == 0:
        time.sleep(0.02)`
	// fastLines prints the same almost without a pause, and overflows the log.
	fastLines = `import hashlib, os, time
hash, n = hashlib.sha256(), 0
while not os.path.exists("enough"):
    line = f"{n} {hash.hexdigest()}\n"
    hash.update(line.encode())
    print(line, end="")
    n += 1
    if n % 1000 == 0:
        time.sleep(0.02)`
	// parentAndChild prints lines of a child process between its own.
	parentAndChild = `import os, subprocess, time
n = 0
while not os.path.exists("enough"):
    subprocess.run(["sh", "-c", f'i=0; while [ $i -lt 40 ]; do echo "child {n} $i"; i=$((i+1)); done'])
    print("parent", n)
    n += 1
    time.sleep(0.01)`
	// progressLines overwrites each of its lines many times.
	progressLines = `import os, time
n = 0
while not os.path.exists("enough"):
    for i in range(30):
        print(f"\r{n} {i:2}", end="")
    print()
    n += 1
    time.sleep(0.01)`
	// charts shows charts between its lines.
	charts = `import os, time
import matplotlib.pyplot as plt
n = 0
while not os.path.exists("enough"):
    plt.figure(figsize=(1, 1)).text(0, 0, str(n))
    plt.show()
    print("chart", n)
    n += 1
    time.sleep(0.02)`
)

// stormKills is how often the server is killed after it was ready, and stormFalseStarts how often while it is
// starting.
const stormKills, stormFalseStarts = 42, 12

// follower reads one session through all kills: it reconnects with only the last number that it saw.
type follower struct {
	session string
	done    chan struct{}
	seen    []line // valid once done is closed
}

// stormy is a server that comes and goes.
type stormy struct {
	*Server
	mu     sync.Mutex // guards the fields below
	up     *sync.Cond
	now    *Server // nil while there is none
	starts int
}

func (s *stormy) set(serves bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = nil
	if serves {
		now := *s.Server
		s.now = &now
		s.starts++
	}
	s.up.Broadcast()
}

// await returns the server of a later start than that one, when it is ready.
func (s *stormy) await(after int) (*Server, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.now == nil || s.starts <= after {
		s.up.Wait()
	}
	return s.now, s.starts
}

// follow reads the log until the execution has ended.
func (s *stormy) follow(ctx context.Context, kind, session, execution string) *follower {
	f := &follower{session: session, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		after, start := int64(0), 0
		for ended := false; !ended && ctx.Err() == nil; {
			var now *Server
			now, start = s.await(start)
			_ = now.readers()[kind](ctx, session, after, func(l line) bool { // it ends with the server
				f.seen = append(f.seen, l)
				after = l.head.Seq
				ended = ended || ends(execution)(l)
				return ended
			})
		}
	}()
	return f
}

func TestAStormOfKillsLosesNothing(t *testing.T) {
	t.Parallel()
	s := &stormy{Server: start(t, options{})}
	s.up = sync.NewCond(&s.mu)
	s.set(true)
	c := s.Client()
	cells := map[string]string{"lines": hashedLines, "flood": fastLines, "child": parentAndChild, "progress": progressLines, "charts": charts}
	ids, executions := map[string]string{}, map[string]string{}
	var kernels []process
	var followers []*follower
	kinds := []string{"WebSocket", "SSE", "NDJSON"}
	for name, code := range cells {
		req := api.SessionRequest{Limits: &api.LimitsRequest{ExecutionTimeoutS: new(3000.0)}} // longer than any storm
		if name == "lines" {
			req.Limits.OutputBytes = new(int64(64 << 20))
		}
		ids[name] = session(t, c, req)
		inside, _ := s.daemon(t, ids[name])
		kernels = append(kernels, inside)
		executions[name] = s.queue(t, ids[name], code)
		kind := kinds[len(followers)%len(kinds)]
		followers = append(followers, s.follow(t.Context(), kind, ids[name], executions[name]))
	}
	asking := session(t, c, api.SessionRequest{})
	runOK(t, c, asking, "before = 'alive'")
	k := s.attach(t, asking, "after=0")
	k.say(t, `{"type":"execute","id":"ask","code":"answer = input('still there? ')\nprint(before, answer)"}`)
	k.awaitType(t, "input_request")
	k.cut()

	random := rand.New(rand.NewPCG(3, 4))
	for i := range stormKills + stormFalseStarts {
		if i > 0 {
			s.launch(t)
			s.set(true)
		}
		if i < stormFalseStarts { // kill it, and one more that is not ready yet
			s.set(false)
			s.Kill9()
			s.falseStart(t, time.Duration(random.IntN(150))*time.Millisecond)
			continue
		}
		<-time.After(time.Duration(random.IntN(200)) * time.Millisecond)
		s.set(false)
		s.Kill9()
	}
	s.launch(t)
	s.set(true)
	for _, p := range kernels {
		if !p.alive() {
			t.Errorf("process %v went with a killed server", p)
		}
	}
	c = s.Client()
	for name := range cells {
		enough(t, c, ids[name])
	}
	for _, f := range followers {
		select {
		case <-f.done:
		case <-time.After(patience):
			t.Fatal("a follower does not come to the end")
		}
		sameLog(t, "a follower", f.seen, s.log(t, f.session))
	}
	for name, check := range map[string]func(*testing.T, api.Execution, int){
		"lines": wantHashedLines, "flood": s.wantFlood, "child": wantChildLines, "progress": wantProgress,
		"charts": wantCharts,
	} {
		e := s.ended(t, ids[name], executions[name])
		if e.Status != api.StatusOK || e.State != api.VariablesKept || e.Generation != 1 {
			t.Errorf("%s: the cell ended %s %q %s in generation %d", name, e.Status, e.Reason, e.State, e.Generation)
		}
		var n int
		if _, err := fmt.Sscan(runOK(t, c, ids[name], "print(n)"), &n); err != nil || n == 0 {
			t.Errorf("%s: n is %d, %v", name, n, err)
		}
		t.Logf("%s: %d", name, n)
		check(t, e, n)
	}
	info, err := c.Session(within(t), asking)
	if err != nil || info.PendingInput == nil || info.PendingInput.Prompt != "still there? " {
		t.Fatalf("the question is %+v, %v", info.PendingInput, err)
	}
	s.want(t, call{method: "POST", path: "/v1/sessions/" + asking + "/input", body: `{"value":"yes"}`}, http.StatusOK, "")
	if e := s.ended(t, asking, "ask"); e.Status != api.StatusOK || printed(e) != "alive yes\n" {
		t.Errorf("the cell that asked ended %s: %s", e.Status, e.Text)
	}
}

// falseStart starts a server and kills it after a while, ready or not.
func (s *Server) falseStart(t *testing.T, after time.Duration) {
	t.Helper()
	cmd := s.command(context.Background(), "serve", "--state-dir", s.StateDir, "--addr", "127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// wantLines checks hashed lines, and their number.
func wantLines(t *testing.T, what, text string, n int) {
	t.Helper()
	hash, line := sha256.New(), 0
	for got := range strings.Lines(text) {
		want := fmt.Sprintf("%d %s\n", line, hex.EncodeToString(hash.Sum(nil)))
		if got != want {
			t.Fatalf("%s: line %d is %q, want %q", what, line, got, want)
		}
		hash.Write([]byte(got))
		line++
	}
	if line != n {
		t.Errorf("%s: there are %d lines, want %d", what, line, n)
	}
}

func wantHashedLines(t *testing.T, e api.Execution, n int) {
	t.Helper()
	if e.TruncatedBytes != 0 {
		t.Errorf("lines: the log lacks %d bytes", e.TruncatedBytes)
	}
	wantLines(t, "lines", printed(e), n)
}

// wantFlood checks that the artifact has the whole output, and the log its beginning and its end.
func (s *stormy) wantFlood(t *testing.T, e api.Execution, n int) {
	t.Helper()
	var notice *api.Truncated
	for _, event := range past(t, s.Client(), e.SessionID) {
		if b, ok := event.Body.(api.Stream); ok && b.Truncated != nil {
			notice = b.Truncated
		}
	}
	if notice == nil {
		if e.TruncatedBytes == 0 { // a slow machine printed too little
			wantLines(t, "flood", printed(e), n)
			return
		}
		t.Fatal("flood: there is no notice of what the log lacks")
	}
	res, err := s.open(within(t), call{method: "GET", path: notice.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	whole, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, "flood", string(whole), n)
	text := printed(e)
	half := len(text) / 3
	if !strings.HasPrefix(string(whole), text[:half]) || !strings.HasSuffix(string(whole), text[len(text)-half:]) {
		t.Error("flood: the log does not begin and end as the whole does")
	}
	if notice.Bytes != e.TruncatedBytes || e.TruncatedBytes <= 0 {
		t.Errorf("flood: the notice says %d bytes, the execution %d", notice.Bytes, e.TruncatedBytes)
	}
}

func wantChildLines(t *testing.T, e api.Execution, n int) {
	t.Helper()
	var want strings.Builder
	for i := range n {
		for j := range 40 {
			fmt.Fprintf(&want, "child %d %d\n", i, j)
		}
		fmt.Fprintf(&want, "parent %d\n", i)
	}
	if got := printed(e); got != want.String() {
		t.Errorf("child: the log has %d bytes, want %d, or another order", len(got), want.Len())
	}
}

// wantProgress checks that each line has its last state, and that no earlier state appears twice.
func wantProgress(t *testing.T, e api.Execution, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(printed(e), "\n"), "\n")
	if len(lines) != n {
		t.Errorf("progress: there are %d lines, want %d", len(lines), n)
	}
	for i, line := range lines {
		last := -1
		for state := range strings.SplitSeq(strings.TrimPrefix(line, "\r"), "\r") {
			var number, at int
			if _, err := fmt.Sscan(state, &number, &at); err != nil || number != i || at <= last {
				t.Fatalf("progress: line %d is %q", i, line)
			}
			last = at
		}
		if last != 29 {
			t.Fatalf("progress: line %d is %q", i, line)
		}
	}
	if !strings.HasPrefix(e.Text, "0 29\n1 29\n2 29\n") {
		t.Errorf("progress: the text begins with %.100q", e.Text)
	}
}

func wantCharts(t *testing.T, e api.Execution, n int) {
	t.Helper()
	shown := 0
	for _, o := range e.Outputs {
		switch o.OutputType {
		case "display_data":
			image, err := base64.StdEncoding.DecodeString(text(t, o.Data, "image/png"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := png.Decode(bytes.NewReader(image)); err != nil {
				t.Errorf("chart %d: %v", shown, err)
			}
		case "stream":
			if o.Name == "stderr" { // matplotlib says so when it has no cache of fonts
				continue
			}
			if o.Text != fmt.Sprintf("chart %d\n", shown) {
				t.Fatalf("after chart %d the log has %q", shown, o.Text)
			}
			shown++
		}
	}
	if shown != n {
		t.Errorf("there are %d charts, want %d", shown, n)
	}
}
