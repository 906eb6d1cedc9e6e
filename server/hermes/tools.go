package hermes

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"talaria/session"
	"talaria/session/processes"
)

// bridge is the program inside that cells connect to for tools. It carries one connection at a time, as the agent serves one.
//
//go:embed bridge.py
var bridge string

// The kinds of frames between the bridge and the server: a byte, a length of four, and that many bytes. Each side closes each connection
// once, and the bridge accepts the next one when both have.
const (
	frameReady = 'R' // from the bridge: its socket, which now accepts
	frameOpen  = 'O' // from the bridge: somebody has connected
	frameData  = 'D'
	frameEnd   = 'E' // from the bridge: the client says no more, and may still wait for answers
	frameClose = 'C'
)

const (
	headerBytes = 5
	maxFrame    = 64 << 10
	// readyTime bounds the start of the bridge. It imports nothing that is slow.
	readyTime = 20 * time.Second
	// dialTime bounds how long a connection waits while the agent's socket has no room for it.
	dialTime  = 5 * time.Second
	dialPause = 50 * time.Millisecond
)

// readTools reads the module through which a runner's cells call tools, which the client names by its path. Without one there is none.
func readTools(env map[string]string, uid int) ([]byte, error) {
	path := env[toolsVariable]
	if path == "" {
		return nil, nil
	}
	file, err := openOwned(path, toolsVariable, uid)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return source(file, toolsVariable, maxTools)
}

// agent is the socket on which the agent answers calls of tools. It is the same one however its path changes.
type agent struct {
	file *os.File // open as a name only; nil: there is no socket
	uid  int
}

// openAgent finds the socket that a client names. It must be the client's own: the server can reach others that the client cannot.
func openAgent(env map[string]string, uid int) (*agent, error) {
	path := env[rpcVariable]
	if path == "" || strings.Contains(path, "://") { // the agent has other transports on other systems
		return &agent{}, nil
	}
	file, err := os.OpenFile(path, oPath|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, refused(codeBadRequest, "%s %.200q cannot be used: %v", rpcVariable, path, errors.Unwrap(err))
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Mode&syscall.S_IFMT != syscall.S_IFSOCK || int(stat.Uid) != uid {
		file.Close()
		return nil, refused(codeBadRequest, "%s %.200q must be a socket of user %d, the client's", rpcVariable, path, uid)
	}
	return &agent{file: file, uid: uid}, nil
}

// close may be called more than once.
func (a *agent) close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}

// take returns the agent for another holder; this one has nothing to close then.
func (a *agent) take() *agent {
	taken := *a
	a.file = nil
	return &taken
}

