package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/oneshot"
	"talaria/kernel/trace"
	"talaria/kernel/workspace"
)

// RunUIDs is the number of user ids that one-shot runs take in turns.
const RunUIDs = 4096

// maxRuns bounds the runs of a host, those included that are being cleaned up. Others wait.
const maxRuns = 64

// runFolder is the folder of a run in the directory that the backend makes.
const runFolder = "run"

// runs carries out one-shot runs. It has a pool of its own, which is filled from the first run on. It is safe for
// concurrent use.
type runs struct {
	backend kernel.Backend
	pool    *pool
	uid     int // the first user id; 0: the host's own user
	log     *slog.Logger
	slots   chan struct{}
	ctx     context.Context // ends with close
	cancel  context.CancelCauseFunc
	under   sync.WaitGroup // runs, until nothing of them is left

	mu     sync.Mutex // guards the fields below
	closed bool
	taken  map[int]bool // user ids
	next   int          // the offset of the next one
}

func newRuns(backend kernel.Backend, size, uid int, log *slog.Logger) *runs {
	r := &runs{
		backend: backend, pool: newPool(backend, size, log), uid: uid, log: log,
		slots: make(chan struct{}, maxRuns), taken: map[int]bool{},
		// Another host may live beside this one for a while.
		next: os.Getpid() % RunUIDs,
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r
}

var _ oneshot.Runner = (*Host)(nil)

// Run implements [oneshot.Runner].
func (h *Host) Run(ctx context.Context, request oneshot.Request) ([]oneshot.Outcome, error) {
	outcomes, err := h.runs.run(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return outcomes, nil
}

func (r *runs) run(ctx context.Context, request oneshot.Request) (_ []oneshot.Outcome, err error) {
	dirs, ok := r.backend.(kernel.DirMaker)
	if !ok {
		return nil, fmt.Errorf("the backend keeps no directories for runs: %w", errors.ErrUnsupported)
	}
	if len(request.Steps) == 0 {
		return nil, errors.New("there is nothing to run")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	defer stop()
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	uid, err := r.begin(request.Env)
	if err != nil {
		<-r.slots
		return nil, err
	}
	trace.Step("run received")
	one := &oneRun{runs: r, request: request, uid: uid}
	defer func() { go r.end(dirs, one) }() // nobody waits for it but close
	if err := one.prepare(dirs); err != nil {
		return nil, err
	}
	trace.Step("files of the run made")
	defer trace.Step("run over")
	return one.steps(ctx)
}

// begin admits a run and returns its user id.
func (r *runs) begin(env kernel.Environment) (uid int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, command.ErrHostClosed
	}
	r.under.Add(1)
	r.pool.keep([]kernel.Environment{env})
	if r.uid == 0 {
		return 0, nil
	}
	for r.taken[r.uid+r.next] { // there are more than slots
		r.next = (r.next + 1) % RunUIDs
	}
	uid = r.uid + r.next
	r.taken[uid] = true
	r.next = (r.next + 1) % RunUIDs
	return uid, nil
}

// end leaves nothing of a run.
func (r *runs) end(dirs kernel.DirMaker, one *oneRun) {
	defer r.under.Done()
	if err := one.remove(dirs); err != nil {
		r.log.Error("remove what a run left", "error", err)
	}
	r.mu.Lock()
	delete(r.taken, one.uid)
	r.mu.Unlock()
	<-r.slots
}

// close ends all runs and refuses new ones. It returns when nothing of them is left, or with an error if ctx ends first.
func (r *runs) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(command.ErrHostClosed)
	gone := make(chan struct{})
	go func() {
		r.under.Wait()
		close(gone)
	}()
	err := r.pool.close(ctx)
	select {
	case <-gone:
		return err
	case <-ctx.Done():
		return errors.Join(err, errors.New("runs are still being ended"), context.Cause(ctx))
	}
}

// oneRun is one request under way. One goroutine uses it at a time.
type oneRun struct {
	runs     *runs
	request  oneshot.Request
	uid      int
	dir      string         // of the backend
	files    *workspace.Dir // the directory that the programs run in
	packages *os.File       // empty
	sandbox  kernel.Sandbox // of the last step; nil once it is closed
}

// prepare makes the directory of the run with its files.
func (o *oneRun) prepare(dirs kernel.DirMaker) (err error) {
	if o.dir, err = dirs.MakeDir(); err != nil {
		return err
	}
	if o.files, err = workspace.Create(o.dir, runFolder, o.uid); err != nil {
		return err
	}
	packages := filepath.Join(o.dir, runFolder, workspace.PackagesFolder)
	if o.packages, err = os.OpenFile(packages, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	for _, f := range o.request.Files {
		if err := o.files.Place(f.Name, f.Data); err != nil {
			return err
		}
	}
	return nil
}

// steps runs the steps until one fails.
func (o *oneRun) steps(ctx context.Context) ([]oneshot.Outcome, error) {
	var outcomes []oneshot.Outcome
	for i, s := range o.request.Steps {
		if i > 0 {
			if err := o.closeSandbox(); err != nil { // nothing of one step runs on in the next
				return nil, err
			}
		}
		outcome, err := o.step(ctx, s)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, outcome)
		if !outcome.OK() {
			break
		}
	}
	return outcomes, nil
}

// take returns a sandbox that is sealed for a step.
func (o *oneRun) take(ctx context.Context, limits kernel.Limits) error {
	spec := kernel.Spec{
		UID: o.uid, Workspace: o.files.File(), Packages: o.packages, Limits: limits, Hostname: "run", OOMOnly: true,
		NoInstalls: "a run installs no packages", NoTools: "a run calls no tools", NoAfter: "a run has no checkpoints",
	}
	r := o.runs
	if o.sandbox = r.pool.take(o.request.Env); o.sandbox != nil {
		err := o.sandbox.Seal(ctx, spec)
		if err == nil || ctx.Err() != nil {
			return err
		}
		r.log.Warn("could not seal a sandbox of the pool; creating a new one", "error", err)
		if err := o.closeSandbox(); err != nil {
			return err
		}
	}
	made, err := r.backend.Create(ctx, o.request.Env, false)
	if err != nil {
		return err
	}
	o.sandbox = made
	return made.Seal(ctx, spec)
}

func (o *oneRun) closeSandbox() error {
	if o.sandbox == nil {
		return nil
	}
	s := o.sandbox
	o.sandbox = nil
	return s.Close()
}

// remove leaves nothing of the run.
func (o *oneRun) remove(dirs kernel.DirMaker) error {
	errs := []error{o.closeSandbox()}
	if o.packages != nil {
		errs = append(errs, o.packages.Close())
	}
	if o.files != nil {
		errs = append(errs, o.files.Close())
	}
	if o.dir != "" {
		errs = append(errs, dirs.RemoveDir(o.dir))
	}
	return errors.Join(errs...)
}
