// Package hermes serves hermes-agent as its local execution broker: a Unix socket that takes requests to launch programs, with
// descriptors for their standard streams, and runs them in sandboxes. It translates between that protocol and package session:
// each Python kernel of the agent is a program in a session of its own, and its shell commands are programs in a session that they
// share. It keeps only the connections, which are leases: a program ends when the connection of its client does.
//
// The protocol is the one of hermes-agent's tools/local_exec_broker.py, with the requests that its code_kernel.py and its local
// terminal send.
package hermes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/session"
)

// maxLeases bounds the connections at a time. A hostile client can have each keep some threads and megabytes.
const maxLeases = 128

// replyTime bounds how long a client may take to accept a reply.
const replyTime = 10 * time.Second

// Config is what a Broker needs. Socket, Owner and Log are required.
type Config struct {
	Socket string // the path of the socket, absolute, in a folder that the server's user alone may write
	Owner  string // of the sessions
	UIDs   []int  // the users that may connect; none: the server's
	// Folder is a folder of the machine that all sessions see at the same path, to write; "": none.
	Folder string
	Log    *slog.Logger
}

// Broker serves one socket. It is safe for concurrent use.
type Broker struct {
	Config
	sessions *session.Manager // set by Serve
	listener *net.UnixListener
	identity os.FileInfo // of the socket, so that another server's is not removed
	closed   sync.Once
	places   chan struct{} // holds a value for each connection
	leases   sync.WaitGroup
}

// Listen opens the socket, on which nobody is served before Serve. The caller closes the broker.
func Listen(cfg Config) (*Broker, error) {
	if err := Check(cfg.Socket, cfg.Owner, cfg.UIDs); err != nil {
		return nil, err
	}
	if len(cfg.UIDs) == 0 {
		cfg.UIDs = []int{os.Geteuid()}
	}
	b := &Broker{Config: cfg, places: make(chan struct{}, maxLeases)}
	var err error
	if b.listener, b.identity, err = publish(cfg.Socket, socketMode(cfg.UIDs)); err != nil {
		return nil, err
	}
	return b, nil
}

// Check reports what is wrong with these fields of a Config, in words for the operator.
func Check(socket, owner string, uids []int) error {
	switch {
	case !filepath.IsAbs(socket) || path.Clean(socket) != socket:
		return fmt.Errorf("the socket %q must be an absolute path without the elements . and .. in it", socket)
	case len(socket) > maxSocketPath:
		return fmt.Errorf("the path of the socket has %d bytes; the limit is %d", len(socket), maxSocketPath)
	case !api.ValidID(owner):
		return fmt.Errorf("the owner %q must match [A-Za-z0-9][A-Za-z0-9._:-]{0,127}", owner)
	case slices.ContainsFunc(uids, func(uid int) bool { return uid < 0 }):
		return errors.New("a uid must not be negative")
	}
	return nil
}

// Close closes the socket. It may be called more than once, and nil has none.
func (b *Broker) Close() {
	if b != nil {
		b.unpublish()
	}
}

// Serve runs what clients launch in sessions until ctx ends, ends what then runs, and closes the socket.
func (b *Broker) Serve(ctx context.Context, sessions *session.Manager) error {
	b.sessions = sessions
	ctx, cancel := context.WithCancel(ctx)
	defer b.leases.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, b.unpublish)()
	defer b.unpublish()
	b.endLeftovers(ctx)
	for {
		conn, err := b.listener.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // such as too many open files
			b.Log.Warn("accept a client of hermes", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		b.admit(ctx, conn)
	}
}

// acceptPause is the time between attempts to accept a connection.
const acceptPause = 100 * time.Millisecond

// admit serves a connection, or refuses it if there are too many.
func (b *Broker) admit(ctx context.Context, conn *net.UnixConn) {
	select {
	case b.places <- struct{}{}:
	default:
		reply(conn, refused("too_many_leases", "%d programs and requests are open, which is the limit; end some of them", maxLeases))
		conn.Close()
		return
	}
	b.leases.Go(func() {
		defer func() { <-b.places }()
		defer conn.Close()
		b.serve(ctx, conn)
	})
}

// refusal is why a request is not carried out, in the words of the protocol.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.code + ": " + r.message }

func refused(code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// The codes of refusals that the agent's own broker has too.
const (
	codeBadRequest = "bad_request"
	codeTooLarge   = "request_too_large"
	codeTooMany    = "too_many_fds"
	codeTruncated  = "truncated_ancillary"
	codeIncomplete = "incomplete_request"
	codeTimeout    = "handshake_timeout"
	codeNoRunner   = "runner_fd_missing"
	codeNotRegular = "runner_not_regular"
	codeUnreadable = "runner_not_readable"
	codeStranger   = "peer_uid_not_allowed"
	codeFailed     = "launch_failed"
)

// refusal turns any error into one that a client may see.
func (b *Broker) refusal(err error) *refusal {
	if known := new(refusal); errors.As(err, &known) {
		return known
	}
	if known := new(api.Error); errors.As(err, &known) {
		code := codeFailed
		switch known.Code {
		case api.CodeInvalidRequest:
			code = codeBadRequest
		case api.CodePayloadTooLarge:
			code = codeTooLarge
		}
		return refused(code, "%s", known.Detail)
	}
	b.Log.Error("launch a program of hermes", "error", err)
	return refused(codeFailed, "the server failed to do this; its log has the details")
}

// The replies of the protocol, each a line of JSON.
type (
	launched struct {
		OK        bool   `json:"ok"`
		PID       int    `json:"pid"`
		StartTime uint64 `json:"start_time"`
		Detached  bool   `json:"detached,omitzero"`
	}
	refusedReply struct {
		OK      bool   `json:"ok"`
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	exited struct {
		Exit int `json:"exit"`
	}
)

// reply sends a line. A client that does not take it has left, and is noticed as that.
func reply(conn net.Conn, message any) {
	if r, ok := message.(*refusal); ok {
		message = refusedReply{Error: r.code, Message: r.message}
	}
	line, err := api.Marshal(message)
	if err != nil {
		return // these types are always valid
	}
	_ = conn.SetWriteDeadline(time.Now().Add(replyTime))
	_, _ = conn.Write(append(line, '\n'))
}
