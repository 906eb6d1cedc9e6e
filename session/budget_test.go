package session_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
	"talaria/store"
	"talaria/store/storetest"
)

// stderrOf returns the execution's stderr.
func stderrOf(e api.Execution) string {
	var text strings.Builder
	for _, o := range e.Outputs {
		if o.OutputType == "stream" && o.Name == "stderr" {
			text.WriteString(o.Text)
		}
	}
	return text.String()
}

// displaysOf counts the execution's displays that are whole, and those with only their text.
func displaysOf(e api.Execution) (whole, text int) {
	for _, o := range e.Outputs {
		switch {
		case o.OutputType != "display_data":
		case o.Data["text/html"] != nil:
			whole++
		default:
			text++
		}
	}
	return whole, text
}

func usage(t *testing.T, s *session.Session) api.Usage { return s.Info(t.Context()).Usage }

func TestDisplaysPastTheirLimitKeepTheirTextAndAreThenDropped(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Defaults.DisplayBytes, c.Defaults.OutputBytes = 10_000, 1_000 })
	s := r.session(api.SessionRequest{})
	e := execute(t, s, "shows 30 1000")
	whole, text := displaysOf(e)
	if whole < 8 || whole > 9 || text < 10 || text > 15 {
		t.Errorf("%d displays are whole, and %d have their text", whole, text)
	}
	told := stderrOf(e)
	if strings.Count(told, "limits.display_bytes (10000)") != 1 || !strings.Contains(told, fmt.Sprintf("[%d displays and clears were dropped", 30-whole-text)) {
		t.Errorf("stderr is %q", told)
	}
	if lacking := int64(30-whole) * 1000; e.TruncatedBytes < lacking-100 || e.TruncatedBytes > lacking+3000 {
		t.Errorf("truncated_bytes is %d, want about %d", e.TruncatedBytes, lacking)
	}
	next := execute(t, s, "shows 1 1000")
	if whole, _ := displaysOf(next); whole != 1 || next.TruncatedBytes != 0 {
		t.Errorf("the next cell has a budget of its own: %+v", next)
	}
}

func TestClearsCountAsDisplays(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.Defaults.DisplayBytes, c.Defaults.OutputBytes = 6_400, 6_400 })
	s := r.session(api.SessionRequest{})
	execute(t, s, "clears 10000")
	if n := strings.Count(shape(now(t, s)), "clear_output"); n != 200 {
		t.Errorf("%d clears are in the log, want 100 for each limit", n)
	}
}

func TestDisplaysCountOnUnderTheNextServer(t *testing.T) {
	counts := func(t *testing.T, restart bool, first string) (whole, text int, told string) {
		r := scripted(t, func(c *session.Config) { c.Defaults.DisplayBytes, c.Defaults.OutputBytes = 10_000, 1_000 })
		s := r.session(api.SessionRequest{ID: ptr("a")})
		defer s.Attach()()
		id := submit(t, s, first+"\nask now\nshows 20 1000")
		question := until(t, s, 0, "input_request")
		_ = question
		if restart {
			r.kill()
			r.open()
			var err error
			if s, err = r.Get("ann", "a"); err != nil {
				t.Fatal(err)
			}
			defer s.Attach()()
		}
		if err := s.Input(t.Context(), api.InputRequest{Value: "go"}); err != nil {
			t.Fatal(err)
		}
		e := wait(t, s, id)
		whole, text = displaysOf(e)
		return whole, text, stderrOf(e)
	}
	for _, first := range []string{"shows 5 1000", "shows 15 1000"} { // below the limit at the restart, and beyond it
		whole, text, told := counts(t, false, first)
		whole2, text2, told2 := counts(t, true, first)
		if whole != whole2 || text != text2 || told != told2 {
			t.Errorf("%s: with a restart %d whole, %d texts, stderr %q; without %d, %d, %q", first, whole2, text2, told2, whole, text, told)
		}
	}
}

func TestASparseFileIsASparseArtifact(t *testing.T) {
	s := scripted(t, nil).session(api.SessionRequest{})
	e := execute(t, s, "sparse a 400000000")
	if len(e.Artifacts) != 1 || *e.Artifacts[0].Size != 400_000_000 || e.Artifacts[0].SHA256 == "" {
		t.Fatalf("artifacts: %+v", e.Artifacts)
	}
	if u := usage(t, s); u.ArtifactBytes > 1<<20 {
		t.Errorf("usage.artifact_bytes is %d", u.ArtifactBytes)
	}
}

