package session_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"talaria/api"
	"talaria/kernel"
	"talaria/session"
)

func TestACellsLifeInTheLog(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	until(t, s, 0, "session_state")
	until(t, s, 1, "session_state") // idle
	e := execute(t, s, "print one\nresult 2")
	wantShape(t, s, "state:starting state:idle execution_queued state:busy execution_started stdout:one execute_result "+
		"finished:ok:kept state:idle")
	if e.Status != api.StatusOK || e.Text != "one\n2" || *e.ExecutionCount != 1 || e.Generation != 1 || len(e.Outputs) != 2 {
		t.Errorf("the execution is %+v", e)
	}
	e = execute(t, s, "fail oops")
	if e.Status != api.StatusError || e.Error.Ename != "ValueError" || e.Outputs[0].OutputType != "error" || !strings.Contains(e.Text, "ValueError: oops") {
		t.Errorf("the execution is %+v", e)
	}
	e = execute(t, s, "result 3", func(r *api.ExecutionRequest) { r.Silent = ptr(true) })
	if e.ExecutionCount != nil || len(e.Outputs) != 0 {
		t.Errorf("a silent execution is %+v", e)
	}
	if info := s.Info(t.Context()); info.ExecutionCount != 2 || info.State != api.StateIdle || info.ReapAt == nil || info.Kernel.Generation != 1 {
		t.Errorf("the session is %+v", info)
	}
}

func TestTheSameIDRunsOnce(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	id := func(r *api.ExecutionRequest) { r.ID = ptr("mine") }
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { submit(t, s, "print x", id) })
	}
	wg.Wait()
	wait(t, s, "mine")
	execute(t, s, "print x", id)
	if n := strings.Count(shape(now(t, s)), "stdout:x"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	other := "print y"
	if _, err := s.Submit(t.Context(), api.ExecutionRequest{ID: ptr("mine"), Code: &other}, true); code(err) != api.CodeExecutionConflict {
		t.Errorf("other code under the same id: %v", err)
	}
}

func TestExecutionsRunInTheOrderTheyCame(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	var ids []string
	for i := range 100 {
		ids = append(ids, submit(t, s, fmt.Sprintf("print %d", i)))
	}
	for i, id := range ids {
		if e := wait(t, s, id); e.Text != fmt.Sprintf("%d\n", i) || *e.ExecutionCount != int64(i+1) {
			t.Fatalf("execution %d is %q, number %d", i, e.Text, *e.ExecutionCount)
		}
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	first := submit(t, s, "sleep")
	until(t, s, 0, "execution_started")
	for range api.MaxQueued {
		submit(t, s, "print x")
	}
	one := "print x"
	if _, err := s.Submit(t.Context(), api.ExecutionRequest{Code: &one}, true); code(err) != api.CodeQueueFull {
		t.Errorf("one past the bound: %v", err)
	}
	if err := s.Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, s, first); e.Status != api.StatusInterrupted {
		t.Errorf("the running one is %s", e.Status)
	}
	for _, e := range executions(t, s) {
		if e.ID != first && (e.Status != api.StatusCancelled || e.Reason != "interrupted" || e.State != api.VariablesKept) {
			t.Fatalf("a waiting one is %s, %s, %s", e.Status, e.Reason, e.State)
		}
	}
	if e := execute(t, s, "print alive"); e.Text != "alive\n" {
		t.Errorf("afterwards: %+v", e)
	}
}

func TestInterruptByIDMeansOnlyThatExecution(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	first := submit(t, s, "sleep")
	second, third := submit(t, s, "print 2"), submit(t, s, "print 3")
	until(t, s, 0, "execution_started")
	if err := s.Interrupt(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, s, second); e.Status != api.StatusCancelled {
		t.Errorf("the second is %s", e.Status)
	}
	if err := s.Interrupt(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, s, first); e.Status != api.StatusInterrupted || e.State != api.VariablesKept || e.Reason != "interrupted" {
		t.Errorf("the first is %+v", e)
	}
	if e := wait(t, s, third); e.Status != api.StatusOK {
		t.Errorf("the third is %s", e.Status)
	}
	if err := s.Interrupt(t.Context(), first); err != nil {
		t.Errorf("one that has ended: %v", err)
	}
}

func TestStopOnErrorCancelsWhatWaits(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	gate := submit(t, s, "sleep")
	until(t, s, 0, "execution_started")
	failing := submit(t, s, "fail x", func(r *api.ExecutionRequest) { r.StopOnError = ptr(true) })
	behind := submit(t, s, "print x")
	if err := s.Interrupt(t.Context(), gate); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, s, failing); e.Status != api.StatusError {
		t.Errorf("%+v", e)
	}
	if e := wait(t, s, behind); e.Status != api.StatusCancelled || e.Reason != "stop_on_error" {
		t.Errorf("%+v", e)
	}
}

