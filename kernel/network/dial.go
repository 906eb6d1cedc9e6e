package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// dialTime is how long a server may take to answer.
const dialTime = 30 * time.Second

// errForbidden is the refusal of an address that a permitted name resolved to.
var errForbidden = errors.New("forbidden address")

// refusal says why a session may not have a connection.
type refusal string

func (r refusal) Error() string { return string(r) }

// target is where a connection goes: a name, or an address if name is "".
type target struct {
	name string
	addr netip.Addr
	port uint16
}

func (t target) String() string {
	host := t.name
	if host == "" {
		host = t.addr.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.port)))
}

// permits says why a policy refuses a target, or "".
func (p Policy) permits(t target) (why string) {
	switch {
	case p.Mode != Allow && p.Mode != Full:
		return noNetworkNow
	case t.name != "" && p.name(t.name, t.port), t.name == "" && p.address(t.addr, t.port, false):
		return ""
	case t.name == "" && p.Mode == Full:
		return notPublic
	}
	return notListed
}

// dial connects to a target that the policy permits. It checks each address of a name at the moment at which it
// connects to it, so that a name server cannot give a different answer the second time.
func (n *Network) dial(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	policy := n.policy()
	if t.name != "" && policy.hosts(t.name) {
		return dialSocket(ctx, policy.Hosts[t.name])
	}
	if t.name == HostName {
		return dialLoopback(ctx, t.port)
	}
	own := ownAddresses()
	var refused atomic.Pointer[netip.Addr] // two addresses may be tried at once
	dialer := net.Dialer{
		Resolver: n.cfg.Resolver,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			addr := to.Addr().Unmap()
			if !policy.address(addr, t.port, t.name != "") || own[addr] && !policy.listsAddress(addr, t.port) {
				refused.Store(&addr)
				return errForbidden
			}
			return nil
		},
	}
	host := t.name
	if host == "" {
		host = t.addr.String()
	} else {
		host += "." // the name as it is, whatever search domain this machine has
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(t.port))))
	if errors.Is(err, errForbidden) {
		why := notPublic
		if t.name != "" {
			why = fmt.Sprintf("it resolves to %v, which is not part of the public network; list the address too", refused.Load())
		}
		n.deny("connection to", t.String(), why)
		return nil, refusal(why)
	}
	return conn, err
}

// dialLoopback connects to a port of this machine.
func dialLoopback(ctx context.Context, port uint16) (net.Conn, error) {
	var dialer net.Dialer
	text := strconv.Itoa(int(port))
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", text))
	if err == nil {
		return conn, nil
	}
	if six, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("::1", text)); err == nil {
		return six, nil
	}
	return nil, err
}

// ownAddresses returns the addresses of this host.
func ownAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	addrs, _ := net.InterfaceAddrs() // without them the ranges are still checked
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr().Unmap()] = true
		}
	}
	return own
}
