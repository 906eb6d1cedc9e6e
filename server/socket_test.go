package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"talaria/api"
)

func TestFramesAreAnswered(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	for _, test := range []struct {
		frame string
		id    any
		code  string // of the problem; "" if it succeeds
		says  string // part of the problem's detail
	}{
		{`{"type":"ping","id":"p"}`, "p", "", ""},
		{`{"type":"ping"}`, nil, "", ""},
		{`{"type":"ping","id":7}`, 7.0, "", ""},
		{`{"type":"ping","id":"p","more":1}`, "p", "invalid_request", "more"},
		{`{"type":"execute","id":"e1","code":"x"}`, "e1", "", ""},
		{`{"type":"execute","id":"e1","code":"x"}`, "e1", "", ""},
		{`{"type":"execute","id":"e1","code":"y"}`, "e1", "execution_conflict", ""},
		{`{"type":"execute","code":"x"}`, nil, "", ""},
		{`{"type":"execute","id":"e2"}`, "e2", "invalid_request", "code"},
		{`{"type":"execute","id":"e3","code":1}`, "e3", "invalid_request", "code"},
		{`{"type":"execute","id":"not valid","code":"x"}`, "not valid", "invalid_request", ""},
		{`{"type":"execute","id":4,"code":"x"}`, 4.0, "invalid_request", "id"},
		{`{"type":"execute","id":"e5","code":"x","cde":1}`, "e5", "invalid_request", "cde"},
		{`{"type":"execute","id":"e6","code":"\ud800"}`, nil, "invalid_request", ""},
		{`{"type":"interrupt","id":"i"}`, "i", "", ""},
		{`{"type":"interrupt","id":"i","execution_id":"e1"}`, "i", "", ""},
		{`{"type":"input_reply","id":"r","value":"x"}`, "r", "no_input_pending", ""},
		{`{"type":"input_reply","id":"r"}`, "r", "invalid_request", "value"},
		{`{"type":"dance","id":"d"}`, "d", "invalid_request", `"dance"; the types are `},
		{`{"type":1,"id":"d"}`, "d", "invalid_request", "type"},
		{`{"id":"d"}`, "d", "invalid_request", "type"},
		{`{"type":"ping","id":"a","id":"b"}`, nil, "invalid_request", "id"},
		{`{"type":"ping"} {}`, nil, "invalid_request", ""},
		{`not json`, nil, "invalid_request", ""},
		{`null`, nil, "invalid_request", ""},
		{`[]`, nil, "invalid_request", ""},
		{``, nil, "invalid_request", ""},
		{`{"type":"complete","id":"l"}`, "l", "invalid_request", "code"},
		{`{"type":"complete","id":"l","code":"x","cursor_pos":-1}`, "l", "invalid_request", "cursor_pos"},
		{`{"type":"complete","id":"l","code":"x","cursor_pos":"1"}`, "l", "invalid_request", "cursor_pos"},
		{`{"type":"inspect","id":"l","code":"x","detail_level":2}`, "l", "invalid_request", "detail_level"},
		{`{"type":"is_complete","id":"l","code":"x","cursor_pos":1}`, "l", "invalid_request", "cursor_pos"},
		{`{"type":"is_complete","id":"l","code":"` + strings.Repeat("x", 1<<20+1) + `"}`, "l", "payload_too_large", "code"},
		{`{"type":"variables","id":"l","code":"x"}`, "l", "invalid_request", "code"},
		{`{"type":"tools","id":"l","tools":[]}`, "l", "", ""},
		{`{"type":"tools","id":"l"}`, "l", "invalid_request", "tools"},
		{`{"type":"tool_result","id":"l"}`, "l", "invalid_request", "call_id"},
		{`{"type":"tool_result","id":"l","call_id":"c"}`, "l", "invalid_request", "result"},
		{`{"type":"tool_result","id":"l","call_id":"c","result":1}`, "l", "no_call_pending", ""},
		{`{"type":"approve","id":"l","decision":"once"}`, "l", "invalid_request", "approval_id"},
		{`{"type":"approve","id":"l","approval_id":"a"}`, "l", "invalid_request", "decision"},
		{`{"type":"approve","id":"l","approval_id":"a","decision":"yes"}`, "l", "invalid_request", "decision"},
		{`{"type":"approve","id":"l","approval_id":"a","decision":"once"}`, "l", "no_approval_pending", ""},
		{`{"type":"checkpoint","id":"l","level":"warm"}`, "l", "invalid_request", "level"},
		{`{"type":"checkpoint","id":"l","level":"files"}`, "l", "", ""},
		{`{"type":"rollback","id":"l"}`, "l", "invalid_request", "checkpoint_id"},
		{`{"type":"rollback","id":"l","checkpoint_id":"c"}`, "l", "checkpoint_gone", "does not exist"},
		{`{"type":"reset","id":"z","keep_files":true}`, "z", "", ""},
		{`{"type":"ping","id":"end"}`, "end", "", ""},
	} {
		reply := c.ask(test.frame)
		if id, ok := reply["id"]; !ok || id != test.id {
			t.Errorf("%s: reply has id %v", test.frame, id)
		}
		if test.code == "" {
			if reply["ok"] != true || reply["result"] == nil || reply["error"] != nil {
				t.Errorf("%s: %v", test.frame, reply)
			}
			continue
		}
		problem, _ := reply["error"].(map[string]any)
		if reply["ok"] != false || problem["code"] != test.code {
			t.Errorf("%s: %v", test.frame, reply)
		}
		if detail := fmt.Sprint(problem["detail"]); !strings.Contains(detail, test.says) {
			t.Errorf("%s: %q does not say %s", test.frame, detail, test.says)
		}
	}
	if err := c.conn.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	if reply := c.until(typed("reply")); reply["ok"] != false || reply["id"] != nil {
		t.Errorf("binary frame: %v", reply)
	}
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte("{\"type\":\"ping\",\"id\":\"\xff\"}")); err != nil {
		t.Fatal(err)
	}
	if reply := c.until(typed("reply")); reply["ok"] != false {
		t.Errorf("invalid UTF-8: %v", reply)
	}
}

