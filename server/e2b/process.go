package e2b

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"talaria/api"
	"talaria/session"
	"talaria/session/processes"
)

// maxKeepalive bounds the interval of messages that keep a stream open.
const maxKeepalive = 90 * time.Second

// A process is known to clients by a number of 32 bits. The highest bit tells a terminal from a program. The others are the
// generation of the kernel and the number of the program in it, if they fit; otherwise hashedBit is set, and what follows is a
// hash of the id, by which the process is looked for among those that run.
const (
	terminalBit    = 1 << 31
	hashedBit      = 1 << 30
	generationBits = 14
	numberBits     = 16
)

func (h *Handler) processes() map[string]func(*request) error {
	return map[string]func(*request) error{
		"List": unary(h.listProcesses), "Start": streaming(h, h.startProcess), "Connect": streaming(h, h.connectProcess),
		"SendSignal": unary(h.sendSignal), "SendInput": unary(h.sendInput), "StreamInput": h.streamInput,
		"Update": unary(h.updateProcess), "CloseStdin": unary(h.closeStdin),
	}
}

// processConfig is what a process runs.
type processConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args"`
	Envs map[string]string `json:"envs"`
	Cwd  string            `json:"cwd,omitzero"`
}

type ptySize struct {
	Size struct {
		Cols int64 `json:"cols"`
		Rows int64 `json:"rows"`
	} `json:"size"`
}

// selector names a process.
type selector struct {
	Process struct {
		PID *uint32 `json:"pid"`
		Tag *string `json:"tag"`
	} `json:"process"`
}

// process is a process of a sandbox by the id that its session has for it.
type process struct {
	session  *session.Session // of whom the holder of the process releases it
	id       string
	terminal bool
}

// pidOf returns the number of a program or terminal by its id in the session, GENERATION-NUMBER.
func pidOf(id string, terminal bool) (uint32, error) {
	var generation, number uint64
	if _, err := fmt.Sscanf(id, "%d-%d", &generation, &number); err != nil {
		return 0, err
	}
	pid := uint32(generation)<<numberBits | uint32(number)
	if generation>>generationBits != 0 || number>>numberBits != 0 {
		hash := fnv.New32a()
		_, _ = io.WriteString(hash, id)
		pid = hash.Sum32()&(hashedBit-1) | hashedBit
	}
	if terminal {
		pid |= terminalBit
	}
	return pid, nil
}

// idOf is the reverse of pidOf. running lists the ids of the session's programs, or of its terminals; of a hashed pid that none of
// them has, the id is "", which no process has.
func idOf(pid uint32, running func(terminal bool) ([]string, error)) (id string, terminal bool, err error) {
	terminal = pid&terminalBit != 0
	if pid&hashedBit == 0 {
		return fmt.Sprintf("%d-%d", pid&^terminalBit>>numberBits, pid&(1<<numberBits-1)), terminal, nil
	}
	ids, err := running(terminal)
	for _, id := range ids {
		if its, err := pidOf(id, terminal); err == nil && its == pid {
			return id, terminal, nil
		}
	}
	return "", terminal, err
}

// process finds the process that a call is about, by its pid or as the newest one with the tag that runs. Terminals need
// another right than programs. The caller releases the session.
func (h *Handler) process(q *request, which selector) (process, error) {
	pid, tag := which.Process.PID, which.Process.Tag
	if (pid == nil) == (tag == nil) {
		return process{}, api.Errorf(api.CodeInvalidRequest, "process must have either a pid or a tag")
	}
	right := api.RightRun
	if pid != nil && *pid&terminalBit != 0 {
		right = api.RightTerminal
	}
	s, err := h.sandbox(q, right)
	if err != nil {
		return process{}, err
	}
	p := process{session: s}
	if pid != nil {
		p.id, p.terminal, err = idOf(*pid, func(terminal bool) ([]string, error) { return runningIn(q, s, terminal) })
		if err != nil {
			s.Release()
		}
		return p, err
	}
	programs, err := s.Programs().List(q.Context())
	for _, one := range slices.Backward(programs) {
		if one.Tag == *tag && *tag != "" {
			p.id = one.ID
			return p, nil
		}
	}
	s.Release()
	if err == nil {
		err = api.Errorf(api.CodeNotFound, "no running process has the tag %.140q", *tag)
	}
	return process{}, err
}

// runningIn lists the ids of the programs of a session, or of its terminals.
func runningIn(q *request, s *session.Session, terminals bool) (ids []string, err error) {
	if terminals {
		list, err := s.Terminals().List(q.Context())
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		return ids, err
	}
	list, err := s.Programs().List(q.Context())
	for _, one := range list {
		ids = append(ids, one.ID)
	}
	return ids, err
}

func (h *Handler) listProcesses(q *request, _ struct{}) (any, error) {
	s, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	programs, err := s.Programs().List(q.Context())
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, p := range programs {
		pid, err := pidOf(p.ID, false)
		if err != nil {
			return nil, err
		}
		one := object{"pid": pid, "config": processConfig{Cmd: p.Args[0], Args: p.Args[1:], Envs: map[string]string{}, Cwd: p.Dir}}
		if p.Tag != "" {
			one["tag"] = p.Tag
		}
		list = append(list, one)
	}
	return object{"processes": list}, nil
}

// startRequest is the message of Start.
type startRequest struct {
	Process processConfig `json:"process"`
	PTY     *ptySize      `json:"pty"`
	Tag     string        `json:"tag"`
	Stdin   *bool         `json:"stdin"` // nil, from clients older than the field: the same as true
}

