package mcpclient

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/kernel/procfs"
)

// endGrace is what a program has to end after its input was closed, and again after SIGTERM.
const endGrace = 2 * time.Second

// inherited are the variables of this process that programs get. Others may hold secrets of the server.
var inherited = []string{"HOME", "LANG", "PATH", "TMPDIR", "USER"}

// process is an MCP server on standard input and output, with a process group of its own.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	said   *tail
	task   *procfs.Task
	ended  chan struct{} // is closed when the program is dead; it is not reaped then
}

func startProcess(cfg Server) (*process, error) {
	cmd := exec.Command(cfg.Command, cfg.Args...)
	cmd.Dir = "/"
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, cfg.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = endGrace // for what has left the process group and holds stderr
	p := &process{cmd: cmd, said: &tail{}, ended: make(chan struct{})}
	cmd.Stderr = p.said
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the program: %w", err)
	}
	if p.task, err = procfs.OpenTask(cmd.Process.Pid); err != nil {
		p.kill()
		_ = cmd.Wait()
		return nil, err
	}
	go func() {
		_ = p.task.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Connect implements [mcp.Transport].
func (p *process) Connect(ctx context.Context) (mcp.Connection, error) {
	return (&mcp.IOTransport{Reader: p.stdout, Writer: p.stdin, MaxLineLength: maxMessage}).Connect(ctx)
}

func (p *process) gone() <-chan struct{} { return p.ended }

func (p *process) forgotten() bool { return false }

func (p *process) diagnosis() string { return p.said.String() }

// release ends the program as the specification of the transport has it: it closes the input, then sends SIGTERM, then
// SIGKILL. What is left of its process group is killed before it is reaped, while the number still means that group.
func (p *process) release() {
	_ = p.stdin.Close()
	if !p.endsWithin(endGrace) {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
		p.endsWithin(endGrace)
	}
	p.kill()
	<-p.ended
	_ = p.cmd.Wait() // how a program ended that was told to end says nothing
	p.task.Close()
}

func (p *process) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

func (p *process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// maxTail bounds what is kept of a program's stderr.
const maxTail = 2 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards kept
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-maxTail):]...)
	t.kept = t.kept[max(0, len(t.kept)-maxTail):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
}