func TestExecuteReplyHasTheExecutionsID(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	if r := c.ask(`{"type":"execute","id":"e1","code":"x"}`); r["result"].(map[string]any)["execution_id"] != "e1" {
		t.Errorf("reply %v", r)
	}
	made := c.ask(`{"type":"execute","code":"x"}`)["result"].(map[string]any)["execution_id"].(string)
	if !api.ValidID(made) {
		t.Errorf("execution_id %q", made)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s/executions/" + made}), 200, "")
}

func TestAllSocketsSeeTheSameLog(t *testing.T) {
	h := start(t)
	h.session("s")
	a, b := h.attach("/v1/sessions/s/ws?after=0"), h.attach("/v1/sessions/s/ws?after=0")
	a.write(`{"type":"execute","id":"e1","code":"x"}`)
	collect := func(c *client) (list []string) {
		for {
			f := c.next()
			if f["type"] == "reply" {
				continue
			}
			list = append(list, fmt.Sprint(f["seq"], f["type"]))
			if f["type"] == "execution_finished" {
				return list
			}
		}
	}
	one, two := collect(a), collect(b)
	if fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("%v\n%v", one, two)
	}
	late := h.attach("/v1/sessions/s/ws")
	late.write(`{"type":"ping","id":"p"}`)
	if first := late.next(); first["type"] == "execution_started" {
		t.Errorf("without after the log begins at hello's last_seq, not with %v", first)
	}
}

