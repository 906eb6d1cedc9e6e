package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"talaria/api"
)

// step is the end of one step of what is traced.
type step struct {
	at      int64  // nanoseconds of the clock that all processes share
	process string // client, server or host
	name    string
}

// path is one traced sample: its first step is the client's request, its last one the answer.
type path []step

func (p path) took() int64 { return p[len(p)-1].at - p[0].at }

// traceable is what -trace can follow.
type traceable struct {
	title           string
	samples, warmUp int
	fresh           bool // each sample has a session of its own
	follow          func(context.Context, session, conn) (path, error)
}

var traced = map[string]traceable{
	"cell":       {title: "a warm 1 + 1 over WebSocket", samples: 101, warmUp: 20, follow: followOnePlusOne},
	"create":     {title: "a new session, to the result of 1 + 1 with the libraries", samples: 31, warmUp: 3, fresh: true},
	"checkpoint": {title: "making a live checkpoint", samples: 31, warmUp: 3, follow: followCheckpoint},
	"rollback":   {title: "going back to a live checkpoint", samples: 31, warmUp: 3, follow: followRollback},
	"run":        {title: "a program of one line without a session", samples: 31, warmUp: 3, follow: followRun},
}

// followCheckpoint makes a checkpoint of a session, and drops it.
func followCheckpoint(ctx context.Context, ses session, c conn) (path, error) {
	own, ok := ses.(*talariaSession)
	if !ok {
		return nil, errors.New("only Talaria has checkpoints")
	}
	if err := cell(ctx, c, "x = 1", ignore); err != nil {
		return nil, err
	}
	p := path{{now(), "client", "request sent"}}
	made, err := own.checkpoint(ctx)
	p = append(p, step{now(), "client", "answer received"})
	return p, errors.Join(err, own.client().DropCheckpoint(ctx, own.id, made.ID))
}

