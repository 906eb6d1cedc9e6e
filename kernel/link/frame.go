package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

type frameType byte

const (
	frameRequest frameType = 1 + iota // JSON of a request
	frameReply                        // JSON of a reply
	frameRecords                      // whole encoded records
	frameRead                         // u64: send the records above this number; once per connection
	frameTaken                        // u64: bytes of records that the server has taken since the last such frame
	frameAck                          // u64: the number up to which records may be dropped
)

const (
	frameHead  = 5        // length of the payload and type
	maxFrame   = 64 << 20 // a record may carry a large display
	maxFirst   = 1 << 20  // allocated before that much has arrived
	readBuffer = 512      // large payloads bypass it, and most connections are idle
	maxFiles   = 2
)

// conn is a connection that carries frames. One goroutine reads; every other method is safe for concurrent use.
type conn struct {
	unix *net.UnixConn
	in   *bufio.Reader

	opening bool       // descriptors are accepted; only the reader uses it
	files   []*os.File // that arrived; only the reader uses it

	room *largeRoom // for large frames of records, given back by whoever takes the frame; nil: they need none

	writing sync.Mutex // serialises writes
	buffer  []byte     // of small frames
}

func newConn(u *net.UnixConn) *conn {
	c := &conn{unix: u}
	c.in = bufio.NewReaderSize(reader(c.receive), readBuffer)
	return c
}

type reader func([]byte) (int, error)

func (r reader) Read(b []byte) (int, error) { return r(b) }

// Close ends reads and writes. It may be called more than once.
func (c *conn) Close() error { return c.unix.Close() }

// write sends a frame, with one system call if the socket accepts it at once. It keeps no reference to payload.
func (c *conn) write(t frameType, payload []byte, files ...*os.File) error {
	if len(payload) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too large; the limit is %d", len(payload), maxFrame)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	head := [frameHead]byte{4: byte(t)}
	binary.LittleEndian.PutUint32(head[:], uint32(len(payload)))
	if len(files) == 0 && len(payload) > 4<<10 {
		both := net.Buffers{head[:], payload}
		_, err := both.WriteTo(c.unix)
		return err
	}
	c.buffer = append(append(c.buffer[:0], head[:]...), payload...)
	rest := c.buffer
	if cap(c.buffer) > 4<<10 {
		c.buffer = nil
	}
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		n, _, err := c.unix.WriteMsgUnix(rest, unix.UnixRights(fds...), nil)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := c.unix.Write(rest)
	return err
}

// writeAtOnce sends a small frame if the socket has room for it. Otherwise it sends nothing and reports false.
func (c *conn) writeAtOnce(t frameType, payload []byte) bool {
	if len(payload) > 4<<10 || !c.writing.TryLock() {
		return false
	}
	defer c.writing.Unlock()
	raw, err := c.unix.SyscallConn()
	if err != nil {
		return false
	}
	head := [frameHead]byte{4: byte(t)}
	binary.LittleEndian.PutUint32(head[:], uint32(len(payload)))
	frame := append(append(make([]byte, 0, frameHead+len(payload)), head[:]...), payload...)
	sent := 0
	_ = raw.Write(func(fd uintptr) bool {
		sent, _ = unix.Write(int(fd), frame) // an error says that there is no room, or comes again
		return true
	})
	if sent > 0 && sent < len(frame) { // no socket splits a frame that small; if one did, the rest has to follow
		_, _ = c.unix.Write(frame[sent:]) // an error ends the connection, which the reader notices
	}
	return sent > 0
}

// writeFrom sends a frame whose payload is that many bytes of from. On an error it closes the connection, since half
// of the frame may be on its way.
func (c *conn) writeFrom(t frameType, size int, from io.Reader) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	head := [frameHead]byte{4: byte(t)}
	binary.LittleEndian.PutUint32(head[:], uint32(size))
	_, err := c.unix.Write(head[:])
	if err == nil {
		_, err = io.CopyN(c.unix, from, int64(size))
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	return nil
}

func (c *conn) writeNumber(t frameType, n uint64) error {
	return c.write(t, binary.LittleEndian.AppendUint64(nil, n))
}

// read waits for the next frame. The caller owns the payload.
func (c *conn) read() (frameType, []byte, error) {
	head, err := c.in.Peek(frameHead)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	size, t := int(binary.LittleEndian.Uint32(head)), frameType(head[4])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("the peer announces a message of %d bytes; the limit is %d", size, maxFrame)
	}
	_, _ = c.in.Discard(frameHead)
	first := min(size, maxFirst)
	if t == frameRecords && size > maxFirst && c.room != nil {
		if err := c.room.admit(size); err != nil {
			return 0, nil, err
		}
		first = size
	}
	payload := make([]byte, first)
	for n := 0; ; {
		if _, err := io.ReadFull(c.in, payload[n:]); err != nil {
			if first > maxFirst {
				c.room.leave(size)
			}
			return 0, nil, noEOF(err)
		}
		if n = len(payload); n == size {
			return t, payload, nil
		}
		larger := make([]byte, min(size, 4*n))
		copy(larger, payload)
		payload = larger
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func number(payload []byte) (uint64, error) {
	if len(payload) != 8 {
		return 0, fmt.Errorf("a number has 8 bytes, not %d", len(payload))
	}
	return binary.LittleEndian.Uint64(payload), nil
}

// receive reads from the socket. The operating system refuses descriptors that come later than in the first message,
// since nobody asks for them.
func (c *conn) receive(b []byte) (int, error) {
	if !c.opening {
		return c.unix.Read(b)
	}
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oobn, flags, _, err := c.unix.ReadMsgUnix(b, oob)
	if err != nil {
		return n, err
	}
	if oobn > 0 {
		if err := c.takeFiles(oob[:oobn]); err != nil {
			return 0, err
		}
	}
	if flags&unix.MSG_CTRUNC != 0 || len(c.files) > maxFiles {
		return 0, errors.New("the peer sent too many descriptors")
	}
	return n, nil
}

func (c *conn) takeFiles(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("read ancillary data: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return fmt.Errorf("read ancillary data: %w", err)
		}
		for _, fd := range fds {
			c.files = append(c.files, os.NewFile(uintptr(fd), "directory of a session"))
		}
	}
	return nil
}

// closeFiles closes the descriptors that arrived.
func (c *conn) closeFiles() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}
