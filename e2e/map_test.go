package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

func inputs(n int) []api.Raw {
	list := make([]api.Raw, n)
	for i := range list {
		list[i] = api.Raw(fmt.Sprint(i))
	}
	return list
}

// TestAMapRunsAFunctionForEachInput runs 32 items, four at a time, and reads them in both formats.
func TestAMapRunsAFunctionForEachInput(t *testing.T) {
	t.Parallel()
	eachTier(t, func(t *testing.T, tier string, who identity) {
		t.Parallel()
		mapEach(t, start(t, options{as: who, args: []string{"--tier", tier}}).Client())
	})
}

func mapEach(t *testing.T, c *client.Client) {
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "base = 100\ncalls = []\ndef make(k):\n    def f(x):\n        calls.append(x)\n        print('at', x)\n        return x * k + base\n    return f\nf = make(2)")
	req := api.MapRequest{ID: new("m"), Function: new("f"), Inputs: inputs(32), Concurrency: new(int64(4))}
	var seen []int
	summary, err := c.MapEach(within(t), id, req, func(item api.MapItem) error {
		seen = append(seen, item.Index)
		if item.Status != api.MapOK || string(item.Value) != fmt.Sprint(item.Index*2+100) || item.Text != fmt.Sprintf("at %d\n", item.Index) {
			t.Errorf("item %d: %s, %s, %q", item.Index, item.Status, item.Value, item.Text)
		}
		return nil
	})
	if err != nil || summary.Status != api.StatusOK || summary.OK != 32 || summary.ExecutionID != "m" {
		t.Fatalf("%+v (%v)", summary, err)
	}
	slices.Sort(seen)
	if len(slices.Compact(seen)) != 32 {
		t.Errorf("items came twice or not at all: %v", seen)
	}
	again, err := c.Map(within(t), id, req) // the same map: nothing runs
	if err != nil || len(again.Items) != 32 || again.Items[7].Index != 7 || string(again.Items[7].Value) != "114" || again.Summary != summary {
		t.Errorf("%+v (%v)", again, err)
	}
	runOK(t, c, id, "assert calls == []\nimport talaria\nassert talaria.map(lambda x: f(x) + 1, range(32), concurrency=4) == [x * 2 + 101 for x in range(32)]")
}

// TestAMapTellsHowEachItemEnded runs items that fail in every way, and one that leaves files and a figure.
func TestAMapTellsHowEachItemEnded(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Secrets: &map[string]string{"KEY": "sesame-open"}})
	const code = `
import os, sys, time, talaria
if item == "error": {}["nope"]
if item == "died": os.kill(os.getpid(), 9)
if item == "files":
    open(os.path.join(talaria.item_dir, "out.txt"), "w").write("from " + item)
    print("\x1b[1mbold\x1b[0m", os.environ["KEY"])
if item == "figure":
    import matplotlib.pyplot as plt
    plt.plot([1, 2])
index, item`
	names := []string{`"ok"`, `"error"`, `"died"`, `"files"`, `"\u2028é"`}
	if strings.Contains(runOK(t, c, id, "import importlib.util\nprint(importlib.util.find_spec('matplotlib') is not None)"), "True") {
		names = append(names, `"figure"`)
	}
	req := api.MapRequest{Code: new(code), Concurrency: new(int64(8))}
	for _, name := range names {
		req.Inputs = append(req.Inputs, api.Raw(name))
	}
	got, err := c.Map(within(t), id, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []api.MapStatus{api.MapOK, api.MapError, api.MapDied, api.MapOK, api.MapOK, api.MapOK}
	for i, item := range got.Items {
		if item.Status != want[i] {
			t.Errorf("item %d: %+v", i, item)
		}
	}
	if sum := got.Summary; sum.OK != len(names)-2 || sum.Failed != 2 || sum.Items != len(names) || sum.Status != api.StatusOK {
		t.Errorf("%+v", sum)
	}
	failed, died, files := got.Items[1], got.Items[2], got.Items[3]
	if failed.Error == nil || failed.Error.Ename != "KeyError" || !strings.Contains(failed.Text, "KeyError: 'nope'") || failed.Value != nil {
		t.Errorf("%+v", failed)
	}
	if died.Reason != "signal:SIGKILL" || string(got.Items[4].Value) != "[4,\"\u2028é\"]" {
		t.Errorf("%+v, %s", died, got.Items[4].Value)
	}
	path := "map/" + got.Summary.ExecutionID + "/3/out.txt"
	if len(files.Artifacts) != 1 || files.Artifacts[0].Path != path || files.Artifacts[0].SHA256 == "" ||
		!strings.HasPrefix(files.Text, "bold ") || strings.Contains(files.Text, "sesame") {
		t.Errorf("%+v", files)
	} else if a := s.do(t, call{method: "GET", path: files.Artifacts[0].URL}); string(a.body) != "from files" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if len(names) > 5 {
		if outputs := got.Items[5].Outputs; len(outputs) != 1 || outputs[0].Data["image/png"] == nil {
			t.Errorf("%+v", got.Items[5])
		}
	}
	late, err := c.Map(within(t), id, api.MapRequest{Code: new("print('on')\nimport time\ntime.sleep(600)"), Inputs: inputs(1), TimeoutS: new(0.5)})
	if err != nil || late.Items[0].Status != api.MapTimeout || late.Items[0].Reason != "0.5 s" {
		t.Errorf("%+v (%v)", late, err)
	}
	// As the items end, their files have addresses too.
	summary, err := c.MapEach(within(t), id, api.MapRequest{Code: new("import talaria\nopen(talaria.item_dir + '/é #', 'w').write('x')"), Inputs: inputs(1)},
		func(item api.MapItem) error {
			if len(item.Artifacts) != 1 {
				return fmt.Errorf("%+v", item)
			}
			if a := s.do(t, call{method: "GET", path: item.Artifacts[0].URL}); string(a.body) != "x" {
				return fmt.Errorf("%s: %d %s", item.Artifacts[0].URL, a.status, a.body)
			}
			return nil
		})
	if err != nil || summary.OK != 1 {
		t.Errorf("%+v (%v)", summary, err)
	}
}

