package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// openCalls is how many calls are open when something is killed; every other one may be made again.
const openCalls = 8

// killRounds is how often something is killed with calls open.
func killRounds() int {
	if os.Getenv("E2E_ALL") != "" {
		return 20
	}
	return 3
}

// callsOf returns a cell that calls the tools once and again at the same time, and prints what each call got.
func callsOf(round int) string {
	return fmt.Sprintf(`
import json, hermes_tools
from concurrent.futures import ThreadPoolExecutor
def call(n):
    try: return getattr(hermes_tools, "again" if n %% 2 else "once")(round=%d, n=n)
    except hermes_tools.ProviderGone: return "gone"
with ThreadPoolExecutor(%d) as pool: print(json.dumps(list(pool.map(call, range(%[2]d)))))
`, round, openCalls)
}

// answersBefore says how many calls are answered before the kill in a round: none, or a number that makes the kill race with
// the answers.
func answersBefore(round int) int {
	if round%2 == 0 {
		return 0
	}
	return 1 + round%openCalls
}

// runs counts how often a provider carried out each call, by the name of its tool and its id.
type runs map[string]int

// awaitCalls reads lines of a provider until all calls are open.
func (r runs) awaitCalls(t *testing.T, lines <-chan string) {
	t.Helper()
	for range openCalls {
		r[nextLine(t, lines)]++
	}
}

// awaitAnswers reads lines of a provider until n calls are about to be answered.
func awaitAnswers(t *testing.T, lines <-chan string, n int) {
	t.Helper()
	for range n {
		if line := nextLine(t, lines); line != "answer" {
			t.Fatalf("the provider says %q, want an answer", line)
		}
	}
}

func nextLine(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line, ok := <-lines:
		if !ok {
			t.Fatal("the provider ended")
		}
		return line
	case <-within(t).Done():
		t.Fatal("the provider says nothing")
	}
	return ""
}

// check checks that the cell of a round got an answer or ProviderGone for each call, and that none was made twice which
// may not be.
func (r runs) check(t *testing.T, c *client.Client, session, execution string, round int) {
	t.Helper()
	e, err := c.Execute(within(t), session, api.ExecutionRequest{ID: &execution, Code: new(callsOf(round))})
	if err != nil || e.Status != api.StatusOK || e.ToolCalls != openCalls {
		t.Fatalf("round %d: the cell is %s with %d calls: %s (%v)", round, e.Status, e.ToolCalls, e.Text, err)
	}
	var got []any
	if err := json.Unmarshal([]byte(e.Text), &got); err != nil || len(got) != openCalls {
		t.Fatalf("round %d: the cell printed %q (%v)", round, e.Text, err)
	}
	for n, answer := range got {
		mayAnswer := n%2 == 1 || answersBefore(round) > 0
		mayGo := n%2 == 0
		if !(mayAnswer && answer == float64(n) || mayGo && answer == "gone") {
			t.Errorf("round %d: call %d got %v", round, n, answer)
		}
	}
	made := 0
	for call, times := range r {
		if strings.HasPrefix(call, "once ") && times > 1 {
			t.Errorf("round %d: %s was made %d times", round, call, times)
		}
		if strings.Contains(call, " ") {
			made++
		}
	}
	if made != openCalls {
		t.Errorf("round %d: the provider got %d calls: %v", round, made, r)
	}
	events := collect(t, c.ExecutionEvents(within(t), session, execution, 0))
	opened, ended := map[string]bool{}, map[string]bool{}
	for _, call := range of[api.ToolCalled](events) {
		opened[call.CallID] = true
	}
	returned := of[api.ToolReturned](events)
	for _, call := range returned {
		ended[call.CallID] = true
	}
	if len(opened) != openCalls || len(returned) != openCalls || !reflect.DeepEqual(opened, ended) {
		t.Errorf("round %d: the log opens %v and ends %v", round, opened, returned)
	}
}

