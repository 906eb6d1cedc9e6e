package battery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"talaria/api"
	"talaria/client"
)

// checkTime bounds a check, and cleanUpTime the cleaning up after it.
const (
	checkTime   = 5 * time.Minute
	cleanUpTime = 2 * time.Minute
)

// Server is the server under test. It runs on this machine.
type Server struct {
	Client *client.Client
	URL    string
	Token  string
	// Other is the token of a second owner; "" if there is none.
	Other string
	// Strict makes all sessions start cold, so that they share no process with any other.
	Strict bool
	// Woken makes each interpreter a copy that was woken: the session has gone back to a checkpoint.
	Woken bool

	ownFiles  bool // sessions see the machine's tree
	uncounted bool // no control group counts the memory of sessions, so calls that take it without a mapping are refused
}

// newSession makes a session with the battery's limits, except for those in limits.
func (s Server) newSession(ctx context.Context, limits api.LimitsRequest, change func(*api.SessionRequest)) (string, error) {
	setDefault(&limits.MemoryBytes, memoryBytes)
	setDefault(&limits.PIDs, pids)
	setDefault(&limits.DiskBytes, diskBytes)
	setDefault(&limits.OutputBytes, outputBytes)
	setDefault(&limits.CPUs, cpus)
	req := api.SessionRequest{Limits: &limits, Name: new("battery")}
	if s.Strict {
		req.Isolation = new(api.IsolationStrict)
	}
	if change != nil {
		change(&req)
	}
	made, err := s.Client.CreateSession(ctx, req)
	if err != nil {
		return "", fmt.Errorf("make a session: %w", err)
	}
	if s.Woken {
		if err := s.wake(ctx, made.ID); err != nil {
			return "", fmt.Errorf("replace the interpreter of a session by a copy: %w", err)
		}
	}
	return made.ID, nil
}

// wake makes a copy the interpreter of a session.
func (s Server) wake(ctx context.Context, id string) error {
	if _, err := s.Client.Execute(ctx, id, api.ExecutionRequest{Code: new("pass"), Silent: new(true)}); err != nil {
		return err
	}
	point, err := s.Client.Checkpoint(ctx, id, api.CheckpointRequest{Level: new(api.CheckpointLive)})
	if err != nil {
		return err
	}
	_, err = s.Client.Rollback(ctx, id, api.RollbackRequest{CheckpointID: &point.ID})
	return err
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// Options say how a battery runs.
type Options struct {
	Quick    bool                   // only the quick checks
	Only     func(name string) bool // only these; nil: all
	Parallel int                    // how many checks run at a time
	Done     func(Result)           // called after each check, one call at a time; optional
}

// Result is how a check ended. Detail says why if it has not passed.
type Result struct {
	Check   Check
	Outcome Outcome
	Lacks   Need // the need that was not met, so that the check was not run or a limit was exceeded
	Detail  string
	Took    time.Duration
}

// Run runs the checks, in an order of its own, and returns the results in the order of [Checks]. An error means that
// the battery itself could not be run.
func Run(ctx context.Context, s Server, o Options) (results []Result, err error) {
	checks := Checks()
	if o.Quick {
		checks = quick(checks)
	}
	if o.Only != nil {
		checks = slices.DeleteFunc(checks, func(c Check) bool { return !o.Only(c.Name) })
	}
	outside, err := openOutside()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, outside.close()) }()
	b := &battery{server: s, outside: outside, options: o, results: make([]Result, len(checks))}
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	b.runAll(ctx, checks)
	if err := b.close(ctx); err != nil {
		return nil, err
	}
	return b.results, context.Cause(ctx)
}

// battery is one run of the battery.
type battery struct {
	server    Server
	outside   *Outside
	options   Options
	neighbour string // a session that must not notice anything
	has       []Need

	mu      sync.Mutex // guards the fields below
	results []Result
	shared  []string // sessions to be deleted
}

func (b *battery) open(ctx context.Context) (err error) {
	if b.neighbour, err = b.share(ctx); err != nil {
		return err
	}
	e, err := b.server.Client.Execute(ctx, b.neighbour, api.ExecutionRequest{Code: new("calm = 'calm'")})
	if err == nil && e.Status != api.StatusOK {
		err = fmt.Errorf("it ended %s %s: %.300s", e.Status, e.Reason, e.Text)
	}
	if err != nil {
		return fmt.Errorf("run a first cell: %w", err)
	}
	session, err := b.server.Client.Session(ctx, b.neighbour)
	if err != nil {
		return fmt.Errorf("look at a session: %w", err)
	}
	b.server.ownFiles = session.Isolation.Tier == "landlock"
	b.has = needs(session.Isolation.Layers)
	b.server.uncounted = !slices.Contains(b.has, NeedMemoryGroup)
	if b.server.Other != "" {
		b.has = append(b.has, NeedOtherOwner)
	}
	return nil
}

