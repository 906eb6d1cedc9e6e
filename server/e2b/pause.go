package e2b

import (
	"context"
	"errors"
	"net/http"

	"talaria/api"
	"talaria/session"
)

// A paused sandbox is a session that hibernates. It has no end: one that any use wakes, other than connect, goes on until nobody
// has used it for its idle time, and hibernates again.

// metaAutoPause is the metadata of a sandbox that is paused at its end, not killed.
const metaAutoPause = ownMetadata + "auto_pause"

const statePaused = "paused"

func hasCode(err error, code api.Code) bool {
	known := new(api.Error)
	return errors.As(err, &known) && known.Code == code
}

// pauseSandbox waits until the cells have ended: where E2B's virtual machines stop in the middle of one, it would be lost here.
// A client that goes away gives up the wait.
func (h *Handler) pauseSandbox(q *request) error {
	s, err := h.named(q, q.PathValue("id"), "")
	if err != nil {
		return err
	}
	defer s.Release()
	info := s.Info(q.command())
	if stateOf(info) == statePaused && endOf(info).IsZero() {
		return api.Errorf(api.CodeSessionConflict, "sandbox %.140q is already paused", info.ID)
	}
	// First of all it is no longer killed, whatever happens in between.
	if err := h.setEnd(q.command(), q.caller.Owner, s, "", api.SessionPatch{OnIdle: new(api.OnIdleHibernate)}); err != nil {
		return err
	}
	ctx, cancel := h.UntilDrain(q.Context())
	defer cancel()
	if err := hibernateSandbox(ctx, s); err != nil {
		if now := s.Info(q.command()); endOf(now).IsZero() { // nobody has prolonged it meanwhile
			err = errors.Join(err, h.setEnd(q.command(), q.caller.Owner, s, info.Metadata[metaEnd], api.SessionPatch{}))
		}
		return err
	}
	return q.nothing()
}

// errNotYielding is why a session whose cells have ended cannot hibernate. For the SDK, 409 would mean that it is paused already.
var errNotYielding error = api.Errorf(api.CodeNotReady, "the interpreter is busy with a background task that does not yield; pause the sandbox later")

// hibernateSandbox has a sandbox hibernate once the cells of all its contexts have ended. The end of ctx gives up the wait.
func hibernateSandbox(ctx context.Context, s *session.Session) error {
	var busy error
	for {
		used, err := hibernateContexts(ctx, s)
		switch {
		case err != nil:
			return err
		case busy != nil && !used: // otherwise it may be busy because they were used meanwhile
			return busy
		}
		if busy = hibernateAtRest(ctx, s); !errors.Is(busy, errNotYielding) {
			return busy
		}
	}
}

// hibernateContexts has the contexts of a sandbox hibernate once their cells have ended. It reports whether one had a kernel.
func hibernateContexts(ctx context.Context, s *session.Session) (used bool, err error) {
	contexts, err := s.Beside(ctx)
	for _, one := range contexts {
		if state := one.Info(ctx).State; err == nil && state != api.StateDead && state != api.StateHibernated {
			used = true
			if err = hibernateAtRest(ctx, one); errors.Is(err, session.ErrDeleted) { // meanwhile
				err = nil
			}
		}
		one.Release()
	}
	return used, err
}

// hibernateAtRest has one session hibernate once its cells have ended.
func hibernateAtRest(ctx context.Context, s *session.Session) error {
	for {
		before := s.Info(ctx)
		err := hibernate(context.WithoutCancel(ctx), s) // there is nothing more to wait for, and the sandbox is paused even if the client goes away
		if !hasCode(err, api.CodeKernelBusy) {
			return err
		}
		waited, err := s.WaitAll(ctx) // also for a cell that is queued and has not begun, of which the state does not tell
		if err != nil {
			return err
		}
		switch after := s.Info(ctx); {
		case waited:
		case after.State != api.StateIdle:
			if err := awaitRest(ctx, s, before.LastSeq); err != nil {
				return err
			}
		case after.LastSeq == before.LastSeq:
			return errNotYielding
		}
	}
}

// hibernate has a session hibernate now, as [session.Session.Hibernate] does. One whose kernel died gets a fresh one, so that it can be
// paused, too.
func hibernate(ctx context.Context, s *session.Session) error {
	_, err := s.Hibernate(ctx)
	if !hasCode(err, api.CodeNoKernel) {
		return err
	}
	if _, err := s.Wake(ctx); err != nil {
		return err
	}
	_, err = s.Hibernate(ctx)
	return err
}

// awaitRest waits for an event, after that position, with which no cell runs or waits any more.
func awaitRest(ctx context.Context, s *session.Session, after int64) error {
	for event, err := range s.Journal().Events(ctx, after) {
		if err != nil {
			return err
		}
		if event, err = event.Decoded(); err != nil {
			return err
		}
		if b, ok := event.Body.(api.SessionStateEvent); ok && b.State != api.StateBusy && b.State != api.StateStarting {
			return nil
		}
	}
	return context.Cause(ctx)
}

// connectSandbox gives a client access to a sandbox that exists, wakes it if it is paused, and lets it live at least as long as
// asked.
func (h *Handler) connectSandbox(q *request) error { return h.connect(q, false) }

// resumeSandbox is how older SDKs connect to a paused sandbox, and only to one.
func (h *Handler) resumeSandbox(q *request) error { return h.connect(q, true) }

func (h *Handler) connect(q *request, onlyPaused bool) error {
	var body struct {
		Timeout *float64 `json:"timeout"`
	}
	if err := q.read(&body); err != nil {
		return err
	}
	s, err := h.named(q, q.PathValue("id"), "")
	if err != nil {
		return err
	}
	defer s.Release()
	info := s.Info(q.command())
	paused, seconds, status := stateOf(info) == statePaused, float64(defaultTimeout), http.StatusOK
	if body.Timeout != nil {
		seconds = *body.Timeout
	}
	if _, err := endAfter(seconds); err != nil {
		return err
	}
	switch {
	case paused:
		if _, err := s.Wake(q.command()); err != nil {
			return err
		}
		status = http.StatusCreated
	case onlyPaused:
		return api.Errorf(api.CodeSessionConflict, "sandbox %.140q is already running; connect to it", info.ID)
	}
	if body.Timeout != nil || paused {
		if err := h.prolong(q, s, seconds, true); err != nil {
			return err
		}
	}
	return q.answer(status, h.opened(q.caller.Owner, s, s.Info(q.command())))
}