func TestOldVersionsMakeRoomForArtifacts(t *testing.T) {
	const limit = 1 << 20
	r := scripted(t, func(c *session.Config) { c.Defaults.ArtifactBytes, c.InlineBytes = limit, 1000 })
	s := r.session(api.SessionRequest{})
	kept := execute(t, s, "noise other 100000").Artifacts[0]
	var versions []api.Artifact
	for range 5 {
		versions = append(versions, execute(t, s, "noise data 400000").Artifacts...)
		if u := usage(t, s); u.ArtifactBytes > limit {
			t.Fatalf("usage.artifact_bytes is %d, past the limit", u.ArtifactBytes)
		}
	}
	for i, a := range append(versions, kept) {
		f, _, err := r.OpenArtifact(t.Context(), "ann", a.SHA256)
		there := err == nil
		if there {
			f.Close()
		}
		if want := i >= 3; there != want {
			t.Errorf("version %d: there %v (%v), want %v", i, there, err, want)
		}
	}
	eventually(t, func() bool { return blobs(t, r) == 3 }) // those of two versions and the other file
	e := execute(t, s, "noise large 2000000\nnoise small 1000")
	if len(e.Artifacts) != 2 || !e.Artifacts[0].Omitted || e.Artifacts[0].SHA256 != "" || e.Artifacts[0].URL != "" || *e.Artifacts[0].Size != 2_000_000 {
		t.Errorf("past the limit: %+v", e.Artifacts)
	}
	if e.Artifacts[1].Omitted || !strings.Contains(stderrOf(e), "[1 changed files are listed without their contents") {
		t.Errorf("%+v, stderr %q", e.Artifacts[1], stderrOf(e))
	}
	list, err := s.Executions().Artifacts(t.Context(), api.PageQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list.Items {
		if gone := a.SHA256 == "" || a.SHA256 == versions[0].SHA256 || a.SHA256 == versions[1].SHA256 || a.SHA256 == versions[2].SHA256; gone != a.Omitted {
			t.Errorf("the list says of %s %.8s: omitted %v", a.Path, a.SHA256, a.Omitted)
		}
	}
}

// blobs counts the artifacts on the disk.
func blobs(t *testing.T, r *rig) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADeleteFreesWhatNoOtherSessionRefersTo(t *testing.T) {
	r := scripted(t, func(c *session.Config) { c.InlineBytes = 1000 })
	first := r.session(api.SessionRequest{ID: ptr("first")})
	execute(t, first, "noise mine 300000\nwrite both of us\nshows 3 200000")
	if n := blobs(t, r); n != 5 {
		t.Fatalf("%d blobs, want two files and three displays", n)
	}
	second := r.session(api.SessionRequest{ID: ptr("second")})
	f, _, err := first.Files().Open(t.Context(), "both")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := second.Files().Put(t.Context(), "both", f); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), "ann", "first"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return blobs(t, r) == 0 })
}

func TestAnExecutionListsAThousandFilesAtMost(t *testing.T) {
	s := scripted(t, nil).session(api.SessionRequest{})
	e := execute(t, s, "files 1200")
	if len(e.Artifacts) != 1000 || !strings.Contains(stderrOf(e), "[200 more files were created") {
		t.Errorf("%d artifacts, stderr %q", len(e.Artifacts), stderrOf(e))
	}
	if e := execute(t, s, "write one x"); len(e.Artifacts) != 1 {
		t.Errorf("the next cell lists %d files", len(e.Artifacts))
	}
}

