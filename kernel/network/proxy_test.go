package network

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
	socks "golang.org/x/net/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nameServer answers for a few names, on a socket of its own.
func nameServer(t *testing.T, hosts func(name string) string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		buffer := make([]byte, 1500)
		for {
			got, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:got]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			if addr, err := netip.ParseAddr(hosts(strings.TrimSuffix(q.Name.String(), "."))); err == nil {
				head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
				if addr.Is4() && q.Type == dnsmessage.TypeA {
					m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}}}
				}
				if addr.Is6() && q.Type == dnsmessage.TypeAAAA {
					m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
				}
			} else {
				m.RCode = dnsmessage.RCodeNameError
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); all.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// fixed resolves each name to one address.
func fixed(hosts map[string]string) func(string) string {
	return func(name string) string { return hosts[name] }
}

// listening returns a listening socket on loopback, as a file.
func listening(t *testing.T) (address string, f *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if f, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String(), f
}

// proxied is a network that is reached through its proxies.
type proxied struct {
	*Network
	http, socks string
	mu          sync.Mutex
	denied      []string
}

func proxy(t *testing.T, cfg Config) *proxied {
	t.Helper()
	p := &proxied{}
	cfg.Denied = func(d Denial) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.denied = append(p.denied, d.String())
	}
	p.Network = New(cfg)
	t.Cleanup(p.Close)
	httpAddress, httpFile := listening(t)
	socksAddress, socksFile := listening(t)
	if err := p.AttachProxies(httpFile, socksFile); err != nil {
		t.Fatal(err)
	}
	p.http, p.socks = httpAddress, socksAddress
	return p
}

func (p *proxied) saw(t *testing.T, want string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(strings.Join(p.denied, "\n"), want) {
		t.Errorf("denied are %q, without %q", p.denied, want)
	}
}

// through connects through the SOCKS proxy.
func (p *proxied) through(t *testing.T, to string) (net.Conn, error) {
	t.Helper()
	d, err := socks.SOCKS5("tcp", p.socks, nil, socks.Direct)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial("tcp", to)
	if err == nil {
		t.Cleanup(func() { conn.Close() })
		err = conn.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return conn, err
}

// client returns a web client that uses the HTTP proxy for both kinds of addresses.
func (p *proxied) client(t *testing.T, server *httptest.Server) *http.Client {
	t.Helper()
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.http})}
	if inner, ok := server.Client().Transport.(*http.Transport); ok && inner.TLSClientConfig != nil {
		transport.TLSClientConfig = inner.TLSClientConfig.Clone()
		transport.TLSClientConfig.ServerName = "example.com" // the name of its certificate
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// echo runs a server that sends back what it receives, until the connection ends.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

func TestWebServersAreReachedByPermittedNames(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://evil.test/", http.StatusFound)
			return
		}
		fmt.Fprint(w, "hello ", r.Host)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	port, securePort := portOf(t, plain.Listener.Addr().String()), portOf(t, secure.Listener.Addr().String())
	p := proxy(t, Config{
		Policy:   policy(t, Allow, "web.test", "127.0.0.1"),
		Resolver: nameServer(t, fixed(map[string]string{"web.test": "127.0.0.1", "evil.test": "127.0.0.1"})),
	})
	get := func(server *httptest.Server, address string) (string, error) {
		resp, err := p.client(t, server).Get(address)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body)), err
	}
	if got, err := get(plain, "http://web.test:"+port+"/"); err != nil || got != "200 hello web.test:"+port {
		t.Errorf("plain: %q %v", got, err)
	}
	if got, err := get(secure, "https://web.test:"+securePort+"/"); err != nil || got != "200 hello web.test:"+securePort {
		t.Errorf("TLS: %q %v", got, err)
	}
	if got, err := get(plain, "http://web.test:"+port+"/away"); err != nil || !strings.HasPrefix(got, "403 ") {
		t.Errorf("a redirect away: %q %v", got, err)
	}
	p.saw(t, "connection to evil.test:80 refused: not in this session's network.allow")
	if _, err := get(secure, "https://evil.test:"+securePort+"/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("CONNECT to what is not listed: %v", err)
	}
}

