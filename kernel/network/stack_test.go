package network

import (
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
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
