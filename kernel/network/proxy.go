package network

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"
)

const (
	// greetTime is how long a program may take to name its target.
	greetTime = 10 * time.Second
	// acceptPause is how long the proxies wait if a connection cannot be had.
	acceptPause = 10 * time.Millisecond
	// maxHead bounds the head of a request, which is kept in memory.
	maxHead = 64 << 10
)

// AttachProxies makes two listening sockets answer as an HTTP proxy (CONNECT, and plain requests) and as a SOCKS5
// proxy. It owns the files from now on.
func (n *Network) AttachProxies(httpFile, socksFile *os.File) error {
	for _, p := range []struct {
		file  *os.File
		serve func(net.Conn) error
	}{{httpFile, n.serveHTTP}, {socksFile, n.serveSOCKS}} {
		listener, err := net.FileListener(p.file)
		_ = p.file.Close() // the listener has a copy of its own
		if err != nil {
			return fmt.Errorf("proxy: %w", err)
		}
		if err := n.attach(func() { _ = listener.Close() }); err != nil {
			return errors.Join(err, listener.Close())
		}
		n.work.Go(func() { n.acceptAll(listener, p.serve) })
	}
	return nil
}

func (n *Network) acceptAll(listener net.Listener, serve func(net.Conn) error) {
	room := make(chan struct{}, 2*n.cfg.MaxConnections) // including connections that are still in their greeting
	for {
		conn, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || n.ctx.Err() != nil {
				return
			}
			// The pending connection is gone, or there are no descriptors: the next one may succeed.
			pause, cancel := context.WithTimeout(n.ctx, acceptPause)
			<-pause.Done()
			cancel()
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		n.work.Go(func() {
			defer func() { <-room }()
			defer conn.Close()
			stop := context.AfterFunc(n.ctx, func() { _ = conn.Close() })
			defer stop()
			if err := serve(conn); err != nil {
				n.cfg.Log.Debug("proxy", "error", err)
			}
		})
	}
}

// bufferedHalf is a connection from which a reader may already have read some bytes.
type bufferedHalf struct {
	*net.TCPConn
	reader *bufio.Reader
}

func (b bufferedHalf) Read(p []byte) (int, error) { return b.reader.Read(p) }

// hostTarget returns the target that a program means by a host.
func hostTarget(host string, port uint16) (target, bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return target{addr: addr.Unmap(), port: port}, addr.Zone() == ""
	}
	name := canonicalName(host)
	return target{name: name, port: port}, name != ""
}

func (n *Network) serveHTTP(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	refuse := func(status int, why string) error {
		_, err := fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
			status, http.StatusText(status), len(why)+1, why)
		return err
	}
	limited := &io.LimitedReader{R: conn, N: maxHead}
	reader := bufio.NewReader(limited)
	request, err := http.ReadRequest(reader)
	if err != nil && limited.N == 0 {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the head of the request is longer than %d bytes", maxHead))
	}
	if err != nil {
		return err
	}
	limited.N = math.MaxInt64 // the rest is passed on
	host, port, plain := request.URL.Hostname(), request.URL.Port(), request.Method != http.MethodConnect
	if port == "" && plain {
		port = "80"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	to, ok := hostTarget(host, uint16(number))
	if err != nil || !ok || plain && request.URL.Scheme != "http" {
		return refuse(http.StatusBadRequest, "this proxy accepts CONNECT host:port and http:// addresses")
	}
	if err := conn.SetDeadline(time.Time{}); err != nil { // the server may take longer to answer
		return err
	}
	c, err := n.admit(n.ctx, to)
	if why := refusal(""); errors.As(err, &why) {
		return refuse(http.StatusForbidden, to.String()+" refused: "+string(why))
	}
	if err != nil {
		return refuse(http.StatusBadGateway, to.String()+" cannot be reached")
	}
	if plain {
		return n.forward(c, conn, request)
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		c.drop()
		return err
	}
	c.splice(bufferedHalf{conn.(*net.TCPConn), reader})
	return nil
}

