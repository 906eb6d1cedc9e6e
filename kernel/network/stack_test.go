package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// device attaches a network to one end of a pair of sockets that carry packets, and returns the session's end.
func device(t *testing.T, n *Network) *os.File {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.AttachDevice(os.NewFile(uintptr(fds[0]), "device")); err != nil {
		t.Fatal(err)
	}
	inside := os.NewFile(uintptr(fds[1]), "inside")
	t.Cleanup(func() { _ = inside.Close() })
	return inside
}

// datagram returns a UDP packet of a session.
func datagram(from, to netip.AddrPort, payload []byte) []byte {
	b := make([]byte, header.IPv4MinimumSize+header.UDPMinimumSize+len(payload))
	source, target := tcpip.AddrFrom4(from.Addr().As4()), tcpip.AddrFrom4(to.Addr().As4())
	ip := header.IPv4(b)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(b)), TTL: 64, Protocol: uint8(header.UDPProtocolNumber), SrcAddr: source, DstAddr: target,
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	udp := header.UDP(ip.Payload())
	copy(udp.Payload(), payload)
	udp.Encode(&header.UDPFields{SrcPort: from.Port(), DstPort: to.Port(), Length: uint16(len(udp))})
	sum := header.PseudoHeaderChecksum(header.UDPProtocolNumber, source, target, uint16(len(udp)))
	udp.SetChecksum(^udp.CalculateChecksum(checksum.Checksum(payload, sum)))
	return b
}

func TestLookupsFromManyPortsAreAnsweredAndTakeNothing(t *testing.T) {
	n := New(Config{Policy: policy(t, Allow, "example.org")})
	defer n.Close()
	inside := device(t, n)
	before := runtime.NumGoroutine()
	query := question(t, "example.org.", dnsmessage.TypeA)
	answer := make([]byte, MTU)
	const ports = 5000
	for port := range uint16(ports) {
		from := netip.AddrPortFrom(Device, 1024+port)
		if _, err := inside.Write(datagram(from, netip.AddrPortFrom(Gateway, dnsPort), query)); err != nil {
			t.Fatal(err)
		}
		got, err := inside.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		udp := header.UDP(header.IPv4(answer[:got]).Payload())
		var m dnsmessage.Message
		if err := m.Unpack(udp.Payload()); err != nil || len(m.Answers) != 1 || binary.BigEndian.Uint16(udp[2:]) != from.Port() {
			t.Fatalf("port %d got %d answers (%v) at port %d", from.Port(), len(m.Answers), err, udp.DestinationPort())
		}
	}
	if more := runtime.NumGoroutine() - before; more > 10 {
		t.Errorf("lookups from %d ports left %d goroutines", ports, more)
	}
}

// session is a TCP/IP stack at a session's end of a device, with small buffers.
func session(t *testing.T, inside *os.File) *stack.Stack {
	t.Helper()
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	t.Cleanup(func() {
		s.RemoveNIC(nic)
		s.Close()
		s.Wait()
	})
	link, err := fdbased.New(&fdbased.Options{FDs: []int{int(inside.Fd())}, MTU: MTU, RXChecksumOffload: true})
	if err != nil {
		t.Fatal(err)
	}
	small := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: 4096, Max: 4096}
	own := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: tcpip.AddrFromSlice(Device.AsSlice()).WithPrefix()}
	for _, err := range []tcpip.Error{
		s.SetTransportProtocolOption(tcp.ProtocolNumber, &small), s.CreateNIC(nic, link),
		s.AddProtocolAddress(nic, own, stack.AddressProperties{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	return s
}

// sender runs a server that answers each connection with these bytes and closes it.
func sender(t *testing.T, content []byte) (port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(content)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	number, err := strconv.ParseUint(portOf(t, l.Addr().String()), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(number)
}

func TestAConnectionCountsUntilTheSessionHasTakenAllOfIt(t *testing.T) {
	content := bytes.Repeat([]byte("x"), 64<<10)
	port := sender(t, content)
	n := New(Config{
		Policy: policy(t, Allow, "web.test", "127.0.0.1"), MaxConnections: 1,
		Resolver: nameServer(t, fixed(map[string]string{"web.test": "127.0.0.1"})),
	})
	defer n.Close()
	s := session(t, device(t, n))
	dial := func() (*gonet.TCPConn, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		to := tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFromSlice(n.names.address("web.test").AsSlice()), Port: port}
		return gonet.DialContextTCP(ctx, s, to, ipv4.ProtocolNumber)
	}
	first, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); n.Bytes() < int64(len(content)); { // the server has closed it
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%d bytes have come", n.Bytes())
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	if second, err := dial(); err == nil {
		second.Close()
		t.Error("there is another connection while the host keeps what the session has not read of the first one")
	}
	if got, err := io.ReadAll(first); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes arrived: %v", len(got), err)
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		third, err := dial()
		if err == nil {
			third.Close()
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("no other connection once all is read: %v", err)
		}
	}
}
