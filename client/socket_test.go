package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/client"
)

// peer is the server's end of a socket.
type peer struct {
	*websocket.Conn
	t     *testing.T
	after int64 // of the query; -1 without
	log   string
}

// sockets answers attachments to session s with what talk does on each connection, counted from 1. Hello says that the
// log's last event is lastSeq.
func sockets(t *testing.T, lastSeq int64, talk func(connection int, p peer)) (*script, *client.Client) {
	upgrader := websocket.Upgrader{Subprotocols: []string{api.Subprotocol}}
	var connections atomic.Int64
	return serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/ws": func(w http.ResponseWriter, r *http.Request) {
			conn, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			p := peer{conn, t, -1, r.URL.Query().Get("log_id")}
			if after := r.URL.Query().Get("after"); after != "" {
				p.after, _ = strconv.ParseInt(after, 10, 64)
			}
			p.say(`{"type":"hello","protocol":1,"session":{"id":"s","log_id":"L","last_seq":%d}}`, lastSeq)
			talk(int(connections.Add(1)), p)
		},
	})
}

func (p peer) say(format string, args ...any) {
	_ = p.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, format, args...))
}

func (p peer) sayEvents(from, to int64) {
	for seq := from; seq <= to; seq++ {
		p.say("%s", line(seq))
	}
}

// frame returns the next frame of the client; ok is false once the client has gone.
func (p peer) frame() (f map[string]any, raw string, ok bool) {
	_, b, err := p.ReadMessage()
	if err != nil {
		return nil, "", false
	}
	_ = json.Unmarshal(b, &f)
	return f, string(b), true
}

// until reads and answers frames until the client has gone.
func (p peer) until(reply func(f map[string]any)) {
	for {
		f, _, ok := p.frame()
		if !ok {
			return
		}
		reply(f)
	}
}

func (p peer) close(code int, reason string) {
	_ = p.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second))
}

func attach(t *testing.T, c *client.Client, opt client.AttachOptions) *client.Socket {
	t.Helper()
	s, err := c.Attach(t.Context(), "s", opt)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func take(t *testing.T, s *client.Socket, from, to int64) {
	t.Helper()
	for want := from; want <= to; want++ {
		e, err := s.Next(t.Context())
		if err != nil {
			t.Fatalf("instead of event %d: %v", want, err)
		}
		if e.Seq != want {
			t.Fatalf("event %d, want %d", e.Seq, want)
		}
	}
}

func TestASocketGivesHelloEventsAndTheReason(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) {
		if p.after != 0 || p.log != "L" {
			t.Errorf("after %d, log %q", p.after, p.log)
		}
		p.sayEvents(1, 50)
		p.close(websocket.CloseNormalClosure, "session_deleted")
		p.until(func(map[string]any) {})
	})
	s := attach(t, c, client.AttachOptions{After: pointer(int64(0)), LogID: "L", Reconnect: true})
	if h := s.Hello(); h.Session.ID != "s" || h.Protocol != 1 {
		t.Errorf("hello %+v", h)
	}
	seqs, err := collect(t, s.Events(t.Context()), -1)
	wantSeqs(t, seqs, 1, 50)
	var closed *client.CloseError
	if !errors.As(err, &closed) || closed.Code != 1000 || closed.Reason != "session_deleted" {
		t.Errorf("ended with %v", err)
	}
	if _, err := s.Do(t.Context(), "ping", nil); !errors.As(err, &closed) {
		t.Errorf("Do afterwards: %v", err)
	}
}

