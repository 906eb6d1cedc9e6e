package link_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/link"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// kernels has the methods that users of kernels need from both.
type kernels interface {
	Start(ctx context.Context, key record.Key, env kernel.Environment, spec kernel.Spec) (command.KernelInfo, error)
	Attach(ctx context.Context, key record.Key) (command.Attachment, error)
	Kernels(ctx context.Context) ([]record.Key, error)
	command.Doer
	Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error)
	Ack(key record.Key, kseq uint64)
	Stop(ctx context.Context, key record.Key, reason string) error
	Usages(ctx context.Context, keys []record.Key) ([]command.KernelUsage, error)
	Sweep(ctx context.Context, handles []kernel.Handle) error
	Warm(envs []kernel.Environment)
}

var _, _ kernels = (*host.Host)(nil), (*link.Client)(nil)

func TestAClientIsLikeAHost(t *testing.T) {
	dir := t.TempDir()
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	fake.Usage = func() (kernel.Usage, error) { return kernel.Usage{MemoryBytes: 7}, nil }
	s := serveOn(t, dir, fake)
	c := open(t, dir, noSpawn)
	env := kernel.Environment{Name: "default", Modules: []string{"numpy 1"}}
	spec := kernel.Spec{UID: 3, Env: map[string]string{"A": "b"}, Limits: kernel.Limits{MemoryBytes: 9}, Hostname: "h"}
	info, err := c.Start(t.Context(), key("a"), env, spec)
	if err != nil {
		t.Fatal(err)
	}
	if info.Handle.Backend != "fake" || len(info.Layers) == 0 || info.Started.IsZero() {
		t.Errorf("info %+v", info)
	}
	if got := s.fake.Specs()[0]; got.UID != 3 || got.Env["A"] != "b" || got.Limits.MemoryBytes != 9 || got.Hostname != "h" {
		t.Errorf("spec %+v", got)
	}
	r := &reader{T: t, client: c, key: key("a")}

	r.execute("e1", "sleep")
	if err := command.Tell(t.Context(), c, r.key, command.Execution{ID: "e2"}); !errors.Is(err, command.ErrKernelBusy) {
		t.Errorf("execute while a cell runs: %v", err)
	}
	r.until(is[record.Started])
	if err := command.Tell(t.Context(), c, r.key, command.Interrupt{ExecutionID: "e1"}); err != nil {
		t.Error(err)
	}
	if got := r.until(is[record.Finished]).Body.(record.Finished); got.Status != record.Interrupted && got.Status != record.Errored {
		t.Errorf("status %s", got.Status)
	}
	if err := command.Tell(t.Context(), c, r.key, command.Execution{ID: "e1"}); !errors.Is(err, command.ErrRepeated) {
		t.Errorf("execute again: %v", err)
	}

	r.execute("e3", "ask")
	question := r.until(is[record.Asked]).Body.(record.Asked)
	if err := command.Tell(t.Context(), c, r.key, command.AnswerInput{RequestID: "other", Value: "x"}); !errors.Is(err, command.ErrNoInputPending) {
		t.Errorf("answer to another question: %v", err)
	}
	if err := command.Tell(t.Context(), c, r.key, command.AnswerInput{RequestID: question.ID, Value: "yes"}); err != nil {
		t.Error(err)
	}
	r.until(is[record.Finished])
	r.execute("e4", "ask")
	question = r.until(is[record.Asked]).Body.(record.Asked)
	if err := command.Tell(t.Context(), c, r.key, command.RefuseInput{RequestID: question.ID}); err != nil {
		t.Error(err)
	}
	r.until(is[record.Finished])
	if got := r.text(); got != "yes true false" {
		t.Errorf("text %q", got)
	}

	if u, err := command.Ask(t.Context(), c, r.key, command.ReadUsage{}); err != nil || u.MemoryBytes != 7 {
		t.Errorf("usage %+v, %v", u, err)
	}
	if layers, err := command.Ask(t.Context(), c, r.key, command.ChangeLimits{Limits: kernel.Limits{}}); err != nil || len(layers) == 0 {
		t.Errorf("change limits: %v, %v", layers, err)
	}
	if _, err := c.Start(t.Context(), key("a"), env, spec); !errors.Is(err, command.ErrKernelExists) {
		t.Errorf("start again: %v", err)
	}
	if keys, err := c.Kernels(t.Context()); err != nil || !slices.Equal(keys, []record.Key{key("a")}) {
		t.Errorf("kernels %v, %v", keys, err)
	}
	if err := c.Stop(t.Context(), r.key, "reset"); err != nil {
		t.Error(err)
	}
	batch, err := r.next()
	if err != nil || batch[len(batch)-1].Body.(record.Died).Reason != "reset" {
		t.Fatalf("after stop %v, %v", batch, err)
	}
	if _, err := r.next(); err != io.EOF {
		t.Errorf("after the last record: %v", err)
	}
	c.Ack(r.key, r.after)
	if _, err := r.next(); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("after its acknowledgement: %v", err)
	}
	if err := command.Tell(t.Context(), c, r.key, command.Execution{ID: "e9"}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("execute after the end: %v", err)
	}
	if _, err := c.Attach(t.Context(), r.key); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("attach after the end: %v", err)
	}
	if err := c.Stop(t.Context(), r.key, "reset"); err != nil {
		t.Errorf("stop after the end: %v", err)
	}
}

