package host

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"talaria/kernel/record"
)

const (
	maxHeld  = 1 << 20 // bytes after a mark whose frame has not come
	maxDrain = 1 << 20 // for a pipe that does not tell how much it holds; the most that one can hold by default
)

// tap reads one of the pipes on fd 1 and 2. Bytes before a mark go out before the frame of that mark; bytes after it
// are held back until then. The caller holds the interpreter's lock for every method except wait.
type tap struct {
	file  *os.File
	conn  syscall.RawConn
	marks *marks
	emit  func(text []byte)

	text    textDecoder
	held    []byte // from a mark that has not been passed, or the first half of a mark
	waiting uint64 // the mark that held waits for, or 0
	seen    uint64 // the highest mark that was read
	ended   bool
}

func newTap(file *os.File, m *marks, emit func(text []byte)) (*tap, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("tap %s: %w", file.Name(), err)
	}
	return &tap{file: file, conn: conn, marks: m, emit: emit}, nil
}

// wait reads once, as soon as there is something to read, with lock held only while reading. It returns false when no
// more can come.
func (t *tap) wait(lock sync.Locker) bool {
	more := true
	err := t.conn.Read(func(fd uintptr) bool {
		lock.Lock()
		defer lock.Unlock()
		n := t.read(fd, record.MaxText)
		more = !t.ended
		return n != 0 || t.ended
	})
	return err == nil && more
}

// drain reads what is in the pipe now. A writer that keeps writing does not prolong it.
func (t *tap) drain() {
	if t.ended {
		return
	}
	_ = t.conn.Control(func(fd uintptr) {
		// TIOCINQ is FIONREAD: the bytes in the pipe.
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		if err != nil {
			left = maxDrain
		}
		for left > 0 {
			n := t.read(fd, left)
			if n == 0 {
				return
			}
			left -= n
		}
	})
}

// read reads at most size bytes and returns 0 if there is nothing now or ever.
func (t *tap) read(fd uintptr, size int) int {
	buf := record.TakeBlock()
	defer record.RecycleBlock(buf)
	for {
		n, err := unix.Read(int(fd), buf[:min(size, record.MaxText)])
		switch {
		case n > 0:
			t.take(buf[:n])
			return n
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return 0
		default:
			t.ended = true
			return 0
		}
	}
}

// take handles bytes of the pipe. It keeps no reference to b.
func (t *tap) take(b []byte) {
	switch {
	case t.waiting > t.marks.passed:
		if t.held = append(t.held, b...); len(t.held) > maxHeld {
			t.release()
		}
	case len(t.held) > 0:
		t.held = append(t.held, b...)
		t.advance()
	default:
		t.hold(t.scan(b, t.marks.passed))
	}
}

// advance lets out what waited for marks that are passed by now.
func (t *tap) advance() {
	if t.waiting <= t.marks.passed {
		t.hold(t.scan(t.held, t.marks.passed))
	}
}

// release lets out everything, except for the marks.
func (t *tap) release() {
	if half := t.scan(t.held, math.MaxUint64); len(half) > 0 {
		t.write(half)
	}
	t.hold(nil)
}

// flush is release that also lets out half a rune, as U+FFFD.
func (t *tap) flush() {
	t.release()
	if b := t.text.flush(); len(b) > 0 {
		t.emit(b)
	}
}

func (t *tap) hold(b []byte) {
	if len(b) == 0 {
		t.held = nil
		return
	}
	t.held = append(t.held[:0], b...)
}

// scan lets out b without its marks up to the first one above passed, and returns what must be held: the bytes after
// that mark, or half a mark at the end.
func (t *tap) scan(b []byte, passed uint64) []byte {
	t.waiting = 0
	from := 0
	for {
		i := -1
		if len(t.marks.prefix) > 0 {
			i = bytes.IndexByte(b[from:], markByte)
		}
		if i < 0 {
			t.write(b)
			return nil
		}
		at := from + i
		switch found, number, length := t.marks.match(b[at:]); found {
		case noMark:
			from = at + 1
		case halfMark:
			t.write(b[:at])
			return b[at:]
		case wholeMark:
			t.write(b[:at])
			b, from = b[at+length:], 0
			t.seen = max(t.seen, number)
			if number > passed {
				t.waiting = number
				return b
			}
		}
	}
}

func (t *tap) write(b []byte) {
	if text := t.text.decode(b); len(text) > 0 {
		t.emit(text)
	}
}