func TestTheDeathOfAKernelIsToldAndTheNextCellHasAFreshOne(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	until(t, s, 1, "session_state")
	dead := submit(t, s, "print before\nexit 7")
	behind := submit(t, s, "print x")
	e := wait(t, s, dead)
	if e.Status != api.StatusDied || e.Reason != "exit:7" || e.State != api.VariablesLost || e.Error.Ename != "KernelDied" {
		t.Errorf("%+v", e)
	}
	if b := wait(t, s, behind); b.Status != api.StatusCancelled && b.Status != api.StatusOK {
		t.Errorf("%+v", b)
	}
	until(t, s, 0, "kernel_died")
	e = execute(t, s, "print again")
	if e.Status != api.StatusOK || e.Generation != 2 || *e.ExecutionCount < 1 {
		t.Errorf("%+v", e)
	}
	log := shape(now(t, s))
	for _, want := range []string{"finished:died:lost:exit:7", "died:exit:7:1", "state:dead:exit:7", "reset:died:2"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
}

func TestAKernelThatDiesIdleIsReportedAtOnce(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "print x")
	r.fake.KillAll(syscall.SIGSEGV)
	events := until(t, s, 0, "kernel_died")
	died := events[len(events)-1].Body.(api.KernelDied)
	if died.Reason != "signal:SIGSEGV" || died.Signal != "SIGSEGV" || died.Generation != 1 {
		t.Errorf("%+v", died)
	}
	if e := execute(t, s, "print y"); e.Status != api.StatusOK || e.Generation != 2 {
		t.Errorf("%+v", e)
	}
}

// TestATimeOutInterruptsFirstAndThenKills is row P44.
func TestATimeOutInterruptsFirstAndThenKills(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	short := func(r *api.ExecutionRequest) { r.TimeoutS = ptr(0.05) }
	if e := execute(t, s, "sleep", short); e.Status != api.StatusTimeout || e.State != api.VariablesKept || e.Reason != "timeout" {
		t.Errorf("one that can be interrupted: %+v", e)
	}
	e := execute(t, s, "hang", short)
	if e.Status != api.StatusTimeout || e.State != api.VariablesLost || e.Error.Ename != "ExecutionTimeout" {
		t.Errorf("one that ignores it: %+v", e)
	}
	if e := execute(t, s, "print x"); e.Status != api.StatusOK || e.Generation != 2 {
		t.Errorf("afterwards: %+v", e)
	}
}

func TestResetGivesAFreshKernelAndKeepsFilesOnlyIfAsked(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "write a.txt hello")
	running, waiting := submit(t, s, "sleep"), submit(t, s, "print x")
	waitFor(t, s, running, "execution_started")
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, s, running); e.Status != api.StatusDied || e.Reason != "reset" || e.State != api.VariablesLost {
		t.Errorf("the running one: %+v", e)
	}
	if e := wait(t, s, waiting); e.Status != api.StatusCancelled || e.Reason != "reset" || e.State != api.VariablesLost {
		t.Errorf("the waiting one: %+v", e)
	}
	info := s.Info(t.Context())
	if info.Kernel.Generation != 2 || info.State != api.StateIdle || info.ExecutionCount != 0 {
		t.Errorf("the session: %+v", info)
	}
	if log := shape(now(t, s)); strings.Contains(log, "died:reset:1") || !strings.Contains(log, "reset:reset:2") {
		t.Errorf("the log: %s", log)
	}
	f, _, err := s.Files().Open(t.Context(), "a.txt")
	if got := read(t, f, err); got != "hello" {
		t.Errorf("the file: %q", got)
	}
	if err := s.Reset(t.Context(), api.ResetRequest{KeepFiles: ptr(false)}); err != nil {
		t.Fatal(err)
	}
	if files, _, err := s.Files().List(t.Context(), ""); err != nil || len(files) != 0 {
		t.Errorf("files: %v, %v", files, err)
	}
	if e := execute(t, s, "print x"); e.Generation != 3 || len(e.Artifacts) != 0 {
		t.Errorf("afterwards: %+v", e)
	}
}

