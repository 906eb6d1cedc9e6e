package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// standStill ends what criu cannot save, the pipe to this program, and waits.
const standStill = `
import os, time
os.write(1, b"ready")
os.close(1)
os.close(2)
time.sleep(3600)`

// dumping measures how long CRIU, where it works, takes to dump an ordinary process of Python that holds the same as the sessions
// that hibernate.
func dumping(ctx context.Context, t *trial) error {
	if reason := withoutCRIU(ctx); reason != "" {
		t.noteAll(skipped + reason)
		return nil
	}
	for metric, size := range sleptMiB {
		if t.quick {
			size /= quickDivisor
		}
		part := &trial{n: t.n, warmUp: t.warmUp}
		err := part.dumps(ctx, size)
		for _, values := range part.values {
			t.add(metric, values...)
		}
		if err != nil {
			return fmt.Errorf("dump %d MiB: %w", size, err)
		}
	}
	return nil
}

// withoutCRIU says why there can be no dumps; "" if there can.
func withoutCRIU(ctx context.Context) string {
	if _, err := exec.LookPath("criu"); err != nil {
		return "criu is not on PATH"
	}
	if out, err := exec.CommandContext(ctx, "criu", "check").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Sprintf("criu check: %v: %s", err, lines[len(lines)-1])
	}
	return ""
}

// dumps measures dumps of one process, which goes on.
func (t *trial) dumps(ctx context.Context, size int) (err error) {
	folder, err := os.MkdirTemp("", "criu-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	held, err := startHolding(ctx, size)
	if err != nil {
		return err
	}
	defer held.Wait() // it is killed
	defer held.Process.Kill()
	images := filepath.Join(folder, "images")
	return t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
		if err := errors.Join(os.RemoveAll(images), os.Mkdir(images, 0o700)); err != nil {
			return nil, err
		}
		begin := time.Now()
		out, err := exec.CommandContext(ctx, "criu", "dump", "--leave-running", "--images-dir", images,
			"--tree", strconv.Itoa(held.Process.Pid)).CombinedOutput()
		took := time.Since(begin)
		if err != nil {
			err = fmt.Errorf("criu dump: %w: %s", err, out)
		}
		return []float64{ms(took)}, err
	})
}

// startHolding starts a process that holds so many MiB, and returns when it does.
func startHolding(ctx context.Context, size int) (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, runnerPython, "-c", fmt.Sprintf(holdFrames, size)+standStill)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // its terminal, if there is one, is no part of a dump
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, err
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "ready" {
		return nil, errors.Join(fmt.Errorf("hold %d MiB: %s", size, text), err, cmd.Process.Kill(), cmd.Wait())
	}
	return cmd, nil
}
