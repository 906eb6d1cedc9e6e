package main

import (
	"context"
	"net"

	"golang.org/x/sys/unix"
)

// quickACK is a connection that acknowledges what comes at once. The system forgets that wish, so it is renewed with
// each read.
type quickACK struct{ *net.TCPConn }

func dialQuickACK(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return quickACK{c.(*net.TCPConn)}, nil
}

func (c quickACK) Read(b []byte) (int, error) {
	if err := c.wish(); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(b)
	if err != nil {
		return n, err
	}
	return n, c.wish()
}

func (c quickACK) wish() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
	if err != nil {
		return err
	}
	return failed
}
