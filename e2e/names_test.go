package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// patiently asks until the kernel finds the time to answer, which it may not on a busy machine.
func patiently[T any](t *testing.T, ask func(context.Context) (T, error)) T {
	t.Helper()
	ctx := within(t)
	for {
		answer, err := ask(ctx)
		if isCode(err, api.CodeKernelBusy) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// whole fails with kernel_busy while some of the variables are missing: a kernel on a busy machine lists those that it has time for.
func whole(ask func(context.Context) (api.VariablesReply, error)) func(context.Context) (api.VariablesReply, error) {
	return func(ctx context.Context) (api.VariablesReply, error) {
		answer, err := ask(ctx)
		if err == nil && int64(len(answer.Items)) < answer.Total {
			err = api.Errorf(api.CodeKernelBusy, "%d of %d variables are listed", len(answer.Items), answer.Total)
		}
		return answer, err
	}
}

func isCode(err error, code api.Code) bool {
	var problem *api.Error
	return errors.As(err, &problem) && problem.Code == code
}

const named = `
import math
class Shape:
    """A shape of two sides."""
    def __init__(self, width, height=2): self.width, self.height = width, height
    @property
    def area(self): print("asked"); return 1
shape, settings = Shape(3), {"first key": 1, "second key": 2}
`

func TestNamesAreKnownWhileIdleAndWhileACellRuns(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, named)
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, cell := range []string{"", "import time\nprint('begun')\ntime.sleep(600)", "print('begun')\nwhile True: pass",
		"import threading, time\nprint('begun')\nlock = threading.Lock(); lock.acquire(); lock.acquire()"} {
		t.Run(cell, func(t *testing.T) {
			if cell != "" {
				beginCell(t, socket, cell)
			}
			checkNames(t, c, socket, id)
			if cell == "" {
				return
			}
			if _, err := socket.Do(within(t), "interrupt", nil); err != nil {
				t.Fatal(err)
			}
			if e := ended(t, socket); e.Status != api.StatusInterrupted || strings.Contains(e.Text, "asked") {
				t.Errorf("%s %s", e.Status, e.Text)
			}
		})
	}
}

// beginCell runs a cell and returns once it has printed something.
func beginCell(t *testing.T, socket *client.Socket, code string) {
	t.Helper()
	if _, err := socket.Execute(within(t), api.ExecutionRequest{Code: &code}); err != nil {
		t.Fatal(err)
	}
	for event, err := range socket.Events(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := event.Body.(api.Stream); ok {
			return
		}
	}
}

func ended(t *testing.T, socket *client.Socket) api.Execution {
	t.Helper()
	for event, err := range socket.Events(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if done, ok := event.Body.(api.ExecutionFinished); ok {
			return done.Execution
		}
	}
	panic("the events have no end")
}

func checkNames(t *testing.T, c *client.Client, socket *client.Socket, id string) {
	t.Helper()
	t.Helper()
	pong := patiently(t, func(ctx context.Context) (api.PingReply, error) { return c.Ping(ctx, id) })
	raw := patiently(t, func(ctx context.Context) (json.RawMessage, error) { return socket.Do(ctx, "ping_kernel", nil) })
	if pong.LatencyMS <= 0 || !strings.Contains(string(raw), `"latency_ms":`) {
		t.Errorf("ping: %+v, %s", pong, raw)
	}
	for code, want := range map[string]string{
		"sha":                "shape",
		"shape.wi":           "width",
		"shape.ar":           "area",
		"settings['fi":       "first key']",
		"Shape(hei":          "height=",
		"math.sq":            "sqrt",
		"import json.dec":    "decoder",
		"open('/etc/passw":   "passwd",
		"x = shape.he":       "height",
		"for s in settings.": "items",
	} {
		got := patiently(t, func(ctx context.Context) (api.CompleteReply, error) {
			got, err := socket.Complete(ctx, api.CompleteRequest{Code: &code, CursorPos: new(int64(len(code)))})
			if err == nil && !slices.Contains(got.Matches, want) && ctx.Err() == nil && len(got.Matches) == 0 {
				err = api.Errorf(api.CodeKernelBusy, "the time was up before anything was found")
			}
			return got, err
		})
		if !slices.Contains(got.Matches, want) || got.CursorEnd != int64(len(code)) {
			t.Errorf("complete %s: %+v", code, got)
		}
	}
	about := patiently(t, func(ctx context.Context) (api.InspectReply, error) {
		return socket.Inspect(ctx, api.InspectRequest{Code: new("Shape(1, ")})
	})
	if text := string(about.Data["text/plain"]); !about.Found || !strings.Contains(text, "A shape of two sides.") ||
		!strings.Contains(text, "Shape(width, height=2)") {
		t.Errorf("inspect: %+v", about)
	}
	source := patiently(t, func(ctx context.Context) (api.InspectReply, error) {
		return c.Inspect(ctx, id, api.InspectRequest{Code: new("shape.__init__"), DetailLevel: new(int64(1))})
	})
	if !strings.Contains(string(source.Data["text/plain"]), "self.width, self.height = width, height") {
		t.Errorf("inspect: %+v", source)
	}
	next := patiently(t, func(ctx context.Context) (api.IsCompleteReply, error) {
		return socket.IsComplete(ctx, api.IsCompleteRequest{Code: new("if shape:")})
	})
	if next != (api.IsCompleteReply{Status: api.SourceIncomplete, Indent: "    "}) {
		t.Errorf("is_complete: %+v", next)
	}
	listed := patiently(t, whole(socket.Variables))
	over := patiently(t, whole(func(ctx context.Context) (api.VariablesReply, error) { return c.Variables(ctx, id) }))
	for _, variables := range []api.VariablesReply{listed, over} {
		types := map[string]string{}
		for _, v := range variables.Items {
			types[v.Name] = v.Type + " " + v.Preview
		}
		if types["shape"] != "Shape <Shape width=3, height=2>" || types["math"] != "" {
			t.Errorf("variables: %v", types)
		}
	}
}

// While C code keeps Python to itself nothing can be answered, and the client is told so in time.
func TestAKernelThatCannotAnswerIsBusy(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "x = 1")
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	beginCell(t, socket, "print('begun', flush=True)\nsum(range(10**12))")
	for err = nil; !isCode(err, api.CodeKernelBusy); { // it has printed, and is about to begin
		if _, err = socket.Variables(within(t)); err != nil && !isCode(err, api.CodeKernelBusy) {
			t.Fatal(err)
		}
	}
	fastest := time.Hour
	for range 5 {
		asked := time.Now()
		_, err := socket.Variables(within(t))
		if !isCode(err, api.CodeKernelBusy) {
			t.Fatalf("variables: %v", err)
		}
		fastest = min(fastest, time.Since(asked))
	}
	t.Logf("busy was said after %v", fastest)
	if fastest < 100*time.Millisecond || fastest > 10*time.Second {
		t.Errorf("busy was said after %v", fastest)
	}
	if _, err := c.ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if listed := patiently(t, socket.Variables); listed.Total != 0 {
		t.Errorf("after the reset: %+v", listed)
	}
}

