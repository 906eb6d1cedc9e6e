package hermes

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"talaria/session"
	"talaria/session/processes"
)

// Signals and their numbers.
const (
	sigterm = 15
	sigkill = 9
)

// cleanTime bounds what is done after a lease has ended.
const cleanTime = 30 * time.Second

// errLeaseOver is the cause of contexts that end because the client has left.
var errLeaseOver = errors.New("the client has left")

// serve answers the request of one connection, and stays until its program has ended.
func (b *Broker) serve(ctx context.Context, conn *net.UnixConn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // so that a request that is read ends, too
	defer stop()
	who, err := peer(conn)
	if err != nil {
		return // it has left
	}
	uid := int(who.Uid)
	if !slices.Contains(b.UIDs, uid) {
		b.Log.Warn("refused a client of hermes: its user is not among fronts.hermes.uids", "uid", uid)
		reply(conn, refused(codeStranger, "user %d may not launch programs here; an operator can add it to fronts.hermes.uids", uid))
		return
	}
	l, err := receive(conn, handshakeTime)
	if err != nil {
		if ctx.Err() == nil {
			reply(conn, b.refusal(err))
		}
		return
	}
	defer l.closeStreams()
	lease, end := context.WithCancelCause(ctx)
	defer end(nil)
	if l.detached {
		b.detached(lease, conn, l, uid)
		return
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_, _ = io.Copy(io.Discard, conn) // read(2) drops descriptors that come
		end(errLeaseOver)
	}()
	b.run(lease, conn, l, uid)
	conn.Close()
	<-watching
}

// run launches a program and follows it to its end, or to that of its lease.
func (b *Broker) run(lease context.Context, conn *net.UnixConn, l *launch, uid int) {
	p, err := b.start(lease, l, uid)
	if err != nil {
		reply(conn, b.refusal(err))
		return
	}
	defer p.release()
	reply(conn, p.launched())
	code, over := p.follow(lease, l)
	p.tools.close()
	if err := p.end(lease); err != nil {
		b.Log.Error("clean up after a program of hermes", "session", p.ID(), "error", err)
	}
	// Clients that launch a runner without a scratch folder expect no more than the end of the connection.
	if over && (l.runner == nil || l.scratch) {
		reply(conn, exited{Exit: code})
	}
}

// detached launches a command that stays when its client, having acknowledged that, leaves.
func (b *Broker) detached(ctx context.Context, conn *net.UnixConn, l *launch, uid int) {
	p, err := b.start(ctx, l, uid)
	if err != nil {
		reply(conn, b.refusal(err))
		return
	}
	defer p.release()
	said := p.launched()
	said.Detached = true
	reply(conn, said)
	if !acknowledged(conn) {
		_ = p.end(context.WithoutCancel(ctx)) // nobody is there who could learn of an error
		return
	}
	conn.Close()
	_, _ = p.follow(ctx, l)
	if err := p.end(ctx); err != nil {
		b.Log.Error("clean up after a program of hermes", "session", p.ID(), "error", err)
	}
}

// acknowledgement is what a client sends when it knows of its detached program.
const acknowledgement = `{"op":"detach_ack"}`

// acknowledged waits for the client to say that it knows of its detached program. JSON has it with or without spaces.
func acknowledged(conn *net.UnixConn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(handshakeTime))
	said := make([]byte, 0, 64)
	one := make([]byte, 1)
	for len(said) < cap(said) {
		if n, err := conn.Read(one); n == 0 || err != nil {
			return false
		}
		switch one[0] {
		case '\n':
			return string(said) == acknowledgement
		case ' ':
		default:
			said = append(said, one[0])
		}
	}
	return false
}

// program is a program that was launched, and where it runs. Its holder releases it.
type program struct {
	*session.Session
	b       *Broker
	id      string // of the program in the session
	place   processes.Place
	scratch bool   // the session is the program's own, and ends with it
	input   []byte // that it reads before the client's
	detach  func()
	unhold  func()
	tools   *tools // nil: none
}

func (p *program) release() {
	p.tools.close()
	p.unhold()
	p.detach()
	p.Release()
}

// launched says where the program runs on this machine, which tells the client whether it still does. A program that has ended is
// said to be this process, at a time at which no process started: the client then finds it gone.
func (p *program) launched() launched {
	if p.place.HostPID == 0 {
		return launched{OK: true, PID: os.Getpid(), StartTime: 1}
	}
	return launched{OK: true, PID: p.place.HostPID, StartTime: p.place.StartTime}
}

// follow carries the streams until the program has ended, and returns its exit code, negative for a signal; or until ctx ends, and
// then over is false.
func (p *program) follow(ctx context.Context, l *launch) (code int, over bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, l.closeStreams)() // so that no read or write of a stream outlasts it
	fed := make(chan struct{})
	go func() { defer close(fed); p.feed(ctx, l.stdin) }()
	code, err := p.relay(ctx, l.stdout, l.stderr)
	if err != nil && ctx.Err() == nil {
		p.b.Log.Warn("a program of hermes is lost", "session", p.ID(), "error", err)
		code = -sigkill
	}
	over = ctx.Err() == nil
	cancel()
	l.closeStreams() // as the streams of a process end before its exit is known
	<-fed
	return code, over
}

// end ends the program if it has not ended, and all that it has started: the whole sandbox if it was its own, and otherwise its process
// group.
func (p *program) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if p.scratch {
		return p.b.remove(ctx, p.Session)
	}
	return endCommand(ctx, p.Session, p.id)
}
