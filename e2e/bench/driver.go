package main

import (
	"context"
	"errors"
	"io"
)

// driver starts servers of one kind, so that all kinds are measured by the same code.
type driver interface {
	name() string
	start(ctx context.Context, f flavour) (server, error)
}

// errNotInstalled is why a column of the table is empty; it says how to install what is missing.
var errNotInstalled = errors.New("not found on this machine")

// flavour is what is configured otherwise than by default.
type flavour struct {
	noPool   bool   // no kernels are kept ready
	noLimits bool   // the rate of output is not limited
	names    string // HOST:PORT of a name server; sessions may reach this machine's loopback then
	redact   string // regular expression of what the operator has taken out of texts
	files    int    // open files that the server may have; 0: as many as whoever measures
	ordinary bool   // an ordinary user runs the server
	trace    string // directory into which the server writes its steps
	jupyter  bool   // sessions are those of a client of Jupyter
	e2b      bool   // sessions are those of a client of E2B
}

// server is one running server. It is used by one goroutine at a time, its sessions by several.
type server interface {
	// about says what was measured: version, isolation.
	about(ctx context.Context) (string, error)
	create(ctx context.Context) (session, error)
	// settle waits until the server has done what it does in the background to be ready.
	settle(ctx context.Context) error
	// own are the processes that serve, without those that belong to a session.
	own() []process
	// kill is kill -9 of the server; restart starts it again on the same files.
	kill() error
	restart(ctx context.Context) error
	// close ends the server with all that it started.
	close() error
}

// session is one interpreter on a server.
type session interface {
	attach(ctx context.Context, o attachment) (conn, error)
	interrupt(ctx context.Context) error
	reset(ctx context.Context) error
	upload(ctx context.Context, name string, content []byte) error
	download(ctx context.Context, name string) (io.ReadCloser, error)
	delete(ctx context.Context) error
}

// attachment is how a client connects.
type attachment struct {
	late     bool // to a cell that runs already: all of its output is wanted
	quickACK bool // acknowledge each segment at once, where the server waits for that
}

// conn is a WebSocket of a session. A ctx that ends makes it unusable.
type conn interface {
	execute(ctx context.Context, code string) error // does not wait for the end of the cell
	next(ctx context.Context) (output, error)
	close() error
}

// kind says what an output is.
type kind string

const (
	kindText    kind = "text"    // of stdout
	kindResult  kind = "result"  // value of the last expression
	kindImage   kind = "image"   // a PNG
	kindFailure kind = "failure" // an exception
	kindWhole   kind = "whole"   // names where all of a long output is kept
	kindEnd     kind = "end"     // the last one of a cell
)

// output is a part of what a cell shows.
type output struct {
	kind kind
	text string                                           // of text and result; for an end "ok" or why not
	open func(ctx context.Context) (io.ReadCloser, error) // of a whole
}
