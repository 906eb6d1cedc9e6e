package network

import (
	"fmt"
	"sync"
	"time"
)

// Denial is something that a session asked for and was refused.
type Denial struct {
	Target string // as the session asked for it: a name, name:port or address:port
	What   string // "connection to", "lookup of", "packet to"
	Why    string
}

// String returns the denial as a sentence.
func (d Denial) String() string { return fmt.Sprintf("%s %s refused: %s", d.What, d.Target, d.Why) }

// How often denials are reported: each target once in a while, and not too many in all.
const (
	denialPause  = 30 * time.Second
	maxDenials   = 20 // reported in each pause
	notListed    = "not in this session's network.allow"
	notPublic    = "it is not part of the public network, and this session's network.allow does not list it"
	noNetworkNow = "this session has no network"
	manyOpen     = "the session has reached its limit of open connections; close some"
	manyBytes    = "the session has reached its limit of bytes sent and received"
	changed      = "the session's network was changed"
)

// denials reports what was refused, and keeps a session that is refused all the time from flooding the reports.
type denials struct {
	tell func(Denial)

	mu    sync.Mutex
	since time.Time
	told  map[Denial]bool
	left  int // not reported
}

func (d *denials) add(denial Denial) {
	if d.first(&denial) {
		d.tell(denial)
	}
}

// again makes every denial be reported once more.
func (d *denials) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since = time.Time{}
}

// first reports whether a denial is new and should be reported.
func (d *denials) first(denial *Denial) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.since) > denialPause {
		if d.left > 0 {
			denial.Why += fmt.Sprintf(" (%d more were refused before)", d.left)
		}
		d.since, d.told, d.left = time.Now(), map[Denial]bool{}, 0
	}
	if d.told[*denial] {
		return false
	}
	if len(d.told) >= maxDenials {
		d.left++
		return false
	}
	d.told[*denial] = true
	return true
}