// dial connects to the agent. It waits a while for one that is busy.
func (a *agent) dial(ctx context.Context) (*net.UnixConn, error) {
	at := &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d", a.file.Fd()), Net: "unix"}
	for deadline := time.Now().Add(dialTime); ; {
		conn, err := net.DialUnix("unix", nil, at)
		switch {
		case err == nil:
			who, err := peer(conn)
			if err == nil && int(who.Uid) != a.uid {
				err = fmt.Errorf("user %d listens there, not %d", who.Uid, a.uid)
			}
			if err != nil {
				conn.Close()
				return nil, err
			}
			return conn, nil
		case !errors.Is(err, syscall.EAGAIN) || time.Now().After(deadline):
			return nil, err
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tools carries the calls of tools of one runner. nil is that of a runner that has none.
type tools struct {
	*session.Session
	b      *Broker
	agent  *agent
	id     string // of the bridge
	socket string // inside
	end    context.CancelFunc
	ended  chan struct{}
}

// path is where cells connect; "" is nowhere.
func (t *tools) path() string {
	if t == nil {
		return ""
	}
	return t.socket
}

// close ends what carries the calls. The bridge ends with its sandbox.
func (t *tools) close() {
	if t == nil {
		return
	}
	t.end()
	<-t.ended
}

// serveTools starts the bridge in a session, and carries what cells and the agent say to each other until close. Where a sandbox can
// have no sockets, the runner has no tools.
func (b *Broker) serveTools(lease context.Context, s *session.Session, a *agent) (*tools, error) {
	if a.file == nil {
		return nil, nil
	}
	id, err := s.Programs().Start(lease, processes.Request{Args: python("-I", "-S", "-c", bridge), Stdin: true, Tag: tag})
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(lease)
	t := &tools{Session: s, b: b, id: id, end: end, ended: make(chan struct{})}
	frames := &frameReader{output: output{Session: s, id: id}}
	bounded, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	kind, socket, err := frames.next(bounded)
	if err != nil || kind != frameReady {
		end()
		if lease.Err() != nil {
			return nil, context.Cause(lease)
		}
		b.Log.Warn("a kernel of hermes has no tools: nothing can listen in its sandbox", "session", s.ID(), "error", errors.Join(err, frames.said()))
		return nil, nil
	}
	t.agent, t.socket = a.take(), string(socket)
	go func() {
		defer close(t.ended)
		defer t.agent.close()
		if err := t.serve(ctx, frames); ctx.Err() == nil {
			b.Log.Warn("a kernel of hermes no longer has tools", "session", s.ID(), "error", err)
			_ = s.Programs().Signal(ctx, id, sigkill) // it fails where the bridge has ended
		}
	}()
	return t, nil
}

// serve carries one connection after another until ctx ends, the bridge does, or it says what it must not.
func (t *tools) serve(ctx context.Context, frames *frameReader) error {
	for {
		switch kind, _, err := frames.next(ctx); {
		case err != nil:
			return err
		case kind != frameOpen:
			return fmt.Errorf("the bridge sent the frame %q without a connection", kind)
		}
		if err := t.carry(ctx, frames); err != nil {
			return err
		}
	}
}

// carry carries one connection, until both sides have closed it.
func (t *tools) carry(ctx context.Context, frames *frameReader) error {
	conn, err := t.agent.dial(ctx)
	if err != nil {
		t.b.Log.Warn("connect a kernel to the tools of hermes", "session", t.ID(), "error", err)
	}
	var answering sync.WaitGroup
	answering.Go(func() { t.answer(ctx, conn) })
	defer answering.Wait()
	if conn != nil {
		defer conn.Close() // before the wait
		defer context.AfterFunc(ctx, func() { conn.Close() })()
	}
	for open := conn != nil; ; {
		kind, data, err := frames.next(ctx)
		switch {
		case err != nil:
			return err
		case kind == frameClose:
			return nil
		case kind == frameEnd && conn != nil:
			_ = conn.CloseWrite() // it fails where the agent is gone, which answer tells the bridge
		case kind == frameEnd:
		case kind != frameData:
			return fmt.Errorf("the bridge sent the frame %q in a connection", kind)
		case open:
			var written int64
			if open, err = frames.pass(ctx, conn, data, &written); err != nil {
				return err
			}
		}
	}
}

// answer sends the bridge what the agent says, and then that the connection is closed. A nil connection says nothing.
func (t *tools) answer(ctx context.Context, conn *net.UnixConn) {
	data := make([]byte, headerBytes+maxFrame)
	for conn != nil {
		n, err := conn.Read(data[headerBytes:])
		if n > 0 {
			if t.Programs().Write(ctx, t.id, header(data, frameData, n)) != nil {
				return // the bridge has ended
			}
		}
		if err != nil {
			break
		}
	}
	_ = t.Programs().Write(ctx, t.id, header(data, frameClose, 0))
}

// header makes a frame of n bytes that follow the place of the header.
func header(frame []byte, kind byte, n int) []byte {
	frame[0] = kind
	binary.BigEndian.PutUint32(frame[1:], uint32(n))
	return frame[:headerBytes+n]
}

// frameReader reads the frames of a bridge, which code of the user can forge.
type frameReader struct {
	output
	rest  []byte
	wrong []byte // the beginning of what the bridge said on its standard error
}

// next returns the next frame. Its data is valid until the next call. io.EOF says that the bridge has ended.
func (f *frameReader) next(ctx context.Context) (kind byte, data []byte, err error) {
	for {
		frame, rest, err := cutFrame(f.rest)
		if err != nil {
			return 0, nil, err
		}
		if frame != nil {
			f.rest = rest
			return frame[0], frame[headerBytes:], nil
		}
		if err := f.more(ctx); err != nil {
			return 0, nil, err
		}
	}
}

// cutFrame cuts the first frame off what the bridge has sent; it is nil if it is not complete.
func cutFrame(sent []byte) (frame, rest []byte, err error) {
	if len(sent) < headerBytes {
		return nil, sent, nil
	}
	n := binary.BigEndian.Uint32(sent[1:])
	if n > maxFrame {
		return nil, sent, fmt.Errorf("the bridge sent a frame of %d bytes; it may have %d", n, maxFrame)
	}
	end := headerBytes + int(n)
	if len(sent) < end {
		return nil, sent, nil
	}
	return sent[:end], sent[end:], nil
}

// more reads more of the bridge's output.
func (f *frameReader) more(ctx context.Context) error {
	piece, err := f.output.next(ctx)
	switch {
	case err != nil:
		return err
	case piece.Stdout.Offset > f.stdout:
		return errors.New("a part of what the bridge sent is lost")
	case piece.Ended && len(piece.Stdout.Data) == 0:
		f.wrong = append(f.wrong, piece.Stderr.Data[:min(len(piece.Stderr.Data), maxWords-min(len(f.wrong), maxWords))]...)
		return io.EOF
	}
	f.stdout, f.stderr = piece.Stdout.Offset+int64(len(piece.Stdout.Data)), piece.Stderr.Offset+int64(len(piece.Stderr.Data))
	f.rest = append(f.rest[:len(f.rest):len(f.rest)], piece.Stdout.Data...)
	f.wrong = append(f.wrong, piece.Stderr.Data[:min(len(piece.Stderr.Data), maxWords-min(len(f.wrong), maxWords))]...)
	return nil
}

// maxWords bounds what is kept of the bridge's standard error.
const maxWords = 500

// said is what the bridge said on its standard error.
func (f *frameReader) said() error {
	if len(f.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("it said %q", f.wrong)
}
