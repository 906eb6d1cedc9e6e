package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talaria/api"
)

// executeCode runs code as a model's call of execute_code.
func executeCode(t *testing.T, s *Server, session string, req api.ExecutionRequest) api.ExecuteCodeResult {
	t.Helper()
	body, err := api.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	a := s.want(t, call{method: "POST", path: "/v1/sessions/" + session + "/executions?format=execute_code", body: string(body)}, http.StatusOK, "")
	return decode[api.ExecuteCodeResult](t, string(a.body))
}

// TestWhatAgentsRelyOn runs the rows that need a real kernel, all on one server.
func TestWhatAgentsRelyOn(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "tz: Europe/Stockholm\n", env: []string{"AWS_SECRET_ACCESS_KEY=of-the-server", "PATHLIKE=too"}})
	c := s.Client()
	code := func(text string) api.ExecutionRequest { return api.ExecutionRequest{Code: &text} }

	t.Run("P30 P32 P33 output is cut in the middle and says so", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{})
		r := executeCode(t, s, id, code(`print("first " + "ö" * 40_000 + " last")`))
		if !strings.HasPrefix(r.Output, "first ö") || !strings.HasSuffix(r.Output, "ö last\n") || strings.Contains(r.Output, "\uFFFD") ||
			len(r.Output) > 50_100 || !strings.Contains(r.Output, " of 80,012 bytes were left out here]") {
			t.Errorf("the output has %d bytes: %.20q … %.20q", len(r.Output), r.Output, r.Output[max(0, len(r.Output)-20):])
		}
		if !r.OutputTruncated || !r.StdoutTruncated || r.BytesTotal != 80_012 || r.BytesCaptured+r.BytesOmitted != r.BytesTotal ||
			r.BytesCaptured >= int64(len(r.Output)) || r.BytesCaptured < int64(len(r.Output))-60 {
			t.Errorf("of 80,012 bytes the result has %d and counts %+v", len(r.Output), r.Truncation)
		}
		if !strings.Contains(r.Warning, r.FullOutputURL) {
			t.Errorf("the warning does not say where the rest is: %q", r.Warning)
		}
		if whole := s.want(t, call{path: r.FullOutputURL}, http.StatusOK, ""); string(whole.body) != "first "+strings.Repeat("ö", 40_000)+" last\n" {
			t.Errorf("%s has %d bytes, not all 80,012", r.FullOutputURL, len(whole.body))
		}
		if r := executeCode(t, s, id, code(`print("x" * 49_999)`)); len(r.Output) != 50_000 || r.OutputTruncated || r.Truncation != (api.Truncation{}) || r.Warning != "" {
			t.Errorf("output of the limit: %d bytes, %q", len(r.Output), r.Warning)
		}
	})
	t.Run("P41 an error is in the output as well", func(t *testing.T) {
		r := executeCode(t, s, session(t, c, api.SessionRequest{}), code("print('before')\n1/0"))
		if r.Status != api.ExecuteCodeError || !strings.HasPrefix(r.Output, "before\n--- stderr ---\nTraceback") ||
			!strings.HasPrefix(r.Error, "Traceback") || !strings.HasSuffix(r.Error, "ZeroDivisionError: division by zero") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("P42 P44 a timeout ends the descendants too", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{})
		executeCode(t, s, id, code("pass"))
		daemon, dirs := s.daemon(t, id)
		req := code(`import ctypes, signal, subprocess
subprocess.Popen(["setsid", "sh", "-c", "trap '' INT TERM HUP; while :; do sleep 1000; done"])
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
ctypes.CDLL(None).sleep(1000)`)
		req.TimeoutS = new(5.0) // by now it sleeps, also on a busy machine
		r := executeCode(t, s, id, req)
		if r.Status != api.ExecuteCodeTimeout || !strings.Contains(r.Error, "timeout_s") || !strings.Contains(r.Output, r.Error) || r.Kernel.Ended != "timeout" {
			t.Errorf("%+v", r)
		}
		remains := func() bool {
			return daemon.alive() || slices.ContainsFunc(dirs, func(dir string) bool { _, err := os.Stat(dir); return err == nil })
		}
		for ctx := within(t); ctx.Err() == nil && remains(); time.Sleep(20 * time.Millisecond) { // the answer may come a moment before
		}
		if remains() {
			t.Errorf("process %v, or one of its control groups %v, outlives its kernel", daemon, dirs)
		}
	})
	t.Run("P25 P26 there is no transport by files", func(t *testing.T) {
		got := runOK(t, c, session(t, c, api.SessionRequest{}), `import os, stat
print(os.environ.get("HERMES_RPC_DIR"), stat.S_ISSOCK(os.stat(os.environ["HERMES_RPC_SOCKET"]).st_mode))`)
		if got != "None True\n" {
			t.Errorf("inside: %s", got)
		}
	})
	t.Run("P50 P51 the environment is what was asked for", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{Env: &map[string]string{"MY_TOKEN": "given"}})
		got := runOK(t, c, id, `import os, time
print([n for n in ("AWS_SECRET_ACCESS_KEY", "PATHLIKE") if n in os.environ], os.environ["MY_TOKEN"], time.tzname[0],
      all(os.environ.get(n) for n in ("PATH", "HOME", "LANG", "HERMES_RPC_SOCKET")))`)
		if got != "[] given CET True\n" {
			t.Errorf("inside: %s", got)
		}
	})
	t.Run("P52 no process around the kernel shows a secret", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{Secrets: &map[string]string{"API_KEY": "hush-hush-hush"}})
		got := runOK(t, c, id, `import glob, os
seen = [v for path in glob.glob("/proc/[0-9]*/cmdline") for v in [open(path, "rb").read()] if b"hush-" + b"hush" in v]
print(os.environ["API_KEY"] == "hush-" * 2 + "hush", seen, [n for n, v in globals().items() if v == os.environ["API_KEY"]])`)
		if got != "True [] []\n" {
			t.Errorf("inside: %s", got)
		}
		for _, p := range append(s.kernels(t), s.host(t)) {
			for _, file := range []string{"cmdline", "environ"} {
				raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, file))
				if err == nil && bytes.Contains(raw, []byte("hush-hush")) {
					t.Errorf("%s of process %v has the secret", file, p)
				}
			}
		}
	})
	t.Run("P53 the environment changes with a new session only", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{})
		a := s.want(t, call{method: "PATCH", path: "/v1/sessions/" + id, body: `{"env":{"A":"b"}}`},
			http.StatusBadRequest, api.CodeInvalidRequest)
		if !strings.Contains(string(a.body), "env") {
			t.Errorf("the refusal does not name the field: %s", a.body)
		}
	})
	t.Run("K01 state survives errors, and its loss is told", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{})
		for _, step := range []struct {
			code   string
			status api.ExecuteCodeStatus
			kernel api.ExecuteCodeKernel
		}{
			{"import math; x = 41", api.ExecuteCodeSuccess, api.ExecuteCodeKernel{ExecutionCount: 1}},
			{"raise ValueError", api.ExecuteCodeError, api.ExecuteCodeKernel{Reused: true, ExecutionCount: 2}},
			{"import sys; sys.exit()", api.ExecuteCodeError, api.ExecuteCodeKernel{Reused: true, ExecutionCount: 3}},
			{"assert x + math.ceil(0.5) == 42", api.ExecuteCodeSuccess, api.ExecuteCodeKernel{Reused: true, ExecutionCount: 4}},
			{"import os; os._exit(0)", api.ExecuteCodeError, api.ExecuteCodeKernel{Reused: true, ExecutionCount: 5, Ended: "exit:0"}},
			{"assert 'x' not in globals()", api.ExecuteCodeSuccess, api.ExecuteCodeKernel{ExecutionCount: 1, StateReset: true}},
		} {
			if r := executeCode(t, s, id, code(step.code)); r.Status != step.status || r.Kernel != step.kernel {
				t.Errorf("%s: %s %+v, want %s %+v", step.code, r.Status, r.Kernel, step.status, step.kernel)
			}
		}
		if _, err := c.ResetSession(within(t), id, api.ResetRequest{}); err != nil {
			t.Fatal(err)
		}
		if r := executeCode(t, s, id, code("pass")); !r.Kernel.StateReset {
			t.Errorf("after a reset: %+v", r.Kernel)
		}
	})
	t.Run("K03 K04 six cells at once share one interpreter, and no other session does", func(t *testing.T) {
		const same = "import os\ntry: me\nexcept NameError: me = os.urandom(8).hex()\nprint(me)"
		ids, printed := []string{"rows:six", "rows:other"}, [7]string{}
		kernels := func() int64 { // also those that are starting: one of an earlier session may be
			stats, err := c.Stats(within(t))
			if err != nil {
				t.Fatal(err)
			}
			return stats.Sessions[api.StateStarting] + stats.Sessions[api.StateIdle] + stats.Sessions[api.StateBusy]
		}
		before := kernels()
		var cells sync.WaitGroup
		for i := range printed {
			cells.Go(func() {
				id := ids[i/6]
				if _, _, err := c.EnsureSession(within(t), id, api.SessionRequest{}); err != nil {
					t.Error(err)
				}
				e, err := c.Execute(within(t), id, code(same))
				if err != nil || e.Status != api.StatusOK || e.Generation != 1 {
					t.Errorf("%s: %s, generation %d: %s (%v)", id, e.Status, e.Generation, e.Text, err)
				}
				printed[i] = e.Text
			})
		}
		cells.Wait()
		if after := kernels(); after != before+2 {
			t.Errorf("%d kernels became %d, want two more", before, after)
		}
		for i := range 6 {
			if printed[i] != printed[0] {
				t.Errorf("cell %d ran in another interpreter", i)
			}
		}
		if printed[6] == printed[0] {
			t.Error("two sessions share an interpreter")
		}
	})
	t.Run("K08 a function calls with the authority of the cell that runs", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: new(int64(1))}})
		runOK(t, c, id, "import hermes_tools\nfrom hermes_tools import write_file as kept\nn = kept('a', 'b')")
		e := run(t, c, id, `n = kept("a", "b")
try: kept("a", "c")
except hermes_tools.ToolLimit as e: print("limit")`)
		if e.Text != "limit\n" || e.ToolCalls != 1 {
			t.Errorf("the second cell made %d calls: %s", e.ToolCalls, e.Text)
		}
	})
}
