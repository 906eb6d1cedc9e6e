package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// checkpointIn waits until the session has a checkpoint with that id, and returns it.
func checkpointIn(t *testing.T, c *client.Client, id, point string) (made api.Checkpoint) {
	t.Helper()
	becomes(t, "the checkpoint "+point, func() bool {
		var err error
		made, err = c.CheckpointInfo(within(t), id, point)
		return err == nil
	})
	return made
}

// becomes waits until ok returns true.
func becomes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := within(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it does not happen", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestACellMakesCheckpointsAndGoesBack(t *testing.T) {
	t.Parallel()
	everyTierAndEngine(t, func(t *testing.T, s *Server) {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		first := run(t, c, id, "import talaria; x = 1; print(talaria.checkpoint('one'), end=''); x = 2; _ = open('f', 'w').write('2')")
		point := first.Text
		// What the cell does after the call is in the checkpoint.
		runOK(t, c, id, "x = 3; open('f', 'w').write('3')")
		if made := checkpointIn(t, c, id, point); made.Name != "one" || made.ExecutionID != first.ID || made.Level != api.CheckpointLive {
			t.Errorf("the checkpoint is %+v", made)
		}
		goBack(t, c, id, point, api.RollbackAll)
		if got := result(t, c, id, "x, open('f').read()"); got != "(2, '2')" {
			t.Errorf("after the rollback there is %s", got)
		}
		for _, to := range []string{"one", point} {
			ending := s.queue(t, id, `
x = 4; open('f', 'w').write('4'); print('before')
try:
    talaria.rollback("`+to+`")
except Exception: print('caught')
finally: print('finally')
print('after'); x = 5`)
			next := s.queue(t, id, "print((x, open('f').read()), end='')")
			if e := s.ended(t, id, ending); e.Status != api.StatusOK || e.Text != "before\nfinally\n" {
				t.Errorf("the cell is %s: %q", e.Status, e.Text)
			}
			if e := s.ended(t, id, next); e.Text != "(2, '2')" {
				t.Errorf("the cell after it says %q", e.Text)
			}
			if e, err := c.Execution(within(t), id, ending); err != nil || !e.Undone {
				t.Errorf("the cell that asked for it is undone: %v, %v", e.Undone, err)
			}
			if e, err := c.Execution(within(t), id, next); err != nil || e.Undone {
				t.Errorf("the cell after it is undone: %v, %v", e.Undone, err)
			}
		}
		// Only files, and of a saved checkpoint, which is in another kernel.
		runOK(t, c, id, "x = 6; talaria.checkpoint('saved', level='saved')")
		runOK(t, c, id, "x = 7; open('f', 'w').write('7'); talaria.rollback('one', what='files')")
		if got := result(t, c, id, "x, open('f').read()"); got != "(7, '2')" {
			t.Errorf("after a rollback of files there is %s", got)
		}
		runOK(t, c, id, "await __import__('asyncio').sleep(0); talaria.rollback('saved')")
		if got := result(t, c, id, "x, open('f').read()"); got != "(6, '2')" {
			t.Errorf("after a rollback to saved variables there is %s", got)
		}
	})
}

func TestWhatACellAsksForSurvivesTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "import talaria, os, time; x = 1; talaria.checkpoint('one')")
	ending := s.queue(t, id, `
x = 2; print(talaria.checkpoint('two'), flush=True)
try: talaria.rollback('one')
finally:
    open('promised', 'w').close()
    while not os.path.exists('go'): time.sleep(0.01)`)
	next := s.queue(t, id, "print(x, end='')")
	becomes(t, "the promise", func() bool {
		files, err := s.Client().Files(within(t), id, "")
		return err == nil && slices.ContainsFunc(files, func(f api.File) bool { return f.Path == "promised" })
	})
	s.Kill9()
	s.Restart(t)
	if _, _, err := s.Client().PutFile(within(t), id, "go", strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	e := s.ended(t, id, ending)
	if e.Status != api.StatusOK {
		t.Errorf("the cell is %s: %s", e.Status, e.Text)
	}
	if e := s.ended(t, id, next); e.Text != "1" {
		t.Errorf("the cell after it says %q", e.Text)
	}
	if made := checkpointIn(t, s.Client(), id, strings.TrimSpace(e.Text)); made.Name != "two" || made.Level != api.CheckpointLive {
		t.Errorf("the checkpoint is %+v", made)
	}
	runOK(t, s.Client(), id, "talaria.rollback('two')")
	if got := result(t, s.Client(), id, "x"); got != "2" {
		t.Errorf("at the second checkpoint there is %s", got)
	}
}

