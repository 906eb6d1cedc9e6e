package server_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"talaria/api"
)

// answer returns the reply to a question, once the kernel finds the time to answer.
func (c *client) answer(frame string) map[string]any {
	c.Helper()
	for {
		reply := c.ask(frame)
		if problem, _ := reply["error"].(map[string]any); problem["code"] != "kernel_busy" {
			return reply
		}
	}
}

func TestQuestionsAboutNamesAreAnswered(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	before := decode[api.Session](t, h.do(request{path: "/v1/sessions/s"}).body)
	for frame, want := range map[string]string{
		`{"type":"complete","id":"c","code":"äöü.x","cursor_pos":4}`:                                         `{"matches":["äöü.x"],"cursor_start":0,"cursor_end":4}`,
		`{"type":"complete","id":"c","code":"äöü","cursor_pos":99}`:                                          `{"matches":["äöü"],"cursor_start":0,"cursor_end":3}`,
		`{"type":"complete","id":"c","code":"äöü"}`:                                                          `{"matches":["äöü"],"cursor_start":0,"cursor_end":3}`,
		`{"type":"inspect","id":"c","code":"x","detail_level":1}`:                                            `{"found":true,"data":{"text/plain":"x 1"}}`,
		`{"type":"inspect","id":"c","code":"nothing"}`:                                                       `{"found":false,"data":{"text/plain":"nothing 0"}}`,
		`{"type":"is_complete","id":"c","code":"for"}`:                                                       `{"status":"incomplete","indent":"    "}`,
		`{"type":"variables","id":"c"}`:                                                                      `{"items":[{"name":"x","type":"int","preview":"5"}],"total":7}`,
		`{"type":"table","id":"c","table":"t","sort":[{"column":1,"descending":true}],"offset":4,"count":9}`: `{"offset":4,"total":9,"rows":[[4,"a",null]]}`,
	} {
		var result any
		if err := json.Unmarshal([]byte(want), &result); err != nil {
			t.Fatal(err)
		}
		if reply := c.answer(frame); reply["ok"] != true || !reflect.DeepEqual(reply["result"], result) {
			t.Errorf("%s: %v", frame, reply)
		}
	}
	after := decode[api.Session](t, h.do(request{path: "/v1/sessions/s"}).body)
	if before.LastActiveAt != after.LastActiveAt {
		t.Errorf("questions count as use: %v, then %v", before.LastActiveAt, after.LastActiveAt)
	}
}

func TestQuestionsAboutNamesOverHTTP(t *testing.T) {
	h := start(t)
	h.session("s")
	h.attach("/v1/sessions/s/ws").answer(`{"type":"variables","id":"v"}`)
	const one = "/v1/sessions/s"
	for { // as in answer
		if r := h.do(request{path: one + "/variables"}); r.status != 409 {
			if got := decode[api.VariablesReply](t, r.body); r.status != 200 || len(got.Items) != 1 || got.Total != 7 {
				t.Errorf("%d %s", r.status, r.body)
			}
			break
		}
	}
	for {
		if r := h.do(request{method: "POST", path: one + "/inspect", body: `{"code":"x"}`}); r.status != 409 {
			if got := decode[api.InspectReply](t, r.body); r.status != 200 || !got.Found {
				t.Errorf("%d %s", r.status, r.body)
			}
			break
		}
	}
	h.want(h.do(request{method: "POST", path: one + "/inspect", body: `{}`}), 400, "invalid_request")
	h.want(h.do(request{path: "/v1/sessions/other/variables"}), 404, "session_not_found")
}

func TestATableThatIsGoneOrCannotBeSortedSaysSo(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	for frame, want := range map[string]string{
		`{"type":"table","id":"t","table":"gone"}`:                                          "table_gone",
		`{"type":"table","id":"t","table":"t","filter":"` + strings.Repeat("x", 201) + `"}`: "invalid_request",
		`{"type":"table","id":"t","table":"changed"}`:                                       "table_gone",
		`{"type":"table","id":"t","table":"unsortable"}`:                                    "not_sortable",
		`{"type":"table","id":"t"}`:                                                         "invalid_request",
		`{"type":"table","id":"t","table":""}`:                                              "invalid_request",
		`{"type":"table","id":"t","table":"t","count":0}`:                                   "invalid_request",
		`{"type":"table","id":"t","table":"t","count":501}`:                                 "invalid_request",
		`{"type":"table","id":"t","table":"t","offset":-1}`:                                 "invalid_request",
		`{"type":"table","id":"t","table":"t","sort":[{"column":-1}]}`:                      "invalid_request",
		`{"type":"table","id":"t","table":"t","sort":[{"column":"a"}]}`:                     "invalid_request",
		`{"type":"table","id":"t","table":"t","sort":[{},{},{},{},{},{},{},{},{}]}`:         "invalid_request",
	} {
		problem, _ := c.answer(frame)["error"].(map[string]any)
		if problem["code"] != want {
			t.Errorf("%s: %v", frame, problem)
		}
	}
}

func TestAnInterruptDoesNotWaitForAnAnswer(t *testing.T) {
	h := start(t)
	h.session("s")
	c := h.attach("/v1/sessions/s/ws")
	c.answer(`{"type":"variables","id":"v"}`)
	c.write(`{"type":"complete","id":"slow","code":"hang"}`)
	c.write(`{"type":"interrupt","id":"quick"}`)
	first, second := c.until(typed("reply")), c.until(typed("reply"))
	if first["id"] != "quick" || second["id"] != "slow" {
		t.Errorf("%v, then %v", first, second)
	}
	if problem, _ := second["error"].(map[string]any); problem["code"] != "kernel_busy" || problem["status"] != 409.0 {
		t.Errorf("no answer: %v", second)
	}
}
