package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	runnerPython = "/usr/bin/python3"
	runnerFolder = "kernel/runner"
	// idleTime is how long an idle kernel is watched, from when it has had time to tidy up.
	idleTime, tidyTime = 5 * time.Second, 3 * time.Second
	// ticks of the clock in a second, in which /proc counts CPU time: the same on all machines that Linux runs on.
	ticks = 100
)

//go:embed runner.py
var runnerProgram string

// runnerCosts measures what cells cost inside the runner over their bare source, without a server: see runner.py.
func runnerCosts(ctx context.Context, t *trial) error {
	folder, err := sourceFolder(runnerFolder)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, runnerPython, "-I", "-S", "-c", runnerProgram, folder, strconv.Itoa(t.n))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("measure the runner: %w: %s", err, stderr.String())
	}
	var samples map[string][]float64
	if err := json.Unmarshal(out, &samples); err != nil {
		return fmt.Errorf("measure the runner: %w", err)
	}
	for i, kind := range []string{"assignment", "value", "printed"} {
		t.add(i, samples[kind]...)
	}
	return nil
}

// sourceFolder is a folder of this program's sources, from anywhere among them.
func sourceFolder(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no folder %s here or above: run the bench among the program's sources", name)
}

// idleCPU measures the CPU time that the processes of a session take while it does nothing.
func idleCPU(ctx context.Context, t *trial) error {
	s, err := t.use(ctx, flavour{})
	if err != nil {
		return err
	}
	return t.repeat(ctx, func(ctx context.Context) ([]float64, error) {
		var used float64
		err := within(ctx, s, attachment{}, func(_ session, c conn) error {
			home, err := value(ctx, c, whoAmI)
			if err != nil {
				return err
			}
			inside, err := processesOf(home)
			if err != nil {
				return err
			}
			if err := pause(ctx, tidyTime); err != nil {
				return err
			}
			before, err := cpuTicks(inside)
			if err != nil {
				return err
			}
			if err := pause(ctx, idleTime); err != nil {
				return err
			}
			after, err := cpuTicks(inside)
			used = float64(after-before) * 1000 / ticks / idleTime.Seconds()
			return err
		})
		return []float64{used}, err
	})
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// cpuTicks is the CPU time that processes have taken so far, of user and system.
func cpuTicks(all []process) (sum int64, err error) {
	for _, p := range all {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		user, err := strconv.ParseInt(fields[11], 10, 64)
		system, failed := strconv.ParseInt(fields[12], 10, 64)
		if err = errors.Join(err, failed); err != nil {
			return 0, err
		}
		sum += user + system
	}
	return sum, nil
}