func TestACellThatDiesKeepsWhatItWasPromised(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "import talaria, os; open('f', 'w').write('1'); talaria.checkpoint('one')")
	died := run(t, c, id, "import talaria, os; open('f', 'w').write('2'); print(talaria.checkpoint('two'), flush=True)\ntry: talaria.rollback('one')\nfinally: os._exit(3)")
	if died.Status != api.StatusDied {
		t.Fatalf("the cell is %s", died.Status)
	}
	made := checkpointIn(t, c, id, strings.Split(died.Text, "\n")[0])
	if made.Level != api.CheckpointFiles || made.Reason != "the kernel ended before the checkpoint was made" {
		t.Errorf("the checkpoint is %+v", made)
	}
	s.attach(t, id, "after=0").awaits(t, func(h head, raw []byte) bool {
		return h.Type == "stream" && strings.Contains(string(raw), "the session did not go back to the checkpoint") && strings.Contains(string(raw), "the kernel has ended")
	})
	if got := result(t, c, id, "open('f').read()"); got != "'2'" {
		t.Errorf("the file has %s", got)
	}
}

func TestWhatCellsAskForAboutCheckpointsIsRefusedWithWords(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	said := strings.Split(runOK(t, c, id, `
import talaria, os, threading
def say(f, *args, **more):
    try: f(*args, **more)
    except talaria.CheckpointError as e: return str(e)
print(say(talaria.checkpoint, "n" * 300))
print(say(talaria.checkpoint, level="warm"))
print(say(talaria.rollback, "none"))
print(say(talaria.rollback, "none", what="some"))
print(talaria.map(lambda x: say(talaria.rollback, "none"), [1])[0])
print(talaria.map(lambda x: say(talaria.checkpoint), [1])[0])
t = threading.Thread(target=lambda: print(say(talaria.rollback, "none"))); t.start(); t.join()
if os.fork() == 0:
    print(say(talaria.checkpoint), flush=True); os._exit(0)
os.wait()
for n in range(13): last = say(talaria.checkpoint, "a\ud800")
print(last)
`), "\n")
	for i, want := range []string{
		"name is longer than 256 bytes", "level must be", `no checkpoint with the id or the name "none"`, "what must be",
		"talaria.rollback works only in the kernel itself", "talaria.checkpoint works only in the kernel itself",
		"talaria.rollback works only in the thread", "talaria.checkpoint works only in the kernel itself", "16 times",
	} {
		if i >= len(said) || !strings.Contains(said[i], want) {
			t.Errorf("line %d of %q does not say %q", i, said, want)
		}
	}
	becomes(t, "the checkpoints", func() bool {
		list, err := c.Checkpoints(within(t), id)
		return err == nil && len(list) == 12 && !slices.ContainsFunc(list, func(c api.Checkpoint) bool { return c.Name != "a\ufffd" })
	})
	if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Checkpoints: &api.CheckpointsRequest{Mode: new(api.CheckpointsOff)}}); err != nil {
		t.Fatal(err)
	}
	if got := runOK(t, c, id, "print(say(talaria.checkpoint))"); !strings.Contains(got, "checkpoints.mode") {
		t.Errorf("with mode off it says %q", got)
	}
}