// TestAMapIsInterrupted ends a map while it runs; what has ended stays, and the variables are kept.
func TestAMapIsInterrupted(t *testing.T) {
	t.Parallel()
	c := start(t, options{}).Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "kept = 5")
	req := api.MapRequest{Code: new("import time\nif item: time.sleep(600)\nitem"), Inputs: inputs(4), Concurrency: new(int64(2))}
	statuses := map[api.MapStatus]int{}
	summary, err := c.MapEach(within(t), id, req, func(item api.MapItem) error {
		statuses[item.Status]++
		if item.Status != api.MapOK {
			return nil
		}
		return c.Interrupt(within(t), id, "")
	})
	if err != nil || summary.Status != api.StatusInterrupted || statuses[api.MapOK] != 1 || statuses[api.MapCancelled] != 3 || summary.Cancelled != 3 {
		t.Errorf("%+v, %v (%v)", summary, statuses, err)
	}
	runOK(t, c, id, "assert kept == 5")
	stopped, err := c.Map(within(t), id, api.MapRequest{
		Code: new("1 / item"), Inputs: inputs(3), Concurrency: new(int64(1)), OnError: new(api.MapStop),
	})
	if err != nil || stopped.Summary.Failed != 1 || stopped.Summary.Cancelled != 2 || stopped.Items[2].Reason != "on_error" {
		t.Errorf("%+v (%v)", stopped, err)
	}
}

// TestAMapOutlivesTheServer kills the server in the middle: every item is in the log once.
func TestAMapOutlivesTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	req := api.MapRequest{
		ID: new("m"), Concurrency: new(int64(3)), Inputs: inputs(60),
		Code: new("import os, time\nwhile index > 20 and not os.path.exists('go'): time.sleep(0.01)\nindex"),
	}
	killed := errors.New("killed")
	if _, err := c.MapEach(within(t), id, req, func(item api.MapItem) error {
		if item.Index < 10 {
			return nil
		}
		s.Kill9()
		return killed
	}); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	s.Restart(t)
	c = s.Client()
	if a := s.do(t, call{method: "PUT", path: "/v1/sessions/" + id + "/files/go", body: "x", kind: "text/plain"}); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	got, err := c.Map(within(t), id, req)
	if err != nil || got.Summary.OK != 60 || len(got.Items) != 60 {
		t.Fatalf("%+v (%v)", got.Summary, err)
	}
	told := map[string]int{}
	for event, err := range c.ExecutionEvents(within(t), id, "m", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if shown, ok := event.Body.(api.DisplayData); ok {
			told[string(shown.Data[api.MediaMapItem])]++
		}
	}
	if len(told) != 60 {
		t.Errorf("the log tells of %d items", len(told))
	}
	for item, n := range told {
		if n != 1 {
			t.Errorf("%s: %d times", item, n)
		}
	}
}

// TestAMapKeepsTheSessionsLimits has items that take too much memory, and more copies than processes are allowed.
func TestAMapKeepsTheSessionsLimits(t *testing.T) {
	t.Parallel()
	c := start(t, options{}).Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: new(int64(256 << 20)), PIDs: new(int64(32))}})
	runOK(t, c, id, "kept = 5")
	got, err := c.Map(within(t), id, api.MapRequest{Inputs: inputs(4), Code: new("x = bytearray((1 << 30) if item == 2 else 1)\nlen(x)")})
	if err != nil || got.Summary.OK != 3 || got.Items[2].Status == api.MapOK {
		t.Errorf("%+v (%v)", got, err)
	}
	got, err = c.Map(within(t), id, api.MapRequest{Inputs: inputs(64), Concurrency: new(int64(64)), Code: new("import time\ntime.sleep(0.1)")})
	if err != nil || got.Summary.OK != 64 {
		t.Errorf("%+v (%v)", got.Summary, err)
	}
	runOK(t, c, id, "assert kept == 5")
}