func TestWhereANameLeadsIsCheckedWhenItIsDialled(t *testing.T) {
	server := echo(t)
	p := proxy(t, Config{Policy: policy(t, Full), Resolver: nameServer(t, func(string) string { return "127.0.0.1" })})
	if _, err := p.through(t, "rebind.test:"+portOf(t, server)); err == nil {
		t.Error("a public name led to loopback")
	}
	p.saw(t, "it resolves to 127.0.0.1, which is not part of the public network; list the address too")
}

func TestThePortsOfTheHostAreReachedOnlyWhereTheyAreListed(t *testing.T) {
	server := echo(t)
	port := portOf(t, server)
	entry := HostName + ":" + port
	resolver := nameServer(t, func(string) string { return "127.0.0.1" }) // it is never asked for this name
	for _, c := range []struct {
		mode    Mode
		allow   []string
		reached bool
	}{
		{Allow, []string{entry}, true},
		{Full, []string{entry}, true},
		{Allow, []string{"host:1", "*.example.org"}, false},
		{Full, nil, false},
		{Full, []string{"host:1"}, false},
	} {
		p := proxy(t, Config{Policy: policy(t, c.mode, c.allow...), Resolver: resolver})
		conn, err := p.through(t, entry)
		if (err == nil) != c.reached {
			t.Errorf("%s %v: %v", c.mode, c.allow, err)
		}
		if err != nil {
			p.saw(t, "connection to "+entry+" refused: not in this session's network.allow")
			continue
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Errorf("%s %v: %v", c.mode, c.allow, err)
		}
		if _, err := p.through(t, server); err == nil { // the permission is for the name, not for the address
			t.Errorf("%s %v: the address itself can be reached", c.mode, c.allow)
		}
	}
}

func TestAnOperatorPermitsPortsOfTheHost(t *testing.T) {
	for _, c := range []struct {
		bounds  Bounds
		mode    Mode
		allow   string
		refused string
	}{
		{Bounds{MaxMode: Allow, HostPorts: []int{5432}}, Allow, "host:5432", ""},
		{Bounds{MaxMode: Full, HostPorts: []int{5432}}, Full, "host:5432", ""},
		{Bounds{MaxMode: Full, HostPorts: []int{5432}}, Allow, "host:5433", "network.allow host:5433"},
		{Bounds{MaxMode: Full}, Allow, "host:5432", "network.allow host:5432"},
		{Bounds{MaxMode: None, HostPorts: []int{5432}}, Allow, "host:5432", "network.mode allow"},
	} {
		if got, err := c.bounds.Refuses(c.mode, []string{c.allow}); err != nil || got != c.refused {
			t.Errorf("%+v: %s %s is refused with %q (%v), want %q", c.bounds, c.mode, c.allow, got, err, c.refused)
		}
	}
	for want, bounds := range map[string]Bounds{
		"network.host_ports: 5432":        {Allowed: []string{"host:5432"}},
		"between 1 and 65535":             {HostPorts: []int{0}},
		"network.allowed: \"a b\" is not": {Allowed: []string{"a b"}},
	} {
		if err := bounds.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", bounds, err, want)
		}
	}
}

