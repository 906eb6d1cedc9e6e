package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"talaria/api"
	"talaria/client"
)

// proxy passes connections on to a server until it is told to cut them, or to lose an answer.
type proxy struct {
	net.Listener
	all sync.WaitGroup

	mu     sync.Mutex // guards what follows
	target string
	open   map[net.Conn]bool
	losing bool
}

func newProxy(t *testing.T, s *Server) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: listener, target: strings.TrimPrefix(s.URL, "http://"), open: map[net.Conn]bool{}}
	p.all.Go(p.serve)
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		p.all.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		out, err := net.Dial("tcp", target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.open[in], p.open[out] = true, true
		p.mu.Unlock()
		x := &exchange{proxy: p}
		for from, to := range map[net.Conn]net.Conn{requests{in, x}: out, answers{out, x}: in} {
			p.all.Go(func() {
				_, _ = io.Copy(to, from) // until either side is cut
				in.Close()
				out.Close()
			})
		}
	}
}

// lose drops the answer to the next request, with its connection: the request has arrived, and the client cannot know. Streams that
// are open go on.
func (p *proxy) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing = true
}

// lost reports whether nothing is left to lose.
func (p *proxy) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.losing
}

// exchange is what both sides of a connection know.
type exchange struct {
	proxy *proxy
	asked bool // the last request came when the proxy was to lose an answer; guarded by its mu
}

// requests is the client's side of a connection.
type requests struct {
	net.Conn
	*exchange
}

func (r requests) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.proxy.mu.Lock()
	defer r.proxy.mu.Unlock()
	if n > 0 {
		r.asked = r.proxy.losing
	}
	return n, err
}

// answers is the server's side of a connection.
type answers struct {
	net.Conn
	*exchange
}

func (a answers) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	a.proxy.mu.Lock()
	defer a.proxy.mu.Unlock()
	if n > 0 && a.proxy.losing && a.asked {
		a.proxy.losing = false
		return 0, errors.New("the answer is lost")
	}
	return n, err
}

// redirect passes further connections on to the address that a server has now.
func (p *proxy) redirect(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = strings.TrimPrefix(s.URL, "http://")
}

// cut drops all connections without a word.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	clear(p.open)
}

func TestTheClientTakesUpWhatWasCut(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "pass")
	through := newProxy(t, s)
	c := client.New("http://"+through.Addr().String(), s.Token)
	ctx := within(t)
	const cuts = 10
	var mu sync.Mutex // guards counted, and makes cuts one after another
	counted := 0
	begun := map[string]bool{}
	cutEvery := func(n int, reader string) { // events of both readers, once both are connected
		mu.Lock()
		defer mu.Unlock()
		if begun[reader] = true; len(begun) < 2 {
			return
		}
		if counted++; counted%n != 0 || counted > cuts*n {
			return
		}
		through.cut()
		if counted == cuts*n {
			enough(t, s.Client(), id)
		}
	}
	socket, err := c.Attach(ctx, id, client.AttachOptions{After: new(int64(0)), Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cell, err := socket.Execute(ctx, api.ExecutionRequest{Code: new(slowLines)})
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]func(context.Context) (api.Event, error){"socket": socket.Next}
	events := make(chan api.Event)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(events)
		for e, err := range c.Events(ctx, id, client.EventsQuery{}) {
			if err != nil {
				t.Errorf("events: %v", err)
				return
			}
			events <- e
			if finished(cell)(e) {
				return
			}
		}
	})
	read["events"] = func(context.Context) (api.Event, error) {
		e, ok := <-events
		if !ok {
			return e, io.ErrUnexpectedEOF
		}
		return e, nil
	}
	for name, next := range read {
		all.Go(func() {
			var list []api.Event
			for len(list) == 0 || !finished(cell)(list[len(list)-1]) {
				e, err := next(ctx)
				if err != nil {
					t.Errorf("%s: after %d events: %v", name, len(list), err)
					return
				}
				if e.Seq != int64(len(list))+1 {
					t.Errorf("%s: seq %d is number %d", name, e.Seq, len(list)+1)
					return
				}
				list = append(list, e)
				cutEvery(8, name)
			}
			wantSlowLines(t, name, stdout(list, cell))
		})
	}
	all.Wait()
}

// TestADownloadContinuesWhereItWasCut also changes the file meanwhile.
func TestADownloadContinuesWhereItWasCut(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	id := session(t, s.Client(), api.SessionRequest{})
	through := newProxy(t, s)
	c := client.New("http://"+through.Addr().String(), s.Token)
	content := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	for _, change := range []bool{false, true} {
		if _, _, err := c.PutFile(within(t), id, "big", bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		d, err := c.GetFile(within(t), id, "big")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		head := make([]byte, 1000)
		if _, err := io.ReadFull(d, head); err != nil {
			t.Fatal(err)
		}
		if change {
			if _, _, err := s.Client().PutFile(within(t), id, "big", strings.NewReader("other")); err != nil {
				t.Fatal(err)
			}
		}
		through.cut()
		rest, err := io.ReadAll(d)
		if change {
			if !errors.Is(err, client.ErrFileChanged) {
				t.Errorf("a file that was changed: %v", err)
			}
		} else if err != nil || !bytes.Equal(append(head, rest...), content) {
			t.Errorf("%d bytes of %d: %v", len(head)+len(rest), len(content), err)
		}
	}
}