// needs returns the needs that a session's layers show to be met.
func needs(layers []string) []Need {
	var found []Need
	for _, layer := range layers {
		what, how, _ := strings.Cut(layer, ": ")
		group := strings.HasPrefix(how, "cgroup")
		switch {
		case what == "memory" && group:
			found = append(found, NeedMemoryGroup)
		case what == "cpu" && group:
			found = append(found, NeedCPUGroup)
		case what == "disk" && !strings.HasPrefix(how, "watched"):
			found = append(found, NeedHeldDisk)
		case what == "user" && strings.Contains(how, "this session's own"):
			found = append(found, NeedRoot)
		}
	}
	return found
}

// share makes a session that lasts as long as the battery.
func (b *battery) share(ctx context.Context) (string, error) {
	id, err := b.server.newSession(ctx, api.LimitsRequest{}, nil)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.shared = append(b.shared, id)
	}
	return id, err
}

// close deletes the shared sessions.
func (b *battery) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	var errs []error
	for _, id := range b.shared {
		if err := b.server.Client.DeleteSession(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("delete a session: %w", err))
		}
	}
	return errors.Join(errs...)
}

// runAll distributes the checks to workers. Checks that need no session of their own share their worker's.
func (b *battery) runAll(ctx context.Context, checks []Check) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, b.options.Parallel) {
		workers.Go(func() {
			session, err := b.share(ctx)
			for i := range next {
				r := Result{Check: checks[i], Outcome: Failed}
				if err != nil {
					r.Detail = err.Error()
				} else {
					r = b.run(ctx, checks[i], session)
				}
				b.mu.Lock()
				b.results[i] = r
				if b.options.Done != nil {
					b.options.Done(r)
				}
				b.mu.Unlock()
			}
		})
	}
	// The long ones first, so that the last worker does not end long after the others.
	for _, long := range []bool{true, false} {
		for i, c := range checks {
			if c.Quick != long {
				next <- i
			}
		}
	}
	close(next)
	workers.Wait()
}

func (b *battery) run(ctx context.Context, c Check, session string) Result {
	r := Result{Check: c, Outcome: NotRun}
	for _, need := range c.Needs {
		if !slices.Contains(b.has, need) {
			r.Lacks, r.Detail = need, "this machine or server lacks "+string(need)
			return r
		}
	}
	begin := time.Now()
	visits := b.outside.visits.Load()
	trialTime, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	t := &Trial{Server: b.server, Outside: b.outside, Session: session, ctx: trialTime, limits: c.Limits}
	err := t.run(c)
	ending, cancelEnding := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancelEnding()
	if further := errors.Join(t.cleanUp(ending), b.undisturbed(ending)); further != nil {
		err = further
	}
	if b.outside.visits.Load() != visits {
		err = errors.New("something inside has reached a listener of the host")
	}
	if err != nil {
		r.Detail = err.Error()
	}
	r.Outcome, r.Took = outcomeOf(err), time.Since(begin)
	if r.Outcome == Bounded && c.Holds != "" && !slices.Contains(b.has, c.Holds) {
		r.Lacks = c.Holds
	}
	return r
}

// undisturbed checks that the neighbour is still alive with its variables, and that its log has no output of others.
func (b *battery) undisturbed(ctx context.Context) error {
	e, err := b.server.Client.Execute(ctx, b.neighbour, api.ExecutionRequest{Code: new("print(calm)")})
	switch {
	case err != nil:
		return fmt.Errorf("ask the neighbour: %w", err)
	case e.Status != api.StatusOK || stdout(e) != "calm\n" || e.Generation != 1:
		return fmt.Errorf("the neighbour is disturbed: %s %s, generation %d, %.100q", e.Status, e.Reason, e.Generation, e.Text)
	}
	return nil
}

func (t *Trial) run(c Check) error {
	if c.Alone {
		session, err := t.NewSession(nil)
		if err != nil {
			return err
		}
		t.Session = session
	}
	if c.Cell != "" {
		req := c.Request
		req.Code = &c.Cell
		e, err := t.RunIn(t.Session, req)
		if err != nil {
			return err
		}
		t.Execution, t.Saw = e, seen(e)
	}
	return c.Judge(t)
}
