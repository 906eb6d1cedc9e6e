package e2b

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/session"
)

const (
	// retryEnd is how soon the end of a sandbox is tried again that could not be killed, or that runs a cell and is to be paused.
	retryEnd = 10 * time.Second
	// endsAtOnce is how many sandboxes are killed or paused at the same time because their time is over, and ownerEndsAtOnce how many of
	// one owner's: their code decides how long a pause takes.
	endsAtOnce      = 16
	ownerEndsAtOnce = 2
)

// place names a session.
type place struct{ owner, id string }

// expiry keeps a timer for each sandbox, which goes off at its end. It is safe for concurrent use.
type expiry struct {
	changed chan struct{} // holds a value when there may be a sandbox to end

	mu     sync.Mutex // guards the fields below
	timers map[place]*time.Timer
	due    []place        // whose timers went off, first come, first
	ending map[place]bool // that are being killed or paused
}

func newExpiry() *expiry {
	return &expiry{changed: make(chan struct{}, 1), timers: map[place]*time.Timer{}, ending: map[place]bool{}}
}

// set replaces the timer of a sandbox; the zero time means that it has no end.
func (e *expiry) set(owner, id string, at time.Time) {
	p := place{owner, id}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(p)
	if at.IsZero() {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(time.Until(at), func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.timers[p] == t {
			delete(e.timers, p)
			e.due = append(e.due, p)
			e.change()
		}
	})
	e.timers[p] = t
}

func (e *expiry) forget(owner, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drop(place{owner, id})
}

// drop undoes set. The caller holds mu.
func (e *expiry) drop(p place) {
	if t := e.timers[p]; t != nil {
		t.Stop()
		delete(e.timers, p)
	}
	if i := slices.Index(e.due, p); i >= 0 {
		e.due = slices.Delete(e.due, i, i+1)
	}
}

func (e *expiry) change() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Run kills or pauses sandboxes when their time is over, until ctx ends. It is called once.
func (h *Handler) Run(ctx context.Context) {
	err := h.Sessions.Each(ctx, func(owner, _ string, s api.Session) bool {
		h.expiry.set(owner, s.ID, endOf(s))
		return ctx.Err() == nil
	})
	if err != nil && ctx.Err() == nil {
		h.Log.Error("read when sandboxes end", slog.Any("error", err))
	}
	h.expiry.each(ctx, func(p place) { h.expire(ctx, p) })
	h.expiry.stop()
	h.watchers.stop()
}

// each calls end with the sandboxes whose timers go off, a few at a time and never twice with the same one at once, until ctx ends. It
// returns when all calls have.
func (e *expiry) each(ctx context.Context, end func(place)) {
	var ends sync.WaitGroup
	defer ends.Wait()
	for {
		for p, ok := e.begin(); ok; p, ok = e.begin() {
			ends.Go(func() {
				defer e.end(p)
				end(p)
			})
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
			return
		}
	}
}

// begin takes the first sandbox that is due and may be ended now, if there is one.
func (e *expiry) begin() (p place, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ending) == endsAtOnce {
		return p, false
	}
	owners := map[string]int{}
	for p := range e.ending {
		owners[p.owner]++
	}
	i := slices.IndexFunc(e.due, func(p place) bool { return !e.ending[p] && owners[p.owner] < ownerEndsAtOnce })
	if i < 0 {
		return p, false
	}
	p = e.due[i]
	e.due = slices.Delete(e.due, i, i+1)
	e.ending[p] = true
	return p, true
}

// end undoes begin.
func (e *expiry) end(p place) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.ending, p)
	e.change()
}

// stop stops all timers.
func (e *expiry) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.timers {
		t.Stop()
	}
	clear(e.timers)
}

// expire kills or pauses a sandbox if its time is over by what its session says. The end of ctx gives up a pause: the next server does it.
func (h *Handler) expire(ctx context.Context, p place) {
	s, err := h.Sessions.Get(p.owner, p.id)
	if err != nil {
		return // it was deleted
	}
	defer s.Release()
	info := s.Info(ctx)
	end := endOf(info)
	switch {
	case end.IsZero():
		return
	case time.Now().Before(end):
		h.expiry.set(p.owner, p.id, end)
		return
	}
	if err := h.endSandbox(ctx, p, s, info); err != nil && ctx.Err() == nil && !hasCode(err, api.CodeSessionNotFound) {
		if !hasCode(err, api.CodeKernelBusy) {
			h.Log.Error("end a sandbox whose time is over", slog.String("session", p.id), slog.Any("error", err))
		}
		h.expiry.set(p.owner, p.id, time.Now().Add(retryEnd))
	}
}

// endSandbox kills a sandbox whose time is over, or pauses it if it was created so. One that is to be paused and runs a cell is
// kernel_busy.
func (h *Handler) endSandbox(ctx context.Context, p place, s *session.Session, info api.Session) error {
	if info.Metadata[metaAutoPause] == "" {
		return h.kill(ctx, p.owner, p.id)
	}
	if err := hibernate(ctx, s); err != nil {
		return err
	}
	return h.setEnd(ctx, p.owner, s, "", api.SessionPatch{})
}

