// Command bench measures this program and a Jupyter Server side by side, with the same clients and the same cells, and
// prints a table. It starts the servers that it measures, on free ports of this machine, and ends them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what the arguments say, and prints the table. A row that fails is told with the rest, and is an error.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.total, fmt.Errorf("the run took more than %v", o.total))
	defer cancel()
	as, err := lookUp(o.user)
	if err != nil {
		return err
	}
	if err := adoptOrphans(); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	temp, err := os.MkdirTemp("", "talaria-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := os.Chmod(temp, 0o755); err != nil { // for servers of another user
		return err
	}
	if o.trace != "" {
		return o.follow(ctx, temp, as, stdout, stderr)
	}
	if o.growth != "" {
		return o.grow(ctx, temp, as, stdout, stderr)
	}
	if o.before != "" {
		return o.compare(ctx, temp, stdout, stderr)
	}
	chosen := o.rows()
	r := newReport(chosen)
	r.Date, r.Commit = time.Now().UTC().Format("2006-01-02 15:04 UTC"), commit(ctx)
	r.Command = strings.TrimSpace("go run ./e2e/bench " + strings.Join(args, " "))
	r.Machine = describeMachine()
	for _, name := range o.drivers {
		err := o.measure(ctx, name, temp, as, chosen, r, stderr)
		if errors.Is(err, errNotInstalled) {
			fmt.Fprintln(stderr, err)
			r.Drivers = append(r.Drivers, column{jupyterName, err.Error()})
		} else if err != nil {
			return err
		}
	}
	return o.publish(r, stdout)
}

// measure measures all rows with one driver. A row that fails is told in the report.
func (o options) measure(ctx context.Context, name, temp string, as account, chosen []row, r *report,
	progress io.Writer) error {
	d, err := o.driver(ctx, name, temp, as)
	if err != nil {
		return err
	}
	s := &stage{driver: d}
	defer func() {
		if left := s.clear(); left != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("%s: %v", d.name(), left))
		}
	}()
	about, err := describe(ctx, s)
	if err != nil {
		return err
	}
	r.Drivers = append(r.Drivers, column{d.name(), about})
	fmt.Fprintf(progress, "%s: %s\n", d.name(), about)
	for _, row := range chosen {
		if row.only != "" && row.only != d.name() {
			continue
		}
		t := &trial{stage: s, n: row.n, warmUp: row.warmUp, metrics: len(row.metrics), sessions: o.scale, quick: o.quick}
		if o.quick {
			t.n, t.warmUp = row.few, min(row.warmUp, 1)
		}
		if o.n > 0 {
			t.n = o.n
		}
		begin := time.Now()
		failed := t.measure(ctx, row)
		r.add(d.name(), row.id, t.values)
		r.note(row.id, t.notes)
		fmt.Fprintf(progress, "  %-16s %6.1f s\n", row.id, time.Since(begin).Seconds())
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if failed != nil {
			r.Failures = append(r.Failures, fmt.Sprintf("%s, %s: %v", d.name(), row.id, failed))
			fmt.Fprintf(progress, "  failed: %v\n", failed)
		}
	}
	return nil
}

const versions = `import sys, numpy, pandas, matplotlib
", ".join(["Python " + sys.version.split()[0],
           *(f"{m.__name__} {m.__version__}" for m in (numpy, pandas, matplotlib))])`

// describe tells what is measured, and that it works at all.
func describe(ctx context.Context, s *stage) (string, error) {
	server, err := s.use(ctx, flavour{})
	if err != nil {
		return "", err
	}
	return bounded(ctx, func(ctx context.Context) (about string, err error) {
		if about, err = server.about(ctx); err != nil {
			return "", err
		}
		err = within(ctx, server, attachment{}, func(_ session, c conn) error {
			text, err := value(ctx, c, versions)
			about += ", " + strings.Trim(text, "'")
			return err
		})
		return about, err
	})
}

// publish prints the table and writes the files.
func (o options) publish(r *report, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, r.markdown()); err != nil {
		return err
	}
	if o.json != "" {
		if err := r.writeJSON(o.json); err != nil {
			return fmt.Errorf("write the samples: %w", err)
		}
	}
	if o.doc != "" {
		if err := r.writeBlock(o.doc); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	if len(r.Failures) > 0 {
		return fmt.Errorf("%d rows failed:\n%s", len(r.Failures), strings.Join(r.Failures, "\n"))
	}
	return nil
}
