package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lowFiles    = 500 // open files that the server may have
	mutePosts   = 520 // requests whose bodies never come
	slowReaders = 4   // clients that do not read
)

// muteBodies are requests without a token that announce a body and send nothing of it.
var muteBodies = abuse{
	id: "mute-bodies", what: fmt.Sprintf("%d requests whose bodies never arrive, to a server that may open %d files", mutePosts, lowFiles),
	flavour: flavour{files: lowFiles},
	pass: func(ctx context.Context, o *owner) error {
		o.held = slices.DeleteFunc(o.held, func(c net.Conn) bool { return answered(c) && c.Close() == nil })
		for i := len(o.held); i < mutePosts && ctx.Err() == nil; i++ {
			length := "Content-Length: 1000"
			if i%2 == 1 {
				length = "Transfer-Encoding: chunked"
			}
			o.hold(ctx, "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
				length+"\r\n\r\n")
		}
		rest(ctx, time.Second)
		return nil
	},
}

// unreadAnswers are large answers to a visitor who does not read them.
var unreadAnswers = abuse{
	id: "unread-answers", what: fmt.Sprintf("%d answers of 98 MB to a visitor who does not read them", slowReaders),
	pass: func(ctx context.Context, o *owner) error {
		id, err := printed(ctx, o)
		if err != nil {
			return err
		}
		if o.round == 0 {
			token, err := o.share(ctx, id)
			if err != nil {
				return err
			}
			for range slowReaders {
				o.hold(ctx, "GET /v1/sessions/"+id+"/executions?limit=100 HTTP/1.1\r\nHost: localhost\r\n"+
					"Authorization: Bearer "+token+"\r\n\r\n")
			}
		}
		rest(ctx, 5*time.Second)
		return nil
	},
}

// hold sends a request on a connection of its own, which receives little ahead of its reader and stays open. A server
// that takes no more connections is not an error.
func (o *owner) hold(ctx context.Context, request string) {
	dialer := net.Dialer{Timeout: time.Second, Control: smallBuffer}
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(o.server.url, "http://"))
	if err != nil {
		return
	}
	o.held = append(o.held, conn)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte(request))
}

func smallBuffer(_, _ string, c syscall.RawConn) (err error) {
	outer := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	return errors.Join(outer, err)
}

// answered reports whether the server has sent something on a connection, or closed it.
func answered(c net.Conn) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	var nothing error
	err = raw.Read(func(fd uintptr) bool {
		_, _, nothing = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_DONTWAIT)
		return true
	})
	return err != nil || !errors.Is(nothing, unix.EAGAIN)
}