// TestAnIdleKernelIsReapedAndABusyOneNever is row K06.
func TestAnIdleKernelIsReapedAndABusyOneNever(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{IdleTimeoutS: ptr(0.15)})
	busy := submit(t, s, "sleep")
	started := until(t, s, 0, "execution_started")
	time.Sleep(300 * time.Millisecond) // twice the idle time; nothing may happen, so there is nothing to wait for
	if info := s.Info(t.Context()); info.State != api.StateBusy || info.ReapAt != nil {
		t.Fatalf("a busy session: %+v", info)
	}
	s.Interrupt(t.Context(), busy)
	wait(t, s, busy)
	var reaped api.SessionStateEvent
	for after := started[len(started)-1].Seq; reaped.State != api.StateDead; {
		events := until(t, s, after, "session_state")
		after = events[len(events)-1].Seq
		reaped = events[len(events)-1].Body.(api.SessionStateEvent)
	}
	if reaped.Reason != "idle_timeout" {
		t.Errorf("%+v", reaped)
	}
	if info := s.Info(t.Context()); info.State != api.StateDead || info.Reason != "idle_timeout" || info.ReapAt != nil {
		t.Errorf("%+v", info)
	}
	if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: ptr(0.0)}); err != nil {
		t.Fatal(err)
	}
	e := execute(t, s, "print x")
	if e.Generation != 2 || !strings.Contains(shape(now(t, s)), "reset:idle_timeout:2") {
		t.Errorf("%+v", e)
	}
	if info := s.Info(t.Context()); info.ReapAt != nil || info.State != api.StateIdle {
		t.Errorf("with no idle time: %+v", info)
	}
}

func TestChangesOfTheMetadataDoNotOvertakeEachOther(t *testing.T) {
	s := scripted(t, nil).session(api.SessionRequest{Metadata: &map[string]string{"kept": "yes"}})
	want := map[string]string{"kept": "yes"}
	var changing sync.WaitGroup
	for i := range 20 {
		key := fmt.Sprint(i)
		want[key] = "made"
		changing.Go(func() {
			err := s.UpdateMetadata(t.Context(), api.SessionPatch{}, func(metadata map[string]string) error {
				metadata[key] = "made"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	changing.Wait()
	refused := api.Errorf(api.CodeInvalidRequest, "refused")
	err := s.UpdateMetadata(t.Context(), api.SessionPatch{Name: ptr("new")}, func(metadata map[string]string) error {
		clear(metadata)
		return refused
	})
	if err != refused {
		t.Errorf("a change that fails: %v", err)
	}
	if info := s.Info(t.Context()); !maps.Equal(info.Metadata, want) || info.Name != "" {
		t.Errorf("the metadata is %v, and the name %q", info.Metadata, info.Name)
	}
}

func TestAKernelThatIsHeldIsNotReaped(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{IdleTimeoutS: ptr(0.15)})
	first, second := s.Hold(), s.Hold()
	execute(t, s, "print x")
	first()
	first()
	after := now(t, s)
	time.Sleep(300 * time.Millisecond) // twice the idle time; nothing may happen, so there is nothing to wait for
	if info := s.Info(t.Context()); info.State != api.StateIdle || info.ReapAt != nil {
		t.Fatalf("a session that is held: %+v", info)
	}
	second()
	var reaped api.SessionStateEvent
	for at := after[len(after)-1].Seq; reaped.State != api.StateDead; {
		events := until(t, s, at, "session_state")
		at = events[len(events)-1].Seq
		reaped = events[len(events)-1].Body.(api.SessionStateEvent)
	}
	if reaped.Reason != "idle_timeout" {
		t.Errorf("%+v", reaped)
	}
}

func TestArtifactsAreWhatTheCellChanged(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	if _, _, err := s.Files().Put(t.Context(), "in/data.csv", strings.NewReader("a,b\n")); err != nil {
		t.Fatal(err)
	}
	e := execute(t, s, "write b.csv 1,2\nwrite a.md # hi")
	if len(e.Artifacts) != 2 || e.Artifacts[0].Path != "a.md" || e.Artifacts[1].Change != api.Created || e.Artifacts[1].MediaType != "text/csv; charset=utf-8" {
		t.Fatalf("%+v", e.Artifacts)
	}
	first := e.Artifacts[1]
	e = execute(t, s, "write b.csv 3,4,5\nremove a.md")
	if len(e.Artifacts) != 2 || e.Artifacts[0].Change != api.Deleted || e.Artifacts[0].Size != nil || e.Artifacts[1].Change != api.Modified {
		t.Fatalf("%+v", e.Artifacts)
	}
	f, mediaType, err := r.OpenArtifact(t.Context(), "ann", first.SHA256)
	if got := read(t, f, err); got != "1,2" || mediaType != "text/csv; charset=utf-8" {
		t.Errorf("the first bytes are %q, %s", got, mediaType)
	}
	if _, _, err := r.OpenArtifact(t.Context(), "bob", first.SHA256); code(err) != api.CodeArtifactNotFound {
		t.Errorf("another owner: %v", err)
	}
	if e := execute(t, s, "print x"); len(e.Artifacts) != 0 {
		t.Errorf("a cell that changes nothing: %+v", e.Artifacts)
	}
	page, err := s.Executions().Artifacts(t.Context(), api.PageQuery{Limit: 3})
	if err != nil || len(page.Items) != 3 || page.NextCursor == "" || page.Items[0].Path != "b.csv" {
		t.Fatalf("%+v, %v", page, err)
	}
	page, err = s.Executions().Artifacts(t.Context(), api.PageQuery{Limit: 3, Cursor: page.NextCursor})
	if err != nil || len(page.Items) != 1 || page.NextCursor != "" || page.Items[0].Path != "a.md" {
		t.Errorf("%+v, %v", page, err)
	}
	for _, ev := range now(t, s) {
		if a, ok := ev.Body.(api.ArtifactEvent); ok && a.Change != api.Deleted && a.Data == nil {
			t.Errorf("%s has no data", a.Path)
		}
	}
}

func TestUploadsPastTheQuotaAreRefused(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: ptr(int64(100_000))}})
	put := func(name string, n int) error {
		_, _, err := s.Files().Put(t.Context(), name, strings.NewReader(strings.Repeat("x", n)))
		return err
	}
	if err := put("a", 60_000); err != nil {
		t.Fatal(err)
	}
	if err := put("b", 60_000); code(err) != api.CodeDiskLimit {
		t.Errorf("past the quota: %v", err)
	}
	if err := put("a", 80_000); err != nil {
		t.Errorf("in place of a file: %v", err)
	}
	if files, _, err := s.Files().List(t.Context(), ""); err != nil || len(files) != 1 || files[0].Size != 80_000 {
		t.Errorf("%+v, %v", files, err)
	}
}

// Neither of two uploads at once is too large by itself.
func TestUploadsAtTheSameTimeShareTheQuota(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: ptr(int64(100_000))}})
	part := []byte(strings.Repeat("x", 30_000))
	begin := func(name string) *upload {
		u := &upload{asks: make(chan struct{}), parts: make(chan []byte), ended: make(chan error, 1)}
		go func() {
			_, _, err := s.Files().Put(t.Context(), name, u)
			u.ended <- err
		}()
		<-u.asks
		u.parts <- part
		<-u.asks // the part is in the file
		return u
	}
	a, b := begin("a"), begin("b")
	a.parts <- part
	<-a.asks
	b.parts <- part
	select {
	case err := <-b.ended:
		if code(err) != api.CodeDiskLimit {
			t.Errorf("the second one: %v", err)
		}
	case <-b.asks:
		t.Error("both are taken")
		close(b.parts)
		<-b.ended
	}
	c := begin("c") // has the room that the second one leaves
	for _, u := range []*upload{a, c} {
		close(u.parts)
		if err := <-u.ended; err != nil {
			t.Error(err)
		}
	}
	if files, _, err := s.Files().List(t.Context(), ""); err != nil || len(files) != 2 || files[0].Size != 60_000 || files[1].Size != 30_000 {
		t.Errorf("%+v, %v", files, err)
	}
}

