package gatewaytest

import (
	"math"
	"time"
)

// Figures of core.telegram.org/bots/faq: about one message a second in a chat, where short bursts
// are let through, 20 a minute in a group, and 30 a second in all.
const (
	chatBurst    = 4.0
	groupMinute  = 20
	overallRate  = 30
	albumMembers = 10
)

// telegramRates decides which calls come too early. Albums need as many tokens as they have
// members, but never more than a full bucket, so that an album can be sent at all.
type telegramRates struct {
	chats   map[int64]*bucket
	group   map[int64][]time.Time
	overall []time.Time
	until   map[int64]time.Time
}

type bucket struct {
	tokens float64
	at     time.Time
}

func newTelegramRates() *telegramRates {
	return &telegramRates{chats: map[int64]*bucket{}, group: map[int64][]time.Time{}, until: map[int64]time.Time{}}
}

func (l *telegramRates) parked(chat int64, now time.Time) bool { return now.Before(l.until[chat]) }

func (l *telegramRates) park(chat int64, now time.Time, seconds int) {
	if until := now.Add(time.Duration(seconds) * time.Second); until.After(l.until[chat]) {
		l.until[chat] = until
	}
}

func (l *telegramRates) take(chat int64, n int, now time.Time) *refusal {
	if wait := l.wait(chat, n, now); wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		l.park(chat, now, seconds)
		return tooMany(seconds)
	}
	b := l.chats[chat]
	b.tokens -= math.Min(float64(n), chatBurst)
	for range n {
		l.overall = append(l.overall, now)
		if chat < 0 {
			l.group[chat] = append(l.group[chat], now)
		}
	}
	return nil
}

// wait returns how long the caller has to wait before n messages are allowed.
func (l *telegramRates) wait(chat int64, n int, now time.Time) time.Duration {
	b := l.chats[chat]
	if b == nil {
		b = &bucket{chatBurst, now}
		l.chats[chat] = b
	}
	b.tokens = math.Min(chatBurst, b.tokens+now.Sub(b.at).Seconds())
	b.at = now
	wait := l.until[chat].Sub(now)
	if missing := math.Min(float64(n), chatBurst) - b.tokens; missing > 1e-9 {
		wait = max(wait, time.Duration(missing*float64(time.Second)))
	}
	l.overall = after(l.overall, now.Add(-time.Second))
	wait = max(wait, window(l.overall, n, overallRate, time.Second, now))
	if chat < 0 {
		l.group[chat] = after(l.group[chat], now.Add(-time.Minute))
		wait = max(wait, window(l.group[chat], n, groupMinute, time.Minute, now))
	}
	return wait
}

func after(times []time.Time, start time.Time) []time.Time {
	for len(times) > 0 && !times[0].After(start) {
		times = times[1:]
	}
	return times
}

func window(times []time.Time, n, limit int, length time.Duration, now time.Time) time.Duration {
	over := min(len(times)+n-limit, len(times))
	if over <= 0 {
		return 0
	}
	return times[over-1].Add(length).Sub(now)
}
