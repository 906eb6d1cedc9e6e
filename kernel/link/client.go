package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// ClientConfig says where the hosts are. Dir, Build and Spawn are required.
type ClientConfig struct {
	Dir            string // with a folder for each host
	Build, Version string
	// Spawn starts a host of this build, and returns when it is ready. ctx bounds the start, not the host's life.
	Spawn func(ctx context.Context) error
	Log   *slog.Logger
	// Ending is called when a host with these kernels has been told to end. The host gives it a minute; ctx ends when
	// that is over. It may be called before Open has returned. Default: hosts do not wait for this client.
	Ending func(ctx context.Context, keys []record.Key)

	protocol  Versions
	heartbeat heartbeat
	hello     time.Duration // how long a host may take to answer a new connection
	patience  time.Duration // how long a new client waits for a host that lives and does not answer
	reply     time.Duration // how long a host may take to reply to a command, except for those that wait as long as their caller does
}

// Client presents all hosts of a directory as one [host.Host]. The newest host of its build gets new kernels; older
// ones keep theirs until these are forgotten. What dead hosts left is read from their spools and ends with a Died
// record, so that the user of the client sees no difference. The contracts of [host.Host]'s methods hold here, with
// these additions: one goroutine at a time calls Next for a key, after Start or Attach of that key; a command waits
// while a broken connection is re-established. While a host does not respond, requests to it fail with
// [command.ErrUnresponsive], except for commands that wait. A directory has one Client at a time. It is safe for
// concurrent use.
type Client struct {
	cfg      ClientConfig
	log      *slog.Logger
	ctx      context.Context // ends with the client
	cancel   context.CancelCauseFunc
	routines sync.WaitGroup
	room     *largeRoom

	mu           sync.Mutex                   // guards the fields below
	hosts        map[string]*remote           // the living ones, by id
	incompatible map[string]error             // the living ones that speak no common protocol, and why
	dead         map[string]*deadHost         // the dead ones that have left something
	kernels      map[record.Key]*remoteKernel // the kernels started or attached to here
	current      *remote                      // it gets new kernels
	search       *search                      // for another host, while it is under way
	failed       error                        // of the last search
	failedAt     time.Time                    // when it ended
	envs         []kernel.Environment         // to be kept warm
	conns        map[*conn]struct{}
	closed       bool
}

// startsApart bounds how often Ready, which anybody may ask, starts hosts that fail.
const startsApart = 2 * time.Second

// search is one attempt to find or make a host for new kernels.
type search struct {
	done   chan struct{}
	remote *remote
	err    error
}

// Open attaches to all hosts, adopts what dead ones left, and starts a host if none of this build accepts new kernels.
// ctx bounds the opening.
func Open(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.protocol == (Versions{}) {
		cfg.protocol = supported
	}
	if cfg.heartbeat == (heartbeat{}) {
		cfg.heartbeat = usualHeartbeat
	}
	if cfg.hello == 0 {
		cfg.hello, cfg.patience = helloTime, hostPatience
	}
	if cfg.reply == 0 {
		cfg.reply = commandTime
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open hosts: %w", err)
	}
	c := &Client{
		cfg: cfg, log: cfg.Log, hosts: map[string]*remote{}, incompatible: map[string]error{}, dead: map[string]*deadHost{},
		kernels: map[record.Key]*remoteKernel{}, conns: map[*conn]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.room = newLargeRoom(c.ctx)
	if _, err := c.place(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open hosts: %w", err), c.Close())
	}
	return c, nil
}

// Close lets go of the hosts, which keep running with their kernels. It is idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.cancel(command.ErrHostClosed)
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.routines.Wait()
	return nil
}