// upload is the content of a file that comes in parts.
type upload struct {
	asks  chan struct{} // one for each part that is to be read
	parts chan []byte
	ended chan error
}

func (u *upload) Read(p []byte) (int, error) {
	u.asks <- struct{}{}
	part, ok := <-u.parts
	if !ok {
		return 0, io.EOF
	}
	return copy(p, part), nil
}

// TestOutputPastItsLimitKeepsHeadAndTailAndTheWholeAsAnArtifact is row P32.
func TestOutputPastItsLimitKeepsHeadAndTailAndTheWholeAsAnArtifact(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{OutputBytes: ptr(int64(10_000))}})
	e := execute(t, s, "flood 5000\nresult end")
	whole := ""
	for i := range 5000 {
		whole += fmt.Sprintf("%09d\n", i)
	}
	var logged, digest string
	var notice *api.Truncated
	for _, ev := range now(t, s) {
		if b, ok := ev.Body.(api.Stream); ok {
			if b.Truncated != nil {
				notice, digest = b.Truncated, b.Truncated.SHA256
				if logged != whole[:4000] {
					t.Errorf("the head has %d bytes", len(logged))
				}
				logged = ""
				continue
			}
			logged += b.Text
		}
	}
	if notice == nil || logged != whole[len(whole)-6000:] {
		t.Fatalf("notice %+v, tail of %d bytes", notice, len(logged))
	}
	if e.TruncatedBytes != 40_000 || notice.Bytes != 40_000 {
		t.Errorf("%d and %d bytes are said to be lacking", e.TruncatedBytes, notice.Bytes)
	}
	f, _, err := r.OpenArtifact(t.Context(), "ann", digest)
	if got := read(t, f, err); got != whole {
		t.Errorf("the artifact has %d bytes", len(got))
	}
	if n := len(e.Outputs); n != 2 || e.Outputs[n-1].OutputType != "execute_result" {
		t.Errorf("%d outputs", n)
	}
	if !strings.HasPrefix(e.Text, whole[:20_000]) || !strings.HasSuffix(e.Text, "end") || len(e.Text) > 51_000 {
		t.Errorf("the text has %d bytes", len(e.Text))
	}
	e = execute(t, s, "flood 900") // above the head, below the limit
	if e.TruncatedBytes != 0 || len(e.Outputs) != 1 || e.Outputs[0].Text != whole[:9000] {
		t.Errorf("%d bytes lacking, %d outputs", e.TruncatedBytes, len(e.Outputs))
	}
	if spools, err := filepath.Glob(filepath.Join(r.dir, "artifacts", "spool", "*")); err != nil || len(spools) > 0 {
		t.Errorf("spools are left: %v", spools)
	}
}