func TestASocketThatIsCutTenTimesMissesNothing(t *testing.T) {
	_, c := sockets(t, 7, func(connection int, p peer) {
		from := p.after + 1
		if connection == 1 {
			if p.after != -1 {
				t.Errorf("first connection after %d", p.after)
			}
			from = 8 // the default: after hello's last_seq
		} else if p.log != "L" {
			t.Errorf("connection %d asks for log %q", connection, p.log)
		}
		to := from + 19
		p.sayEvents(from, to)
		switch {
		case connection > 10:
			p.until(func(map[string]any) {})
		case connection%3 == 0:
			p.close(websocket.CloseTryAgainLater, "lagging")
		case connection%3 == 1:
			p.close(websocket.CloseGoingAway, "shutdown")
		default: // half a frame, and away
			_, _ = p.NetConn().Write([]byte{0x81, 100, '{', '"'})
		}
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	take(t, s, 8, 8+11*20-1)
}

func TestACutBeforeAnyEventResumesFromHello(t *testing.T) {
	_, c := sockets(t, 41, func(connection int, p peer) {
		if connection == 1 {
			return
		}
		if p.after != 41 {
			t.Errorf("resumed after %d", p.after)
		}
		p.sayEvents(p.after+1, 45)
		p.until(func(map[string]any) {})
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	take(t, s, 42, 45)
}

func TestWithoutReconnectACutEndsTheSocketAndWhoWaits(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) {
		p.sayEvents(1, 2)
		p.frame() // the ping, which gets no reply
	})
	s := attach(t, c, client.AttachOptions{})
	if _, err := s.Do(t.Context(), "ping", nil); err == nil {
		t.Error("a reply came")
	}
	take(t, s, 1, 2)
	for range 2 {
		if _, err := s.Next(t.Context()); err == nil {
			t.Error("an event came")
		}
	}
}

func TestEventsThatComeTwiceAreDroppedAndAGapIsAnError(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) {
		p.sayEvents(1, 3)
		p.sayEvents(2, 4)
		p.sayEvents(6, 6)
		p.until(func(map[string]any) {})
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	take(t, s, 1, 4)
	if _, err := s.Next(t.Context()); !errors.Is(err, client.ErrGap) {
		t.Errorf("after a gap: %v", err)
	}
}

func TestRepliesFindTheirCallsInAnyOrder(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) {
		var held []map[string]any
		p.until(func(f map[string]any) {
			if held = append(held, f); len(held) < 20 {
				return
			}
			for i := len(held) - 1; i >= 0; i-- { // the last one first, with events in between
				p.say("%s", line(int64(len(held)-i)))
				p.say(`{"type":"reply","id":%q,"ok":true,"result":{"echo":%q}}`, held[i]["id"], held[i]["value"])
			}
		})
	})
	s := attach(t, c, client.AttachOptions{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			raw, err := s.Do(t.Context(), "echo", map[string]any{"value": fmt.Sprint("v", i)})
			var got struct{ Echo string }
			if err != nil || json.Unmarshal(raw, &got) != nil || got.Echo != fmt.Sprint("v", i) {
				t.Errorf("call %d: %s, %v", i, raw, err)
			}
		})
	}
	wg.Wait()
	take(t, s, 1, 20)
}

