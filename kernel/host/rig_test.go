package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// patience bounds every wait of a test; nothing waits that long unless something is wrong.
const patience = 2 * time.Minute

// rig is a host with one kernel of a fake backend, and the records read from it.
type rig struct {
	*testing.T
	host *host.Host
	fake *kerneltest.Fake
	key  record.Key
	seen []record.Record // all that was read
	used int             // how many of them until has returned
}

type setting func(*host.HostConfig, *kerneltest.Fake)

func withPipes(_ *host.HostConfig, f *kerneltest.Fake) { f.Pipes = true }

// newRig starts a kernel; at the end of the test nothing of it may be left behind.
func newRig(t *testing.T, script kerneltest.Script, settings ...setting) *rig {
	t.Helper()
	fake := kerneltest.NewFake(script)
	cfg := host.HostConfig{Backend: fake, SpoolDir: t.TempDir()}
	for _, set := range settings {
		set(&cfg, fake)
	}
	r := &rig{T: t, host: host.NewHost(cfg), fake: fake, key: record.Key{Session: "s", Generation: 1}}
	t.Cleanup(func() {
		if err := r.host.Close(context.Background()); err != nil {
			t.Errorf("close host: %v", err)
		}
		if n := fake.Open(); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
	if _, err := r.host.Start(t.Context(), r.key, kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Fatalf("start: %v", err)
	}
	return r
}

func (r *rig) execute(e command.Execution) {
	r.Helper()
	if err := command.Tell(r.Context(), r.host, r.key, e); err != nil {
		r.Fatalf("execute %s: %v", e.ID, err)
	}
}

// until reads and acknowledges until a record satisfies last, and returns all records since the previous call up to
// that one.
func (r *rig) until(last func(record.Record) bool) []record.Record {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	from := r.used
	for i := from; ; i++ {
		if i == len(r.seen) {
			batch, err := r.host.Next(ctx, r.key, uint64(i))
			if err != nil {
				r.Fatalf("next after %d: %v; so far:\n%s", i, err, words(r.seen[from:]))
			}
			r.seen = append(r.seen, batch...)
			r.host.Ack(r.key, uint64(len(r.seen)))
		}
		if got := r.seen[i]; got.KSeq != uint64(i+1) || got.Key != r.key {
			r.Fatalf("record %d is %v number %d", i+1, got.Key, got.KSeq)
		}
		if last(r.seen[i]) {
			r.used = i + 1
			return slices.Clone(r.seen[from:r.used])
		}
	}
}

// is reports whether a record has a body of that type.
func is[T record.Body](rec record.Record) bool {
	_, ok := rec.Body.(T)
	return ok
}

func (r *rig) untilFinished() []record.Record { r.Helper(); return r.until(is[record.Finished]) }
func (r *rig) untilDied() []record.Record     { r.Helper(); return r.until(is[record.Died]) }

// ends checks that nothing follows the last record and that acknowledging it makes the host forget the key.
func (r *rig) ends() {
	r.Helper()
	_ = r.host.Stop(context.Background(), r.key, "checked")
	if _, err := r.host.Next(r.Context(), r.key, uint64(len(r.seen))); !errors.Is(err, io.EOF) && !errors.Is(err, command.ErrNoKernel) {
		r.Errorf("next after the end: %v", err)
	}
	if got := r.host.Running(); len(got) != 0 {
		r.Errorf("running: %v", got)
	}
}

// expect compares records, each as one line made by word.
func (r *rig) expect(got []record.Record, want ...string) {
	r.Helper()
	if g, w := words(got), strings.Join(want, "\n"); g != w {
		r.Errorf("got records\n%s\nwant\n%s", g, w)
	}
}

func words(records []record.Record) string {
	lines := make([]string, len(records))
	for i, rec := range records {
		lines[i] = word(rec)
	}
	return strings.Join(lines, "\n")
}

func word(rec record.Record) string {
	what := ""
	switch b := rec.Body.(type) {
	case record.Started:
		what = "started"
	case record.Stream:
		what = fmt.Sprintf("%s %q", b.Name, b.Text)
	case record.Display:
		what = fmt.Sprintf("display %s %s %v", b.Data, b.DisplayID, b.Update)
	case record.Result:
		what = fmt.Sprintf("result %s", b.Data["text/plain"])
	case record.Raised:
		what = fmt.Sprintf("raised %s %s", b.Error.Ename, b.Error.Evalue)
	case record.Clear:
		what = fmt.Sprintf("clear %v", b.Wait)
	case record.Asked:
		switch of := b.Body.(type) {
		case record.InputRequest:
			what = fmt.Sprintf("input %s %q %v", b.ID, of.Prompt, of.Password)
		case record.PackageChange:
			what = fmt.Sprintf("install %s %v", strings.TrimLeft(b.ID, "0"), of.Requirements)
		case record.ToolsRequest:
			what = "tools " + b.ID
		case record.ToolCall:
			what = fmt.Sprintf("tool %s %s %s", b.ID, of.Tool, of.Arguments)
		}
	case record.AskClosed:
		what = fmt.Sprintf("%s %s %s", b.Kind, strings.TrimLeft(b.ID, "0"), b.How)
	case record.ToolEnded:
		what = fmt.Sprintf("tool %s ended %v %s %s", b.CallID, b.OK, b.Code, b.Message)
	case record.Finished:
		what = fmt.Sprintf("finished %s", b.Status)
		if b.Error != nil {
			what += " " + b.Error.Ename
		}
	case record.Died:
		what = fmt.Sprintf("died %s", b.Reason)
		if b.TimedOut {
			what += " timed out"
		}
	}
	return rec.ExecutionID + ": " + what
}

// text joins what was printed on one stream.
func text(records []record.Record, name string) string {
	var b strings.Builder
	for _, rec := range records {
		if s, ok := rec.Body.(record.Stream); ok && s.Name == name {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}
