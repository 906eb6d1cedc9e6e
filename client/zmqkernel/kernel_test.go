package zmqkernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/gorilla/websocket"

	"talaria/api/kernelwire"
)

const patience = 30 * time.Second

// What a server that was killed has sent may be sent again by the next one: clients get it once.
func TestMessagesThatComeTwiceAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	numbered := func(log string, seq int64, index int) string {
		return kernelwire.MessageID(log, kernelwire.Position{Seq: seq, Index: index})
	}
	connections := [][]string{
		{numbered("a", 1, 0), numbered("a", 2, 0), numbered("a", 2, 1), "other"},
		{numbered("a", 2, 0), numbered("a", 2, 1), numbered("a", 2, 2), "other", numbered("a", 3, 0)},
		{numbered("b", 1, 0), numbered("b", 2, 0), "the end"}, // the log began anew
	}
	want := []string{
		numbered("a", 1, 0), numbered("a", 2, 0), numbered("a", 2, 1), "other",
		numbered("a", 2, 2), "other", numbered("a", 3, 0),
		numbered("b", 1, 0), numbered("b", 2, 0), "the end",
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	subscribed := make(chan struct{})
	var made atomic.Int64
	upgrader := websocket.Upgrader{Subprotocols: []string{kernelwire.Subprotocol}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		send := func(id string) {
			head := fmt.Appendf(nil, `{"msg_id":%q,"msg_type":"stream"}`, id)
			_ = conn.WriteMessage(websocket.BinaryMessage, kernelwire.Join([][]byte{[]byte(iopub), head, []byte(`{"msg_id":"cell"}`), []byte("{}"), []byte("{}")}))
		}
		for waiting := true; waiting; {
			select {
			case <-subscribed:
				waiting = false
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond): // a publisher does not say when somebody listens
				send("probe")
			}
		}
		n := int(made.Add(1))
		if n > len(connections) {
			_, _, _ = conn.ReadMessage()
			return
		}
		for _, id := range connections[n-1] {
			send(id)
		}
	}))
	defer server.Close()

	c := Connection{Transport: "tcp", IP: "127.0.0.1"}
	for _, port := range []*int{&c.Shell, &c.Control, &c.Stdin, &c.IOPub, &c.Heartbeat} {
		*port = freePort(t)
	}
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() {
		ended <- Run(running, Config{Connection: c, Session: "s", Find: func() (Server, error) { return Server{URL: server.URL}, nil }, Log: slog.New(slog.DiscardHandler)})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	sub := zmq4.NewSub(ctx, zmq4.WithDialerMaxRetries(-1))
	defer sub.Close()
	if err := sub.Dial(c.endpoint(c.IOPub)); err != nil {
		t.Fatal(err)
	}
	if err := sub.SetOption(zmq4.OptionSubscribe, ""); err != nil {
		t.Fatal(err)
	}
	var got []string
	joined := false
	for !slices.Contains(got, "the end") {
		message, err := sub.Recv()
		if err != nil {
			t.Fatalf("%v, after %q", err, got)
		}
		_, parts, err := key(nil).open(message.Frames)
		if err != nil {
			t.Fatal(err)
		}
		var h struct {
			ID string `json:"msg_id"`
		}
		if err := json.Unmarshal(parts[partHeader], &h); err != nil {
			t.Fatal(err)
		}
		switch {
		case h.ID != "probe":
			got = append(got, h.ID)
		case !joined:
			joined = true
			close(subscribed)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the client gets\n%q, want\n%q", got, want)
	}
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAServerWithTooManyRequestsIsNotGone(t *testing.T) {
	for status, want := range map[int]bool{http.StatusTooManyRequests: false, http.StatusNotFound: true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer server.Close()
		k := &kernel{cfg: Config{Session: "s", Find: func() (Server, error) { return Server{URL: server.URL}, nil }}}
		_, err := k.dial(t.Context())
		if gone := new(goneError); err == nil || errors.As(err, &gone) != want {
			t.Errorf("%d: %v; want the end of the kernel: %v", status, err, want)
		}
	}
}
