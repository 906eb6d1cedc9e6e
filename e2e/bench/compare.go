package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// worseBy is the ratio of medians from which a row counts as worse than before.
const worseBy = 1.1

// build is one commit, with its program and the benchmark that belongs to it: an older program speaks an older contract.
type build struct {
	name    string // in messages
	folder  string
	reports []*report
}

// compare measures the commit o.before and the present tree in turns, and prints what became of each number. A number whose
// median is worse by a tenth or more is an error. Both are built from their sources; the present tree includes changes that
// are not committed.
func (o options) compare(ctx context.Context, temp string, stdout, stderr io.Writer) (err error) {
	before, err := commitOf(o.before)
	if err != nil {
		return err
	}
	old := &build{name: "before", folder: filepath.Join(temp, "before")}
	if err := runCommand(ctx, stderr, ".", "git", "worktree", "add", "--detach", old.folder, before); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, runCommand(context.WithoutCancel(ctx), stderr, ".", "git", "worktree", "remove", "--force", old.folder))
	}()
	builds := []*build{old, {name: "now", folder: "."}}
	for _, b := range builds {
		if err := runCommand(ctx, stderr, b.folder, "make", "-s", "build"); err != nil {
			return err
		}
		if err := runCommand(ctx, stderr, b.folder, "go", "build", "-o", filepath.Join(temp, "bench-"+b.name), "./e2e/bench"); err != nil {
			return err
		}
	}
	for round := range o.rounds {
		for i := range builds {
			b := builds[(round+i)%2] // neither is always the first
			fmt.Fprintf(stderr, "round %d of %d: %s\n", round+1, o.rounds, b.name)
			r, err := b.measure(ctx, o, temp, stderr)
			if err != nil {
				return err
			}
			b.reports = append(b.reports, r)
		}
	}
	return compareReports(old.reports, builds[1].reports, stdout)
}

// commitOf returns the commit that a report, written by -json, was measured at, or the argument where it names no file.
func commitOf(before string) (string, error) {
	text, err := os.ReadFile(before)
	if errors.Is(err, os.ErrNotExist) {
		return before, nil
	} else if err != nil {
		return "", err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return "", fmt.Errorf("read %s: %w", before, err)
	}
	return strings.TrimSuffix(r.Commit, "-dirty"), nil
}

// runCommand runs a command to its end; what it prints is progress.
func runCommand(ctx context.Context, stderr io.Writer, folder string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, stderr, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// measure runs the build's own benchmark once. Rows that fail are in its report.
func (b *build) measure(ctx context.Context, o options, temp string, stderr io.Writer) (*report, error) {
	path := filepath.Join(temp, b.name+".json")
	args := []string{filepath.Join(temp, "bench-"+b.name), "-drivers", "talaria", "-talaria", "bin/talaria", "-json", path,
		"-run", o.pick.String(), "-engine", o.engine, "-user", o.user, "-n", strconv.Itoa(o.n), "-scale", strconv.Itoa(o.scale),
		"-quick=" + strconv.FormatBool(o.quick)}
	failed := runCommand(ctx, stderr, b.folder, args...)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	r := new(report)
	return r, errors.Join(json.Unmarshal(text, r), os.Remove(path))
}

// compareReports prints a table of both builds' medians over all rounds.
func compareReports(before, now []*report, stdout io.Writer) error {
	old := samplesOf(before)
	var worse []string
	fmt.Fprintf(stdout, "| what | unit | before: n | p50 | p95 | now: n | p50 | p95 | now / before |\n|---|---|%s\n", strings.Repeat("--:|", 7))
	fresh := samplesOf(now)
	for _, l := range now[0].Rows {
		a, b := summarize(old[l.key()]), summarize(fresh[l.key()])
		ratio := ""
		if a.P50 > 0 && b.P50 > 0 {
			ratio = figure(b.P50/a.P50) + "×"
			if better := b.P50 / a.P50; l.Rate && better <= 1/worseBy || !l.Rate && better >= worseBy {
				ratio += " worse"
				worse = append(worse, fmt.Sprintf("%s: %s %s, was %s", l.What, figure(b.P50), l.Unit, figure(a.P50)))
			}
		}
		cells := []string{l.What, l.Unit}
		for _, s := range []summary{a, b} {
			if s.N == 0 {
				cells = append(cells, "", "", "")
				continue
			}
			cells = append(cells, strconv.Itoa(s.N), figure(s.P50), figure(s.P95))
		}
		fmt.Fprintf(stdout, "| %s |\n", strings.Join(append(cells, ratio), " | "))
	}
	for _, r := range append(before, now...) {
		for _, f := range r.Failures {
			fmt.Fprintf(stdout, "\nFailed at %s: %s\n", r.Commit, f)
		}
	}
	if len(worse) > 0 {
		return fmt.Errorf("%d numbers are worse by a tenth or more:\n%s", len(worse), strings.Join(worse, "\n"))
	}
	return nil
}

// key is what the reports of two builds know a number by.
func (l line) key() string { return l.ID + "\n" + l.What }

// samplesOf returns the samples of all rounds.
func samplesOf(reports []*report) map[string][]float64 {
	samples := map[string][]float64{}
	for _, r := range reports {
		for _, l := range r.Rows {
			samples[l.key()] = append(samples[l.key()], l.Figures[talariaName].Samples...)
		}
	}
	return samples
}
