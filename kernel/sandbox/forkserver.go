package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/procfs"
)

const (
	// importPatience is how long the import of one module may take.
	importPatience = 2 * time.Minute
	// forkPatience is how long a fork may take, including the forks requested before it.
	forkPatience = 10 * time.Second
)

// forkServer is a process in a keeper that has imported an environment's libraries, and forks pid 1 of sandboxes. It
// is safe for concurrent use.
type forkServer struct {
	keeper  *Sandbox
	process *Process

	mu     sync.RWMutex // held for reading while something is sent, so that no request is lost by closing
	conn   *net.UnixConn
	closed bool
}

// importError reports a module that a fork server cannot have.
type importError struct {
	module string
	reason string
}

func (e *importError) Error() string { return fmt.Sprintf("import %s: %s", e.module, e.reason) }

// startForkServer makes a keeper start a fork server, and returns when the modules are imported. It calls skip for
// each module that was not imported, with the reason. If the fork server ends while it imports a module, the error is
// an importError.
func startForkServer(ctx context.Context, keeper *Sandbox, modules []string,
	skip func(module, reason string)) (*forkServer, error) {
	conn, inside, err := socketPair()
	if err != nil {
		return nil, err
	}
	process, err := keeper.serve(ctx, modules, inside)
	inside.Close()
	if err != nil {
		conn.Close()
		return nil, err
	}
	f := &forkServer{keeper: keeper, process: process, conn: conn}
	if err := f.awaitReady(ctx, skip); err != nil {
		_ = process.Signal(unix.SIGKILL)
		f.end()
		return nil, err
	}
	return f, nil
}

func (f *forkServer) awaitReady(ctx context.Context, skip func(module, reason string)) error {
	stop := context.AfterFunc(ctx, func() { _ = f.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer := make([]byte, maxReply)
	importing, why := "", ""
	for {
		_ = f.conn.SetReadDeadline(time.Now().Add(importPatience))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, err := receive(f.conn, buffer)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded) && importing != "":
			return &importError{importing, fmt.Sprintf("it takes longer than %v", importPatience)}
		case err != nil && importing != "":
			if why == "" {
				why = "the interpreter ended: " + lastLine(f.keeper.stderr.String())
			}
			return &importError{importing, why}
		case err != nil:
			return fmt.Errorf("the fork server ended: %s: %w", lastLine(f.keeper.stderr.String()), err)
		}
		switch r.Op {
		case "importing":
			importing, why = r.Name, ""
		case "skipped":
			why = r.Error
			skip(r.Name, r.Error)
		case "ready":
			return f.conn.SetReadDeadline(time.Time{})
		}
	}
}

// fork makes pid 1 of a sandbox, parked.
func (f *forkServer) fork(ctx context.Context, b *Backend, env kernel.Environment) (*Sandbox, error) {
	s, err := newSandbox(b, env)
	if err != nil {
		return nil, err
	}
	var inside *os.File
	if s.conn, inside, err = socketPair(); err != nil {
		return nil, errors.Join(err, s.removeScratch())
	}
	err = setPassCred(s.conn, true)
	if err == nil {
		err = f.send("fork", nil, inside)
	}
	inside.Close()
	if err != nil {
		s.conn.Close()
		return nil, errors.Join(err, s.removeScratch())
	}
	s.stderr = f.keeper.stderr
	// While the fork is under way.
	err = s.makeGroup()
	if err == nil {
		err = f.greeted(ctx, s)
	}
	if err != nil {
		f.abandon(s.conn)
		if s.group != nil {
			err = errors.Join(err, s.group.Remove())
		}
		return nil, errors.Join(err, s.removeScratch())
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	if _, err := s.call(ctx, "leave", struct{}{}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// send sends a request that is not answered: to fork a pid 1, which gets the descriptor, or to take note of pages.
func (f *forkServer) send(op string, body any, files ...*os.File) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return net.ErrClosed
	}
	return send(f.conn, request{Op: op, Body: body}, files...)
}

// greeted waits for the first message of pid 1, and finds out which process sent it.
func (f *forkServer) greeted(ctx context.Context, s *Sandbox) error {
	if err := s.conn.SetReadDeadline(time.Now().Add(forkPatience)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	pid, err := receiveHello(s.conn)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			_ = f.process.Signal(unix.SIGKILL)
			err = fmt.Errorf("the fork server does not answer within %v: %w", forkPatience, err)
		}
		return err
	}
	if !stop() {
		return context.Cause(ctx)
	}
	if err := errors.Join(setPassCred(s.conn, false), s.conn.SetReadDeadline(time.Time{})); err != nil {
		return err
	}
	t, err := procfs.OpenTask(pid)
	if err != nil {
		return err
	}
	if s.shared, err = f.verifyForked(pid); err != nil {
		t.Close()
		return err
	}
	s.handle.PID, s.task = pid, t
	return nil
}

