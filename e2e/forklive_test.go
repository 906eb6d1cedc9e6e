package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/api"
	"talaria/client"
)

// forkOf makes forks of a session as it was at a checkpoint.
func forkOf(t *testing.T, c *client.Client, id, point string, count int64) (forks []string) {
	t.Helper()
	made, err := c.Fork(within(t), id, api.ForkRequest{CheckpointID: &point, Count: &count})
	if err != nil || len(made.Items) != int(count) {
		t.Fatalf("%+v, %v", made, err)
	}
	for _, item := range made.Items {
		if item.Session == nil {
			t.Fatal(item.Problem)
		}
		forks = append(forks, item.Session.ID)
	}
	return forks
}

// TestForksOfALiveCheckpoint has a session with all that saving its variables by going back would end: threads, processes, open files.
func TestForksOfALiveCheckpoint(t *testing.T) {
	t.Parallel()
	everyTierAndEngine(t, func(t *testing.T, s *Server) {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		started := "import os, random, subprocess, threading, time; random.seed(4)\n" +
			"t = threading.Thread(target=time.sleep, args=(600,), daemon=True); t.start()\n" +
			"p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n" +
			"f = open('f', 'w+'); f.write('0123456789'); f.flush(); f.seek(2); g = (i for i in range(5)); next(g)\n" +
			"x = [1]; y = {'x': x}\ndef total(): return sum(x)"
		if hasNumpy := run(t, c, id, "import numpy as np; a = np.arange(100_000)").Error == nil; hasNumpy {
			started += "\na[0] = 7"
		}
		first := run(t, c, id, started)
		point := checkpoint(t, c, id, "before", api.CheckpointLive)
		runOK(t, c, id, "x.append(2); z = 1; drawn = random.random(); open('new', 'w').write('1'); next(g); f.read(3)\nif 'a' in globals(): a[0] = 8")
		drawn := result(t, c, id, "drawn")
		for round, count := range []int64{2, 1} {
			for i, fork := range forkOf(t, c, id, point.ID, count) {
				e := run(t, c, fork, fmt.Sprintf("import os; x.append(%d); (x, y['x'] is x, total(), 'z' in globals(), sorted(os.listdir('.')), int(a[0]) if 'a' in globals() else 7)", 10+i))
				if want := fmt.Sprintf("([1, %d], True, %d, False, ['f'], 7)", 10+i, 11+i); e.Text != want || *e.ExecutionCount != point.ExecutionCount+1 {
					t.Errorf("round %d: fork %d has %s, not %s, as number %d: %+v", round, i, e.Text, want, *e.ExecutionCount, e.Error)
				}
				if got := result(t, c, fork, "random.random()"); got != drawn {
					t.Errorf("round %d: the random number of fork %d is %s, not %s", round, i, got, drawn)
				}
				s.attach(t, fork, "after=0").awaits(t, func(h head, raw []byte) bool {
					if h.Type != "session_forked" {
						return false
					}
					forked := decode[api.SessionForked](t, string(raw))
					var names []string
					for _, lost := range forked.NotRestored {
						names = append(names, lost.Name)
					}
					slices.Sort(names)
					if h.ExecutionID != first.ID || forked.CheckpointID != point.ID || strings.Join(names, " ") != "f g p t" {
						t.Errorf("the fork begins with %+v", forked)
					}
					return true
				})
			}
			if e := run(t, c, id, "1"); e.Generation != first.Generation {
				t.Errorf("the session is in generation %d, not %d", e.Generation, first.Generation)
			}
		}
		const undisturbed = "x, next(g), f.read(3), t.is_alive(), p.stdin.write('a\\n') and p.stdin.flush() or p.stdout.readline(), sorted(os.listdir('.'))"
		if got := result(t, c, id, undisturbed); got != `([1, 2], 2, '567', True, 'a\n', ['f', 'new'])` {
			t.Errorf("the session itself has %s", got)
		}
		list, err := c.Checkpoints(within(t), id)
		if err != nil || len(list) != 1 || list[0].Level != api.CheckpointLive {
			t.Errorf("the checkpoints are %+v, %v", list, err)
		}
		s.Kill9()
		s.Restart(t)
		c = s.Client()
		if got := result(t, c, forkOf(t, c, id, point.ID, 1)[0], "x"); got != "[1]" {
			t.Errorf("a fork that another server made has %s", got)
		}
		goBack(t, c, id, point.ID, api.RollbackAll)
		if got := result(t, c, id, "x, next(g), f.read(3), sorted(os.listdir('.'))"); got != "([1], 1, '234', ['f'])" {
			t.Errorf("after the rollback the session has %s", got)
		}
		count := "try: print(sum(open(f'/proc/{p}/comm').read() == 'checkpoint\\n' for p in os.listdir('/proc') if p.isdigit()))\nexcept PermissionError: print(2)"
		if got := runOK(t, c, id, count); got != "2\n" {
			t.Errorf("not the copies of the checkpoint and of the undo point wait, but %s", got)
		}
	})
}

