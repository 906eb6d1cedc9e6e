package host

import (
	"sync"
	"time"
)

// MaxStandstill bounds how long the clock of one execution stands still in total.
const MaxStandstill = 24 * time.Hour

const (
	// leastTick is the shortest time until a clock looks again. Reading the CPU time takes about as long as all else that
	// a tool call costs here, so a cell that makes one call after the other must not have it read for each.
	leastTick = 10 * time.Millisecond
	// cpuRetry is how soon it looks again if the CPU time could not be read.
	cpuRetry = time.Second
)

// clock measures an execution against its timeout. It runs in real time. While the execution waits for an answer from
// outside, it is charged only for the CPU time that its sandbox uses, so the clock stands still while nothing runs
// there, for MaxStandstill at most.
//
// Nothing polls: the clock looks soon after it is told that waiting begins or ends, and at the earliest time at which the
// rest of the timeout can have been used up. The caller of each method except look holds mu.
type clock struct {
	mu      sync.Locker                   // guards the fields below; it belongs to the owner
	cpu     func() (time.Duration, error) // returns the CPU time of the sandbox so far; called without mu
	expired func()                        // called once, without mu

	left     time.Duration // until the timeout
	patience time.Duration // how much longer it may stand still
	waiting  bool          // the execution waits for an answer
	since    time.Time     // when that began or ended, or the time of the latest charge if that is later
	ran      time.Duration // without waiting, between the latest charge and since
	charged  time.Time     // time of the latest charge
	used     time.Duration // CPU time at that charge; valid if read
	read     bool          // the CPU time could be read then
	timer    *time.Timer   // for the next look
	stopped  bool
}

// startClock starts a clock that expires after timeout.
func startClock(mu sync.Locker, timeout time.Duration, cpu func() (time.Duration, error), expired func()) *clock {
	now := time.Now()
	c := &clock{mu: mu, cpu: cpu, expired: expired, left: timeout, patience: MaxStandstill, charged: now, since: now}
	c.timer = time.AfterFunc(timeout, c.look)
	return c
}

// wait tells the clock whether the execution waits for an answer.
func (c *clock) wait(waiting bool) {
	if c.waiting == waiting || c.stopped {
		return
	}
	now := time.Now()
	c.passed(now)
	c.waiting = waiting
	soon := time.Duration(0) // but not here: the CPU time is not read under mu
	if c.read {
		soon = max(0, leastTick-now.Sub(c.charged))
	}
	c.timer.Reset(soon)
}

// passed counts the time until now.
func (c *clock) passed(now time.Time) {
	if !c.waiting {
		c.ran += now.Sub(c.since)
	}
	c.since = now
}

// stop ends the clock. Calling it again does nothing.
func (c *clock) stop() {
	c.stopped = true
	c.timer.Stop()
}

// stoodStill reports whether the clock expired because it stood still for MaxStandstill.
func (c *clock) stoodStill() bool { return c.left > 0 }

// look charges what was used since the latest charge, and sets the timer for the next look.
func (c *clock) look() {
	cpu, err := c.cpu()
	c.mu.Lock()
	over := !c.stopped && c.charge(cpu, err)
	c.mu.Unlock()
	if over {
		c.expired()
	}
}

// charge is the part of look after the CPU time was read, or could not be read. It reports whether the clock has
// expired.
func (c *clock) charge(cpu time.Duration, err error) (over bool) {
	now := time.Now()
	c.passed(now)
	past := now.Sub(c.charged)
	switch {
	case past <= c.ran, err != nil && !c.read:
		c.left -= past
	case err == nil:
		used := c.ran
		if c.read {
			used = min(past, max(c.ran, cpu-c.used)) // the CPU time of what ran is not charged twice
		}
		c.left -= used
		c.patience -= past - used
	case past < c.patience: // it is charged once the CPU time can be read again
		c.timer.Reset(cpuRetry)
		return false
	default:
		c.patience = 0
	}
	c.charged, c.ran, c.used, c.read = now, 0, cpu, err == nil
	switch {
	case c.left <= 0 || c.patience <= 0:
		c.stop()
		return true
	case c.waiting && c.read:
		c.timer.Reset(max(min(c.left, c.patience), leastTick))
	case c.waiting:
		c.timer.Reset(min(c.left, cpuRetry))
	default:
		c.timer.Reset(c.left)
	}
	return false
}