// prolong moves the end of a sandbox to so many seconds from now; with onlyLater, never to an earlier time.
func (h *Handler) prolong(q *request, s *session.Session, seconds float64, onlyLater bool) error {
	end, err := endAfter(seconds)
	if err != nil {
		return err
	}
	info := s.Info(q.command())
	before := endOf(info)
	after := endOf(api.Session{Metadata: map[string]string{metaEnd: end}})
	_, sandbox := info.Metadata[metaTemplate] // not a session of another client, which has no end
	if onlyLater && (before.IsZero() && !sandbox || after.Before(before)) {
		return nil
	}
	patch, _ := idleUntil(info, seconds)
	if err := h.setEnd(q.command(), q.caller.Owner, s, end, patch); err != nil {
		return err
	}
	contexts, err := s.Beside(q.command())
	for _, one := range contexts {
		if patch, longer := idleUntil(one.Info(q.command()), seconds); longer {
			if failed := one.Update(q.command(), patch); !errors.Is(failed, session.ErrDeleted) { // or meanwhile it was deleted
				err = errors.Join(err, failed)
			}
		}
		one.Release()
	}
	return err
}

// idleUntil returns the patch of a session that may be idle for a shorter time than its sandbox lives from now.
func idleUntil(info api.Session, seconds float64) (patch api.SessionPatch, longer bool) {
	if longer = info.IdleTimeoutS != 0 && info.IdleTimeoutS < seconds; longer {
		patch.IdleTimeoutS = &seconds
	}
	return patch, longer
}

// setEnd changes when a sandbox ends, to a value of metaEnd or with "" to never, and what else the patch says.
func (h *Handler) setEnd(ctx context.Context, owner string, s *session.Session, end string, patch api.SessionPatch) error {
	err := s.UpdateMetadata(ctx, patch, func(metadata map[string]string) error {
		delete(metadata, metaEnd)
		if end != "" {
			metadata[metaEnd] = end
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.expiry.set(owner, s.ID(), endOf(api.Session{Metadata: map[string]string{metaEnd: end}}))
	return nil
}

func (h *Handler) setTimeout(q *request) error {
	var body struct {
		Timeout *float64 `json:"timeout"`
	}
	if err := q.read(&body); err != nil {
		return err
	}
	if body.Timeout == nil {
		return api.Errorf(api.CodeInvalidRequest, "timeout is missing")
	}
	return h.live(q, *body.Timeout, false)
}

// refresh prolongs the life of a sandbox, as older SDKs do it.
func (h *Handler) refresh(q *request) error {
	var body struct {
		Duration *float64 `json:"duration"`
	}
	if err := q.read(&body); err != nil {
		return err
	}
	seconds := 15.0 // as E2B has it
	if body.Duration != nil {
		seconds = *body.Duration
	}
	return h.live(q, seconds, true)
}

func (h *Handler) live(q *request, seconds float64, onlyLater bool) error {
	s, err := h.named(q, q.PathValue("id"), "")
	if err != nil {
		return err
	}
	defer s.Release()
	if info := s.Info(q.command()); stateOf(info) == statePaused && endOf(info).IsZero() {
		return api.Errorf(api.CodeSessionConflict, "sandbox %.140q is paused; connect to it, with a timeout", info.ID)
	}
	if err := h.prolong(q, s, seconds, onlyLater); err != nil {
		return err
	}
	return q.nothing()
}

func (h *Handler) setNetwork(q *request) error {
	var body network
	if err := q.read(&body); err != nil {
		return err
	}
	s, err := h.named(q, q.PathValue("id"), "")
	if err != nil {
		return err
	}
	defer s.Release()
	reach, err := body.request(body.Internet)
	if err != nil {
		return err
	}
	if reach == nil { // E2B takes this as the default again
		reach = &api.Network{Mode: api.NetworkNone}
	}
	if err := s.Update(q.command(), api.SessionPatch{Network: reach}); err != nil {
		return err
	}
	return q.nothing()
}

// getMetrics answers with one measurement, made now. CPU is the mean since the sandbox was created.
func (h *Handler) getMetrics(q *request) error {
	s, err := h.named(q, q.PathValue("id"), api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	info, now := s.Info(q.Context()), time.Now()
	cpus := max(1, info.Limits.CPUs)
	age := max(1, now.Sub(info.CreatedAt.Time).Seconds())
	return q.answer(http.StatusOK, []map[string]any{{
		"timestamp": date(now), "timestampUnix": now.Unix(), "cpuCount": int64(cpus), "cpuUsedPct": 100 * info.Usage.CPUSeconds / age / cpus,
		"memUsed": info.Usage.MemoryBytes, "memTotal": info.Limits.MemoryBytes, "memCache": 0,
		"diskUsed": info.Usage.DiskBytes, "diskTotal": info.Limits.DiskBytes,
	}})
}
