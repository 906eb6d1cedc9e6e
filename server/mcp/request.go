package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"talaria/api"
	"talaria/session"
)

// message is what is read of a message before the library does.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
		Reason    string          `json:"reason"`
	} `json:"params"`
}

// request is one message of a client on its way through the tools.
type request struct {
	handler *Handler
	caller  Caller
	client  string          // the client's name for its session; "": it gave none
	ctx     context.Context // ends when the client goes away or cancels, and when the server shuts down
	open    *openRequest
}

type requestKey struct{}

func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// command is the context of what changes something: a client that goes away stops nothing.
func (q *request) command() context.Context { return context.WithoutCancel(q.ctx) }

// key names a message among those of all clients.
func (q *request) key(id json.RawMessage) string {
	return q.caller.Key + "\x00" + q.client + "\x00" + string(id)
}

// defaultSession is the session of a client that names none.
func (q *request) defaultSession() string {
	switch {
	case q.caller.Session != "":
		return q.caller.Session
	case q.caller.Default != "":
		return q.caller.Default
	case q.client == "":
		return "mcp"
	}
	sum := sha256.Sum256([]byte(q.client))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

// session returns the session that a call names, if the caller has the right to use it so; "" is the default one, which is
// created. The caller of session releases it.
func (q *request) session(id string, right api.Right) (*session.Session, error) {
	if q.caller.Session != "" && id != "" && id != q.caller.Session {
		return nil, api.Errorf(api.CodeSessionNotFound, "you have no session %.140q", id)
	}
	if err := q.caller.Permit(right); err != nil {
		return nil, err
	}
	sessions := q.handler.Sessions
	switch {
	case id != "":
		return sessions.Get(q.caller.Owner, id)
	case q.caller.Session != "":
		return sessions.Get(q.caller.Owner, q.caller.Session)
	}
	name := "MCP client"
	sess, _, err := sessions.Ensure(q.command(), q.caller.Owner, q.defaultSession(), api.SessionRequest{Name: &name}, api.IfExistsKeep)
	return sess, err
}

// errCancelled is the cause of a request's context when its client cancelled it, and does not merely give up waiting.
var errCancelled = errors.New("the client cancelled the request")

// lateCancel is how long after the client went away its cancellation may come: SDKs close a request and announce that
// they cancelled it in any order.
const lateCancel = 5 * time.Second

// openRequests are the requests that clients may cancel. The zero value is ready to use.
type openRequests struct {
	mu sync.Mutex // guards by
	by map[string]*openRequest
}

// openRequest is one of them. A nil one cannot be cancelled.
type openRequest struct {
	end context.CancelCauseFunc

	mu        sync.Mutex // guards all below
	cancelled bool
	interrupt func()
}

// enter makes a request known by its key until leave is called, and a little longer if the client went away. The request's
// context ends with errCancelled when it is cancelled.
func (o *openRequests) enter(parent context.Context, key string) (ctx context.Context, one *openRequest, leave func()) {
	ctx, end := context.WithCancelCause(parent)
	one = &openRequest{end: end}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.by == nil {
		o.by = map[string]*openRequest{}
	}
	o.by[key] = one
	remove := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.by[key] == one {
			delete(o.by, key)
		}
	}
	return ctx, one, func() {
		if parent.Err() != nil {
			time.AfterFunc(lateCancel, remove)
		} else {
			remove()
		}
		end(nil)
	}
}

// cancel ends a request and interrupts what it began, unless the client only gave up waiting: SDKs announce their own
// time-outs in the same way.
func (o *openRequests) cancel(key, reason string) {
	if gaveUp(reason) {
		return
	}
	o.mu.Lock()
	one := o.by[key]
	o.mu.Unlock()
	if one == nil {
		return
	}
	one.mu.Lock()
	one.cancelled = true
	interrupt := one.interrupt
	one.mu.Unlock()
	one.end(errCancelled)
	if interrupt != nil {
		interrupt()
	}
}

// onCancel sets what a cancellation interrupts. It is called at once if the request is cancelled already.
func (o *openRequest) onCancel(interrupt func()) {
	if o == nil {
		return
	}
	o.mu.Lock()
	cancelled := o.cancelled
	o.interrupt = interrupt
	o.mu.Unlock()
	if cancelled {
		interrupt()
	}
}

func gaveUp(reason string) bool {
	reason = strings.ToLower(reason)
	for _, word := range []string{"timeout", "timed out", "time out", "time-out", "deadline"} {
		if strings.Contains(reason, word) {
			return true
		}
	}
	return false
}
