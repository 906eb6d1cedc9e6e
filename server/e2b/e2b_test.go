package e2b

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
)

func TestPathsOfTheWorkspace(t *testing.T) {
	for name, want := range map[string]string{
		"": "", ".": "", "~": "", "/home/user": "", "/home/user/": "", "/workspace": "", "a/b": "a/b", "./a": "a", "~/a": "a",
		"/home/user/a": "a", "/workspace/a/../b": "b", "a/../b": "b", "/home/user/../user/x": "x",
	} {
		if got, err := relative(name); err != nil || got != want {
			t.Errorf("relative(%q) is %q (%v), want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"..", "../a", "a/../../b", "/", "/etc/passwd", "/home", "/home/username", "/home/user/..", "/workspaces/a", "a\x00b"} {
		if got, err := relative(name); err == nil {
			t.Errorf("relative(%q) is %q", name, got)
		}
	}
}

func FuzzPathsNeverLeaveTheWorkspace(f *testing.F) {
	for _, seed := range []string{"/home/user/a", "../x", "~/..", "~/../x", "a//b/../..", "/workspace/./../etc"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := relative(name)
		if err != nil {
			return
		}
		if again, err := relative(absolute(got)); err != nil || again != got {
			t.Errorf("%q is %q in the workspace, whose path is %q (%v)", name, got, again, err)
		}
	})
}

// bundle makes the data of an output.
func bundle(values map[string]string) api.MIMEBundle {
	b := api.MIMEBundle{}
	for media, value := range values {
		b[media] = api.Raw(value)
	}
	return b
}

func resultJSON(t *testing.T, data api.MIMEBundle, main bool) map[string]any {
	t.Helper()
	text, err := api.Marshal(result(data, main))
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestResultsHaveE2BsNames(t *testing.T) {
	r := resultJSON(t, bundle(map[string]string{
		"text/plain": `"'it'"`, "text/html": `"<b>"`, "image/png": `"iVBO"`, "application/json": `{"a":1}`, "application/vnd.plotly.v1+json": `{"data":[]}`,
	}), true)
	if r["text"] != "it" || r["html"] != "<b>" || r["png"] != "iVBO" || r["is_main_result"] != true || r["json"].(map[string]any)["a"] != 1.0 {
		t.Errorf("the result is %v", r)
	}
	if _, ok := r["extra"].(map[string]any)["application/vnd.plotly.v1+json"]; !ok {
		t.Errorf("extra is %v", r["extra"])
	}
	for text, want := range map[string]string{`"'"`: "'", `"''"`: "", `"'a' + 'b'"`: "a' + 'b", `"\"x'"`: `"x'`, `"plain"`: "plain"} {
		if got := resultJSON(t, bundle(map[string]string{"text/plain": text}), true)["text"]; got != want {
			t.Errorf("%s is shown as %q, want %q", text, got, want)
		}
	}
}

func TestChartsHaveE2BsShapeAndWhatItLoses(t *testing.T) {
	c := resultJSON(t, bundle(map[string]string{chartMedia: `{"version":1,"axes":[{"title":"T","x":{"label":"time [s]","type":"number"},"y":{"type":"category"},
		"bar_mode":"stacked","series":[{"type":"bar","name":"in","orientation":"horizontal","positions":["a"],"values":[1],"stack":0},{"type":"reference_line"}]}]}`}), false)["chart"].(map[string]any)
	if c["type"] != "bar" || c["title"] != "T" || c["x_unit"] != "s" || c["orientation"] != "horizontal" || c["stacked"] != true {
		t.Errorf("the chart is %v", c)
	}
	element := c["elements"].([]any)[0].(map[string]any)
	if element["label"] != "a" || element["group"] != "in" || element["value"] != 1.0 {
		t.Errorf("its element is %v", element)
	}
	several := resultJSON(t, bundle(map[string]string{chartMedia: `{"title":"S","axes":[{"series":[{"type":"pie","labels":["x"],"shares":[0.5]}]},
		{"x":{"type":"date"},"series":[{"type":"line","name":"l","x":["2024-01-01"],"y":[null]}]},{"series":[{"type":"heatmap"}]}]}`}), false)["chart"].(map[string]any)
	list := several["elements"].([]any)
	if several["type"] != "superchart" || len(list) != 3 {
		t.Fatalf("the charts are %v", several)
	}
	if slice := list[0].(map[string]any)["elements"].([]any)[0].(map[string]any); slice["angle"] != 180.0 || slice["label"] != "x" {
		t.Errorf("the slice is %v", slice)
	}
	if line := list[1].(map[string]any); line["type"] != "line" || line["x_scale"] != "datetime" {
		t.Errorf("the line is %v", line)
	}
	if list[2].(map[string]any)["type"] != "unknown" {
		t.Errorf("the heat map is %v", list[2])
	}
}

func TestTracebacksHaveLines(t *testing.T) {
	if got := traceback([]string{"a\n", "b", "c"}); got != "a\nb\nc" {
		t.Errorf("the traceback is %q", got)
	}
}

func TestTheSignatureIsTheSDKs(t *testing.T) {
	// From e2b 2.51.0: getSignature({path: 'a.txt', operation: 'read', user: undefined, envdAccessToken: 'sbx_x'}).
	if got, want := sign("a.txt", "read", "", "sbx_x", ""), "v1_j1ApBsc5UueBqrzslQ0vRDQPzuhFJ4x+o0vcKsUTTqY"; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

func TestTimersOfSandboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExpiry()
		e.set("o", "later", time.Now().Add(time.Hour))
		e.set("o", "sooner", time.Now().Add(time.Minute))
		e.set("o", "moved", time.Now().Add(time.Second))
		e.set("o", "moved", time.Now().Add(2*time.Hour))
		e.set("o", "forgotten", time.Now().Add(time.Second))
		e.forget("o", "forgotten")
		e.set("o", "endless", time.Time{})
		for _, want := range []string{"sooner", "later", "moved"} {
			<-e.changed
			p, ok := e.begin()
			if !ok || p.id != want {
				t.Errorf("%s is due, want %s", p.id, want)
			}
			e.end(p)
			<-e.changed
		}
		e.set("o", "late", time.Now().Add(time.Second))
		e.stop()
		synctest.Wait() // goroutines that remain would fail the test
	})
}