// abandon ends a pid 1 whose sandbox nobody gets, through its socket, and waits until it is gone: in a tier without namespaces of
// processes it would outlive the keeper for a moment.
func (f *forkServer) abandon(conn *net.UnixConn) {
	defer conn.Close()
	if errors.Join(conn.CloseWrite(), conn.SetReadDeadline(time.Now().Add(forkPatience))) != nil {
		return
	}
	pid, err := receiveHello(conn)
	if err != nil {
		return // it has ended, or never began, or greeted has read this
	}
	if t, err := procfs.OpenTask(pid); err == nil {
		_ = t.Wait()
		t.Close()
	}
}

// verifyForked checks that a process is pid 1 of a namespace right below the keeper's, and returns the memory that it
// starts with.
func (f *forkServer) verifyForked(pid int) (shared int64, err error) {
	keeper, err := procfs.Read(f.keeper.handle.PID)
	if err != nil {
		return 0, err
	}
	p, err := procfs.Read(pid)
	if err != nil {
		return 0, err
	}
	depth := len(strings.Fields(keeper.Status["NSpid"]))
	expected := len(strings.Fields(p.Status["NSpid"])) == depth && p.Status["Pid"] != keeper.Status["Pid"]
	if f.keeper.backend.tier.Contained() {
		expected = len(strings.Fields(p.Status["NSpid"])) == depth+1 && p.InsidePID == 1
	}
	if !expected || p.Status["Uid"] != keeper.Status["Uid"] {
		return 0, fmt.Errorf("process %d is not what the fork server makes", pid)
	}
	return p.Memory(), nil
}

// end lets the fork server finish its requests and waits until it is gone. Its sandboxes stay.
func (f *forkServer) end() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.conn.Close()
	<-f.process.done
}

// serve starts a fork server inside a keeper.
func (s *Sandbox) serve(ctx context.Context, modules []string, channel *os.File) (*Process, error) {
	p := &Process{sandbox: s, done: make(chan struct{})}
	if !s.admit(p) {
		return nil, s.lost()
	}
	if _, err := s.callAs(ctx, p.id, "serve", serveRequest{Modules: append([]string{}, modules...)}, channel); err != nil {
		_ = p.Signal(unix.SIGKILL)
		return nil, err
	}
	return p, nil
}

// receiveHello reads the packet with which a pid 1 announces itself. The kernel says who sent it.
func receiveHello(conn *net.UnixConn) (pid int, err error) {
	packet := make([]byte, 512)
	control := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, controlled, flags, _, err := conn.ReadMsgUnix(packet, control)
	if err != nil {
		return 0, err
	}
	var r reply
	if err := json.Unmarshal(packet[:n], &r); err != nil || r.Op != "hello" || flags&unix.MSG_CTRUNC != 0 {
		return 0, errors.New("the first message is not a greeting")
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlled])
	if err != nil || len(messages) != 1 {
		return 0, errors.New("a greeting does not say whose it is")
	}
	sender, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, err
	}
	if sender.Pid <= 1 || int(sender.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("a greeting comes from process %d of user %d", sender.Pid, sender.Uid)
	}
	return int(sender.Pid), nil
}

func setPassCred(conn *net.UnixConn, on bool) error {
	value := 0
	if on {
		value = 1
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, value) })
	return os.NewSyscallError("setsockopt", errors.Join(err, set))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "it said nothing"
	}
	return strconv.Quote(text[strings.LastIndexByte(text, '\n')+1:])
}