// followRun runs a program of one line.
func followRun(ctx context.Context, ses session, _ conn) (path, error) {
	own, ok := ses.(*talariaSession)
	if !ok {
		return nil, errors.New("only Talaria runs programs without a session")
	}
	select {
	case <-time.After(refill):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	code := "print(1+1)"
	p := path{{now(), "client", "request sent"}}
	_, err := own.client().Run(ctx, api.RunRequest{Language: "python", Code: &code})
	return append(p, step{now(), "client", "answer received"}), err
}

// followRollback makes a checkpoint of a session, goes back to it, and drops the checkpoints.
func followRollback(ctx context.Context, ses session, c conn) (path, error) {
	own, ok := ses.(*talariaSession)
	if !ok {
		return nil, errors.New("only Talaria has checkpoints")
	}
	point, err := own.checkpoint(ctx)
	if err == nil {
		err = cell(ctx, c, "x = 1", ignore)
	}
	if err != nil {
		return nil, err
	}
	p := path{{now(), "client", "request sent"}}
	done, err := own.client().Rollback(ctx, own.id, api.RollbackRequest{CheckpointID: &point.ID})
	p = append(p, step{now(), "client", "answer received"})
	for _, id := range []string{point.ID, done.Undo} {
		err = errors.Join(err, own.client().DropCheckpoint(ctx, own.id, id))
	}
	return p, err
}

// now reads the clock of the steps.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// follow follows what -trace names through client, server and host, prints the median sample of each, and draws it if there is a
// directory for pictures.
func (o options) follow(ctx context.Context, temp string, as account, stdout, progress io.Writer) error {
	for _, name := range strings.Split(o.trace, ",") {
		what, known := traced[name]
		if !known {
			return fmt.Errorf("-trace %s: it follows cell, create, checkpoint, rollback and run", name)
		}
		fmt.Fprintf(progress, "tracing %s: %d samples\n", name, what.samples)
		paths, err := o.paths(ctx, temp, as, what)
		if err != nil {
			return fmt.Errorf("trace %s: %w", name, err)
		}
		median := medianOf(paths)
		fmt.Fprintf(stdout, "\n%s: %.2f ms, the median of %d\n\n", what.title, float64(median.took())/1e6, len(paths))
		printPath(stdout, median)
		if o.pictures == "" {
			continue
		}
		if err := os.MkdirAll(o.pictures, 0o755); err != nil {
			return err
		}
		file := filepath.Join(o.pictures, "trace-"+name+".svg")
		if err := os.WriteFile(file, []byte(drawPath(what.title, median)), 0o644); err != nil {
			return err
		}
		fmt.Fprintln(progress, "wrote", file)
	}
	return nil
}

// medianOf returns the path that took as long as half of them at most.
func medianOf(paths []path) path {
	sorted := slices.SortedFunc(slices.Values(paths), func(a, b path) int { return cmp.Compare(a.took(), b.took()) })
	return sorted[len(sorted)/2]
}

// paths takes samples on a server that writes its steps down.
func (o options) paths(ctx context.Context, temp string, as account, what traceable) (paths []path, err error) {
	d, err := newTalaria(o.binary, o.engine, temp, as)
	if err != nil {
		return nil, err
	}
	dir, err := as.folder(temp, "steps")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := d.start(ctx, flavour{trace: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	add := func(i int, p path) {
		if i >= what.warmUp {
			paths = append(paths, p)
		}
	}
	if what.fresh {
		for i := range what.warmUp + what.samples {
			p, err := followCreate(ctx, s)
			if err != nil {
				return nil, err
			}
			add(i, p)
		}
	} else {
		err = within(ctx, s, attachment{}, func(ses session, c conn) error {
			for i := range what.warmUp + what.samples {
				p, err := what.follow(ctx, ses, c)
				if err != nil {
					return err
				}
				add(i, p)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	steps, err := readSteps(dir)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		paths[i] = p.with(steps)
		if len(paths[i]) == len(p) {
			return nil, errors.New("the server recorded no steps")
		}
	}
	return paths, nil
}

func followOnePlusOne(ctx context.Context, _ session, c conn) (path, error) {
	return followCell(ctx, c, "1 + 1", path{{now(), "client", "cell sent"}})
}

// followCell runs a cell and adds what the client sees of it.
func followCell(ctx context.Context, c conn, code string, p path) (path, error) {
	text := ""
	err := cell(ctx, c, code, func(o output) {
		switch o.kind {
		case kindResult:
			text = o.text
			p = append(p, step{now(), "client", "result received"})
		case kindEnd:
			p = append(p, step{now(), "client", "end received"})
		}
	})
	if err == nil && text != "2" {
		err = fmt.Errorf("1 + 1 gave %q", text)
	}
	return p, err
}

func followCreate(ctx context.Context, s server) (p path, err error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	p = path{{now(), "client", "request sent"}}
	ses, err := s.create(ctx)
	if err != nil {
		return nil, err
	}
	p = append(p, step{now(), "client", "session received"})
	defer func() { err = errors.Join(err, ses.delete(ctx)) }()
	c, err := ses.attach(ctx, attachment{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	p = append(p, step{now(), "client", "WebSocket opened, cell sent"})
	return followCell(ctx, c, libraries+"\n1 + 1", p)
}

// readSteps reads what the processes have written into a directory, in the order of time.
func readSteps(dir string) ([]step, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.steps"))
	if err != nil {
		return nil, err
	}
	names := map[string]string{"serve": "server", "host": "host"}
	var steps []step
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		command, _, _ := strings.Cut(filepath.Base(file), "-")
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			at, name, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a step", file, lines.Text())
			}
			steps = append(steps, step{n, cmp.Or(names[command], command), name})
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	sortSteps(steps)
	return steps, nil
}

func sortSteps(steps []step) {
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
}

// with adds the steps that ended between the first and the last one of the path.
func (p path) with(steps []step) path {
	first, last := p[0].at, p[len(p)-1].at
	whole := slices.Clone(p)
	for _, s := range steps {
		if s.at > first && s.at < last {
			whole = append(whole, s)
		}
	}
	sortSteps(whole)
	return whole
}

// began returns when the i-th step began: a step that receives something when the last step of another process ended, any other one
// when the last step of its own process ended.
func (p path) began(i int) int64 {
	receives := strings.HasSuffix(p[i].name, "received")
	for j := i - 1; j >= 0; j-- {
		if (p[j].process != p[i].process) == receives {
			return p[j].at
		}
	}
	return p[0].at
}

func printPath(out io.Writer, p path) {
	fmt.Fprintf(out, "%8s  %8s  %-7s %s\n", "at ms", "took ms", "where", "step")
	for i, s := range p {
		fmt.Fprintf(out, "%8.3f  %8.3f  %-7s %s\n", float64(s.at-p[0].at)/1e6, float64(s.at-p.began(i))/1e6, s.process, s.name)
	}
}

// The picture of a path, in its own units.
const (
	rowHeight  = 22
	labelWidth = 300
	barsWidth  = 460
	pictureTop = 48
)

// drawPath returns an SVG with a row for each step.
func drawPath(title string, p path) string {
	var b strings.Builder
	height := pictureTop + rowHeight*len(p) + 12
	width := labelWidth + barsWidth + 90
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", width, height)
	b.WriteString("<style>text{fill:#24292f}.client{fill:#8250df}.server{fill:#0969da}.host{fill:#1a7f37}.line{stroke:#d0d7de}" +
		"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.client{fill:#a371f7}.server{fill:#2f81f7}.host{fill:#3fb950}.line{stroke:#30363d}}</style>\n")
	fmt.Fprintf(&b, "<title>%s</title>\n", title)
	fmt.Fprintf(&b, `<text x="8" y="22" font-weight="600">%s: %.2f ms</text>`+"\n", title, float64(p.took())/1e6)
	for i, s := range p {
		y := pictureTop + rowHeight*i
		x := func(at int64) float64 { return labelWidth + barsWidth*float64(at-p[0].at)/float64(max(1, p.took())) }
		from, to := x(p.began(i)), x(s.at)
		fmt.Fprintf(&b, `<line class="line" x1="8" x2="%d" y1="%d" y2="%d"/>`, width-8, y+rowHeight-4, y+rowHeight-4)
		fmt.Fprintf(&b, `<text x="8" y="%d">%s: %s</text>`, y+13, s.process, s.name)
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="12" rx="2"/>`, s.process, from, y+2, max(1.5, to-from))
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.2f</text>`+"\n", to+6, y+13, float64(s.at-p.began(i))/1e6)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
