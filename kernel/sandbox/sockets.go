package sandbox

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The parts of sock_diag(7)'s requests and answers for which golang.org/x/sys has no names.
const (
	unixShowMemoryAndUser = 0x20 | 0x40
	unixMemory            = 5
	unixUser              = 7
	inetMemory            = 7
	allStates             = ^uint32(0)

	unixRequestSize = 24
	inetRequestSize = 56
	unixMessageSize = 16
	inetMessageSize = 72
)

// Indexes into the array of SK_MEMINFO.
const (
	received = 0
	sent     = 2
	ahead    = 4
	queued   = 5
	options  = 6
	backlog  = 7
	memories = 9
)

// socketList is a netlink socket that lists the sockets of its network namespace. It is safe for concurrent use.
type socketList struct {
	families []uint8
	file     *os.File   // of a socket of NETLINK_SOCK_DIAG
	mu       sync.Mutex // held for a listing, which is a request and its answers; guards sequence
	sequence uint32
}

// listedSocket is one socket.
type listedSocket struct {
	inode, uid uint32
	memory     int64
}

func openSocketList(families ...uint8) (*socketList, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	return &socketList{file: os.NewFile(uintptr(fd), "sock_diag"), families: families}, nil
}

func (l *socketList) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.file.Close()
}

// bytes returns the memory of the sockets for which own is true. With an error it is a lower bound.
func (l *socketList) bytes(own func(listedSocket) bool) (sum int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	visit := func(s listedSocket) {
		if own(s) {
			sum += s.memory
		}
	}
	var errs []error
	for _, family := range l.families {
		if family == unix.AF_UNIX {
			errs = append(errs, l.dump(unixRequest(), unixMessageSize, visit))
			continue
		}
		for _, protocol := range []uint8{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			errs = append(errs, l.dump(inetRequest(family, protocol), inetMessageSize, visit))
		}
	}
	return sum, errors.Join(errs...)
}

func unixRequest() []byte {
	r := make([]byte, unixRequestSize)
	r[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(r[4:], allStates)
	binary.NativeEndian.PutUint32(r[12:], unixShowMemoryAndUser)
	return r
}

func inetRequest(family, protocol uint8) []byte {
	r := make([]byte, inetRequestSize)
	r[0], r[1], r[2] = family, protocol, 1<<(inetMemory-1)
	binary.NativeEndian.PutUint32(r[4:], allStates)
	return r
}

// dump sends a request and visits all answers.
func (l *socketList) dump(body []byte, fixed int, visit func(listedSocket)) error {
	const sockDiagByFamily = 20
	packet := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	binary.NativeEndian.PutUint32(packet, uint32(cap(packet)))
	binary.NativeEndian.PutUint16(packet[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(packet[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	l.sequence++
	binary.NativeEndian.PutUint32(packet[8:], l.sequence)
	fd := int(l.file.Fd())
	if err := unix.Sendto(fd, append(packet, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buffer := make([]byte, 32<<10) // no answer is longer
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return errors.New("a message of sock_diag is cut off")
			}
			message := rest[unix.SizeofNlMsghdr:size]
			switch kind := binary.NativeEndian.Uint16(rest[4:]); {
			case binary.NativeEndian.Uint32(rest[8:]) != l.sequence: // of a listing that was broken off
			case kind == unix.NLMSG_DONE:
				return nil
			case kind == unix.NLMSG_ERROR && len(message) >= 4:
				return os.NewSyscallError("sock_diag", unix.Errno(-int32(binary.NativeEndian.Uint32(message))))
			case len(message) >= fixed:
				visit(readSocket(message, fixed))
			}
			rest = rest[min(align(size), len(rest)):]
		}
	}
}

func readSocket(message []byte, fixed int) listedSocket {
	memory := uint16(inetMemory)
	var s listedSocket
	if fixed == unixMessageSize {
		memory = unixMemory
		s.inode = binary.NativeEndian.Uint32(message[4:])
	}
	for rest := message[fixed:]; len(rest) >= unix.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < unix.SizeofRtAttr || size > len(rest) {
			break
		}
		value := rest[unix.SizeofRtAttr:size]
		switch kind := binary.NativeEndian.Uint16(rest[2:]); {
		case kind == memory && len(value) >= 4*(memories-1):
			word := func(i int) int64 { return int64(binary.NativeEndian.Uint32(value[4*i:])) }
			s.memory = word(received) + max(word(sent), word(queued)) + word(ahead) + word(options) + word(backlog)
		case kind == unixUser && memory == unixMemory && len(value) >= 4:
			s.uid = binary.NativeEndian.Uint32(value)
		}
		rest = rest[min(align(size), len(rest)):]
	}
	return s
}

func align(n int) int { return (n + 3) &^ 3 }
