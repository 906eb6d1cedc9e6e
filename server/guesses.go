package server

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	guessesAtOnce = 100         // wrong tokens that an address may send at once
	guessEvery    = time.Second // and one more after each of these intervals
	guessTable    = 1 << 10
)

// guesses slows down addresses that try wrong tokens. It takes constant memory: addresses share entries if their
// hashes do. A token that was good from an address is never delayed. It is safe for concurrent use.
type guesses struct {
	seed maphash.Seed

	mu      sync.Mutex            // guards the fields below
	settled [guessTable]time.Time // by address: when all its wrong tokens are forgiven
	known   [guessTable]uint64    // by hash: the pairs of address and token that were good last
}

func newGuesses() *guesses { return &guesses{seed: maphash.MakeSeed()} }

// wait returns how long an address has to wait before it may try a token.
func (g *guesses) wait(address, token string) time.Duration {
	place, pair := maphash.String(g.seed, address)%guessTable, g.pair(address, token)
	g.mu.Lock()
	defer g.mu.Unlock()
	over := max(time.Until(g.settled[place]), 0) - guessesAtOnce*guessEvery
	if g.known[pair%guessTable] == pair {
		return 0
	}
	return max(over, 0)
}

// saw notes whether a token from an address was good.
func (g *guesses) saw(address, token string, good bool) {
	place, pair := maphash.String(g.seed, address)%guessTable, g.pair(address, token)
	g.mu.Lock()
	defer g.mu.Unlock()
	if good {
		g.known[pair%guessTable] = pair
		return
	}
	if now := time.Now(); g.settled[place].Before(now) {
		g.settled[place] = now
	}
	g.settled[place] = g.settled[place].Add(guessEvery)
}

func (g *guesses) pair(address, token string) uint64 {
	return maphash.Comparable(g.seed, [2]string{address, token})
}

// addressOf returns whom an address and port belong to: one IPv4 address, or the IPv6 /64 that one machine may have to
// itself.
func addressOf(addrPort string) string {
	from, err := netip.ParseAddrPort(addrPort)
	if err != nil {
		return ""
	}
	ip := from.Addr().Unmap().WithZone("")
	if ip.Is6() {
		prefix, _ := ip.Prefix(64) // an IPv6 address has one
		return prefix.String()
	}
	return ip.String()
}