// StopHosts tells every host to end, with its kernels, and returns when they have ended. ctx bounds the wait.
func (c *Client) StopHosts(ctx context.Context) error {
	c.mu.Lock()
	hosts := slices.Collect(maps.Values(c.hosts))
	c.mu.Unlock()
	if err := StopHosts(ctx, c.cfg.Dir); err != nil {
		return err
	}
	for _, r := range hosts {
		select {
		case <-r.gone:
		case <-ctx.Done():
			return fmt.Errorf("stop hosts: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Ready returns nil if there is a host for new kernels that responds, or else why there is none. It starts one if there is
// none, though not sooner than [startsApart] after that has failed. ctx bounds the wait for that.
func (c *Client) Ready(ctx context.Context) error {
	c.mu.Lock()
	failed := c.failed
	if c.search != nil || time.Since(c.failedAt) > startsApart {
		failed = nil
	}
	c.mu.Unlock()
	if failed != nil {
		return failed
	}
	r, err := c.place(ctx)
	if err != nil {
		return err
	}
	_, done, err := r.whileResponsive(ctx)
	if err == nil {
		done()
	}
	return err
}

// Warm makes the host that gets new kernels keep these environments warm.
func (c *Client) Warm(envs []kernel.Environment) {
	c.mu.Lock()
	c.envs = slices.Clone(envs)
	r := c.current
	c.mu.Unlock()
	if r != nil {
		c.begin(func() { c.warm(c.ctx, r, envs) })
	}
}

func (c *Client) warm(ctx context.Context, r *remote, envs []kernel.Environment) {
	if err := r.ask(ctx, opWarm, envs, nil); err != nil && c.ctx.Err() == nil {
		c.log.Error("keep environments warm", "host", r.id, "error", err)
	}
}

// Sweep removes what the sandboxes of these handles left on the machine.
func (c *Client) Sweep(ctx context.Context, handles []kernel.Handle) error {
	r, err := c.place(ctx)
	if err == nil {
		err = r.ask(ctx, opSweep, sweepBody{Handles: handles}, nil)
	}
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// Kernels lists the keys of all hosts, living and dead, except for hosts that speak no common protocol.
func (c *Client) Kernels(ctx context.Context) ([]record.Key, error) {
	all := map[record.Key]struct{}{}
	for _, r := range c.living() {
		var keys []record.Key
		if err := r.ask(ctx, opKernels, nil, &keys); errors.Is(err, errBroken) {
			continue // it has died meanwhile
		} else if err != nil {
			return nil, fmt.Errorf("list kernels of host %s: %w", r.id, err)
		}
		for _, key := range keys {
			all[key] = struct{}{}
		}
	}
	for _, d := range c.deadHosts() {
		for _, key := range d.list() {
			all[key] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(all)), nil
}

// usagesSince is the first version of the host protocol that has the request usages.
const usagesSince = 6

// Usages returns what each of these kernels uses now, with one request to each host. It leaves out kernels that are
// gone, still starting, or of a host that does not respond.
func (c *Client) Usages(ctx context.Context, keys []record.Key) ([]command.KernelUsage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.reply, errNoReply)
	defer cancel()
	byHost := map[*remote][]record.Key{}
	for _, key := range keys {
		if k := c.known(key); k != nil && k.host != nil {
			byHost[k.host] = append(byHost[k.host], key)
		}
	}
	var mu sync.Mutex // guards all
	var all []command.KernelUsage
	var asking sync.WaitGroup
	for r, keys := range byHost {
		asking.Go(func() {
			usages, err := c.usagesOf(ctx, r, keys)
			if err != nil && ctx.Err() == nil {
				c.log.Debug("read the usage of kernels", "host", r.id, "error", err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, usages...)
		})
	}
	asking.Wait()
	return all, context.Cause(ctx)
}

func (c *Client) usagesOf(ctx context.Context, r *remote, keys []record.Key) (usages []command.KernelUsage, err error) {
	if r.protocol >= usagesSince {
		err = r.ask(ctx, opUsages, keys, &usages)
		return usages, err
	}
	for _, key := range keys {
		if usage, err := command.Ask(ctx, c, key, command.ReadUsage{}); err == nil {
			usages = append(usages, command.KernelUsage{Key: key, Usage: usage})
		}
	}
	return usages, ctx.Err()
}

// Stats returns what the living hosts report about themselves, the newest first.
func (c *Client) Stats(ctx context.Context) ([]HostStats, error) {
	var all []HostStats
	for _, r := range c.living() {
		var one HostStats
		if err := r.ask(ctx, opStats, nil, &one); errors.Is(err, errBroken) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("stats of host %s: %w", r.id, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// living lists the living hosts, the newest first.
func (c *Client) living() []*remote {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.hosts), func(a, b *remote) int { return strings.Compare(b.id, a.id) })
}

func (c *Client) deadHosts() []*deadHost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.dead))
}

// place returns the host for new kernels, and starts one if there is none. ctx bounds the wait for that.
func (c *Client) place(ctx context.Context) (*remote, error) {
	c.mu.Lock()
	if r := c.current; r != nil && r.takesKernels() {
		c.mu.Unlock()
		return r, nil
	}
	s := c.search
	if s == nil {
		s = &search{done: make(chan struct{})}
		if !c.beginLocked(func() { c.find(s) }) {
			c.mu.Unlock()
			return nil, command.ErrHostClosed
		}
		c.search = s
	}
	c.mu.Unlock()
	select {
	case <-s.done:
		return s.remote, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// find looks for a host, makes one if there is none, and prepares it.
func (c *Client) find(s *search) {
	s.remote, s.err = c.findHost(c.ctx)
	if s.err == nil {
		c.retireOthers(c.ctx, s.remote)
		c.sweepDead(c.ctx, s.remote)
	}
	c.mu.Lock()
	c.search, c.current, c.failed, c.failedAt = nil, s.remote, s.err, time.Now()
	envs := c.envs
	c.mu.Unlock()
	close(s.done)
	if s.err == nil && len(envs) > 0 {
		c.warm(c.ctx, s.remote, envs)
	}
}

func (c *Client) findHost(ctx context.Context) (*remote, error) {
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	if r := c.choose(); r != nil {
		return r, nil
	}
	if err := c.cfg.Spawn(ctx); err != nil {
		return nil, fmt.Errorf("start a host: %w", err)
	}
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	if r := c.choose(); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("start a host: no host of build %q answered within %s, though one was started; see the file log in "+
		"the newest folder there", c.cfg.Build, c.cfg.Dir)
}

// choose returns the newest host of this build that accepts kernels, or nil.
func (c *Client) choose() *remote {
	for _, r := range c.living() {
		if r.build == c.cfg.Build && r.takesKernels() {
			return r
		}
	}
	return nil
}

// look adopts all folders that are not known yet.
func (c *Client) look(ctx context.Context) error {
	all, err := scan(c.cfg.Dir)
	if err != nil {
		return err
	}
	for _, f := range all {
		c.mu.Lock()
		known := c.hosts[f.id] != nil || c.dead[f.id] != nil
		c.mu.Unlock()
		switch {
		case known:
		case f.dead:
			c.adoptDead(f, nil)
		default:
			if err := c.connectHost(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// await connects to a living host. If that does not answer, as on a machine that has no memory left, it waits: without the host,
// its kernels would count as dead and run on beside new ones.
func (c *Client) await(ctx context.Context, f found) (*remote, error) {
	c.mu.Lock()
	long := c.cfg.patience
	if c.incompatible[f.id] != nil { // it was waited for
		long = 0
	}
	c.mu.Unlock()
	for begin := time.Now(); ; {
		r, err := c.connect(ctx, f)
		var late interface{ Timeout() bool }
		if err == nil || ctx.Err() != nil || !errors.As(err, &late) || !late.Timeout() || time.Since(begin) >= long {
			return r, err
		}
		c.log.Warn("a host does not answer; waiting for it", "host", f.id, "pid", f.info.PID)
	}
}

// connectHost connects to a living host. A host that speaks no common protocol is left alone.
func (c *Client) connectHost(ctx context.Context, f found) error {
	r, err := c.await(ctx, f)
	if errors.Is(err, errBroken) {
		if dead, _ := isDead(f.path); dead {
			c.adoptDead(f, nil)
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		delete(c.incompatible, f.id)
		c.hosts[f.id] = r
		if !c.beginLocked(r.run) {
			_ = r.control.Close()
			r.process.stop()
			return command.ErrHostClosed
		}
	case errors.Is(err, errProtocol):
		c.incompatible[f.id] = err
		c.log.Error("a host speaks another protocol; its kernels cannot be reached", "error", err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case f.info.ID == "":
		c.log.Debug("a host is not ready", "host", f.id)
	default:
		c.incompatible[f.id] = fmt.Errorf("host %s (process %d) is alive but cannot be reached; end that process: %w", f.id, f.info.PID, err)
		c.log.Error("a host and its kernels cannot be reached", "error", c.incompatible[f.id])
	}
	return nil
}

// retireOthers tells all hosts but the chosen one to take no new kernels.
func (c *Client) retireOthers(ctx context.Context, chosen *remote) {
	for _, r := range c.living() {
		if r == chosen || !r.takesKernels() {
			continue
		}
		r.retired.Store(true)
		if err := r.ask(ctx, opRetire, nil, nil); err != nil && !errors.Is(err, errBroken) {
			c.log.Error("retire a host", "host", r.id, "error", err)
		}
	}
}

// sweepDead makes a living host remove what dead ones left on the machine.
func (c *Client) sweepDead(ctx context.Context, living *remote) {
	for _, d := range c.deadHosts() {
		if d.isSwept() {
			continue
		}
		if err := living.ask(ctx, opSweep, sweepBody{Instance: d.instance, Handles: d.handles}, nil); err != nil {
			if ctx.Err() == nil {
				c.log.Error("remove the remains of a dead host", "host", d.id, "error", err)
			}
			continue
		}
		d.setSwept()
	}
}

// begin runs f on a goroutine that Close waits for. It returns false if the client is closed.
func (c *Client) begin(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beginLocked(f)
}

func (c *Client) beginLocked(f func()) bool {
	if c.closed {
		return false
	}
	c.routines.Go(f)
	return true
}

func (c *Client) folder(id string) string { return filepath.Join(c.cfg.Dir, id) }

// dial connects to a host. Close closes the connection.
func (c *Client) dial(ctx context.Context, path string) (*conn, int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.hello)
	defer cancel()
	u, pid, err := dial(ctx, path)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errBroken, err)
	}
	made := newConn(u)
	made.room = c.room
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, errors.Join(command.ErrHostClosed, made.Close())
	}
	c.conns[made] = struct{}{}
	return made, pid, nil
}

// hangUp ends a connection that dial made.
func (c *Client) hangUp(made *conn) {
	_ = made.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, made)
}
