package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"talaria/api"
)

// follow reads a batch's events from a position until one fits, or to the end of the batch, and returns the last one.
func (s *Server) follow(t *testing.T, id string, after int64, fits func(api.BatchEvent) bool) (last api.BatchEvent) {
	t.Helper()
	for event, err := range s.Client().BatchEvents(within(t), id, after) {
		if err != nil {
			t.Fatal(err)
		}
		if last = event; fits(event) {
			return last
		}
	}
	return last
}

// batchEnd waits for the end of a batch, and returns it.
func (s *Server) batchEnd(t *testing.T, id string) api.Batch {
	t.Helper()
	s.follow(t, id, 0, func(api.BatchEvent) bool { return false })
	b, err := s.Client().Batch(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Status.Final() || b.Finished != b.Total || int64(len(b.Items)) != b.Total {
		t.Errorf("after its last event the batch is %s, with %d of %d items", b.Status, b.Finished, b.Total)
	}
	return b
}

func TestAKilledServersBatchRunsEveryItemOnce(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		var req api.BatchRequest
		const each, own = 6, 8
		sessions := []string{session(t, c, api.SessionRequest{}), session(t, c, api.SessionRequest{}), session(t, c, api.SessionRequest{})}
		for i := range each * len(sessions) {
			id, code := sessions[i%len(sessions)], fmt.Sprintf("import time; time.sleep(0.1); ran = globals().get('ran', []) + [%d]; print(%d)", i, i)
			req.Items = append(req.Items, api.BatchItemRequest{Session: &id, Code: &code})
		}
		for range own { // the file keeps the session, for the test to look at
			code := "import time; time.sleep(0.1); open('ran', 'a').write('once')"
			req.Items = append(req.Items, api.BatchItemRequest{Code: &code, Files: map[string]api.BatchFile{"in": api.BatchFile("put")}})
		}
		b, err := c.CreateBatch(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		seen := int64(0)
		for _, enough := range []int64{3, 9} { // items that have ended when the server is killed
			last := s.follow(t, b.ID, seen, func(e api.BatchEvent) bool {
				done := e.Item != nil && e.Item.Status.Final()
				if done {
					enough--
				}
				return enough == 0
			})
			if seen = last.Seq; last.Status.Final() {
				t.Fatal("the batch ended before the server was killed")
			}
			s.Kill9()
			s.Restart(t)
		}
		c = s.Client()
		b = s.batchEnd(t, b.ID)
		if b.Status != api.BatchDone {
			t.Errorf("the batch is %s", b.Status)
		}
		for _, item := range b.Items {
			if item.Status != api.StatusOK || item.SessionDeleted {
				t.Errorf("item %d is %s: %+v %v", item.Index, item.Status, item.Execution, item.Error)
				continue
			}
			page, err := c.Executions(within(t), item.SessionID, api.PageQuery{})
			if want := map[bool]int{true: each, false: 1}[item.Index < each*len(sessions)]; err != nil || len(page.Items) != want {
				t.Errorf("the session of item %d ran %d executions, want %d (%v)", item.Index, len(page.Items), want, err)
			}
		}
		for i, id := range sessions {
			var want []string
			for k := range each {
				want = append(want, fmt.Sprint(i+k*len(sessions)))
			}
			if got := runOK(t, c, id, "print(ran)"); got != "["+strings.Join(want, ", ")+"]\n" {
				t.Errorf("in session %d ran %s want %s", i, got, want)
			}
		}
		for _, item := range b.Items[each*len(sessions):] {
			for name, want := range map[string]string{"ran": "once", "in": "put"} {
				a := s.want(t, call{method: "GET", path: "/v1/sessions/" + item.SessionID + "/files/" + name}, http.StatusOK, "")
				if string(a.body) != want {
					t.Errorf("item %d left %s with %q", item.Index, name, a.body)
				}
			}
		}
	})
}

