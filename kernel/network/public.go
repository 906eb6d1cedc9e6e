package network

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// ErrNotPublic is the refusal of an address that is not part of the public network.
var ErrNotPublic = errors.New("not part of the public network")

// Public is what this machine's own programs may connect to when somebody else chose the address: the public network
// without this machine, plus what rules list. The zero value lists nothing in addition.
type Public struct {
	Rules []Rule
}

// Lists reports whether a rule lists a host, which is a name or an address.
func (p Public) Lists(host string, port uint16) bool {
	listed := Policy{Mode: Allow, Rules: p.Rules}
	if addr, err := netip.ParseAddr(host); err == nil {
		return listed.listsAddress(addr.Unmap(), port)
	}
	name := canonicalName(host)
	return name != "" && listed.lists(name, port)
}

// Control is for a net.Dialer: it checks an address at the moment at which it is connected to.
func (p Public) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return p.check(to.Addr().Unmap(), to.Port())
}

// CheckHost refuses a host as far as possible when another machine, such as a proxy, resolves names.
func (p Public) CheckHost(host string, port uint16) error {
	if p.Lists(host, port) {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.check(addr.Unmap(), port)
	}
	name := canonicalName(host)
	last := name[strings.LastIndexByte(name, '.')+1:]
	if name == "" || name == last || last[0] >= '0' && last[0] <= '9' { // a name of this site, or an address in disguise
		return fmt.Errorf("%q is %w", host, ErrNotPublic)
	}
	return nil
}

func (p Public) check(addr netip.Addr, port uint16) error {
	listed := Policy{Mode: Allow, Rules: p.Rules}
	if listed.listsAddress(addr, port) || isPublic(addr) && !ownAddresses()[addr] {
		return nil
	}
	return fmt.Errorf("%v is %w", addr, ErrNotPublic)
}
