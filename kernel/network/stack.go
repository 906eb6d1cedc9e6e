package network

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	nic = 1
	// MTU of the device: packets are large, since none of them ever reaches a wire.
	MTU = 65520
	// maxHalfOpen is how many connections may be half-open at a time.
	maxHalfOpen = 512
	// keepIdle and keepInterval detect that the inner side of a connection is gone.
	keepIdle     = 60 * time.Second
	keepInterval = 30 * time.Second
	buffered     = 1 << 20 // bytes of a connection in each direction
	// afterClose is how long the stack remembers a connection that both sides have closed: no packet arrives late on a
	// device.
	afterClose = time.Second
	// maxPause is the longest time between two looks at what a session has not taken yet.
	maxPause = 100 * time.Millisecond
)

// netstack answers for the whole internet on a session's device.
type netstack struct {
	n           *Network
	file        *os.File
	s           *stack.Stack
	nameServers []*gonet.UDPConn
}

func newStack(n *Network, file *os.File) (*netstack, error) {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
		HandleLocal:        false,
	})
	t := &netstack{n: n, file: file, s: s}
	link, err := fdbased.New(&fdbased.Options{FDs: []int{int(file.Fd())}, MTU: MTU, RXChecksumOffload: true})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("network stack: %w", err)
	}
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: 256 << 10, Max: buffered}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: 256 << 10, Max: buffered}
	timeWait := tcpip.TCPTimeWaitTimeoutOption(afterClose)
	for _, option := range []tcpip.SettableTransportProtocolOption{&sack, &moderate, &receive, &send, &timeWait} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			s.Close()
			return nil, fmt.Errorf("network stack: set an option of TCP: %v", err)
		}
	}
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(s, 0, maxHalfOpen, t.accept).HandlePacket)
	s.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(s, t.refuseUDP).HandlePacket)
	for _, step := range []func() tcpip.Error{
		func() tcpip.Error { return s.CreateNIC(nic, link) },
		func() tcpip.Error { return s.SetPromiscuousMode(nic, true) }, // it answers at every address
		func() tcpip.Error { return s.SetSpoofing(nic, true) },
	} {
		if err := step(); err != nil {
			t.close()
			return nil, fmt.Errorf("network stack: %v", err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}, {Destination: header.IPv6EmptySubnet, NIC: nic}})
	if err := t.listenDNS(); err != nil {
		t.close()
		return nil, fmt.Errorf("network stack: %w", err)
	}
	return t, nil
}

// close ends every connection and waits until nothing is running.
func (t *netstack) close() {
	for _, conn := range t.nameServers {
		_ = conn.Close()
	}
	t.s.RemoveNIC(nic) // also stops the reading; an error means that there is no such NIC
	t.s.Close()
	t.s.Wait()
	_ = t.file.Close()
}

// accept handles each new connection.
func (t *netstack) accept(r *tcp.ForwarderRequest) {
	id := r.ID()
	t.n.work.Go(func() {
		c, err := t.n.admit(t.n.ctx, t.n.target(address(id.LocalAddress), id.LocalPort))
		if err != nil {
			r.Complete(true) // a reset: refused, at once
			return
		}
		var queue waiter.Queue
		endpoint, failed := r.CreateEndpoint(&queue)
		r.Complete(failed != nil)
		if failed != nil {
			c.drop()
			return
		}
		watch(endpoint)
		c.splice(inside{gonet.NewTCPConn(&queue, endpoint), endpoint})
	})
}

// inside is the session's side of a connection.
type inside struct {
	*gonet.TCPConn
	endpoint tcpip.Endpoint
}

func (i inside) Abort() { i.endpoint.Abort() }

// drain waits, after the end of both directions, until the session has taken everything: until then the stack keeps it in memory, so
// the connection counts.
func (i inside) drain() {
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		switch tcp.EndpointState(i.endpoint.State()) {
		case tcp.StateEstablished, tcp.StateCloseWait, tcp.StateFinWait1, tcp.StateClosing, tcp.StateLastAck:
			time.Sleep(pause)
		default:
			return
		}
	}
}

// watch ends a connection whose inner side has gone without closing it.
func watch(endpoint tcpip.Endpoint) {
	endpoint.SocketOptions().SetKeepAlive(true)
	idle, interval := tcpip.KeepaliveIdleOption(keepIdle), tcpip.KeepaliveIntervalOption(keepInterval)
	_ = endpoint.SetSockOpt(&idle)
	_ = endpoint.SetSockOpt(&interval)
}

// refuseUDP handles a packet to anything but the name server, and makes the session learn that nobody listens.
func (t *netstack) refuseUDP(r *udp.ForwarderRequest) bool {
	id := r.ID()
	to := netip.AddrPortFrom(address(id.LocalAddress), id.LocalPort)
	t.n.deny("packet to", to.String(), "sessions have no UDP except for looking up names")
	return false
}

// listenDNS answers lookups at both addresses of the gateway. One socket serves all ports of the session, so that any
// number of them takes no memory.
func (t *netstack) listenDNS() error {
	for _, at := range []struct {
		gateway  netip.Addr
		protocol tcpip.NetworkProtocolNumber
	}{{Gateway, ipv4.ProtocolNumber}, {Gateway6, ipv6.ProtocolNumber}} {
		addr := tcpip.AddrFromSlice(at.gateway.AsSlice())
		own := tcpip.ProtocolAddress{Protocol: at.protocol, AddressWithPrefix: addr.WithPrefix()}
		if err := t.s.AddProtocolAddress(nic, own, stack.AddressProperties{}); err != nil {
			return fmt.Errorf("name server at %v: %v", at.gateway, err)
		}
		conn, err := gonet.DialUDP(t.s, &tcpip.FullAddress{NIC: nic, Addr: addr, Port: dnsPort}, nil, at.protocol)
		if err != nil {
			return fmt.Errorf("name server at %v: %w", at.gateway, err)
		}
		t.nameServers = append(t.nameServers, conn)
		t.n.work.Go(func() { t.serveDNS(conn) })
	}
	return nil
}

// serveDNS answers lookups until the socket is closed.
func (t *netstack) serveDNS(conn *gonet.UDPConn) {
	query := make([]byte, 4096)
	for {
		got, from, err := conn.ReadFrom(query)
		if err != nil {
			return
		}
		if answer := t.n.answerDNS(query[:got]); answer != nil {
			_, _ = conn.WriteTo(answer, from) // a program that does not get it asks again
		}
	}
}

// target returns what a session means by an address.
func (n *Network) target(addr netip.Addr, port uint16) target {
	if name := n.names.name(addr); name != "" {
		return target{name: name, port: port}
	}
	return target{addr: addr, port: port}
}

func address(a tcpip.Address) netip.Addr {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return addr.Unmap()
}
