package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"talaria/kernel/link"
)

const (
	// restartPause is the first pause before a server that ended is started again. It doubles up to maxRestartPause, and
	// starts anew when the server ran for longer than that.
	restartPause    = 250 * time.Millisecond
	maxRestartPause = 30 * time.Second
)

// supervisor keeps a server running and collects every orphan, as pid 1 of a container has to. The host is the server's
// to start, and lives on when that ends. The supervisor alone waits for children, for any of them, so that it starts the
// server without package os/exec.
type supervisor struct {
	log     *slog.Logger
	program string
	args    []string

	pid     int // of the server; 0 while it does not run
	started time.Time
	pause   time.Duration
}

// supervise runs talaria serve until ctx ends, and then ends it with its host, as Ctrl-C does: a container takes both with
// it anyway.
func supervise(ctx context.Context, cmd *cobra.Command, c config, serveArgs []string) error {
	log, err := newLog(cmd.ErrOrStderr(), c)
	if err != nil {
		return err
	}
	s := &supervisor{log: log}
	if s.program, err = os.Executable(); err != nil {
		return err
	}
	s.args = []string{s.program, "serve", "--state-dir", c.StateDir}
	cmd.Flags().Visit(func(f *pflag.Flag) { // all that are given are flags of serve too, but for its own
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		if f.Name != "supervise" && f.Name != "ready-fd" && f.Name != "state-dir" {
			s.args = append(s.args, "--"+f.Name, value)
		}
	})
	s.args = append(s.args, serveArgs...)
	if err := s.run(ctx); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(context.Background(), hostStop)
	defer cancel()
	return link.StopHosts(ending, hostsDir(c))
}

// run returns when ctx has ended and the server with it.
func (s *supervisor) run(ctx context.Context) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	again := time.NewTimer(0)
	done := ctx.Done()
	for {
		select {
		case <-done:
			done = nil
			if s.pid != 0 {
				_ = syscall.Kill(s.pid, syscall.SIGINT) // it saves the variables of its kernels
			}
		case <-children:
			s.reap()
		case <-again.C:
		}
		switch wait := time.Until(s.started.Add(s.pause)); {
		case s.pid != 0:
		case ctx.Err() != nil:
			return nil
		case wait > 0:
			again.Reset(wait)
		default:
			if err := s.start(); err != nil {
				return fmt.Errorf("start talaria serve: %w", err)
			}
		}
	}
}

func (s *supervisor) start() (err error) {
	if time.Since(s.started) > maxRestartPause {
		s.pause = 0
	}
	s.pause = min(max(2*s.pause, restartPause), maxRestartPause)
	s.started = time.Now()
	s.pid, err = syscall.ForkExec(s.program, s.args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

// reap collects all children that have ended, orphans included.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		case pid == s.pid:
			s.pid = 0
			if status.Signaled() {
				s.log.Warn("the server exited; restarting it", "signal", status.Signal())
			} else {
				s.log.Warn("the server exited; restarting it", "exit", status.ExitStatus())
			}
		}
	}
}
