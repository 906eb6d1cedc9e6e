package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// The values of cookie_secure. A proxy that does TLS talks plain HTTP to the server, which cannot tell.
const (
	cookieAuto   = "auto" // where the server itself does TLS
	cookieAlways = "always"
)

// maxWaiting is how many connections may wait that nobody needs.
const maxWaiting = 1000

// unsentBytes is how much of an answer the operating system takes in before it is on its way. Without it a slow client
// would look for a minute as if it took nothing, while it empties a buffer of megabytes.
const unsentBytes = 256 << 10

const tcpNotsentLowat = 25 // TCP_NOTSENT_LOWAT of tcp(7), which package syscall lacks

// listen listens for clients. What they connect inherits the options of the listener.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	options := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var failed error
		err := socket.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, unsentBytes)
		})
		return errors.Join(err, failed)
	}}
	return options.Listen(ctx, "tcp", addr)
}

// connections are how many connections may wait without an authenticated request, and how many requests one owner may
// have under way: few enough that the process keeps descriptors for everything else.
func (c config) connections() (waiting, requests int, err error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	most := int(min(files.Cur, 1<<20))
	return max(min(most/8, maxWaiting), 1), max(min(c.OwnerRequests, most/4), 1), nil
}