func TestSecretsAreTakenOutOfTheTextAndOnlyOutOfIt(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{
		Secrets: &map[string]string{"PW": "hunter2hunter2", "SHORT": "abc"},
		Env:     &map[string]string{"API_KEY": "key-123456", "PLAIN": "visible-value"},
	})
	e := execute(t, s, "print pw hunter2hunter2 key-123456 visible-value abc\nerr hunter2hunter2")
	if want := "pw [redacted] [redacted] visible-value abc\n[redacted]\n"; e.Text != want {
		t.Errorf("the text is %q", e.Text)
	}
	if e.Outputs[0].Text != "pw hunter2hunter2 key-123456 visible-value abc\n" {
		t.Errorf("the output is %q", e.Outputs[0].Text)
	}
	if spec := r.fake.Specs()[0]; spec.Env["PW"] != "hunter2hunter2" || spec.Env["PLAIN"] != "visible-value" {
		t.Errorf("the kernel has %v", spec.Env)
	}
}

func TestInputIsAskedOnlyWhereSomebodyCanAnswer(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	if e := execute(t, s, "ask who? "); e.Status != api.StatusError || e.Error.Ename != "StdinNotImplementedError" {
		t.Errorf("with nobody there: %+v", e)
	}
	if err := s.Input(t.Context(), api.InputRequest{Value: "x"}); code(err) != api.CodeNoInputPending {
		t.Errorf("with nothing asked: %v", err)
	}
	detach := s.Attach()
	id := submit(t, s, "ask who? ")
	until(t, s, 0, "input_request")
	p := s.Info(t.Context()).PendingInput
	if p == nil || p.Prompt != "who? " || p.ExecutionID != id {
		t.Fatalf("pending: %+v", p)
	}
	detach() // the question survives
	if err := s.Input(t.Context(), api.InputRequest{Value: "x", RequestID: ptr("wrong")}); code(err) != api.CodeNoInputPending {
		t.Errorf("a wrong request: %v", err)
	}
	if err := s.Input(t.Context(), api.InputRequest{Value: "me", RequestID: &p.RequestID}); err != nil {
		t.Fatal(err)
	}
	if err := s.Input(t.Context(), api.InputRequest{Value: "again"}); code(err) != api.CodeNoInputPending {
		t.Errorf("a second answer: %v", err)
	}
	if e := wait(t, s, id); e.Text != "got me\n" {
		t.Errorf("%+v", e)
	}
	if log := shape(now(t, s)); !strings.Contains(log, "input_request input_closed stdout:got me") {
		t.Errorf("the log: %s", log)
	}
}