// sealed is a fake whose sandboxes show what they were sealed with.
type sealed struct {
	*kerneltest.Fake
	seal func(kernel.Spec)
}

type sealedSandbox struct {
	kernel.Sandbox
	seal func(kernel.Spec)
}

func (b sealed) Create(ctx context.Context, env kernel.Environment, fresh bool) (kernel.Sandbox, error) {
	s, err := b.Fake.Create(ctx, env, fresh)
	return sealedSandbox{s, b.seal}, err
}

func (s sealedSandbox) Seal(ctx context.Context, spec kernel.Spec) error {
	s.seal(spec)
	return s.Sandbox.Seal(ctx, spec)
}

func TestDirectoriesTravelAsDescriptors(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	var names []string
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	start(t, dir, sealed{fake, func(spec kernel.Spec) {
		for _, f := range []*os.File{spec.Workspace, spec.Packages} {
			name, err := os.Readlink(filepath.Join("/proc/self/fd", fdName(f)))
			names = append(names, name)
			if err != nil {
				t.Error(err)
			}
		}
	}}, fake)
	c := open(t, dir, noSpawn)
	var spec kernel.Spec
	for name, to := range map[string]**os.File{"workspace": &spec.Workspace, "packages": &spec.Packages} {
		path := filepath.Join(work, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		*to = os.NewFile(uintptr(fd), path)
		defer (*to).Close()
	}
	// A message that does not fit into the socket's buffer still delivers its descriptors.
	spec.Env = map[string]string{"LARGE": strings.Repeat("x", 1<<20)}
	if _, err := c.Start(t.Context(), key("a"), kernel.Environment{}, spec); err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(work, "workspace"), filepath.Join(work, "packages")}; !slices.Equal(names, want) {
		t.Errorf("sealed with %v, want %v", names, want)
	}
	if _, err := spec.Workspace.Stat(); err != nil {
		t.Errorf("the caller's descriptor: %v", err)
	}
}

func fdName(f *os.File) string { return strconv.Itoa(int(f.Fd())) }

func TestAStartThatIsGivenUpLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	begun := make(chan struct{}, 1)
	fake := kerneltest.NewFake(func(r *kerneltest.Runner) {
		begun <- struct{}{}
		<-r.Context().Done() // never ready
	})
	s := serveOn(t, dir, fake)
	c := open(t, dir, noSpawn)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := c.Start(ctx, key("a"), kernel.Environment{}, kernel.Spec{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("start: %v", err)
	}
	if n := fake.Open(); n != 0 {
		t.Errorf("%d sandboxes are left", n)
	}
	if keys, err := s.host.Kernels(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("kernels %v, %v", keys, err)
	}
	if keys, err := spool.Keys(s.folder.Spool()); err != nil || len(keys) > 0 {
		t.Errorf("spools %v, %v", keys, err)
	}
	if _, err := c.Attach(t.Context(), key("a")); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("attach: %v", err)
	}
}

func TestAStartEndsWithItsServer(t *testing.T) {
	dir := t.TempDir()
	begun, gone := make(chan struct{}, 1), make(chan struct{})
	fake := kerneltest.NewFake(func(r *kerneltest.Runner) {
		begun <- struct{}{}
		<-r.Context().Done()
	})
	fake.OnClose = func() { close(gone) }
	serveOn(t, dir, fake)
	c := open(t, dir, noSpawn)
	started := make(chan error, 1)
	go func() {
		_, err := c.Start(context.Background(), key("a"), kernel.Environment{}, kernel.Spec{})
		started <- err
	}()
	<-begun
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone
	if err := <-started; err == nil {
		t.Error("a start succeeded on a client that is closed")
	}
}

func TestAFailedStartTellsWhy(t *testing.T) {
	dir := t.TempDir()
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	fake.SealErr = errors.New("step pivot_root: operation not permitted")
	serveOn(t, dir, fake)
	c := open(t, dir, noSpawn)
	for range 2 { // the first call leaves nothing
		_, err := c.Start(t.Context(), key("a"), kernel.Environment{}, kernel.Spec{})
		if err == nil || !strings.Contains(err.Error(), "pivot_root: operation not permitted") {
			t.Errorf("error %v", err)
		}
	}
}

