// Package access lets clients other than its owner into one session: by read-only links, and by tokens with some rights.
package access

import (
	"context"
	"slices"
	"time"

	"talaria/api"
	"talaria/store"
)

// Config is what access to a session needs of it. Its functions are safe for concurrent use.
type Config struct {
	Store   *store.Store
	Session int64 // its number
	// ReadError returns why the session cannot be read, from the error of the store.
	ReadError func(context.Context, error) error
	// Commit makes a change, which counts as use of the session.
	Commit func(ctx context.Context, write func(*store.Tx) error) error
}

// Access is the links and tokens of a session. It is safe for concurrent use. Its errors are for clients.
type Access struct{ cfg Config }

// New returns the links and tokens of a session.
func New(cfg Config) *Access { return &Access{cfg} }

// Visit describes a client with a read-only link or a session token: it is not the owner, and may do what Rights say in
// one session.
type Visit struct {
	ShareID string
	Owner   string // of the session
	Session string // as the owner calls it
	Token   string
	Link    bool // a read-only link
	Rights  []api.Right
	EndsAt  time.Time // zero for a link
}

// May reports whether the visitor has a right.
func (v *Visit) May(right api.Right) bool { return slices.Contains(v.Rights, right) }

// VisitOf returns what a token allows in one session; ok is false for a token that is unknown or has expired.
func VisitOf(ctx context.Context, db *store.Store, token string) (v Visit, ok bool) {
	row, err := db.Visitor(ctx, token)
	if err != nil {
		return v, false
	}
	v = Visit{ShareID: row.ID, Owner: row.Owner, Session: row.Session, Token: token, Link: row.Rights == "", Rights: []api.Right{api.RightRead}}
	if !v.Link {
		v.Rights, v.EndsAt = rightsOf(row.Rights), time.UnixMilli(row.EndsAt)
	}
	return v, true
}