// A variable whose code, while it is saved in a copy, waits until a file is there.
const waitsInACopy = `
import os, time
class Waits:
    def __reduce__(self):
        if open('/proc/self/comm').read() == 'checkpoint\n':
            open('saving', 'w').close()
            while not os.path.exists('go'): time.sleep(0.01)
        return Waits, ()
w = Waits(); x = 1
`

func TestACellWaitsWhileALiveCheckpointIsForked(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, waitsInACopy)
	point := checkpoint(t, c, id, "", api.CheckpointLive)
	runOK(t, c, id, "x = 2")
	forked := make(chan error, 1)
	var made api.ForkReply
	go func() {
		var err error
		made, err = c.Fork(within(t), id, api.ForkRequest{CheckpointID: &point.ID})
		forked <- err
	}()
	for ; ; time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-forked:
			t.Fatalf("the fork has not waited for the variables: %+v, %v", made, err)
		default:
		}
		f, err := c.GetFile(within(t), id, "saving")
		if err == nil {
			f.Close()
			break
		}
		wantCode(t, err, api.CodeFileNotFound)
	}
	cell := s.queue(t, id, "x += 1; print(x)")
	if _, _, err := c.PutFile(within(t), id, "go", strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if err := <-forked; err != nil || made.Items[0].Session == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if e := s.ended(t, id, cell); e.Status != api.StatusOK || e.Text != "3\n" {
		t.Errorf("the cell is %s and prints %q", e.Status, e.Text)
	}
	if got := result(t, c, made.Items[0].Session.ID, "x, type(w).__name__"); got != "(1, 'Waits')" {
		t.Errorf("the fork has %s", got)
	}
}

// endsCopies is code that ends the copies of the interpreter, and what they have forked.
const endsCopies = `
import os
def end():
    for p in os.listdir('/proc'):
        if p.isdigit() and int(p) != os.getpid():
            try:
                if open(f'/proc/{p}/comm').read() == 'checkpoint\n': os.kill(int(p), 9)
            except OSError: pass
`

func TestForksOfACopyThatEnds(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, endsCopies+"class Ends:\n def __reduce__(self): end(); return Ends, ()\ne = Ends(); x = 1; open('f', 'w').write('1')")
	point, other := checkpoint(t, c, id, "", api.CheckpointLive), checkpoint(t, c, id, "", api.CheckpointLive)
	k := s.attach(t, id, "after=0")
	// It ends while it saves.
	_, err := c.Fork(within(t), id, api.ForkRequest{CheckpointID: &point.ID})
	wantCodeAndWords(t, err, api.CodeCheckpointGone, "copy of the interpreter has ended")
	for range 2 {
		k.awaits(t, func(h head, _ []byte) bool { return h.Type == "checkpoint_dropped" })
	}
	// It has ended before, and the checkpoint has only files.
	fork := forkOf(t, c, id, other.ID, 1)[0]
	if e := run(t, c, fork, "x"); e.Error == nil || e.Error.Ename != "NameError" {
		t.Errorf("the fork has x: %s", e.Text)
	}
	if got := result(t, c, fork, "open('f').read()"); got != "'1'" {
		t.Errorf("the fork has %s", got)
	}
	if got := result(t, c, id, "x"); got != "1" {
		t.Errorf("the session itself has %s", got)
	}
}

// A checkpoint's copy saves its variables for a fork. Where memory is short, the copies of other checkpoints end first.
func TestACheckpointIsForkedWhereMemoryIsShort(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	limit := int64(256 << 20)
	id := session(t, c, api.SessionRequest{
		Limits: &api.LimitsRequest{MemoryBytes: &limit}, Checkpoints: &api.CheckpointsRequest{MemoryBytes: &limit},
	})
	var points []api.Checkpoint
	for n := range 4 {
		runOK(t, c, id, fmt.Sprintf("big = bytearray([%d]) * 50_000_000", n+1))
		points = append(points, checkpoint(t, c, id, "", api.CheckpointLive))
	}
	live := slices.DeleteFunc(points, func(p api.Checkpoint) bool {
		now, err := c.CheckpointInfo(within(t), id, p.ID)
		return err != nil || now.Level != api.CheckpointLive
	})
	from := live[0]
	made, err := c.Fork(within(t), id, api.ForkRequest{CheckpointID: &from.ID})
	if err != nil || made.Items[0].Session == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if lost := made.Items[0].NotRestored; len(lost) > 0 {
		t.Errorf("the fork lacks %+v", lost)
	}
	want := fmt.Sprintf("(%d, 50000000)", from.ExecutionCount)
	if got := result(t, c, made.Items[0].Session.ID, "big[0], len(big)"); got != want {
		t.Errorf("the fork has %s, not %s", got, want)
	}
	if got := result(t, c, id, "big[0], len(big)"); got != "(4, 50000000)" {
		t.Errorf("the session has %s", got)
	}
}
