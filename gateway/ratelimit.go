package gateway

import (
	"math"
	"time"

	"talaria/api"
)

// tempo is how fast a platform lets a bot write.
type tempo struct {
	every   time.Duration // between messages of a chat, on average
	burst   float64       // messages that may follow at once
	full    float64       // the most that one album counts for
	minute  int           // messages in a group within a minute; 0: any
	reserve int           // of minute, which previews leave to results
	all     time.Duration // between messages of all chats, on average
	preview time.Duration // between previews of a chat
}

// tempoOf is the tempo of a target: core.telegram.org/bots/faq, and api.slack.com/apis/rate-limits: a message a second in a
// channel, and chat.update 50 times a minute in all (tier 3).
func tempoOf(t api.RenderTarget) tempo {
	if t == api.RenderSlack {
		return tempo{every: time.Second, burst: 1, full: 1, all: 1200 * time.Millisecond, preview: 3 * time.Second}
	}
	return tempo{every: time.Second, burst: 3, full: 4, minute: 20, reserve: 8, all: time.Second / 25, preview: 1200 * time.Millisecond}
}

// pace records when a chat was written to, and until when it must not be. It is stored, so that it holds after a restart too.
type pace struct {
	Tokens float64     `json:"tokens"`
	At     time.Time   `json:"at"`
	Sent   []time.Time `json:"sent,omitzero"` // within the last minute, in a group
	Until  time.Time   `json:"until,omitzero"`
}

// newPace is the pace of a chat that was not written to for long.
func (t tempo) newPace(now time.Time) pace { return pace{Tokens: t.full, At: now} }

// ready is the earliest time at which a message, or an album of n, may be sent. A preview leaves room for results.
func (p pace) ready(t tempo, n int, group, preview bool, now time.Time) time.Time {
	need := min(float64(n)+t.full-t.burst, t.full)
	at := now
	if missing := need - p.tokens(t, now); missing > 0 {
		at = now.Add(time.Duration(math.Ceil(missing * float64(t.every))))
	}
	if t.minute > 0 && group {
		room := t.minute - min(n, t.minute)
		if preview {
			room -= t.reserve
		}
		if excess := len(p.Sent) - room; excess > 0 {
			at = later(at, p.Sent[excess-1].Add(time.Minute+time.Millisecond))
		}
	}
	return later(at, p.Until)
}

func (p pace) tokens(t tempo, now time.Time) float64 {
	return min(t.full, p.Tokens+max(0, float64(now.Sub(p.At))/float64(t.every)))
}

// took counts a message, or an album of n, that is sent now.
func (p pace) took(t tempo, n int, group bool, now time.Time) pace {
	p.Tokens, p.At = p.tokens(t, now)-min(float64(n), t.full), now
	if t.minute > 0 && group {
		var sent []time.Time
		for _, at := range p.Sent {
			if now.Sub(at) <= time.Minute {
				sent = append(sent, at)
			}
		}
		for range n {
			sent = append(sent, now)
		}
		p.Sent = sent
	}
	return p
}

// idle reports whether the pace limits nothing any more.
func (p pace) idle(t tempo, now time.Time) bool {
	return p.tokens(t, now) >= t.full && now.Sub(p.At) > time.Minute && !p.Until.After(now)
}

// park records that the platform wants nothing to be sent until a time.
func (p pace) park(until time.Time) pace {
	p.Until = later(p.Until, until)
	return p
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
