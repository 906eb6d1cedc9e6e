package api

import "github.com/go-json-experiment/json"

// OnIdle says what happens to a kernel that nobody uses.
type OnIdle string

// The values of OnIdle.
const (
	OnIdleHibernate OnIdle = "hibernate" // its variables are saved, and the next use has them back
	OnIdleDrop      OnIdle = "drop"      // it ends
)

// OnIdles are all values of OnIdle.
var OnIdles = []OnIdle{OnIdleHibernate, OnIdleDrop}

// HibernateReply is a session whose variables were saved, with what could not be.
type HibernateReply struct {
	Session
	NotSaved []NotSaved `json:"not_saved"`
}

// WakeReply is a session that has its variables back, with what could not be restored.
type WakeReply struct {
	Session
	NotRestored []NotRestored `json:"not_restored"`
}

// ForkRequest is the body of POST on a session's forks.
type ForkRequest struct {
	Count *int64  `json:"count,omitzero"` // 1 to [MaxForks]; default 1
	Name  *string `json:"name,omitzero"`
	// CheckpointID names the state that the forks begin with; default: that of now.
	CheckpointID *string `json:"checkpoint_id,omitzero"`
}

// MaxForks is how many forks one request makes.
const MaxForks = 64

// ForkReply has for each fork the session, or why there is none.
type ForkReply struct {
	Items []Fork `json:"items"`
}

// Fork is a session with the variables and files of another one, and what did not come along; or why there is none. In JSON it is the
// session with not_restored, or the problem.
type Fork struct {
	Session     *Session
	NotRestored []NotRestored
	Problem     *Error
}

// ForkedSession is a fork that was made.
type ForkedSession struct {
	Session
	NotRestored []NotRestored `json:"not_restored"`
}

// MarshalJSON implements [json.Marshaler].
func (f Fork) MarshalJSON() ([]byte, error) {
	if f.Session == nil {
		return Marshal(f.Problem)
	}
	return Marshal(ForkedSession{*f.Session, f.NotRestored})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *Fork) UnmarshalJSON(data []byte) error {
	var made ForkedSession
	if err := json.Unmarshal(data, &made); err != nil {
		return err
	}
	if made.ID != "" {
		*f = Fork{Session: &made.Session, NotRestored: made.NotRestored}
		return nil
	}
	*f = Fork{Problem: new(Error)}
	return json.Unmarshal(data, f.Problem)
}

type (
	// KernelWoken tells that a kernel has the variables that were saved.
	KernelWoken struct {
		Generation  int64         `json:"generation"`
		NotRestored []NotRestored `json:"not_restored"`
		DurationMS  int64         `json:"duration_ms"`
	}
	// SessionForked is the first event of a fork: the session that it comes from, its checkpoint if it was one, and what could not
	// come along. The event's ExecutionID is the newest execution of that session, then.
	SessionForked struct {
		SessionID    string        `json:"session_id"`
		CheckpointID string        `json:"checkpoint_id,omitzero"`
		NotRestored  []NotRestored `json:"not_restored"`
	}
)

// EventType implements [EventBody].
func (KernelWoken) EventType() string { return "kernel_woken" }

// EventType implements [EventBody].
func (SessionForked) EventType() string { return "session_forked" }