func TestCallsWithTheSameIDAreAnsweredInTheirOrder(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) {
		n := 0
		p.until(func(f map[string]any) {
			n++
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{"n":%d}}`, f["id"], n)
		})
	})
	s := attach(t, c, client.AttachOptions{})
	for n := 1; n <= 3; n++ {
		raw, err := s.Do(t.Context(), "execute", api.ExecutionRequest{ID: pointer("e1"), Code: pointer("1")})
		if err != nil || string(raw) != fmt.Sprintf(`{"n":%d}`, n) {
			t.Errorf("reply %s, %v", raw, err)
		}
	}
}

func TestARefusedFrameIsAnAPIErrorAndTheSocketGoesOn(t *testing.T) {
	frames := make(chan string, 10)
	_, c := sockets(t, 0, func(_ int, p peer) {
		p.until(func(f map[string]any) {
			if f["type"] == "ping" {
				p.say(`{"type":"reply","id":%q,"ok":true,"result":{}}`, f["id"])
				return
			}
			id := "null"
			if f["id"] != nil {
				id = strconv.Quote(f["id"].(string))
			}
			p.say(`{"type":"usage","usage":{"memory_bytes":5}}`)
			p.say(`{"type":"reply","id":%s,"ok":false,"error":{"type":"about:blank","title":"Conflict","status":409,`+
				`"detail":"nothing asked","code":"no_input_pending"}}`, id)
		})
	})
	s := attach(t, c, client.AttachOptions{
		OnFrame: func(kind string, frame []byte) { frames <- kind + " " + string(frame) },
	})
	_, err := s.Do(t.Context(), "input_reply", api.InputRequest{Value: "x"})
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Code != api.CodeNoInputPending || refused.Status != 409 {
		t.Errorf("got %v", err)
	}
	if f := <-frames; f != `usage {"type":"usage","usage":{"memory_bytes":5}}` {
		t.Errorf("frame %s", f)
	}
	must(t, s.Send(t.Context(), []byte(`{"no type`)))
	<-frames // usage
	if f := <-frames; !strings.HasPrefix(f, `reply {"type":"reply","id":null`) {
		t.Errorf("frame %s", f)
	}
	if _, err := s.Do(t.Context(), "ping", nil); err != nil {
		t.Error(err)
	}
}

func TestExecuteIsSentAgainWithTheSameIDAfterACut(t *testing.T) {
	sent := make(chan string, 10)
	_, c := sockets(t, 0, func(connection int, p peer) {
		f, raw, ok := p.frame()
		if !ok {
			return
		}
		sent <- raw
		if connection < 3 {
			return // cut before the reply
		}
		p.say(`{"type":"reply","id":%q,"ok":true,"result":{"execution_id":%q}}`, f["id"], f["id"])
		p.until(func(map[string]any) {})
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	id, err := s.Execute(t.Context(), api.ExecutionRequest{Code: pointer("1")})
	must(t, err)
	first := <-sent
	if second, third := <-sent, <-sent; first != second || second != third || !strings.Contains(first, id) {
		t.Errorf("sent %s, %s, %s", first, second, third)
	}
	if want := fmt.Sprintf(`{"code":"1","id":%q,"type":"execute"}`, id); first != want {
		t.Errorf("sent %s, want %s", first, want)
	}
}

func TestADoDuringACutFailsAndOneAfterItWaitsForTheConnection(t *testing.T) {
	_, c := sockets(t, 0, func(connection int, p peer) {
		f, _, ok := p.frame()
		if ok && connection > 1 {
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{}}`, f["id"])
			p.until(func(map[string]any) {})
		}
	})
	s := attach(t, c, client.AttachOptions{Reconnect: true})
	if _, err := s.Do(t.Context(), "ping", nil); !errors.Is(err, client.ErrDisconnected) {
		t.Errorf("during: %v", err)
	}
	if _, err := s.Do(t.Context(), "ping", nil); err != nil {
		t.Errorf("after: %v", err)
	}
}

func TestReconnectingEndsWithARefusal(t *testing.T) {
	s, c := sockets(t, 0, func(_ int, p peer) { p.sayEvents(1, 1) })
	first := s.answers["GET /v1/sessions/s/ws"]
	var count atomic.Int64
	s.answers["GET /v1/sessions/s/ws"] = func(w http.ResponseWriter, r *http.Request) {
		switch count.Add(1) {
		case 1:
			first(w, r)
		case 2: // shutting down; worth another attempt
			refusal(api.CodeShuttingDown, "later")(w, r)
		default:
			refusal(api.CodeLogChanged, "the log is a new one")(w, r)
		}
	}
	socket := attach(t, c, client.AttachOptions{Reconnect: true})
	take(t, socket, 1, 1)
	if _, err := socket.Next(t.Context()); !errors.Is(err, api.Errorf(api.CodeLogChanged, "")) {
		t.Errorf("ended with %v", err)
	}
}

func TestAttachIsRefusedWithTheServersWords(t *testing.T) {
	_, c := serve(t, map[string]http.HandlerFunc{
		"GET /v1/sessions/s/ws": refusal(api.CodeSessionNotFound, "there is no session s"),
		"GET /v1/sessions/old/ws": func(w http.ResponseWriter, r *http.Request) {
			conn, err := new(websocket.Upgrader).Upgrade(w, r, nil) // without the subprotocol
			if err == nil {
				conn.Close()
			}
		},
	})
	_, err := c.Attach(t.Context(), "s", client.AttachOptions{})
	if !errors.Is(err, api.Errorf(api.CodeSessionNotFound, "")) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Attach(t.Context(), "old", client.AttachOptions{}); err == nil {
		t.Error("attached without the subprotocol")
	}
}

func TestRepliesComeWhileNobodyTakesEventsAndFramesOf20MiBFit(t *testing.T) {
	big := strings.Repeat("x", 20<<20)
	_, c := sockets(t, 0, func(_ int, p peer) {
		p.until(func(f map[string]any) {
			p.sayEvents(1, 10_000)
			p.say(`{"seq":10001,"time":"2026-01-02T03:04:05.678Z","type":"stream","name":"stdout","text":"%s"}`, big)
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{}}`, f["id"])
		})
	})
	s := attach(t, c, client.AttachOptions{})
	_, err := s.Do(t.Context(), "ping", nil)
	must(t, err)
	take(t, s, 1, 10_001)
}

func TestAFloodPastWhatIsKeptLosesNothingAndDelaysTheReply(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	const events = 80 // of 1 MiB: beyond the 64 MiB that are kept, and what sockets hold
	_, c := sockets(t, 0, func(_ int, p peer) {
		for seq := range int64(events) {
			p.say(`{"seq":%d,"time":"2026-01-02T03:04:05.678Z","type":"stream","name":"stdout","text":"%s"}`, seq+1, text)
		}
		p.until(func(f map[string]any) {
			p.say(`{"type":"reply","id":%q,"ok":true,"result":{}}`, f["id"])
		})
	})
	s := attach(t, c, client.AttachOptions{})
	replied := make(chan error, 1)
	go func() {
		_, err := s.Do(context.Background(), "ping", nil)
		replied <- err
	}()
	take(t, s, 1, events)
	must(t, <-replied)
}

func TestCloseEndsEverythingAndMayComeTwiceAndAtAnyMoment(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) { p.until(func(map[string]any) {}) })
	s, err := c.Attach(t.Context(), "s", client.AttachOptions{Reconnect: true})
	must(t, err)
	var wg sync.WaitGroup
	started := make(chan struct{}, 3)
	for range 3 {
		wg.Go(func() {
			started <- struct{}{}
			if _, err := s.Next(context.Background()); !errors.Is(err, client.ErrClosed) {
				t.Errorf("Next = %v", err)
			}
			if _, err := s.Do(context.Background(), "ping", nil); !errors.Is(err, client.ErrClosed) {
				t.Errorf("Do = %v", err)
			}
		})
		<-started
	}
	must(t, s.Close())
	must(t, s.Close())
	wg.Wait()

	// Also while it tries to come back.
	cut := make(chan struct{})
	script, c := sockets(t, 0, func(int, peer) {})
	first := script.answers["GET /v1/sessions/s/ws"]
	var count atomic.Int64
	script.answers["GET /v1/sessions/s/ws"] = func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1) == 1 {
			first(w, r)
			return
		}
		if count.Load() == 2 {
			close(cut)
		}
		w.WriteHeader(http.StatusBadGateway)
	}
	s, err = c.Attach(t.Context(), "s", client.AttachOptions{Reconnect: true})
	must(t, err)
	<-cut
	must(t, s.Close())
	if _, err := s.Next(t.Context()); !errors.Is(err, client.ErrClosed) {
		t.Errorf("Next = %v", err)
	}
}

func TestNextAndDoEndWithTheirContext(t *testing.T) {
	_, c := sockets(t, 0, func(_ int, p peer) { p.until(func(map[string]any) {}) })
	s := attach(t, c, client.AttachOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next = %v", err)
	}
	if _, err := s.Do(ctx, "ping", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v", err)
	}
	if _, err := c.Attach(ctx, "s", client.AttachOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Attach = %v", err)
	}
}
