package e2e

import (
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/client"
)

// savedCheckpoint makes a checkpoint whose variables are on disk.
func savedCheckpoint(t *testing.T, c *client.Client, id, name string) api.Checkpoint {
	t.Helper()
	made, err := c.Checkpoint(within(t), id, api.CheckpointRequest{Name: &name, Level: new(api.CheckpointSaved)})
	if err != nil || made.Level != api.CheckpointSaved || made.Reason != "" {
		t.Fatalf("the checkpoint is %+v, %v", made, err)
	}
	return made
}

// TestSavedCheckpointsOutliveTheKernel goes back to one from the same kernel, from another one, and from none.
func TestSavedCheckpointsOutliveTheKernel(t *testing.T) {
	t.Parallel()
	everyTierAndEngine(t, func(t *testing.T, s *Server) {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "x = [1]; y = x; g = (i for i in x); open('f', 'w').write('1')")
		point := savedCheckpoint(t, c, id, "first")
		if len(point.NotSaved) != 1 || point.NotSaved[0].Name != "g" {
			t.Errorf("not saved: %+v", point.NotSaved)
		}
		second := run(t, c, id, "x.append(2); z = 3; open('f', 'w').write('2')")
		live := checkpoint(t, c, id, "", api.CheckpointLive)

		// From the same kernel, which ends: what was before is saved, and live checkpoints lose their variables.
		done := goBack(t, c, id, point.ID, api.RollbackAll)
		if done.UndoLevel != api.CheckpointSaved || len(done.NotRestored) != 1 || !notRestored(done, "g") {
			t.Errorf("the rollback is %+v", done)
		}
		info, err := c.Session(within(t), id)
		if err != nil || info.State != api.StateIdle || info.Kernel.Generation != 1 {
			t.Errorf("the session is %+v, %v", info, err)
		}
		if got := result(t, c, id, "x, y is x, 'z' in globals(), open('f').read()"); got != "([1], True, False, '1')" {
			t.Errorf("there is %s", got)
		}
		if e, err := c.Execution(within(t), id, second.ID); err != nil || !e.Undone {
			t.Errorf("the execution after it is %+v, %v", e, err)
		}
		if e := run(t, c, id, "g"); e.Error == nil || !strings.Contains(e.Error.Hint, "it was a generator") || *e.ExecutionCount != 4 {
			t.Errorf("%d: %+v", *e.ExecutionCount, e.Error)
		}
		_, err = c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: &live.ID})
		wantCodeAndWords(t, err, api.CodeCheckpointGone, "the kernel has ended", `what: "files"`)
		goBack(t, c, id, done.Undo, api.RollbackAll)
		if got := result(t, c, id, "x, y is x, z, open('f').read()"); got != "([1, 2], True, 3, '2')" {
			t.Errorf("after the undo there is %s", got)
		}

		// From another kernel, and of the variables alone.
		run(t, c, id, "import os; os._exit(1)")
		goBack(t, c, id, point.ID, api.RollbackVariables)
		if got := result(t, c, id, "x, y is x, open('f').read()"); got != "([1], True, '2')" {
			t.Errorf("in another kernel there is %s", got)
		}

		// From a session that hibernates: its variables are those of the undo point.
		runOK(t, c, id, "x.append(9)")
		hibernate(t, c, id)
		if done = goBack(t, c, id, point.ID, api.RollbackAll); done.UndoLevel != api.CheckpointSaved {
			t.Errorf("the rollback is %+v", done)
		}
		if got := result(t, c, id, "x"); got != "[1]" {
			t.Errorf("after hibernation there is %s", got)
		}
		goBack(t, c, id, done.Undo, api.RollbackAll)
		if got := result(t, c, id, "x"); got != "[1, 9]" {
			t.Errorf("after the undo of that there is %s", got)
		}
	})
}

func notRestored(done api.RollbackReply, name string) bool {
	for _, lost := range done.NotRestored {
		if lost.Name == name {
			return true
		}
	}
	return false
}

func TestSavedCheckpointsSurviveServerAndHost(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "x = {'a': [1, 2]}")
	point := savedCheckpoint(t, s.Client(), id, "")
	runOK(t, s.Client(), id, "x = 0")
	host := s.host(t)
	s.Kill9()
	if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	goBack(t, s.Client(), id, point.ID, api.RollbackAll)
	if got := result(t, s.Client(), id, "x"); got != "{'a': [1, 2]}" {
		t.Errorf("x is %s", got)
	}
}

// TestAnOrdinaryUserHasSavedCheckpoints runs the server as a user who may not make copies the first to go.
func TestAnOrdinaryUserHasSavedCheckpoints(t *testing.T) {
	t.Parallel()
	s := start(t, options{as: asUser, args: manual.args})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "x = [1]")
	made, err := c.Checkpoint(within(t), id, api.CheckpointRequest{})
	if err != nil || made.Level != api.CheckpointSaved || made.Reason == "" {
		t.Fatalf("the checkpoint is %+v, %v", made, err)
	}
	_, err = c.Checkpoint(within(t), id, api.CheckpointRequest{Level: new(api.CheckpointLive)})
	wantCodeAndWords(t, err, api.CodeInvalidRequest, "no live checkpoint can be made", made.Reason)
	runOK(t, c, id, "x.append(2)")
	done := goBack(t, c, id, made.ID, api.RollbackAll)
	if got := result(t, c, id, "x"); got != "[1]" {
		t.Errorf("there is %s", got)
	}
	goBack(t, c, id, done.Undo, api.RollbackAll)
	if got := result(t, c, id, "x"); got != "[1, 2]" {
		t.Errorf("after the undo there is %s", got)
	}
}

