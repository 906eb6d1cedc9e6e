// Package api holds the words on the wire: requests, resources, events, frames and error codes.
//
// It is the only place with wire types. Every encoder and decoder of the program goes through [Marshal] and
// [Unmarshal], so that what is written and what is accepted is decided here once.
package api

import (
	"fmt"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Protocol is the version of the wire contract, sent in a WebSocket's hello.
const Protocol = 1

// Subprotocol is the WebSocket subprotocol of a session's socket.
const Subprotocol = "talaria.v1"

// MaxBody is the largest body or frame that a client may send, uploads excepted.
const MaxBody = 16 << 20

// MaxServerFrame is the largest frame that a client must accept from the server.
const MaxServerFrame = 24 << 20

// MaxAnswer bounds the JSON of an execution and of a page of a list, which travel in a frame with more around them.
const MaxAnswer = 22 << 20

// MaxQueued is how many executions may wait in one session's queue.
const MaxQueued = 1000

const maxID = 128 // bytes

var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// ValidID reports whether id may be picked by a client for a session or an execution.
func ValidID(id string) bool { return len(id) <= maxID && idPattern.MatchString(id) }

// Marshal encodes v as one line of JSON: no HTML escapes, map keys sorted, nil slices and maps as [] and {},
// invalid UTF-8 as U+FFFD. The same value gives the same bytes.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// Raw is a JSON value kept as it came.
type Raw = jsontext.Value

// Time is an instant on the wire: RFC 3339, UTC, milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// Now is the present instant, rounded down to what the wire can carry.
func Now() Time { return At(time.Now()) }

// At is t as it goes on the wire.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// Millis is the instant that many milliseconds after the Unix epoch.
func Millis(ms int64) Time { return Time{time.UnixMilli(ms).UTC()} }

func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalJSON implements [json.Marshaler]; without it that of the embedded time would drop zeros.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	parsed, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("time %q is not RFC 3339", s)
	}
	*t = At(parsed)
	return nil
}

// Page is one page of a list, newest first. NextCursor is absent on the last page.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitzero"`
}

// PageQuery selects a page. A Limit of 0 means the default.
type PageQuery struct {
	Limit  int
	Cursor string
}

// DefaultPage and MaxPage bound the length of a page.
const (
	DefaultPage = 50
	MaxPage     = 1000
)
