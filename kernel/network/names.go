package network

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// Addresses inside. The synthetic range is reserved for benchmarks between machines, so no real server has one of its
// addresses.
var (
	synthetic = netip.MustParsePrefix("198.18.0.0/15")
	// Device and Gateway are the addresses of the two ends of a session's network device. DNS answers at Gateway.
	Device, Gateway   = netip.MustParseAddr("10.0.2.100"), netip.MustParseAddr("10.0.2.3")
	Device6, Gateway6 = netip.MustParseAddr("fd74:616c::100"), netip.MustParseAddr("fd74:616c::3")
)

// maxNames bounds how many names of a session are remembered; beyond it the oldest is forgotten.
const maxNames = 1 << 16

// names gives each name that was looked up an address of its own, which stands for nothing else.
type names struct {
	mu     sync.Mutex
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
	next   uint32
}

func newNames() *names {
	return &names{byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{}, next: 1}
}

func (n *names) address(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr, ok := n.byName[name]; ok {
		return addr
	}
	base := synthetic.Addr().As4()
	addr := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(base[:])+n.next)))
	if n.next++; n.next > maxNames {
		n.next = 1
	}
	if old, ok := n.byAddr[addr]; ok {
		delete(n.byName, old)
	}
	n.byName[name], n.byAddr[addr] = addr, name
	return addr
}

// name returns the name that an address stands for, or "".
func (n *names) name(addr netip.Addr) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byAddr[addr]
}