func TestQuestionsStartNoKernelAndAreNoUse(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{IdleTimeoutS: new(0.5), OnIdle: new(api.OnIdleDrop)})
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	runOK(t, c, id, "x = 1")
	for { // the questions go on until the kernel has been reaped
		_, err := socket.Complete(within(t), api.CompleteRequest{Code: new("x")})
		if isCode(err, api.CodeNoKernel) {
			break
		}
		if err != nil && !isCode(err, api.CodeKernelBusy) {
			t.Fatal(err)
		}
	}
	if _, err := c.Variables(within(t), id); !isCode(err, api.CodeNoKernel) {
		t.Errorf("variables without a kernel: %v", err)
	}
	is, err := c.Session(within(t), id)
	for err == nil && is.State != api.StateDead { // the kernel's death is on its way to the log
		if _, err = socket.Next(within(t)); err == nil {
			is, err = c.Session(within(t), id)
		}
	}
	if err != nil || is.Reason != "idle_timeout" {
		t.Errorf("%s %s %v", is.State, is.Reason, err)
	}
	if _, err := c.UpdateSession(within(t), id, api.SessionPatch{IdleTimeoutS: new(0.0)}); err != nil {
		t.Fatal(err)
	}
	runOK(t, c, id, "y = 2")
	listed := patiently(t, whole(socket.Variables))
	if len(listed.Items) != 1 || listed.Items[0].Name != "y" {
		t.Errorf("in the next kernel: %+v", listed)
	}
}

// A cell can write anything to the control channel: that affects only the answers about itself.
func TestForgedAnswersHarmNobody(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, `
import json, os, socket, stat
control = max(fd for fd in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{fd}")
              and stat.S_ISSOCK(os.fstat(fd).st_mode))
os.set_blocking(control, True)
def forge(**frame):
    os.write(control, b"\n" + json.dumps(frame).encode() + b"\n")
for number in range(1, 200):
    forge(type="completion", request_id=str(number), matches=["forged"], start=0, end=0)
forge(type="variables", request_id="1", items=[{"name": "x" * 5_000_000, "type": "t", "preview": "p"}], total=-1)
forge(type="inspection", request_id="1", found=True, data={"text/html": "<script>"})
forge(type="completeness", request_id={"a": 1}, status="complete", indent="")
own = 1
`)
	socket, err := c.Attach(within(t), id, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	got := patiently(t, func(ctx context.Context) (api.CompleteReply, error) {
		return socket.Complete(ctx, api.CompleteRequest{Code: new("ow")})
	})
	if !slices.Equal(got.Matches, []string{"own"}) {
		t.Errorf("%+v", got)
	}
}