func TestOversizedFrameClosesWith1009(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	fits := `{"type":"ping","id":"` + strings.Repeat("x", api.MaxBody-64) + `"}`
	if r := c.ask(fits); r["ok"] != true {
		t.Errorf("a frame of %d bytes: %.100v", len(fits), r)
	}
	c.write(`{"type":"ping","id":"` + strings.Repeat("x", api.MaxBody) + `"}`)
	if closed := c.closed(); closed.Code != websocket.CloseMessageTooBig {
		t.Errorf("closed with %v", closed)
	}
	h.want(h.do(request{method: "GET", path: "/v1/sessions/s"}), 200, "")
}

func TestDeletionClosesTheSocket(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	h.want(h.do(request{method: "DELETE", path: "/v1/sessions/s"}), 204, "")
	if closed := c.closed(); closed.Code != 1000 || closed.Text != "session_deleted" {
		t.Errorf("closed with %v", closed)
	}
}

func TestUsageFramesOnlyForWhoAsks(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws?usage=1")
	frame := c.until(typed("usage"))
	if frame["usage"] == nil || frame["limits"] == nil || frame["seq"] != nil {
		t.Errorf("usage frame %v", frame)
	}
}

func TestClosingASocketStopsNothing(t *testing.T) {
	h := start(t)
	h.session("s")
	watcher := h.attach("/v1/sessions/s/ws")
	c := h.attach("/v1/sessions/s/ws")
	c.write(`{"type":"execute","id":"e1","code":"x"}`)
	c.conn.Close()
	watcher.until(typed("execution_finished"))
}

func TestLiveReaderThatLagsIsCutOffAndResumes(t *testing.T) {
	h := start(t)
	h.session("s")
	slow := h.attach("/v1/sessions/s/ws?after=0")
	last := int64(0)
	for range 2 { // the reader of the second cell is live
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"x"}`}), 200, "")
		finished := slow.until(typed("execution_finished"))
		last = int64(finished["seq"].(float64))
	}
	const events = 256 // of 64 KiB: twice as much as a reader may lag
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: fmt.Sprintf(`{"code":"big %d"}`, events)}), 200, "")
	var end error
	for end == nil {
		if err := slow.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		var data []byte
		if _, data, end = slow.conn.ReadMessage(); end == nil {
			seq := int64(decode[map[string]any](t, data)["seq"].(float64))
			if seq != last+1 {
				t.Fatalf("seq %d after %d", seq, last)
			}
			last = seq
		}
	}
	if total := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).LastSeq; last >= total {
		t.Fatalf("the reader was not cut off: %v", end)
	}
	again := h.attach(fmt.Sprintf("/v1/sessions/s/ws?after=%d", last))
	for {
		f := again.next()
		if int64(f["seq"].(float64)) != last+1 {
			t.Fatalf("seq %v after %d", f["seq"], last)
		}
		if last++; f["type"] == "execution_finished" {
			return
		}
	}
}

func TestViewLacksWhatALaterRunOfTheCellReplaced(t *testing.T) {
	h := start(t)
	h.session("s")
	for _, id := range []string{"c.raaaaaaaa", "c.rbbbbbbbb"} {
		h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: fmt.Sprintf(`{"id":%q,"code":"big 2"}`, id)}), 200, "")
	}
	last := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).LastSeq
	for _, query := range []string{"view=1", "view=1&after=2"} {
		viewer := h.attach("/v1/sessions/s/ws?" + query)
		streams := map[any]int{}
		for seq := int64(0); seq < last; {
			f := viewer.next()
			if f["type"] == "stream" {
				streams[f["execution_id"]]++
			}
			seq = int64(f["seq"].(float64))
		}
		if streams["c.raaaaaaaa"] != 0 || streams["c.rbbbbbbbb"] == 0 {
			t.Errorf("%s: streams %v", query, streams)
		}
	}
}

func TestLargeMessagesComeInPartsForAClientThatAsks(t *testing.T) {
	h := start(t)
	h.session("s")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: fmt.Sprintf(`{"code":"%0600000d"}`, 0)}), 200, "")
	last := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).LastSeq
	whole, parts := h.attach("/v1/sessions/s/ws?after=0"), h.attach("/v1/sessions/s/ws?after=0&parts=1")
	read := func(c *client, kind int) []byte {
		t.Helper()
		got, data, err := c.conn.ReadMessage()
		if err != nil || got != kind {
			t.Fatalf("a message of kind %d, want %d, and error %v", got, kind, err)
		}
		return data
	}
	large := 0
	for seq := int64(0); seq < last; {
		want, got := read(whole, websocket.TextMessage), read(parts, websocket.TextMessage)
		if len(want) > 256<<10 {
			large++
			frame := decode[api.PartsFrame](t, got)
			if frame.Type != "parts" || frame.Bytes != len(want) {
				t.Fatalf("a message of %d bytes is announced as %s", len(want), got)
			}
			for got = nil; len(got) < frame.Bytes; {
				part := read(parts, websocket.BinaryMessage)
				if len(part) > 256<<10 {
					t.Errorf("a part has %d bytes", len(part))
				}
				got = append(got, part...)
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%.200s, want %.200s", got, want)
		}
		seq = decode[struct{ Seq int64 }](t, got).Seq
	}
	if large == 0 {
		t.Error("no message is large")
	}
}

func TestReplayGoesAtTheClientsPace(t *testing.T) {
	h := start(t)
	h.session("s")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"big 256"}`}), 200, "")
	total := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).LastSeq
	slow := h.attach("/v1/sessions/s/ws?after=0") // nothing is read here while the other client reads everything
	fast := h.attach("/v1/sessions/s/ws?after=0")
	for range total {
		fast.next()
	}
	for seq := range total {
		if f := slow.next(); int64(f["seq"].(float64)) != seq+1 {
			t.Fatalf("seq %v, want %d", f["seq"], seq+1)
		}
	}
}

