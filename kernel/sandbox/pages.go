package sandbox

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"talaria/kernel"
	"talaria/kernel/procfs"
	"talaria/kernel/python"
)

const (
	// maxCopied is how many pages at most a parked process copies ahead.
	maxCopied = 4096
	// modelMemory is more than what makes an interpreter do without the fork server's libraries.
	modelMemory = 1 << 40
	// modelPatience is how long a model may take, including the wait for other sandboxes of our own.
	modelPatience = 30 * time.Second

	modelCell   = `{"type":"execute","id":"e","code":"1 + 1","count":1,"silent":false,"allow_stdin":false}` + "\n"
	modelScript = "print(flush=True)\ninput()\n"
)

// learn finds out which pages of memory a sandbox from a fork server writes to until the end of its first cell, by means of a
// model: a sandbox that belongs to no session. Sandboxes forked later copy these pages while they wait to be needed.
func (w *zygotes) learn(ctx context.Context, server *forkServer) {
	bounded, cancel := context.WithTimeout(ctx, modelPatience)
	defer cancel()
	create := func() (*Sandbox, error) { return server.fork(bounded, w.backend, w.env) }
	err := w.backend.withOwnSandbox(bounded, modelMemory, create, func(s *Sandbox, workspace string) error {
		return s.runModel(bounded, workspace, server.copyAhead)
	})
	log := w.backend.cfg.Log.With("environment", w.env.Name)
	switch {
	case err == nil:
		log.DebugContext(ctx, "learned which memory sandboxes write to")
	case ctx.Err() == nil:
		log.InfoContext(ctx, "sandboxes of an environment take longer to start, since they copy no memory ahead", "err", err)
	}
}

// runModel runs a first cell or program, and calls done with the pages that pid 1 and the interpreter have then.
func (s *Sandbox) runModel(ctx context.Context, workspace string, done func(init, interpreter []procfs.Pages) error) error {
	var program kernel.Program
	if s.env.Engine == python.EngineScript {
		program.Script = "model.py"
		if err := os.WriteFile(filepath.Join(workspace, program.Script), []byte(modelScript), 0o644); err != nil {
			return err
		}
		stdin, held, err := os.Pipe()
		if err != nil {
			return err
		}
		defer stdin.Close()
		defer held.Close()
		program.Stdin = stdin
	}
	p, err := s.start(ctx, program)
	if err != nil {
		return err
	}
	defer p.closeStreams()
	defer context.AfterFunc(ctx, s.kill)()
	if err := p.awaitModel(); err != nil {
		return err
	}
	init, err := procfs.OwnPages(s.handle.PID)
	if err != nil {
		return err
	}
	pid, err := s.onHost(p.pid)
	if err != nil {
		return err
	}
	interpreter, err := procfs.OwnPages(pid)
	if err != nil {
		return err
	}
	return done(init, interpreter)
}

// awaitModel returns when the cell or program has done what it is for.
func (p *Process) awaitModel() error {
	if p.control == nil {
		_, err := p.stdout.Read(make([]byte, 1))
		return err
	}
	if _, err := io.WriteString(p.control, modelCell); err != nil {
		return err
	}
	frames := bufio.NewScanner(p.control)
	for frames.Scan() {
		if strings.Contains(frames.Text(), `"type":"done"`) {
			return nil
		}
	}
	return errors.Join(errors.New("the first cell did not end"), frames.Err())
}

// copyAhead makes sandboxes that are forked later copy these pages.
func (f *forkServer) copyAhead(init, interpreter []procfs.Pages) error {
	var request pagesRequest
	for _, one := range []struct {
		pages []procfs.Pages
		into  *[]byte
	}{{init, &request.Init}, {interpreter, &request.Interpreter}} {
		left := uint64(maxCopied * os.Getpagesize())
		*one.into = []byte{}
		for _, p := range one.pages {
			if p.Length > left {
				return fmt.Errorf("more than %d pages are written to", maxCopied)
			}
			left -= p.Length
			*one.into = binary.NativeEndian.AppendUint64(*one.into, p.Address)
			*one.into = binary.NativeEndian.AppendUint64(*one.into, p.Length)
		}
	}
	return f.send("pages", request)
}