// TestCallsThatAreOpenWhenTheServerIsKilledEndOnce has the provider outlive the server.
func TestCallsThatAreOpenWhenTheServerIsKilledEndOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	p := newProxy(t, s)
	id := session(t, s.Client(), api.SessionRequest{})
	socket, err := client.New("http://"+p.Addr().String(), s.Token).Attach(within(t), id, client.AttachOptions{Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	lines := make(chan string, 1024)
	var released []chan struct{} // by round
	for range killRounds() {
		released = append(released, make(chan struct{}))
	}
	call := func(ctx context.Context, call api.ToolRequest) (any, error) {
		var arguments struct{ Round, N int }
		if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
			return nil, err
		}
		lines <- call.Tool + " " + call.CallID
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-released[arguments.Round]:
			lines <- "answer"
			return arguments.N, nil
		}
	}
	served, err := socket.ServeTools(within(t), "prices", client.ToolFunc{Tool: api.Tool{Name: "once"}, Call: call},
		client.ToolFunc{Tool: api.Tool{Name: "again", Idempotent: true}, Call: call})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	for round := range killRounds() {
		made, execution := runs{}, client.NewID()
		if _, err := s.Client().ExecuteWait(within(t), id, api.ExecutionRequest{ID: &execution, Code: new(callsOf(round))}, 0); err != nil {
			t.Fatal(err)
		}
		made.awaitCalls(t, lines)
		if n := answersBefore(round); n > 0 {
			close(released[round])
			awaitAnswers(t, lines, n)
		}
		s.Kill9()
		s.Restart(t)
		p.redirect(s)
		if answersBefore(round) == 0 {
			close(released[round])
		}
		if _, err := s.Client().Execute(within(t), id, api.ExecutionRequest{ID: &execution, Code: new(callsOf(round))}); err != nil {
			t.Fatal(err)
		}
		for len(lines) > 0 {
			made[<-lines]++
		}
		made.check(t, s.Client(), id, execution, round)
	}
}

// providerProgram provides the tools once and again until it is killed. Each line of its input releases the calls of a round.
const providerProgram = `
import os, sys, threading
from talaria import Talaria, ToolCall

changed, released = threading.Condition(), set()

def answer(call, round, n):
    os.write(1, f"{call.tool} {call.id}\n".encode())
    with changed:
        changed.wait_for(lambda: round in released)
    os.write(1, b"answer\n")
    return n

session = Talaria(sys.argv[1], sys.argv[2]).session(sys.argv[3], client_id="prices")

@session.tool
def once(round: int, n: int, call: ToolCall) -> int:
    return answer(call, round, n)

@session.tool(idempotent=True)
def again(round: int, n: int, call: ToolCall) -> int:
    return answer(call, round, n)

os.write(1, b"ready\n")
for line in sys.stdin:
    with changed:
        released.add(int(line))
        changed.notify_all()
`

// providerProcess is a program that provides tools.
type providerProcess struct {
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // of its output; closed at its end
}

func startProvider(t *testing.T, s *Server, wheel, session string) *providerProcess {
	t.Helper()
	p := &providerProcess{cmd: exec.Command("python3", "-c", providerProgram, s.URL, s.Token, session), lines: make(chan string, 1024)}
	p.cmd.Env = append(os.Environ(), "PYTHONPATH="+wheel)
	p.cmd.Stderr = t.Output()
	t.Cleanup(func() { p.kill9() })
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	return p
}

func (p *providerProcess) release(t *testing.T, round int) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, round); err != nil {
		t.Fatal(err)
	}
}

// kill9 kills the program, and returns what it still said.
func (p *providerProcess) kill9() (last []string) {
	if p.cmd.Process == nil {
		return nil
	}
	_ = p.cmd.Process.Kill() // it may have ended
	for line := range p.lines {
		last = append(last, line)
	}
	_ = p.cmd.Wait() // it was killed
	return last
}

// TestCallsThatAreOpenWhenTheirProviderIsKilledEndOnce has another program take the provider's place.
func TestCallsThatAreOpenWhenTheirProviderIsKilledEndOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	wheel := fetchLibrary(t, s, "talaria-0.2.0-py3-none-any.whl")
	id := session(t, c, api.SessionRequest{})
	for round := range killRounds() {
		p := startProvider(t, s, wheel, id)
		if line := nextLine(t, p.lines); line != "ready" {
			t.Fatalf("round %d: the provider says %q", round, line)
		}
		made, execution := runs{}, client.NewID()
		if _, err := c.ExecuteWait(within(t), id, api.ExecutionRequest{ID: &execution, Code: new(callsOf(round))}, 0); err != nil {
			t.Fatal(err)
		}
		made.awaitCalls(t, p.lines)
		if n := answersBefore(round); n > 0 {
			p.release(t, round)
			awaitAnswers(t, p.lines, n)
		}
		if last := p.kill9(); answersBefore(round) == 0 && len(last) > 0 {
			t.Errorf("round %d: the provider said %v before it was killed", round, last)
		}
		successor := startProvider(t, s, wheel, id)
		successor.release(t, round)
		if _, err := c.Execute(within(t), id, api.ExecutionRequest{ID: &execution, Code: new(callsOf(round))}); err != nil {
			t.Fatal(err)
		}
		for _, line := range successor.kill9() {
			made[line]++
		}
		if answersBefore(round) == 0 {
			for call, times := range made {
				if strings.HasPrefix(call, "again ") && times != 2 {
					t.Errorf("round %d: %s was made %d times, want once by each provider", round, call, times)
				}
			}
		}
		made.check(t, c, id, execution, round)
	}
}
