package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/session"
)

// afterRig is a rig whose cells ask for something to be done after them: each line is "checkpoint NAME LEVEL", "rollback TO WHAT",
// "withdraw NAME", which asks for a checkpoint and does not wait, "hold", which waits for the channel, "sleep" or "die". What they are told
// is printed.
func afterRig(t *testing.T, tweak func(*session.Config)) (*rig, chan struct{}) {
	hold := make(chan struct{})
	return newRig(t, func(c *cell) {
		for line := range strings.Lines(c.Code) {
			words := append(strings.Split(strings.TrimSuffix(line, "\n"), " "), "", "")
			switch words[0] {
			case "checkpoint":
				c.AskAfter(map[string]any{"action": "checkpoint", "name": words[1], "level": words[2]})
			case "rollback":
				c.AskAfter(map[string]any{"action": "rollback", "to": words[1], "what": words[2], "keep_user_edits": false})
			case "withdraw":
				ask := c.AskAfter(map[string]any{"action": "checkpoint", "name": words[1], "level": "files"})
				c.Withdraw(ask) // it may have been answered by then
			case "hold":
				select {
				case <-hold:
				case <-c.Runner.Context().Done():
					return
				}
				continue
			case "sleep":
				c.Sleep()
				continue
			case "die":
				c.Exit(3)
				continue
			}
			a := c.Answer()
			c.Print(a.Body.CheckpointID + a.Error + "\n")
		}
	}, tweak), hold
}

// told returns what a cell was told.
func told(e api.Execution) []string { return strings.Split(strings.TrimSuffix(e.Text, "\n"), "\n") }

// eventually waits until ok returns true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("it does not happen")
		}
	}
}

// checkpointed returns the session's checkpoints, once there is one with that id.
func checkpointed(t *testing.T, s *session.Session, id string) (made api.Checkpoint) {
	t.Helper()
	eventually(t, func() bool {
		c, err := s.CheckpointInfo(t.Context(), id)
		made = c
		return err == nil
	})
	return made
}

func put(t *testing.T, s *session.Session, name, contents string) {
	t.Helper()
	if _, _, err := s.Files().Put(t.Context(), name, strings.NewReader(contents)); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, s *session.Session, name string) string {
	t.Helper()
	f, _, err := s.Files().Open(t.Context(), name)
	return read(t, f, err)
}

func TestACheckpointOfACellIsMadeBeforeTheNextOne(t *testing.T) {
	r, hold := afterRig(t, nil)
	s := r.session(api.SessionRequest{})
	first := submit(t, s, "checkpoint a files\nhold\ncheckpoint b files")
	second := submit(t, s, "rollback a files\n")
	third := submit(t, s, "rollback b files\n")
	close(hold)
	ids := told(wait(t, s, first))
	if len(ids) != 2 {
		t.Fatalf("the cell was told %q", ids)
	}
	if e := wait(t, s, second); e.Status != api.StatusOK || told(e)[0] != ids[0] {
		t.Errorf("the second cell was told %q", e.Text)
	}
	if e := wait(t, s, third); told(e)[0] != ids[1] {
		t.Errorf("the third cell was told %q", e.Text)
	}
	made := checkpointed(t, s, ids[0])
	if made.Name != "a" || made.ExecutionID != first || made.Level != api.CheckpointFiles {
		t.Errorf("%+v", made)
	}
	var order []string
	eventually(t, func() bool {
		order = nil
		for _, e := range now(t, s) {
			switch b := e.Body.(type) {
			case api.ExecutionFinished:
				order = append(order, "end")
			case api.ExecutionStarted:
				order = append(order, "begin")
			case api.CheckpointCreated:
				order = append(order, "made "+b.Checkpoint.Name)
			case api.RolledBack:
				order = append(order, "back")
			}
		}
		return strings.HasSuffix(strings.Join(order, ", "), "back, begin, end, made , back")
	})
	if want := "begin, end, made a, made b, begin, end, made , back, begin, end, made , back"; strings.Join(order, ", ") != want {
		t.Errorf("the order is %s", strings.Join(order, ", "))
	}
}

func TestWhatACellWasPromisedIsDoneByTheNextServer(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r, hold := afterRig(t, nil)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			put(t, s, "f", "one")
			point, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Name: ptr("p"), Level: ptr(api.CheckpointFiles)})
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, "f", "two")
			id := submit(t, s, "checkpoint a files\nrollback p files\nhold")
			eventually(t, func() bool {
				e, err := s.Executions().Get(t.Context(), id)
				return err == nil && len(told(e)) == 2
			})
			end(r)
			r.open()
			close(hold)
			if s, err = r.Get("ann", "x"); err != nil {
				t.Fatal(err)
			}
			e := wait(t, s, id)
			if said := told(e); e.Status != api.StatusOK || said[1] != point.ID || checkpointed(t, s, said[0]).Name != "a" {
				t.Errorf("the cell is %s and was told %q", e.Status, e.Text)
			}
			eventually(t, func() bool { return contents(t, s, "f") == "one" })
			until(t, s, 0, "rolled_back")
			if list, err := s.Checkpoints(t.Context()); err != nil || len(list) != 3 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// The kernel goes, with its server: what is left is done, and why it is not more is said.
