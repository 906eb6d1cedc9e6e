package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"talaria/api"
)

// What one caller may have under way at once. An owner's requests are bounded by the configuration.
const (
	visitorRequests = 64 // of a share, with sockets and streams
	ownerLarge      = 16 // large answers; further ones wait for their turn
	visitorLarge    = 4
)

// errRevoked is the cause of contexts that end because the credential of the request is no longer valid.
var errRevoked = errors.New("the token was revoked")

// errExpired is errRevoked for a session token that has expired.
var errExpired = fmt.Errorf("%w: it has expired", errRevoked)

// callers holds the owners and shares that have requests under way. It is safe for concurrent use.
type callers struct {
	ownerRequests int
	large         slots // of frames and bodies of all callers

	mu       sync.Mutex // guards the fields below, and what callers count
	serial   int
	by       map[string]*caller
	visitors map[string]*visitors // by owner
}

// caller is one owner, or one share. It exists while requests of it are under way.
type caller struct {
	intake  intake
	large   slots  // answers
	visitOf string // the owner, for a share

	under map[int]presence // guarded by callers.mu
}

// visitors are the shares of one owner that have requests under way.
type visitors struct {
	shares int
	large  slots // of frames and bodies
}

// presence is one request under way.
type presence struct {
	cred credential
	end  context.CancelCauseFunc
}

func newCallers(ownerRequests int) *callers {
	return &callers{ownerRequests: ownerRequests, large: newSlots(largeBodies), by: map[string]*caller{}, visitors: map[string]*visitors{}}
}

// callerKey names the caller: an owner, or a share.
func (c *call) callerKey() string {
	if c.visit != nil {
		return "share " + c.visit.ShareID
	}
	return "owner " + c.owner
}

// enter counts a request of c, and replaces its context: the new one ends with c.leave, or when the credential is
// revoked.
func (s *callers) enter(c *call) error {
	key, limit := c.callerKey(), s.ownerRequests
	if c.visit != nil {
		limit = min(limit, visitorRequests)
	}
	ctx, end := context.WithCancelCause(c.Request.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.by[key]
	if one == nil {
		one = s.newCaller(c)
		s.by[key] = one
	}
	if len(one.under) >= limit {
		end(nil)
		return api.Errorf(api.CodeTooManyRequests,
			"you have %d open requests and sockets, which is the limit; close one, or wait for an answer", limit)
	}
	s.serial++
	number := s.serial
	one.under[number] = presence{c.cred, end}
	c.caller, c.Request = one, c.Request.WithContext(ctx)
	stop := func() bool { return false }
	if c.visit != nil && !c.visit.EndsAt.IsZero() {
		stop = time.AfterFunc(time.Until(c.visit.EndsAt), func() { end(errExpired) }).Stop
	}
	c.leave = func() { stop(); s.leave(key, number); end(nil) }
	return nil
}

// newCaller returns a caller that has nothing under way. The caller of it holds mu.
func (s *callers) newCaller(c *call) *caller {
	one := &caller{under: map[int]presence{}}
	if c.visit == nil {
		one.large, one.intake = newSlots(ownerLarge), newIntake(ownerMediumBodies, ownerLargeBodies, s.large)
		return one
	}
	others := s.visitors[c.owner]
	if others == nil {
		others = &visitors{large: newSlots(visitorLargeBodies)}
		s.visitors[c.owner] = others
	}
	others.shares++
	one.large, one.intake, one.visitOf = newSlots(visitorLarge), newIntake(1, 1, others.large, s.large), c.owner
	return one
}

func (s *callers) leave(key string, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.by[key]
	if delete(one.under, number); len(one.under) > 0 {
		return
	}
	delete(s.by, key)
	if others := s.visitors[one.visitOf]; others != nil {
		if others.shares--; others.shares == 0 {
			delete(s.visitors, one.visitOf)
		}
	}
}

// credentials returns the credentials of requests under way, each once.
func (s *callers) credentials() map[credential]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[credential]bool{}
	for _, one := range s.by {
		for _, p := range one.under {
			all[p.cred] = true
		}
	}
	return all
}

// expel ends all requests that were made with a credential.
func (s *callers) expel(cred credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.by {
		for _, p := range one.under {
			if p.cred == cred {
				p.end(errRevoked)
			}
		}
	}
}

// slots bound how many may do something at once.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// take waits for a slot, which release gives back. ctx bounds the wait.
func (s slots) take(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