func TestTheNextServerGoesOn(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	r.execute("e1", "ask")
	r.until(is[record.Asked])
	question := r.seen[len(r.seen)-1].Body.(record.Asked)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.next(); !errors.Is(err, command.ErrNoKernel) && !errors.Is(err, command.ErrHostClosed) {
		t.Errorf("next of a closed client: %v", err)
	}

	r.client = open(t, dir, noSpawn)
	a, err := r.client.Attach(t.Context(), r.key)
	if err != nil || a.Given != "e1" || a.Last != r.after || a.Info.Handle.Backend != "fake" {
		t.Fatalf("attachment %+v, %v", a, err)
	}
	if err := command.Tell(t.Context(), r.client, r.key, command.AnswerInput{RequestID: question.ID, Value: "late"}); err != nil {
		t.Fatal(err)
	}
	r.until(is[record.Finished])
	if got := r.text(); got != "late true" {
		t.Errorf("text %q", got)
	}
}

// What the last server asked of a kernel may take longer than a host has to answer a connection.
func TestTheNextServerWaitsUntilTheHostHasDoneWhatTheLastOneAsked(t *testing.T) {
	dir := t.TempDir()
	fake := kerneltest.NewFake(kerneltest.Cells(cells))
	fake.Pipes = true
	begun, release := make(chan struct{}, 1), make(chan struct{})
	fake.Usage = func() (kernel.Usage, error) { // before a cell
		select {
		case begun <- struct{}{}:
		default:
		}
		<-release
		return kernel.Usage{}, nil
	}
	serveOn(t, dir, fake)
	c := open(t, dir, noSpawn)
	r := begin(t, c, "a")
	go func() {
		_ = command.Tell(context.Background(), c, r.key, command.Execution{ID: "e1", Code: "echo one"})
	}()
	<-begun
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(link.HelloTime+time.Second, func() { close(release) })

	r.client = open(t, dir, noSpawn)
	if a, err := r.client.Attach(t.Context(), r.key); err != nil || a.Given != "e1" {
		t.Fatalf("attachment %+v, %v", a, err)
	}
	r.until(is[record.Finished])
	if got := r.text(); got != "one" {
		t.Errorf("text %q", got)
	}
}

func TestTheNewestServerHasTheKernel(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	first := begin(t, open(t, dir, noSpawn), "a")
	first.execute("e1", "echo one")
	first.until(is[record.Finished])

	second := &reader{T: t, client: open(t, dir, noSpawn), key: first.key, after: first.after}
	if a, err := second.client.Attach(t.Context(), first.key); err != nil || a.Given != "e1" {
		t.Fatalf("attachment %+v, %v", a, err)
	}
	if _, err := first.next(); !errors.Is(err, link.ErrTakenOver) {
		t.Errorf("next of the first server: %v", err)
	}
	if err := command.Tell(t.Context(), first.client, first.key, command.Execution{ID: "e2"}); !errors.Is(err, command.ErrNoKernel) {
		t.Errorf("execute of the first server: %v", err)
	}
	second.execute("e2", "echo two")
	second.until(is[record.Finished])
	if got := second.text(); got != "two" {
		t.Errorf("text %q", got)
	}
}

func TestAConnectionThatBreaksIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	r := begin(t, open(t, dir, noSpawn), "a")
	r.execute("e1", "count 20000")
	for i := 0; ; i++ {
		batch, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		r.client.Ack(r.key, r.after)
		if is[record.Finished](batch[len(batch)-1]) {
			break
		}
		if i < 20 {
			r.client.Break(r.key, i%2 == 0)
		}
	}
	if n := checkLines(t, r.text()); n != 20000 {
		t.Errorf("%d lines", n)
	}
	r.client.Break(r.key, false)
	r.execute("e2", "echo again") // waits for the next connection
	r.until(is[record.Finished])
}

func TestNextGoesBackWhereItIsAsked(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	r := begin(t, open(t, dir, noSpawn), "a")
	r.execute("e1", "echo one")
	r.unacknowledged(is[record.Finished])
	first := r.text()
	r.after, r.seen = 0, nil
	r.unacknowledged(is[record.Finished])
	if got := r.text(); got != first || got != "one" {
		t.Errorf("text %q, the first time %q", got, first)
	}
}

// With HTML escapes such a cell would be six times as long, and too long for a frame.
func TestTheLargestCellFitsInAFrame(t *testing.T) {
	dir := t.TempDir()
	serveOn(t, dir, kerneltest.NewFake(kerneltest.Cells(func(c *kerneltest.Cell) { c.Print(strconv.Itoa(len(c.Code))) })))
	c := open(t, dir, noSpawn)
	if _, err := c.Start(t.Context(), key("a"), kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, client: c, key: key("a")}
	cell := command.Execution{ID: "e1", Code: strings.Repeat("<", 16<<20)}
	if err := command.Tell(t.Context(), c, r.key, cell); err != nil {
		t.Fatal(err)
	}
	r.until(is[record.Finished])
	if got := r.text(); got != strconv.Itoa(16<<20) {
		t.Errorf("the kernel got a cell of %s bytes", got)
	}
}
