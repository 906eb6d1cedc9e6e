package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTime = time.Minute     // how long a server may take to be ready
	endTime   = 2 * time.Minute // how long it may take to end: with a thousand sessions it saves the variables of each
	drainTime = 5 * time.Second // how long its last words are waited for, where a child of it still holds its output open
)

// program is a server's process. Its methods are safe for concurrent use.
type program struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it has ended
	silent chan struct{} // closed once all that it printed has been read, and nobody can print more
	logged atomic.Int64  // bytes that it printed

	mu   sync.Mutex // guards last
	last []string   // what it printed last
}

// command is how to start a program.
type command struct {
	args  []string
	env   []string // all of it
	dir   string
	files int                              // that it may have open; 0: as many as whoever measures
	as    *syscall.Credential              // nil: whoever measures
	ready func(line string) (string, bool) // finds in what is printed where the server listens
}

// launch starts a program and waits until it says where it listens.
func launch(ctx context.Context, c command) (*program, string, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	args := c.args
	if c.files > 0 {
		limited := fmt.Sprintf(`ulimit -n %d && exec "$@"`, c.files)
		args = append([]string{"/bin/sh", "-c", limited, "sh"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.env, c.dir, write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true} // a Ctrl-C is for this program only
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return nil, "", fmt.Errorf("start %s: %w", c.args[0], err)
	}
	p := &program{cmd: cmd, exited: make(chan struct{}), silent: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // its status is in ProcessState
	}()
	where := make(chan string, 1)
	go p.listen(read, c.ready, where)
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case url := <-where:
		return p, url, nil
	case <-p.exited:
		p.drain()
		err = fmt.Errorf("%s ended before it was ready (%v)", c.args[0], cmd.ProcessState)
	case <-ctx.Done():
		p.kill()
		err = fmt.Errorf("%s is not ready: %w", c.args[0], context.Cause(ctx))
	}
	return nil, "", fmt.Errorf("%w; it printed:\n%s", err, p.printed())
}

// listen reads what is printed until nobody can print any more.
func (p *program) listen(read *os.File, ready func(string) (string, bool), where chan<- string) {
	defer close(p.silent)
	defer read.Close()
	output := io.TeeReader(read, (*counter)(&p.logged))
	lines := bufio.NewScanner(output)
	for told := false; lines.Scan(); {
		p.mu.Lock()
		p.last = append(p.last[max(0, len(p.last)-19):], lines.Text())
		p.mu.Unlock()
		if url, ok := ready(lines.Text()); ok && !told {
			told = true
			where <- url
		}
	}
	_, _ = io.Copy(io.Discard, output) // after a line that is too long
}

// drain waits until the last words of a process that has ended are read.
func (p *program) drain() {
	select {
	case <-p.silent:
	case <-time.After(drainTime):
	}
}

// counter counts what is written to it.
type counter atomic.Int64

func (c *counter) Write(p []byte) (int, error) {
	(*atomic.Int64)(c).Add(int64(len(p)))
	return len(p), nil
}

// printed is what was printed last.
func (p *program) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// kill kills the process and waits for its end.
func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.exited
}

// end sends a signal and waits for the end; a process that does not end is killed, which is an error.
func (p *program) end(sig os.Signal) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(endTime):
		p.kill()
		return fmt.Errorf("%s did not end within %v of %v; it printed:\n%s", p.cmd.Path, endTime, sig, p.printed())
	}
}

// account is who runs the servers.
type account struct {
	credential *syscall.Credential // nil: whoever measures
}

// lookUp finds the account of a name; "" is whoever measures.
func lookUp(name string) (account, error) {
	if name == "" {
		return account{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		return account{}, err
	}
	if os.Getuid() != 0 {
		return account{}, errors.New("only root can run servers as another user")
	}
	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// folder makes a folder that belongs to the account.
func (a account) folder(elements ...string) (string, error) {
	path := filepath.Join(elements...)
	err := os.Mkdir(path, 0o700)
	if err == nil && a.credential != nil {
		err = os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
	}
	return path, err
}