// TestAMapThatCannotBeRunIsRefused sends requests that contradict themselves, and functions that do not exist.
func TestAMapThatCannotBeRunIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	for _, body := range []string{
		`{"inputs":[1]}`, `{"inputs":[1],"code":"1","function":"f"}`, `{"code":"1"}`, `{"code":" ","inputs":[]}`,
		`{"code":"1","inputs":[1],"concurrency":0}`, `{"code":"1","inputs":[1],"concurrency":65}`, `{"code":"1","inputs":[1],"timeout_s":0}`,
		`{"code":"1","inputs":[1],"on_error":"maybe"}`, `{"function":"f(","inputs":[1]}`, `{"code":"1","inputs":[1],"what":1}`,
		`{"code":"1","inputs":[` + strings.Repeat("1,", 10_000) + `1]}`,
	} {
		a := s.do(t, call{method: "POST", path: "/v1/sessions/" + id + "/map", body: body})
		if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "invalid_request") {
			t.Errorf("%.60s: %d %s", body, a.status, a.body)
		}
	}
	got, err := c.Map(within(t), id, api.MapRequest{Function: new("nothing"), Inputs: inputs(2)})
	if err != nil || got.Summary.Status != api.StatusError || got.Summary.Error == nil || got.Summary.Error.Ename != "NameError" ||
		got.Summary.Cancelled != 2 {
		t.Errorf("%+v (%v)", got, err)
	}
	empty, err := c.Map(within(t), id, api.MapRequest{Function: new("len"), Inputs: inputs(0)})
	if err != nil || empty.Summary.Status != api.StatusOK || len(empty.Items) != 0 {
		t.Errorf("%+v (%v)", empty, err)
	}
}

// mapExamples matches the examples of docs/map.md.
var mapExamples = regexp.MustCompile("(?s)<!-- example: map-([a-z]+) -->\n```[a-z]+\n(.*?)```(?:\n\nIt prints:\n\n```\n(.*?)```)?")

func TestAMapRunsTheExamplesOfItsPage(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	session(t, c, api.SessionRequest{ID: new("maps")})
	text, err := os.ReadFile("../docs/map.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, example := range mapExamples.FindAllStringSubmatch(string(text), -1) {
		found[example[1]] = example[2]
		if example[1] == "cell" {
			if got := runOK(t, c, "maps", example[2]); got != example[3] {
				t.Errorf("the cell printed %q, not %q", got, example[3])
			}
			continue
		}
		cmd := exec.CommandContext(within(t), "sh", "-c", example[2])
		cmd.Env = append(os.Environ(), "TALARIA_URL="+s.URL, "TALARIA_TOKEN="+s.Token)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		found[example[1]] = string(out)
	}
	if got := decode[api.MapResult](t, found["json"]); got.Summary.OK != 2 || string(got.Items[1].Value) != `"B"` {
		t.Errorf("%s", found["json"])
	}
	lines := strings.Split(strings.TrimSpace(found["stream"]), "\n")
	if len(lines) != 4 || string(decode[api.MapItem](t, lines[2]).Value) != "30" || decode[api.MapSummary](t, lines[3]).OK != 3 {
		t.Errorf("%s", found["stream"])
	}
}

// TestAMapCountsToolCallsAgainstItsCell has copies call a tool of a client, up to the limit.
func TestAMapCountsToolCallsAgainstItsCell(t *testing.T) {
	t.Parallel()
	c := start(t, options{}).Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: new(int64(6))}})
	serveEcho(t, c, id)
	got, err := c.Map(within(t), id, api.MapRequest{
		Code: new("from hermes_tools import echo\necho(n=item)['n']"), Inputs: inputs(8), Concurrency: new(int64(4)),
	})
	if err != nil || got.Summary.OK != 6 || got.Summary.Failed != 2 {
		t.Fatalf("%+v (%v)", got, err)
	}
	for i, item := range got.Items {
		if item.Status == api.MapOK && string(item.Value) != fmt.Sprint(i) || item.Error != nil && item.Error.Ename != "ToolLimit" {
			t.Errorf("%+v", item)
		}
	}
	if e, err := c.Execution(within(t), id, got.Summary.ExecutionID); err != nil || e.ToolCalls != 6 {
		t.Errorf("the execution has %d calls (%v)", e.ToolCalls, err)
	}
}