func TestEachDirectionEndsByItselfAndNothingIsLost(t *testing.T) {
	p := proxy(t, Config{Policy: policy(t, Allow, "127.0.0.1")})
	conn, err := p.through(t, echo(t))
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	var write sync.WaitGroup
	write.Go(func() {
		if _, err := conn.Write(sent); err != nil {
			t.Error(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(conn)
	write.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came back (%v)", len(got), len(sent), err)
	}
	if p.Bytes() != int64(2*len(sent)) {
		t.Errorf("%d bytes are counted", p.Bytes())
	}
}

func TestAChangedPolicyEndsOpenConnections(t *testing.T) {
	p := proxy(t, Config{Policy: policy(t, Allow, "127.0.0.1")})
	server := echo(t)
	conn, err := p.through(t, server)
	if err != nil {
		t.Fatal(err)
	}
	ping := func() error {
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	p.SetPolicy(policy(t, Allow, "127.0.0.0/8")) // permits it as well
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	p.SetPolicy(policy(t, Allow, "example.org"))
	if err := ping(); err == nil {
		t.Error("the connection is still there")
	}
	p.saw(t, "the session's network was changed")
	if _, err := p.through(t, server); err == nil {
		t.Error("a new connection is made")
	}
	p.SetPolicy(Policy{})
	if _, err := p.through(t, server); err == nil {
		t.Error("a new connection is made without a network")
	}
	p.saw(t, "this session has no network")
}

func TestConnectionsAndBytesAreBounded(t *testing.T) {
	server := echo(t)
	p := proxy(t, Config{Policy: policy(t, Allow, "127.0.0.1"), MaxConnections: 3, MaxBytes: 1 << 20})
	var open []net.Conn
	for range 3 {
		conn, err := p.through(t, server)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	if _, err := p.through(t, server); err == nil {
		t.Error("one connection too many")
	}
	p.saw(t, "limit of open connections")
	sent, err := open[0].Write(bytes.Repeat([]byte("x"), 4<<20))
	got, _ := io.Copy(io.Discard, open[0])
	if int64(sent) < 1 || got > 1<<20 {
		t.Errorf("%d bytes came back of %d (%v)", got, sent, err)
	}
	p.saw(t, "limit of bytes sent and received")
	open[1].Close()
	if _, err := p.through(t, server); err == nil {
		t.Error("a connection after the last byte")
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	server := echo(t)
	p := proxy(t, Config{Policy: policy(t, Allow, "127.0.0.1")})
	errs := make(chan error, 200)
	for i := range cap(errs) {
		go func() {
			d, err := socks.SOCKS5("tcp", p.socks, nil, socks.Direct)
			if err != nil {
				errs <- err
				return
			}
			conn, err := d.Dial("tcp", server)
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			want := fmt.Sprintf("line %d\n", i)
			if _, err = io.WriteString(conn, want); err == nil {
				var got string
				if got, err = bufio.NewReader(conn).ReadString('\n'); err == nil && got != want {
					err = fmt.Errorf("%q came back as %q", want, got)
				}
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsNoProxyRequestIsRefused(t *testing.T) {
	p := proxy(t, Config{Policy: policy(t, Full)})
	for _, c := range []struct{ address, send string }{
		{p.http, "\x16\x03\x01\x02\x00\x01\x00"}, {p.http, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{p.http, "CONNECT example.org HTTP/1.1\r\nHost: example.org\r\n\r\n"},
		{p.http, "CONNECT exa_mple..org:443 HTTP/1.1\r\n\r\n"}, {p.http, "GET ftp://example.org/ HTTP/1.1\r\nHost: x\r\n\r\n"},
		{p.socks, "\x04\x01\x00\x50\x7f\x00\x00\x01\x00"}, {p.socks, "\x05\x01\x02"}, {p.socks, "\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50"},
		{p.socks, "\x05\x01\x00\x05\x01\x00\x09"}, {p.socks, "GET / HTTP/1.1\r\n\r\n"},
	} {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, c.send)
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		answer, err := io.ReadAll(conn)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() || strings.Contains(string(answer), "200") {
			t.Errorf("%q is answered with %q (%v)", c.send, answer, err)
		}
		conn.Close()
	}
}

// Wherever in a dial the change happens, no connection that the last policy forbids is open after it.
func TestAPolicyThatChangesDuringADialLeavesNothingOpen(t *testing.T) {
	p := proxy(t, Config{Policy: policy(t, Allow, "127.0.0.1")})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { _, _ = io.Copy(io.Discard, conn); conn.Close() })
		}
	})
	var dials sync.WaitGroup
	for range 4 {
		dials.Go(func() {
			for range 50 {
				if conn, err := p.through(t, l.Addr().String()); err == nil {
					defer conn.Close()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { dials.Wait(); close(done) }()
	for changing := true; changing; {
		p.SetPolicy(Policy{})
		p.SetPolicy(policy(t, Allow, "127.0.0.1"))
		select {
		case <-done:
			changing = false
		default:
		}
	}
	p.SetPolicy(Policy{})
	l.Close()
	ended := make(chan struct{})
	go func() { open.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a connection that the policy forbids is still open")
	}
}

func TestARequestWithoutEndIsNotKeptInMemory(t *testing.T) {
	p := proxy(t, Config{Policy: policy(t, Allow, "web.test")})
	for name, begin := range map[string]string{
		"headers": "GET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n",
		"a line":  "GET http://web.test/",
	} {
		conn, err := net.Dial("tcp", p.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, begin); err != nil {
			t.Fatal(err)
		}
		part := bytes.Repeat([]byte("a"), 1<<20)
		if name == "headers" {
			part = bytes.Repeat([]byte("X-A: "+strings.Repeat("a", 1017)+"\r\n"), 1<<10)
		}
		const sent = 64 // far more than the buffers of both sockets
		for taken := range sent {
			if _, err = conn.Write(part); err != nil {
				t.Logf("%s: ended after %d MiB: %v", name, taken, err)
				break
			}
		}
		if err == nil {
			t.Errorf("%s: %d MiB were taken", name, sent)
		}
	}
}

// failing is a listener whose connections cannot be had.
type failing struct {
	net.Listener
	asked atomic.Int64
}

func (f *failing) Accept() (net.Conn, error) {
	f.asked.Add(1)
	return nil, syscall.EMFILE
}

func TestAHostWithoutDescriptorsDoesNotAskForConnectionsAllTheTime(t *testing.T) {
	n := New(Config{})
	defer n.Close()
	f := &failing{}
	n.work.Go(func() { n.acceptAll(f, n.serveHTTP) })
	time.Sleep(200 * time.Millisecond)
	if asked := f.asked.Load(); asked == 0 || asked > 100 {
		t.Errorf("it asked %d times in 200 ms", asked)
	}
}

// overdue is a connection that notes what is written while it has a deadline.
type overdue struct {
	net.Conn
	deadline time.Time
	written  []string
}

func (o *overdue) SetDeadline(at time.Time) error {
	o.deadline = at
	return o.Conn.SetDeadline(at)
}

func (o *overdue) Write(b []byte) (int, error) {
	if !o.deadline.IsZero() {
		o.written = append(o.written, string(b))
	}
	return o.Conn.Write(b)
}

func TestAProgramIsAnsweredHoweverLongTheServerTook(t *testing.T) {
	n := New(Config{Policy: policy(t, Allow, "gone.test"), Resolver: nameServer(t, fixed(nil))})
	defer n.Close()
	for _, c := range []struct {
		serve func(net.Conn) error
		asked string
		early int // answers for which there is a deadline
	}{
		{n.serveHTTP, "CONNECT gone.test:80 HTTP/1.1\r\nHost: gone.test:80\r\n\r\n", 0},
		{n.serveSOCKS, "\x05\x01\x00\x05\x01\x00\x03\x09gone.test\x00\x50", 1},
	} {
		program, inside := net.Pipe()
		answered := make(chan []byte)
		go func() {
			_, _ = io.WriteString(program, c.asked)
		}()
		go func() {
			all, _ := io.ReadAll(program)
			answered <- all
		}()
		o := &overdue{Conn: inside}
		if err := c.serve(o); err != nil {
			t.Error(err)
		}
		inside.Close()
		if answer := <-answered; len(answer) < 12 || len(o.written) != c.early {
			t.Errorf("%.7q is answered with %q, of which %q had a deadline from before the server was dialled", c.asked, answer, o.written)
		}
	}
}

func TestTheProxySaysWhyItRefuses(t *testing.T) {
	server := echo(t)
	port := portOf(t, server)
	p := proxy(t, Config{
		Policy: policy(t, Allow, "inside.test", "127.0.0.1"), MaxConnections: 1,
		Resolver: nameServer(t, fixed(map[string]string{"inside.test": "127.0.0.2"})),
	})
	refused := func(to string) string {
		conn, err := net.Dial("tcp", p.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	if got := refused("inside.test:" + port); !strings.Contains(got, "it resolves to 127.0.0.2") {
		t.Errorf("a private address: %q", got)
	}
	if _, err := p.through(t, server); err != nil {
		t.Fatal(err)
	}
	if got := refused(server); !strings.Contains(got, "its limit of open connections") {
		t.Errorf("one connection too many: %q", got)
	}
}