// The library gives the answer to a ping one second. What is on its way to the client at that time has longer.
func TestASlowClientThatPingsIsNotCutOff(t *testing.T) {
	h := start(t)
	h.session("s")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"big 256"}`}), 200, "")
	total := decode[api.Session](t, h.do(request{method: "GET", path: "/v1/sessions/s"}).body).LastSeq
	slow := h.attach("/v1/sessions/s/ws?after=0")
	ponged := false
	slow.conn.SetPongHandler(func(string) error { ponged = true; return nil })
	time.Sleep(time.Second) // until the server waits for the client
	if err := slow.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	for seq := range total {
		if f := slow.next(); int64(f["seq"].(float64)) != seq+1 {
			t.Fatalf("seq %v, want %d", f["seq"], seq+1)
		}
	}
	if slow.ask(`{"type":"ping","id":1}`); !ponged {
		t.Error("the ping was not answered")
	}
}

func TestASocketEndsWithItsClientAlsoWhileItIsWrittenTo(t *testing.T) {
	h := start(t)
	h.session("s")
	h.want(h.do(request{method: "POST", path: "/v1/sessions/s/executions", body: `{"code":"big 256"}`}), 200, "")
	slow := h.attach("/v1/sessions/s/ws?after=0")
	time.Sleep(time.Second) // until the server waits for the client
	if err := slow.conn.WriteControl(websocket.CloseMessage, nil, time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) { // a client that takes nothing has a minute
		if metrics := h.do(request{method: "GET", path: "/metrics"}); strings.Contains(string(metrics.body), "talaria_sockets 0") {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the socket is still there")
		}
	}
}

func TestSocketNeedsNoSubprotocol(t *testing.T) {
	h := start(t)
	h.session("s")
	conn, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(h.url, "http")+"/v1/sessions/s/ws",
		http.Header{"Authorization": {"Bearer " + firstToken}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn.Subprotocol() != "" {
		t.Errorf("subprotocol %q", conn.Subprotocol())
	}
}