// forward sends one plain request on and brings back the response. The connection ends with it, so that no second
// request goes where the first one went.
func (n *Network) forward(c *connection, conn net.Conn, request *http.Request) error {
	for _, name := range []string{"Proxy-Connection", "Proxy-Authorization", "Connection", "Keep-Alive"} {
		request.Header.Del(name)
	}
	request.Close = true
	reader, writer := io.Pipe()
	n.work.Go(func() { _ = writer.CloseWithError(request.Write(writer)) })
	defer reader.Close()
	c.splice(&requestHalf{conn.(*net.TCPConn), reader})
	return nil
}

// requestHalf is the inner side of a connection that sends one request.
type requestHalf struct {
	*net.TCPConn
	request *io.PipeReader
}

// Read returns the request and then waits for the program to close: an earlier end would look to a server like the
// program's own.
func (h *requestHalf) Read(p []byte) (int, error) {
	n, err := h.request.Read(p)
	if errors.Is(err, io.EOF) {
		if _, err := io.Copy(io.Discard, h.TCPConn); err != nil {
			return n, err
		}
	}
	return n, err
}

func (h *requestHalf) Close() error { return errors.Join(h.request.Close(), h.TCPConn.Close()) }

// Codes of SOCKS5. Source: RFC 1928.
const (
	socksVersion   = 5
	socksNoAuth    = 0
	socksConnect   = 1
	socksIPv4      = 1
	socksName      = 3
	socksIPv6      = 4
	socksOK        = 0
	socksForbidden = 2
	socksRefused   = 5
	socksNoCommand = 7
	socksNoAddress = 8
)

func (n *Network) serveSOCKS(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	reader := bufio.NewReader(conn)
	methods, err := socksGreeting(reader)
	if err != nil {
		return err
	}
	if !methods[socksNoAuth] {
		_, err := conn.Write([]byte{socksVersion, 0xff})
		return err
	}
	if _, err := conn.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		return err
	}
	answer := func(code byte) error {
		_, err := conn.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
		return err
	}
	to, code, err := socksRequest(reader)
	if err != nil {
		return err
	}
	if code != socksOK {
		return answer(code)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil { // the server may take longer to answer
		return err
	}
	c, err := n.admit(n.ctx, to)
	if errors.As(err, new(refusal)) {
		return answer(socksForbidden)
	}
	if err != nil {
		return answer(socksRefused)
	}
	if err := answer(socksOK); err != nil {
		c.drop()
		return err
	}
	c.splice(bufferedHalf{conn.(*net.TCPConn), reader})
	return nil
}

func socksGreeting(r *bufio.Reader) (methods map[byte]bool, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	if head[0] != socksVersion {
		return nil, errors.New("not SOCKS5")
	}
	list := make([]byte, head[1])
	if _, err := io.ReadFull(r, list); err != nil {
		return nil, err
	}
	methods = map[byte]bool{}
	for _, m := range list {
		methods[m] = true
	}
	return methods, nil
}

func socksRequest(r *bufio.Reader) (to target, code byte, err error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return target{}, 0, err
	}
	if head[0] != socksVersion {
		return target{}, 0, errors.New("not SOCKS5")
	}
	length := 0
	switch head[3] {
	case socksIPv4:
		length = 4
	case socksIPv6:
		length = 16
	case socksName:
		n, err := r.ReadByte()
		if err != nil {
			return target{}, 0, err
		}
		length = int(n)
	default:
		return target{}, socksNoAddress, nil
	}
	rest := make([]byte, length+2)
	if _, err := io.ReadFull(r, rest); err != nil {
		return target{}, 0, err
	}
	host, port := string(rest[:length]), binary.BigEndian.Uint16(rest[length:])
	if head[3] != socksName {
		addr, _ := netip.AddrFromSlice(rest[:length])
		host = addr.String()
	}
	to, ok := hostTarget(host, port)
	switch {
	case head[1] != socksConnect:
		return target{}, socksNoCommand, nil
	case !ok:
		return target{}, socksNoAddress, nil
	}
	return to, socksOK, nil
}