func (h *Handler) startProcess(ctx context.Context, q *request, in startRequest, out *messages) error {
	if in.PTY != nil {
		return h.startTerminal(ctx, q, in, out)
	}
	s, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	defer s.Release()
	id, err := s.Programs().Start(q.command(), processes.Request{
		Args: append([]string{in.Process.Cmd}, in.Process.Args...), Env: in.Process.Envs, Dir: directory(in.Process.Cwd),
		Tag: in.Tag, Stdin: in.Stdin == nil || *in.Stdin,
	})
	if err != nil {
		return err
	}
	return followProgram(ctx, q, s, id, out)
}

// directory is where a process begins; "" is the workspace.
func directory(cwd string) string {
	clean, err := relative(cwd)
	switch {
	case err != nil:
		return cwd
	case clean == "":
		return ""
	}
	return path.Join(workspaceInside, clean)
}

// connectProcess follows a process that runs already, from what it prints now.
func (h *Handler) connectProcess(ctx context.Context, q *request, in selector, out *messages) error {
	p, err := h.process(q, in)
	if err != nil {
		return err
	}
	defer p.session.Release()
	if p.terminal {
		if err := p.session.Terminals().Has(ctx, p.id); err != nil {
			return err
		}
		return followTerminal(ctx, q, p.session, p.id, out)
	}
	programs, err := p.session.Programs().List(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(programs, func(one processes.Program) bool { return one.ID == p.id }) {
		return api.Errorf(api.CodeNotFound, "no such process is running; list the processes")
	}
	return followProgram(ctx, q, p.session, p.id, out)
}

// follow is a process or a folder whose events are sent to a client.
type follow struct {
	out    *messages
	ticker *time.Ticker
	alive  object // the message that keeps the stream open
}

// begin sends the pid, and begins to keep the stream open.
func begin(q *request, id string, terminal bool, out *messages) (*follow, error) {
	pid, err := pidOf(id, terminal)
	if err != nil {
		return nil, err
	}
	if err := out.send(event(object{"start": object{"pid": pid}})); err != nil {
		return nil, err
	}
	return newFollow(q, out, event(object{"keepalive": object{}})), nil
}

// newFollow begins to keep a stream open. The caller stops its ticker.
func newFollow(q *request, out *messages, alive object) *follow {
	interval := maxKeepalive
	if seconds, err := strconv.Atoi(q.Header.Get("Keepalive-Ping-Interval")); err == nil && seconds > 0 {
		interval = min(interval, time.Duration(seconds)*time.Second)
	}
	return &follow{out: out, ticker: time.NewTicker(interval), alive: alive}
}

func event(of object) object { return object{"event": of} }

// await runs read, which waits, and keeps the stream open meanwhile. cancel must end read.
func await[T any](f *follow, ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := read(ctx)
		answers <- answer{value, err}
	}()
	defer cancel()
	for {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-f.ticker.C:
			if err := f.out.send(f.alive); err != nil {
				cancel()
				a := <-answers
				return a.value, err
			}
		}
	}
}

// ended describes how a process ended, in the words of Go's os/exec.
func ended(code, signal int) object {
	if signal != 0 {
		return event(object{"end": object{"exitCode": 128 + signal, "exited": false, "status": "signal: " + strconv.Itoa(signal), "error": "signal: " + strconv.Itoa(signal)}})
	}
	end := object{"exitCode": code, "exited": true, "status": "exit status " + strconv.Itoa(code)}
	if code != 0 {
		end["error"] = end["status"]
	}
	return event(object{"end": end})
}

// followProgram sends what a program prints until it ends.
func followProgram(ctx context.Context, q *request, s *session.Session, id string, out *messages) error {
	f, err := begin(q, id, false, out)
	if err != nil {
		return err
	}
	defer f.ticker.Stop()
	var stdout, stderr int64
	for {
		piece, err := await(f, ctx, func(ctx context.Context) (processes.ProgramOutput, error) {
			return s.Programs().Read(ctx, id, stdout, stderr)
		})
		if err != nil {
			return err
		}
		for name, part := range map[string][]byte{"stdout": piece.Stdout.Data, "stderr": piece.Stderr.Data} {
			if len(part) > 0 {
				if err := out.send(event(object{"data": object{name: part}})); err != nil {
					return err
				}
			}
		}
		stdout, stderr = piece.Stdout.Offset+int64(len(piece.Stdout.Data)), piece.Stderr.Offset+int64(len(piece.Stderr.Data))
		if piece.Ended {
			return out.send(ended(piece.Code, piece.Signal))
		}
	}
}

func (h *Handler) sendSignal(q *request, in struct {
	selector
	Signal string `json:"signal"`
}) (any, error) {
	number := map[string]int{"SIGNAL_SIGTERM": 15, "SIGNAL_SIGKILL": 9}[in.Signal]
	if number == 0 {
		return nil, api.Errorf(api.CodeInvalidRequest, "signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL")
	}
	p, err := h.process(q, in.selector)
	if err != nil {
		return nil, err
	}
	defer p.session.Release()
	if p.terminal {
		return object{}, p.session.Terminals().Close(q.command(), p.id)
	}
	return object{}, p.session.Programs().Signal(q.command(), p.id, number)
}

// terminalVariables are those that a terminal has anyway.
var terminalVariables = []string{"TERM", "LANG", "LC_ALL"}

// isShell reports whether a process is the shell that a terminal runs.
func isShell(c processConfig) bool {
	return path.Base(c.Cmd) == "bash" && strings.Trim(strings.Join(c.Args, ""), "-il") == ""
}
