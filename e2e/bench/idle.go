package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// whoAmI is a cell that tells which processes are its session's, as seen from outside: those of its pid namespace, or
// where it has none of its own its process and what is below it.
const whoAmI = "import os, numpy, pandas, matplotlib.pyplot\nos.readlink('/proc/self/ns/pid') + ' ' + str(os.getpid())"

// idle measures the memory of sessions that have loaded the libraries and wait: the PSS of all processes of each.
func idle(ctx context.Context, t *trial) error {
	s, err := t.renew(ctx, flavour{})
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	var homes []string
	for range t.n {
		home, err := bounded(ctx, func(ctx context.Context) (string, error) { return loadLibraries(ctx, s) })
		if err != nil {
			return err
		}
		homes = append(homes, home)
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	for _, home := range homes {
		inside, err := processesOf(home)
		if err != nil {
			return err
		}
		bytes, err := pss(inside)
		if err != nil {
			return err
		}
		t.add(0, float64(bytes)/mib)
	}
	return nil
}

// loadLibraries makes a session that stays, and returns what its whoAmI tells.
func loadLibraries(ctx context.Context, s server) (string, error) {
	ses, err := s.create(ctx)
	if err != nil {
		return "", fmt.Errorf("create a session: %w", err)
	}
	c, err := ses.attach(ctx, attachment{})
	if err != nil {
		return "", fmt.Errorf("attach to a session: %w", err)
	}
	defer c.close()
	return value(ctx, c, whoAmI)
}

// processesOf finds the processes of a session by the answer of whoAmI.
func processesOf(home string) ([]process, error) {
	namespace, inside, ok := strings.Cut(strings.Trim(home, "'"), " ")
	pid, err := strconv.Atoi(inside)
	if !ok || err != nil {
		return nil, fmt.Errorf("a session says that it is %q", home)
	}
	mine, err := namespaceOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	if namespace == mine {
		p, _, err := readProcess(pid)
		return append(descendants(pid), p), err
	}
	found := slices.DeleteFunc(descendants(os.Getpid()), func(p process) bool {
		its, err := namespaceOf(p.pid)
		return err != nil || its != namespace
	})
	if len(found) == 0 {
		return nil, errors.New("the processes of a session cannot be seen from here, which may take root")
	}
	return found, nil
}