func TestAPidNamesOneProcessWhateverItsNumber(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		pids := map[uint32]string{}
		all := []string{"0-1", "1-1", "1-65535", "1-65536", "1-65537", "2-1", "16383-65535", "16384-1", "32768-1", "65536-1", "4294967296-1", "1-4294967297"}
		for _, id := range all {
			pid, err := pidOf(id, terminal)
			if err != nil {
				t.Fatal(err)
			}
			if other := pids[pid]; other != "" {
				t.Errorf("%s and %s have the pid %d", id, other, pid)
			}
			pids[pid] = id
			got, isTerminal, err := idOf(pid, func(ofTerminals bool) ([]string, error) {
				if ofTerminals != terminal {
					t.Errorf("the wrong kind is asked for %s", id)
				}
				return all, nil
			})
			if got != id || isTerminal != terminal || err != nil {
				t.Errorf("%s, terminal %v, comes back as %s, %v, %v", id, terminal, got, isTerminal, err)
			}
		}
	}
	if pid, err := pidOf("3-7", false); err != nil || pid != 3<<16|7 {
		t.Errorf("3-7 is %d, %v", pid, err)
	}
	ended, _ := pidOf("1-65536", false)
	if got, _, err := idOf(ended, func(bool) ([]string, error) { return []string{"1-1"}, nil }); got != "" || err != nil {
		t.Errorf("one that has ended is %q, %v", got, err)
	}
}