func TestVariablesThatDoNotFitAreNamed(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ArtifactBytes: new(int64(1 << 20))}})
	runOK(t, c, id, "small = [1]; large = bytes(2 << 20)")
	point := savedCheckpoint(t, c, id, "")
	if len(point.NotSaved) != 1 || point.NotSaved[0].Name != "large" {
		t.Fatalf("not saved: %+v", point.NotSaved)
	}
	runOK(t, c, id, "open('f', 'wb').write(bytes(1 << 20))")
	if full := checkpointOfFiles(t, c, id); len(full.NotSaved) != 1 { // what the variables have left is too little for it
		t.Errorf("not saved: %+v", full.NotSaved)
	}
	done := goBack(t, c, id, point.ID, api.RollbackAll)
	if !notRestored(done, "large") {
		t.Errorf("the rollback is %+v", done)
	}
	if got := result(t, c, id, "small, 'large' in globals()"); got != "([1], False)" {
		t.Errorf("there is %s", got)
	}
	runOK(t, c, id, "del small; text = 'x' * ((1 << 20) - 20_000)") // which fits, and leaves nothing
	savedCheckpoint(t, c, id, "full")
	runOK(t, c, id, "more = 'y' * (1 << 19)")
	last, err := c.Checkpoint(within(t), id, api.CheckpointRequest{Level: new(api.CheckpointSaved)})
	if err == nil && len(last.NotSaved) == 0 {
		t.Errorf("more than limits.artifact_bytes is saved: %+v", last)
	}
}

func TestForksBeginWithACheckpoint(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	first := run(t, c, id, "x = [1]; open('f', 'w').write('1')")
	saved, files, live := savedCheckpoint(t, c, id, ""), checkpointOfFiles(t, c, id), checkpoint(t, c, id, "", api.CheckpointLive)
	runOK(t, c, id, "x.append(2); open('f', 'w').write('2')")
	fork := func(point api.Checkpoint) string {
		t.Helper()
		made, err := c.Fork(within(t), id, api.ForkRequest{CheckpointID: &point.ID})
		if err != nil || made.Items[0].Session == nil {
			t.Fatalf("%+v, %v", made, err)
		}
		return made.Items[0].Session.ID
	}
	forked := func(id string) (found api.SessionForked) {
		t.Helper()
		s.attach(t, id, "after=0").awaits(t, func(h head, raw []byte) bool {
			if h.Type != "session_forked" {
				return false
			}
			found = decode[api.SessionForked](t, string(raw))
			return h.ExecutionID == first.ID
		})
		return found
	}
	one := fork(saved)
	if event := forked(one); event.CheckpointID != saved.ID || event.SessionID != id || len(event.NotRestored) > 0 {
		t.Errorf("the fork begins with %+v", event)
	}
	if err := c.DropCheckpoint(within(t), id, saved.ID); err != nil { // the fork has what it needs
		t.Fatal(err)
	}
	if got := result(t, c, one, "x, open('f').read()"); got != "([1], '1')" {
		t.Errorf("the fork has %s", got)
	}
	two := fork(files)
	if event := forked(two); len(event.NotRestored) != 1 || !strings.Contains(event.NotRestored[0].Reason, "only files were asked for") {
		t.Errorf("the fork of files begins with %+v", event)
	}
	if got := result(t, c, two, "'x' in globals(), open('f').read()"); got != "(False, '1')" {
		t.Errorf("the fork of files has %s", got)
	}
	three := fork(live)
	if event := forked(three); event.CheckpointID != live.ID || len(event.NotRestored) > 0 {
		t.Errorf("the fork of a live checkpoint begins with %+v", event)
	}
	if got := result(t, c, three, "x, open('f').read()"); got != "([1], '1')" {
		t.Errorf("the fork of a live checkpoint has %s", got)
	}
	_, err := c.Fork(within(t), id, api.ForkRequest{CheckpointID: new("none")})
	wantCodeAndWords(t, err, api.CodeCheckpointNotFound, "none")
	if got := result(t, c, id, "x, open('f').read()"); got != "([1, 2], '2')" {
		t.Errorf("the session itself has %s", got)
	}
}

func checkpointOfFiles(t *testing.T, c *client.Client, id string) api.Checkpoint {
	t.Helper()
	made, err := c.Checkpoint(within(t), id, api.CheckpointRequest{Level: new(api.CheckpointFiles)})
	if err != nil || made.Level != api.CheckpointFiles {
		t.Fatalf("the checkpoint is %+v, %v", made, err)
	}
	return made
}