func TestPutIsGetOrMake(t *testing.T) {
	r := scripted(t, nil)
	put := func(req api.SessionRequest) (bool, error) {
		_, created, err := r.Ensure(t.Context(), "ann", "chat:1", req, "")
		return created, err
	}
	full := api.SessionRequest{
		Name: ptr("n"), Env: &map[string]string{"A": "1"}, Limits: &api.LimitsRequest{PIDs: ptr(int64(50))}, IdleTimeoutS: ptr(60.0),
	}
	if created, err := put(full); !created || err != nil {
		t.Fatal(created, err)
	}
	for name, c := range map[string]struct {
		req  api.SessionRequest
		code api.Code
	}{
		"nothing asked":       {api.SessionRequest{}, ""},
		"the same":            {full, ""},
		"another name":        {api.SessionRequest{Name: ptr("m"), Metadata: &map[string]string{"x": "y"}}, ""},
		"another env":         {api.SessionRequest{Env: &map[string]string{"A": "2"}}, api.CodeSessionConflict},
		"another limit":       {api.SessionRequest{Limits: &api.LimitsRequest{PIDs: ptr(int64(51))}}, api.CodeSessionConflict},
		"another environment": {api.SessionRequest{Environment: ptr("other")}, api.CodeSessionConflict},
		"another idle time":   {api.SessionRequest{IdleTimeoutS: ptr(61.0)}, api.CodeSessionConflict},
		"no environment":      {api.SessionRequest{Environment: ptr("nope")}, api.CodeInvalidRequest},
		"past the ceiling":    {api.SessionRequest{Limits: &api.LimitsRequest{PIDs: ptr(int64(1e6))}}, api.CodeLimitExceeded},
		"a network":           {api.SessionRequest{Network: &api.Network{Mode: api.NetworkFull}}, api.CodeLimitExceeded},
		"no such network":     {api.SessionRequest{Network: &api.Network{Mode: "some"}}, api.CodeInvalidRequest},
		"the same network":    {api.SessionRequest{Network: &api.Network{Mode: api.NetworkNone}}, ""},
		"packages":            {api.SessionRequest{Packages: &[]string{"x"}}, api.CodeForbidden},
		"no packages":         {api.SessionRequest{Packages: &[]string{}, Mounts: &[]api.Mount{}, Tools: &[]api.Tool{}}, ""},
		"another id":          {api.SessionRequest{ID: ptr("chat:2")}, api.CodeInvalidRequest},
	} {
		created, err := put(c.req)
		if created || code(err) != c.code || (c.code == "") != (err == nil) {
			t.Errorf("%s: %v, %v", name, created, err)
		}
	}
	if _, err := r.Create(t.Context(), "ann", api.SessionRequest{ID: ptr("chat:1")}); code(err) != api.CodeSessionExists {
		t.Errorf("POST with a taken id: %v", err)
	}
	if _, err := r.Create(t.Context(), "bob", api.SessionRequest{ID: ptr("chat:1")}); err != nil {
		t.Errorf("another owner's: %v", err)
	}
	var wg sync.WaitGroup
	made := make([]bool, 20)
	for i := range made {
		wg.Go(func() {
			var err error
			if _, made[i], err = r.Ensure(context.Background(), "ann", "race", api.SessionRequest{}, ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(slices.DeleteFunc(made, func(b bool) bool { return !b })); n != 1 {
		t.Errorf("%d of 20 made it", n)
	}
}

// A reader that begins while the session is being removed is told so, though the log is no longer where it was.
func TestAReaderThatComesTooLateIsTold(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	execute(t, s, "print 1")
	if err := r.Delete(t.Context(), "ann", "x"); err != nil {
		t.Fatal(err)
	}
	for event, err := range s.Journal().Events(t.Context(), 0) {
		if err != session.ErrDeleted {
			t.Errorf("%+v, %v", event, err)
		}
	}
}

func TestADeletedSessionIsGone(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	execute(t, s, "write f 1")
	running := submit(t, s, "sleep")
	waitFor(t, s, running, "execution_started")
	waited := make(chan api.Execution)
	go func() {
		e, err := s.Wait(context.Background(), running)
		if err != nil {
			t.Error(err)
		}
		waited <- e
	}()
	ended := make(chan error)
	go func() {
		for _, err := range s.Journal().Events(context.Background(), 0) {
			if err != nil {
				ended <- err
			}
		}
	}()
	if err := r.Delete(t.Context(), "bob", "x"); code(err) != api.CodeSessionNotFound {
		t.Errorf("by another owner: %v", err)
	}
	if err := r.Delete(t.Context(), "ann", "x"); err != nil {
		t.Fatal(err)
	}
	if e := <-waited; e.Status != api.StatusDied || e.Reason != "deleted" {
		t.Errorf("who waited has %+v", e)
	}
	if err := <-ended; err != session.ErrDeleted {
		t.Errorf("who read has %v", err)
	}
	if err := r.Delete(t.Context(), "ann", "x"); code(err) != api.CodeSessionNotFound {
		t.Errorf("again: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(r.dir, "sessions")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if r.fake.Open() > 0 {
		t.Error("a sandbox is open")
	}
}

func TestListsArePagedNewestFirst(t *testing.T) {
	r := scripted(t, nil)
	for i := range 7 {
		r.session(api.SessionRequest{ID: ptr(fmt.Sprint("s", i)), Metadata: &map[string]string{"even": fmt.Sprint(i%2 == 0)}})
	}
	if _, err := r.Create(t.Context(), "bob", api.SessionRequest{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for q := (api.PageQuery{Limit: 3}); ; {
		page, err := r.List(t.Context(), "ann", session.Filter{Page: q})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Items {
			got = append(got, s.ID)
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	if want := []string{"s6", "s5", "s4", "s3", "s2", "s1", "s0"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	page, err := r.List(t.Context(), "ann", session.Filter{Metadata: map[string]string{"even": "true"}})
	if err != nil || len(page.Items) != 4 {
		t.Errorf("%d, %v", len(page.Items), err)
	}
	r.session(api.SessionRequest{ID: ptr("odd"), Name: ptr("100% of_It")})
	for text, want := range map[string]int{"S": 7, "s3": 1, "of_it": 1, "0%": 1, "%": 1, "_": 1, "ofxit": 0, `\`: 0} {
		if page, err = r.List(t.Context(), "ann", session.Filter{Search: text}); err != nil || len(page.Items) != want {
			t.Errorf("search for %q: %d sessions, want %d, %v", text, len(page.Items), want, err)
		}
	}
	if _, err := r.List(t.Context(), "ann", session.Filter{Page: api.PageQuery{Cursor: "!"}}); code(err) != api.CodeInvalidRequest {
		t.Errorf("a bad cursor: %v", err)
	}
}

func TestEverythingIsThereAfterAStopAndStart(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x"), Metadata: &map[string]string{"k": "v"}})
	execute(t, s, "print one\nresult 1\nwrite f text")
	running := submit(t, s, "print two\nsleep")
	waiting := submit(t, s, "print three")
	until(t, s, 0, "execute_result")
	for _, e := range until(t, s, 0, "stream") {
		_ = e
	}
	waitText(t, s, running, "two\n")
	before := now(t, s)
	r.close()
	r.open()

	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	after := now(t, s)
	for i, e := range before {
		was, _ := api.Marshal(e)
		is, _ := api.Marshal(after[i])
		if string(was) != string(is) {
			t.Fatalf("event %d was\n%s\nand is\n%s", e.Seq, was, is)
		}
	}
	tail := shape(after[len(before):])
	want := "error finished:died:lost:server_shutdown finished:cancelled:lost:server_shutdown died:server_shutdown:1 state:dead:server_shutdown"
	if tail != want {
		t.Errorf("the log goes on with\n%s\nwant\n%s", tail, want)
	}
	e, err := s.Executions().Get(t.Context(), running)
	if err != nil || e.Status != api.StatusDied || !strings.HasPrefix(e.Text, "two\n") || e.Outputs[0].Text != "two\n" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := s.Executions().Get(t.Context(), waiting); err != nil || e.Status != api.StatusCancelled {
		t.Errorf("%+v, %v", e, err)
	}
	info := s.Info(t.Context())
	if !maps.Equal(info.Metadata, map[string]string{"k": "v"}) || info.State != api.StateDead || info.Reason != "server_shutdown" {
		t.Errorf("%+v", info)
	}
	again := execute(t, s, "print on")
	if again.Generation != 2 || len(again.Artifacts) != 0 || !strings.Contains(shape(now(t, s)), "reset:restart:2 state:starting state:busy execution_started") {
		t.Errorf("%+v\n%s", again, shape(now(t, s)))
	}
}

// waitText waits until the running execution has printed that text.
func waitText(t *testing.T, s *session.Session, id, text string) {
	t.Helper()
	for e, err := range s.Journal().ExecutionEvents(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		d, err := e.Decoded()
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := d.Body.(api.Stream); ok && strings.Contains(b.Text, text) {
			return
		}
	}
	t.Fatalf("%q was not printed", text)
}

func TestAfterACrashTheKernelsAreReportedAndHeldOutputIsKept(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Defaults.OutputBytes = 10_000 })
	s := r.session(api.SessionRequest{ID: ptr("x")})
	running := submit(t, s, "flood 5000\nerr flooded\nsleep")
	waitText(t, s, running, "flooded")
	waiting := submit(t, s, "print later")
	before := s.Journal().LastSeq()
	r.crash()
	r.open()

	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Executions().Get(t.Context(), running)
	if err != nil || e.Status != api.StatusDied || e.Reason != "host_crash" || e.State != api.VariablesLost || e.TruncatedBytes != 40_000 {
		t.Errorf("%s %s %s, %d lacking, %v", e.Status, e.Reason, e.State, e.TruncatedBytes, err)
	}
	if !strings.Contains(e.Text, "000004999\n") || !strings.Contains(e.Text, "its variables are lost") {
		t.Errorf("the text ends with %q", e.Text[max(0, len(e.Text)-300):])
	}
	if e, err := s.Executions().Get(t.Context(), waiting); err != nil || e.Status != api.StatusCancelled || e.Reason != "host_crash" {
		t.Errorf("%+v, %v", e, err)
	}
	tail := shape(now(t, s)[before:])
	if !strings.HasSuffix(tail, "died:host_crash:1 state:dead:host_crash") {
		t.Errorf("the log goes on with %s", tail[max(0, len(tail)-300):])
	}
	id := s.Journal().ID()
	if e := execute(t, s, "print on"); e.Status != api.StatusOK || e.Generation != 2 {
		t.Errorf("%+v", e)
	}
	last := s.Journal().LastSeq()
	r.boot = "another boot" // a power failure
	r.crash()
	r.open()
	if s, err = r.Get("ann", "x"); err != nil || s.Journal().ID() == id || s.Journal().LastSeq() < last {
		t.Errorf("after a power failure the log is %s as before, or shorter: %d", s.Journal().ID(), s.Journal().LastSeq())
	}
}

func TestNothingIsLostWhileTheDiskFails(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "print x")
	dir := filepath.Join(r.dir, "artifacts")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	id := submit(t, s, "display 100000\nprint after") // its body goes to the artifacts
	waitFor(t, s, id, "execution_started")
	waiting, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if e, _ := s.Wait(waiting, id); e.Status.Final() {
		t.Fatalf("it ended without its output: %+v", e)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	e := wait(t, s, id)
	if e.Status != api.StatusOK || len(e.Outputs) != 2 || len(e.Outputs[0].Data["text/plain"]) < 100_000 {
		t.Errorf("%s with %d outputs", e.Status, len(e.Outputs))
	}
	now(t, s) // has no gap
}

func TestLateOutputIsLoggedUpToItsLimitAndChangesNothingThatEnded(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Defaults.OutputBytes = 150 })
	s := r.session(api.SessionRequest{})
	first := execute(t, s, "print x")
	var late []string
	for _, text := range []string{"one 56789", "two 56789", "three6789", "four 6789"} { // each counts as 64 bytes
		execute(t, s, "as "+first.ID+" "+text)
	}
	for _, e := range now(t, s) {
		if b, ok := e.Body.(api.Stream); ok && e.ExecutionID == first.ID {
			late = append(late, b.Name+":"+b.Text)
		}
	}
	if len(late) != 4 || late[0] != "stdout:x\n" || late[1] != "stdout:one 56789\n" || late[2] != "stdout:two 56789\n" ||
		!strings.Contains(late[3], "stderr:\n[output after the end of its cell reached limits.output_bytes") {
		t.Errorf("%q", late)
	}
	again, err := s.Executions().Get(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	was, _ := api.Marshal(first)
	is, _ := api.Marshal(again)
	if string(was) != string(is) {
		t.Errorf("was\n%s\nand is\n%s", was, is)
	}
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	second := execute(t, s, "print y")
	before := s.Journal().LastSeq()
	execute(t, s, "as "+second.ID+" again")
	if log := shape(now(t, s)[before:]); !strings.Contains(log, "stdout:again") {
		t.Errorf("a fresh kernel has no limit of its own: %s", log)
	}
}

func TestNotebooksGoOutAndIn(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "print one\nresult 1", func(r *api.ExecutionRequest) { r.ID = ptr("a:b.c") })
	execute(t, s, "print hidden", func(r *api.ExecutionRequest) { r.Silent = ptr(true) })
	out, err := exported(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "hidden") || !strings.Contains(string(out), `"id": "a-b-c"`) || !strings.Contains(string(out), `"nbformat": 4`) {
		t.Errorf("%s", out)
	}
	const in = `{"cells":[{"cell_type":"markdown","metadata":{},"source":["# T"]},{"cell_type":"code","id":"q w","metadata":{"x":1},
		"source":"1+1","outputs":[{"output_type":"stream","name":"stdout","text":["kept"]}],"execution_count":5}],
		"metadata":{"m":1},"nbformat":4,"nbformat_minor":2,"extra":true}`
	if err := s.Notebook().Import(t.Context(), []byte(in)); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "print after")
	out, err = exported(t, s)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"# T": true, `"q-w"`: true, "kept": true, "print one": false, "print after": true, `"m": 1`: true} {
		if strings.Contains(string(out), text) != want {
			t.Errorf("%q is there: %v, in\n%s", text, !want, out)
		}
	}
	for _, bad := range []string{`[]`, `{}`, `{"nbformat":3,"cells":[]}`, `{"nbformat":4,"cells":[{"cell_type":"x","source":""}]}`,
		`{"nbformat":4,"cells":[{"cell_type":"code","source":5}]}`, `{"nbformat":4,"cells":[1]}`, "\xff"} {
		if err := s.Notebook().Import(t.Context(), []byte(bad)); code(err) != api.CodeInvalidRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAListHasTheUsageOfEachSession(t *testing.T) {
	r := scripted(t, nil)
	r.fake.Usage = func() (kernel.Usage, error) {
		return kernel.Usage{MemoryBytes: 7, CPU: 2 * time.Second, PIDs: 3, Processes: []kernel.ProcessInfo{{PID: 2, Name: "python3"}}}, nil
	}
	execute(t, r.session(api.SessionRequest{}), "result 1")
	execute(t, r.session(api.SessionRequest{}), "result 1")
	r.session(api.SessionRequest{ID: ptr("other")})
	if err := r.Delete(t.Context(), "ann", "other"); err != nil {
		t.Fatal(err)
	}
	page, err := r.List(t.Context(), "ann", session.Filter{})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, s := range page.Items {
		want := []api.Process{{PID: 2, Name: "python3"}}
		if u := s.Usage; u.MemoryBytes != 7 || u.CPUSeconds != 2 || u.PIDs != 3 || !slices.Equal(u.Processes, want) {
			t.Errorf("session %s uses %+v", s.ID, u)
		}
	}
	if st := r.Stats(t.Context()); st.MemoryBytes != 14 || st.CPUSeconds != 4 {
		t.Errorf("the server reports %+v", st)
	}
}
