package librechat

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"talaria/api"
	"talaria/session"
)

// metaRole is the metadata that sessions of this package have, and only they.
const metaRole = "talaria.librechat"

// The roles of sessions.
const (
	roleConversation = "conversation" // named by a hint: it stays
	roleCall         = "call"         // of a client without a hint
	roleFiles        = "files"        // holds uploads
)

// What a session without a conversation is kept for.
const (
	callIdle = time.Minute    // until its kernel ends
	callKept = 24 * time.Hour // since its last use, with its files: LibreChat uploads older ones again
)

// Whether a conversation has the variables of earlier calls.
const (
	runtimeNew    = "new"
	runtimeReused = "reused"
)

// workplace is the session that code runs in.
type workplace struct {
	*session.Session
	conversation bool
	status       string // runtimeNew or runtimeReused
	notes        string // for the program's standard error, in lines
}

// idLength is that of all ids: LibreChat passes no others on to its page.
const idLength = 21

// idOf derives an id from what it stands for. kind is its first character.
func idOf(kind byte, parts ...string) string {
	hash := sha256.New()
	for _, p := range parts {
		hash.Write([]byte(base64.RawURLEncoding.EncodeToString([]byte(p)) + "."))
	}
	return encodeID(kind, hash.Sum(nil))
}

// randomID returns an id that nobody can guess.
func randomID(kind byte) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return encodeID(kind, b[:])
}

func encodeID(kind byte, b []byte) string {
	return (string(kind) + base64.RawURLEncoding.EncodeToString(b))[:idLength]
}

// fileID names a file of a session by its path there.
func fileID(path string) string { return idOf('o', path) }

// workplace finds or makes the session of a request: the conversation's, the one of an earlier answer, or a fresh one.
func (h *Handler) workplace(q *request, r execRequest) (*workplace, error) {
	owner := q.caller.Owner
	if r.Hint == "" && r.SessionID != "" {
		if s, err := h.Sessions.Get(owner, r.SessionID); err == nil && s.Info(q.Context()).Metadata[metaRole] == roleCall {
			return &workplace{Session: s}, nil
		} else if err == nil {
			s.Release()
		}
	}
	if r.Hint == "" {
		s, _, err := h.ensure(q, owner, randomID('x'), roleCall, "")
		h.sweep(q, owner)
		return &workplace{Session: s}, err
	}
	user := r.UserID
	if user == "" {
		user = q.Header.Get("User-Id")
	}
	if q.caller.Shared != owner { // the owner is one user, and the client does not name it in every request
		user = ""
	}
	s, created, err := h.ensure(q, owner, idOf('r', user, r.Hint), roleConversation, r.Hint)
	if err != nil {
		return nil, err
	}
	w := &workplace{Session: s, conversation: true, status: runtimeReused}
	if info := s.Info(q.Context()); created || info.State == api.StateDead || info.ExecutionCount == 0 {
		w.status = runtimeNew
	}
	return w, nil
}

// ensure returns the session of that id, making it if need be. The caller releases it.
func (h *Handler) ensure(q *request, owner, id, role, name string) (*session.Session, bool, error) {
	metadata := map[string]string{metaRole: role}
	req := api.SessionRequest{Metadata: &metadata}
	if name != "" && len(name) <= 200 && utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return c < ' ' }) {
		req.Name = &name
	}
	if role != roleConversation {
		seconds := callIdle.Seconds()
		req.IdleTimeoutS = &seconds
	}
	return h.Sessions.Ensure(q.command(), owner, id, req, api.IfExistsKeep)
}

// sweepPage is how many sessions one sweep looks at: each makes at most one session more.
const sweepPage = 20

// sweep deletes some of the owner's sessions without a conversation that were not used for long. A failure is made up for by the
// next one.
func (h *Handler) sweep(q *request, owner string) {
	h.mu.Lock()
	cursor := h.swept[owner]
	h.mu.Unlock()
	page, err := h.Sessions.List(q.command(), owner, session.Filter{
		Metadata: map[string]string{metaRole: roleCall}, Page: api.PageQuery{Limit: sweepPage, Cursor: cursor},
	})
	if err != nil {
		page.NextCursor = ""
	}
	h.mu.Lock()
	if page.NextCursor == "" {
		delete(h.swept, owner)
	} else {
		h.swept[owner] = page.NextCursor
	}
	h.mu.Unlock()
	for _, s := range page.Items {
		if time.Since(s.LastActiveAt.Time) > callKept {
			_ = h.Sessions.Delete(q.command(), owner, s.ID)
		}
	}
}

// notFound reports whether err says that something is not there.
func notFound(err error) bool {
	known := new(api.Error)
	return errors.As(err, &known) && known.Status == 404
}

// session returns a session of the caller, or of the files that its users share. The caller releases it.
func (h *Handler) session(q *request, id string) (s *session.Session, err error) {
	for _, owner := range []string{q.caller.Owner, q.caller.Shared} {
		if s, err = h.Sessions.Get(owner, id); !notFound(err) {
			break
		}
	}
	return s, err
}