func TestItemsBeginAsForks(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Metadata: &map[string]string{"of": "parent"}})
	runOK(t, c, id, "x = [0]; open('f', 'w').write('parent')")
	var req api.BatchRequest
	for i := range 4 {
		code := fmt.Sprintf("x.append(%d); print(x, open('f').read())", i)
		req.Items = append(req.Items, api.BatchItemRequest{ForkOf: &id, Code: &code})
	}
	keeps := "x.append('kept'); open('made', 'w').write('')" // a file keeps the session
	req.Items = append(req.Items, api.BatchItemRequest{ForkOf: &id, Code: &keeps})
	b, err := c.CreateBatch(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	done := s.batchEnd(t, b.ID)
	for i, item := range done.Items[:4] {
		if want := fmt.Sprintf("[0, %d] parent\n", i); item.Status != api.StatusOK || item.Execution.Text != want || !item.SessionDeleted {
			t.Errorf("item %d is %+v, %+v", i, item, item.Execution)
		}
	}
	kept := done.Items[4]
	if got := result(t, c, kept.SessionID, "x"); got != "[0, 'kept']" {
		t.Errorf("the fork that stays has %s", got)
	}
	if info, err := c.Session(within(t), kept.SessionID); err != nil || info.Metadata["batch"] != b.ID || info.Metadata["of"] != "parent" {
		t.Errorf("the fork that stays is %+v, %v", info, err)
	}
	if got := result(t, c, id, "x"); got != "[0]" {
		t.Errorf("the session itself has %s", got)
	}
	one := "1"
	for _, wrong := range []api.BatchItemRequest{{ForkOf: new("none"), Code: &one}, {ForkOf: &id, Session: &id, Code: &one}} {
		if _, err := c.CreateBatch(within(t), api.BatchRequest{Items: []api.BatchItemRequest{wrong}}); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

func TestABatchIsCancelledAndItsDeadlineHolds(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "batch:\n  concurrency: 2\n"})
	c := s.Client()
	loop, quick, deadline := "while True: pass", "print(1)", 2.0
	id := session(t, c, api.SessionRequest{})
	items := []api.BatchItemRequest{{Session: &id, Code: &loop}, {Code: &loop}, {Session: &id, Code: &quick}, {Code: &quick}}
	for _, limit := range []*float64{nil, &deadline} {
		b, err := c.CreateBatch(within(t), api.BatchRequest{Items: items, DeadlineS: limit})
		if err != nil {
			t.Fatal(err)
		}
		reason := api.BatchReasonDeadline
		if limit == nil {
			running := 0
			s.follow(t, b.ID, 0, func(e api.BatchEvent) bool {
				if e.Item != nil {
					running++
				}
				return running == 2
			})
			if b, err = c.CancelBatch(within(t), b.ID); err != nil {
				t.Fatal(err)
			}
			reason = api.BatchReasonRequest
		}
		b = s.batchEnd(t, b.ID)
		if b.Status != api.BatchCancelled || b.Reason != reason || b.Items[2].Status != api.StatusCancelled || b.Items[3].Status != api.StatusCancelled {
			t.Errorf("the batch is %+v", b)
		}
		for _, item := range b.Items[:2] { // the deadline may come before they run
			if item.Status != api.StatusInterrupted && item.Status != api.StatusCancelled {
				t.Errorf("item %d is %s", item.Index, item.Status)
			}
		}
		if got := runOK(t, c, id, quick); got != "1\n" {
			t.Errorf("afterwards the session prints %q", got)
		}
	}
}

// batchExamples matches the examples of docs/batch.md.
var batchExamples = regexp.MustCompile("(?s)<!-- example: batch-([a-z]+) -->\n```sh\n(.*?)```")

func TestTheExamplesOfBatchesRun(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	text, err := os.ReadFile("../docs/batch.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]func(out string){}
	var job string
	known["create"] = func(out string) { job = decode[api.Batch](t, out).ID }
	known["follow"] = func(out string) {
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if last := decode[api.BatchEvent](t, lines[len(lines)-1]); last.Status != api.BatchDone {
			t.Errorf("the last event is %+v", last)
		}
		b := s.batchEnd(t, job)
		for i, want := range []string{"42\n", "6\n"} {
			if got := b.Items[i].Execution.Text; got != want || !b.Items[i].SessionDeleted {
				t.Errorf("item %d printed %q", i, got)
			}
		}
	}
	known["command"] = func(out string) {
		if want := "[0] ok\n1\n[1] ok\n2\n"; out != want {
			t.Errorf("the command printed %q, want %q", out, want)
		}
	}
	found := batchExamples.FindAllStringSubmatch(string(text), -1)
	if len(found) != len(known) {
		t.Errorf("docs/batch.md has %d examples, want %d", len(found), len(known))
	}
	for _, example := range found {
		cmd := exec.CommandContext(within(t), "sh", "-c", example[2])
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"),
			"TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token, "TALARIA_STATE_DIR="+s.StateDir, "TALARIA_BATCH="+job)
		out, err := cmd.Output()
		if failed := new(exec.ExitError); errors.As(err, &failed) {
			t.Fatalf("%s: %v: %s", example[1], err, failed.Stderr)
		} else if err != nil {
			t.Fatal(err)
		}
		known[example[1]](string(out))
	}
}
