package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"talaria/battery"
	"talaria/client"
)

const (
	trialStart   = 2 * time.Minute                        // how long a server may take to be ready
	trialEnd     = sessionsStop + hostStop + shutdownTime // how long it may take to end, and its host after it
	trialWorkers = 8                                      // checks at a time
)

// runBattery runs the quick checks against a server of its own, which leaves nothing behind, and prints how they ended.
// kept reports whether all that this tier promises was kept.
func runBattery(ctx context.Context, c config, configFile string, w io.Writer) (kept bool, err error) {
	trial, err := startTrial(ctx, c, configFile)
	if err != nil {
		return false, fmt.Errorf("start a server for the trial: %w", err)
	}
	defer closing(&err, trial.stop)
	stats, err := trial.server.Client.Stats(ctx)
	if err != nil {
		return false, err
	}
	name := stats.Isolation.Tier + "-user"
	if os.Getuid() == 0 {
		name = stats.Isolation.Tier + "-root"
	}
	table, err := battery.ReadTable(name)
	if err != nil {
		return false, err
	}
	begin := time.Now()
	results, err := battery.Run(ctx, trial.server, battery.Options{Quick: true, Parallel: trialWorkers})
	if err != nil {
		return false, fmt.Errorf("run the battery: %w", err)
	}
	kept = printResults(w, table, results, time.Since(begin))
	if said := trial.complaints.String(); !kept && said != "" {
		fmt.Fprintf(w, "\nthe server said:\n%s", said)
	}
	return kept, nil
}

// printResults prints a line for each check, group by group, and a summary.
func printResults(w io.Writer, table battery.Table, results []battery.Result, took time.Duration) (kept bool) {
	words := map[battery.Outcome]string{
		battery.Passed: "passed", battery.Bounded: "bounded", battery.Pending: "pending", battery.NotRun: "not run", battery.Failed: "FAILED",
	}
	count := map[battery.Outcome]int{}
	group := ""
	for _, r := range results {
		if g := r.Check.Group(); g != group {
			group = g
			fmt.Fprintf(w, "\n%s\n", group)
		}
		outcome := r.Outcome
		if outcome == battery.Failed && !table.Broken(r) {
			outcome = battery.Pending
		}
		count[outcome]++
		line := fmt.Sprintf("  %-7s  %s", words[outcome], strings.TrimPrefix(r.Check.Name, group+"/"))
		if outcome != battery.Passed && r.Detail != "" {
			detail, _, _ := strings.Cut(r.Detail, "\n")
			line += ": " + detail
		}
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "\n%d checks in %.1f s:", len(results), took.Seconds())
	for _, o := range []battery.Outcome{battery.Passed, battery.Bounded, battery.Pending, battery.NotRun, battery.Failed} {
		fmt.Fprintf(w, " %d %s", count[o], strings.ToLower(words[o]))
		if o != battery.Failed {
			fmt.Fprint(w, ",")
		}
	}
	fmt.Fprintln(w)
	return count[battery.Failed] == 0
}

// trial is a server on a state directory of its own, to be tried and thrown away.
type trial struct {
	server battery.Server
	self   string // this program
	dir    string
	state  string // in dir
	cmd    *exec.Cmd
	ended  chan struct{} // closed once cmd has ended

	complaints complaints
}

// complaints is the beginning of what a server logs. It is safe for concurrent use.
type complaints struct {
	mu   sync.Mutex // guards text
	text []byte
}

// maxComplaints is how many bytes of them are kept.
const maxComplaints = 16 << 10

func (c *complaints) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b[:min(len(b), maxComplaints-len(c.text))]...)
	return len(b), nil
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return escapeControls(string(c.text), `\x%02x`)
}

func startTrial(ctx context.Context, c config, configFile string) (t *trial, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "talaria-doctor-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the users of its sessions may have to pass
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	state := filepath.Join(dir, "state")
	args := []string{"serve", "--state-dir", state, "--addr", "127.0.0.1:0", "--log-level", "error", "--interrupt-grace", "1s",
		"--max-sessions", "0", "--idle-timeout", "0",
		"--orphan-ttl", "1m"} // should this process be killed
	if c.Tier != "" {
		args = append(args, "--tier", c.Tier)
	}
	args = append(args, "--min-tier", c.MinTier)
	if c.Python != "" {
		args = append(args, "--python", c.Python)
	}
	if configFile != "" {
		args = append(args, "--config", configFile)
	}
	t = &trial{self: self, dir: dir, state: state, cmd: exec.Command(self, args...), ended: make(chan struct{})}
	t.cmd.Stderr = &t.complaints
	read, err := t.cmd.StdoutPipe()
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	printed := make(chan string, 1)
	go func() {
		defer close(t.ended)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if url, ok := strings.CutPrefix(lines.Text(), "open "); ok {
				printed <- url
			}
		}
		_ = t.cmd.Wait() // how it ended is in ProcessState
	}()
	starting, cancel := context.WithTimeout(ctx, trialStart)
	defer cancel()
	select {
	case url := <-printed:
		base := strings.TrimSuffix(url, "/")
		var token string // not of the URL: it does not hold a preset one
		if token, err = given("", "", filepath.Join(state, "token")); err == nil {
			t.server = battery.Server{Client: client.New(base, token), URL: base, Token: token}
		}
	case <-t.ended:
		err = fmt.Errorf("it ended with %v: %s", t.cmd.ProcessState, strings.TrimSpace(t.complaints.String()))
	case <-starting.Done():
		err = context.Cause(starting)
	}
	if err == nil {
		t.server.Other, err = secondOwner(starting, self, state)
	}
	if err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// secondOwner makes one, and returns its token.
func secondOwner(ctx context.Context, self, state string) (string, error) {
	out, err := exec.CommandContext(ctx, self, "token", "create", "--owner", "doctor", "--state-dir", state).Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) == 0 {
		return "", fmt.Errorf("make a second owner: %w", err)
	}
	return words[len(words)-1], nil
}

// stop ends the server with all its kernels, and takes its directory away.
func (t *trial) stop() error {
	err := t.cmd.Process.Signal(os.Interrupt)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	late := time.NewTimer(trialEnd)
	defer late.Stop()
	select {
	case <-t.ended:
	case <-late.C:
		err = errors.Join(errors.New("the trial server did not exit and was killed"), t.cmd.Process.Kill())
		<-t.ended
	}
	// The server has ended its host, unless there was no time for it.
	ctx, cancel := context.WithTimeout(context.Background(), trialEnd)
	defer cancel()
	if out, stopErr := exec.CommandContext(ctx, t.self, "host", "stop", "--quick", "--state-dir", t.state).CombinedOutput(); stopErr != nil {
		err = errors.Join(err, fmt.Errorf("end the host of the trial: %w: %s", stopErr, strings.TrimSpace(string(out))))
	}
	return errors.Join(err, os.RemoveAll(t.dir))
}
