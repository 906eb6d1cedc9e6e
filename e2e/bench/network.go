package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"talaria/api"
	"talaria/e2e/nameserver"
)

// worldName is what sessions call the server that they fetch from.
const worldName = "bench.test"

// bigFetch is how much is fetched at once to see how fast that goes.
const bigFetch = 400_000_000

// fetching defines what the cells of the row call. A fetch looks the name up, connects, asks and reads to the end.
const fetching = `import socket, time
buffer = bytearray(1 << 20)
def fetch(size):
    begin = time.perf_counter()
    with socket.create_connection((%q, %s)) as s:
        s.sendall(b"%%d\n" %% size)
        got = 0
        while n := s.recv_into(buffer):
            got += n
    if got != size: raise EOFError(got)
    return time.perf_counter() - begin`

// throughNetwork measures what a session's network costs: a connection that fetches one byte, and one that fetches much.
func throughNetwork(ctx context.Context, t *trial) error {
	w, err := openWorld()
	if err != nil {
		return err
	}
	defer w.close()
	served, err := t.renew(ctx, flavour{names: w.names.LocalAddr().String()})
	if err != nil {
		return err
	}
	s := served.(*talariaServer)
	_, port, err := net.SplitHostPort(w.listener.Addr().String())
	if err != nil {
		return err
	}
	made, err := s.client.CreateSession(ctx, api.SessionRequest{
		Network: &api.Network{Mode: api.NetworkAllow, Allow: []string{worldName + ":" + port, "127.0.0.0/8"}},
	})
	if err != nil {
		return fmt.Errorf("create a session with a network: %w", err)
	}
	ses := &talariaSession{s, made.ID}
	defer func() { err = errors.Join(err, ses.delete(ctx)) }()
	return attached(ctx, ses, func(c conn) error {
		if err := cell(ctx, c, fmt.Sprintf(fetching, worldName, port), ignore); err != nil {
			return err
		}
		took := func(size int) (float64, error) {
			text, err := value(ctx, c, fmt.Sprintf("fetch(%d)", size))
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(text, 64)
		}
		return t.repeat(ctx, func(context.Context) ([]float64, error) {
			one, err := took(1)
			if err != nil {
				return nil, err
			}
			many, err := took(bigFetch)
			return []float64{one * 1000, bigFetch / 1e6 / many}, err
		})
	})
}

// world is what the session finds outside, on this machine's loopback: a name server for one name, and a server that
// writes as many bytes as it is asked for.
type world struct {
	listener net.Listener
	names    net.PacketConn
	running  sync.WaitGroup
}

func openWorld() (*world, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	names, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	w := &world{listener: listener, names: names}
	w.running.Go(w.serve)
	w.running.Go(func() { nameserver.Serve(names, map[string]string{worldName: "127.0.0.1"}) })
	return w, nil
}

func (w *world) close() {
	_ = w.listener.Close()
	_ = w.names.Close()
	w.running.Wait()
}

func (w *world) serve() {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(sampleTime))
			line, err := bufio.NewReader(conn).ReadString('\n')
			size, bad := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err == nil && bad == nil {
				_, _ = io.CopyBuffer(conn, io.LimitReader(zeros{}, size), make([]byte, 256<<10)) // the client counts
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