func TestAnInterruptEndsTheCopyingOfFiles(t *testing.T) {
	r := scripted(t, func(c *session.Config) {
		c.Defaults.ArtifactBytes, c.Ceilings.ArtifactBytes = 1<<50, 0
	})
	s := r.session(api.SessionRequest{})
	id := submit(t, s, "write a small\nsparse b 1000000000000") // some minutes of hashing
	until(t, s, 0, "execution_started")
	e := api.Execution{Status: api.StatusRunning}
	for !e.Status.Final() { // the first interrupts may come before the copying begins
		if err := s.Interrupt(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		var err error
		if e, err = s.Wait(ctx, id); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		cancel()
	}
	if e.Status != api.StatusOK && e.Status != api.StatusInterrupted {
		t.Errorf("it ended %s", e.Status)
	}
	for _, a := range e.Artifacts {
		if a.Path == "b" && !a.Omitted {
			t.Errorf("the large file is there: %+v", a)
		}
	}
	if e := execute(t, s, "print on"); e.Text != "on\n" {
		t.Errorf("afterwards: %+v", e)
	}
}

func TestTheLogLosesItsOldestExecutionsAtItsLimit(t *testing.T) {
	const limit = 200_000
	r := scripted(t, func(c *session.Config) { c.Defaults.LogBytes = limit })
	s := r.session(api.SessionRequest{ID: ptr("a")})
	var ids []string
	for range 30 {
		e := execute(t, s, "shows 2 10000\nshows 1 100000")
		ids = append(ids, e.ID)
		if whole, _ := displaysOf(e); whole != 3 || e.OutputsOmitted {
			t.Fatalf("an execution lost its outputs at once: %+v", e)
		}
	}
	execute(t, s, "print last") // and everything before it is trimmed
	first := s.Journal().FirstSeq()
	if u := usage(t, s); first == 1 || u.LogBytes > limit+130_000 {
		t.Errorf("first_seq is %d, usage.log_bytes %d", first, u.LogBytes)
	}
	old, err := s.Executions().Get(t.Context(), ids[0])
	if err != nil || !old.OutputsOmitted || len(old.Outputs) > 0 || old.Status != api.StatusOK {
		t.Errorf("the oldest is %+v, %v", old, err)
	}
	if n := blobs(t, r); n > 3 {
		t.Errorf("%d bodies of events are left", n)
	}
	for event, err := range s.Journal().Events(t.Context(), first-1) {
		if err != nil || event.Seq != first {
			t.Errorf("the log begins with %d, %v", event.Seq, err)
		}
		break
	}
	for _, err := range s.Journal().Events(t.Context(), 0) {
		if code(err) != api.CodeEventsExpired {
			t.Errorf("before the beginning: %v", err)
		}
		break
	}
	bytes := usage(t, s).LogBytes
	r.leave()
	r.open()
	again, err := r.Get("ann", "a")
	if err != nil || again.Journal().FirstSeq() != first || usage(t, again).LogBytes != bytes {
		t.Errorf("under the next server first_seq is %d, usage.log_bytes %d: %v", again.Journal().FirstSeq(), usage(t, again).LogBytes, err)
	}
}

// Otherwise the size would drift when executions are forgotten, which subtracts what their rows take.
func TestTheSizeOfTheLogIsThatOfItsRows(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "print é\nwrite f x\nfail \"quoted\" \x1b[31m")
	execute(t, s, "print x")
	var counted, taken int64
	err := storetest.Open(t, r.dir).QueryRow(`SELECT log_bytes, (SELECT sum(size + ?) FROM events) + (SELECT sum(length(CAST(code AS BLOB)) + length(CAST(text AS BLOB))
		+ length(CAST(coalesce(error, '') AS BLOB)) + length(CAST(artifacts AS BLOB))) FROM executions) FROM sessions`, store.EventCost).Scan(&counted, &taken)
	if err != nil || counted != taken {
		t.Errorf("the log counts for %d bytes and takes %d, %v", counted, taken, err)
	}
}

func TestAnExecutionsJSONIsBounded(t *testing.T) {
	s := scripted(t, nil).session(api.SessionRequest{})
	id := submit(t, s, "shows 30 1000000")
	e := wait(t, s, id)
	encoded, err := api.Marshal(e)
	if err != nil || len(encoded) >= 24<<20 || len(encoded) < 20<<20 || !e.OutputsOmitted {
		t.Errorf("%d bytes, omitted %v, %v", len(encoded), e.OutputsOmitted, err)
	}
	whole := 0
	for event, err := range s.Journal().ExecutionEvents(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Body.EventType() == "display_data" {
			whole++
		}
	}
	if whole != 30 {
		t.Errorf("%d displays are among the events", whole)
	}
}