func TestWhatACellWasPromisedIsDoneWithoutItsKernel(t *testing.T) {
	for _, how := range []string{"the kernel dies", "the host dies with the server"} {
		t.Run(how, func(t *testing.T) {
			r, hold := afterRig(t, nil)
			defer close(hold)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			put(t, s, "f", "one")
			execute(t, s, "checkpoint p files")
			eventually(t, func() bool { list, err := s.Checkpoints(t.Context()); return err == nil && len(list) == 1 })
			put(t, s, "f", "two")
			ending := "hold"
			if how == "the kernel dies" {
				ending = "die"
			}
			id := submit(t, s, "checkpoint a\nrollback p files\n"+ending)
			if ending == "hold" {
				eventually(t, func() bool {
					e, err := s.Executions().Get(t.Context(), id)
					return err == nil && len(told(e)) == 2
				})
				r.crash()
				r.open()
				var err error
				if s, err = r.Get("ann", "x"); err != nil {
					t.Fatal(err)
				}
			}
			e := wait(t, s, id)
			if e.Status != api.StatusDied {
				t.Errorf("the cell is %s", e.Status)
			}
			made := checkpointed(t, s, told(e)[0])
			if made.Level != api.CheckpointFiles || made.Reason != "the kernel ended before the checkpoint was made" {
				t.Errorf("%+v", made)
			}
			eventually(t, func() bool { return contents(t, s, "f") == "one" })
		})
	}
}

func TestACellThatIsInterruptedKeepsWhatItWasPromised(t *testing.T) {
	r, hold := afterRig(t, nil)
	close(hold)
	s := r.session(api.SessionRequest{})
	execute(t, s, "checkpoint p files")
	until(t, s, 0, "checkpoint_created")
	put(t, s, "f", "two")
	id := submit(t, s, "checkpoint a files\nrollback p files\nsleep")
	eventually(t, func() bool {
		e, err := s.Executions().Get(t.Context(), id)
		return err == nil && len(told(e)) == 2
	})
	if err := s.Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	e := wait(t, s, id)
	if e.Status != api.StatusInterrupted || checkpointed(t, s, told(e)[0]).Name != "a" {
		t.Errorf("the cell is %s", e.Status)
	}
	until(t, s, 0, "rolled_back")
	if _, _, err := s.Files().Open(t.Context(), "f"); err == nil {
		t.Error("the file is there")
	}
}

func TestWhatCannotBeDoneAfterACellIsSaidInTheLog(t *testing.T) {
	r, hold := afterRig(t, nil)
	s := r.session(api.SessionRequest{})
	execute(t, s, "checkpoint p files")
	until(t, s, 0, "checkpoint_created")
	id := submit(t, s, "rollback p files\nhold")
	eventually(t, func() bool {
		e, err := s.Executions().Get(t.Context(), id)
		return err == nil && len(e.Text) > 10
	})
	list, err := s.Checkpoints(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := s.DropCheckpoint(t.Context(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	close(hold)
	if e := wait(t, s, id); e.Status != api.StatusOK {
		t.Errorf("the cell is %s", e.Status)
	}
	eventually(t, func() bool {
		return slices.ContainsFunc(now(t, s), func(e api.Event) bool {
			b, ok := e.Body.(api.Stream)
			return ok && b.Name == "stderr" && e.ExecutionID == id &&
				strings.Contains(b.Text, "talaria.rollback: the session did not go back to the checkpoint "+list[0].ID) && strings.Contains(b.Text, "does not exist")
		})
	})
	if e := execute(t, s, "checkpoint q files"); len(told(e)[0]) != 36 {
		t.Errorf("the next cell was told %q", e.Text)
	}
}

func TestWhatCellsAskForIsChecked(t *testing.T) {
	r, hold := afterRig(t, nil)
	close(hold)
	s := r.session(api.SessionRequest{})
	e := execute(t, s, fmt.Sprintf("checkpoint %s\ncheckpoint a warm\nrollback nothing\nrollback  \nrollback nothing some\ncheckpoint a files\nrollback a\nwithdraw b",
		strings.Repeat("n", 257)))
	for i, want := range []string{
		"name is longer than 256 bytes", `level must be "live", "saved" or "files"`,
		`there is no checkpoint with the id or the name "nothing"; it may have been dropped to make room for newer ones`,
		`there is no checkpoint with the id or the name ""; it may have been dropped to make room for newer ones`,
		`what must be "all", "variables" or "files"`, "", `the checkpoint "a" is made when this cell has ended, so this cell cannot go back to it`,
	} {
		if said := told(e); len(said) != 8 || want != "" && said[i] != want {
			t.Errorf("it was told %q, not %q", said[min(i, len(said)-1)], want)
		}
	}
	checkpointed(t, s, told(e)[5])
	said := told(execute(t, s, "rollback a all\nrollback a files\ncheckpoint c files"))
	if want := `the variables of this checkpoint cannot be restored: only files were asked for; use what: "files" to restore its files`; said[0] != want {
		t.Errorf("it was told %q, not %q", said[0], want)
	}
	if want := "this cell has already asked for a rollback, which happens when the cell ends"; said[2] != want {
		t.Errorf("it was told %q, not %q", said[2], want)
	}
	until(t, s, 0, "rolled_back")
	list, err := s.Checkpoints(t.Context())
	if err != nil || slices.ContainsFunc(list, func(c api.Checkpoint) bool { return c.Name == "b" && c.ID != told(e)[7] || c.Name == "c" }) {
		t.Errorf("what nobody was promised was made: %+v, %v", list, err)
	}
	if err := s.Update(t.Context(), api.SessionPatch{Checkpoints: &api.CheckpointsRequest{Mode: ptr(api.CheckpointsOff)}}); err != nil {
		t.Fatal(err)
	}
	if said := told(execute(t, s, "checkpoint d files")); said[0] != `this session makes no checkpoints: change checkpoints.mode to "manual"` {
		t.Errorf("it was told %q", said)
	}
}
