package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/client"
)

// checkpoint makes a checkpoint of a level.
func checkpoint(t *testing.T, c *client.Client, id, name string, level api.CheckpointLevel) api.Checkpoint {
	t.Helper()
	made, err := c.Checkpoint(within(t), id, api.CheckpointRequest{Name: &name})
	if err != nil {
		t.Fatal(err)
	}
	if made.Level != level {
		t.Fatalf("the checkpoint is %s, not %s: %s", made.Level, level, made.Reason)
	}
	return made
}

// goBack goes back to a checkpoint.
func goBack(t *testing.T, c *client.Client, id, to string, what api.RollbackPart) api.RollbackReply {
	t.Helper()
	done, err := c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: &to, What: &what})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// result runs a cell and returns the text of its value.
func result(t *testing.T, c *client.Client, id, code string) string {
	t.Helper()
	return strings.TrimSpace(runOK(t, c, id, "print(repr(("+code+")), end='')"))
}

// wantCodeAndWords checks the code of an error, and that it says each of these.
func wantCodeAndWords(t *testing.T, err error, code api.Code, words ...string) {
	t.Helper()
	wantCode(t, err, code)
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say %q", err, word)
		}
	}
}

// everyTierAndEngine runs a test against a server with each engine in each tier; with -short, with one engine in each tier.
func everyTierAndEngine(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, tier := range isolationTiers {
		for _, engine := range []string{"stdlib", "ipython"} {
			if testing.Short() && (tier == "landlock") != (engine == "ipython") {
				continue
			}
			t.Run(tier+"/"+engine, func(t *testing.T) {
				t.Parallel()
				test(t, start(t, options{args: []string{"--tier", tier, "--min-tier", "landlock", "--engine", engine, "--python", "/usr/bin/python3", "--checkpoints", "manual"}}))
			})
		}
	}
}

func TestASessionGoesBack(t *testing.T) {
	t.Parallel()
	everyTierAndEngine(t, func(t *testing.T, s *Server) {
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "import os, random; random.seed(4); x = [1]; open('a.txt', 'w').write('one'); os.mkdir('empty'); os.symlink('a.txt', 'l'); f = open('a.txt', 'r+')")
		runOK(t, c, id, "%%bash --state\nin_bash=1")
		point := checkpoint(t, c, id, "before", api.CheckpointLive)
		after := run(t, c, id, "x.append(2); y = 3; n = random.random(); open('a.txt', 'w').write('two'); open('b.txt', 'w').write('new'); os.rmdir('empty')")
		drawn := result(t, c, id, "n")
		runOK(t, c, id, "%%bash --state\nin_bash=2")

		diff, err := c.CheckpointDiff(within(t), id, point.ID, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := names(diff); got != "a.txt modified, b.txt created; n created, x modified, y created" {
			t.Errorf("the difference is %s", got)
		}
		done := goBack(t, c, id, point.ID, api.RollbackAll)
		if len(done.NotRestored) > 0 || done.Undo == "" || done.UndoLevel != api.CheckpointLive || done.Files == 0 {
			t.Errorf("the rollback is %+v", done)
		}
		if got := result(t, c, id, "x, 'y' in globals(), open('a.txt').read(), sorted(os.listdir('.')), os.readlink('l'), f.read()"); got != "([1], False, 'one', ['a.txt', 'empty', 'l'], 'a.txt', 'one')" {
			t.Errorf("after the rollback there is %s", got)
		}
		if got := runOK(t, c, id, "%%bash --state\necho $in_bash"); got != "1\n" {
			t.Errorf("the variable of bash is %q", got)
		}
		if got := result(t, c, id, "random.random()"); got != drawn {
			t.Errorf("the random number is %s, not %s", got, drawn)
		}
		if e, err := c.Execution(within(t), id, after.ID); err != nil || !e.Undone {
			t.Errorf("the execution after the point is %+v, %v", e.Undone, err)
		}
		// Once more to the same point, and then to what was before the first time.
		goBack(t, c, id, point.ID, api.RollbackVariables)
		if got := result(t, c, id, "x"); got != "[1]" {
			t.Errorf("the second time there is %s", got)
		}
		goBack(t, c, id, done.Undo, api.RollbackAll)
		if got := result(t, c, id, "x, y, open('a.txt').read(), os.path.exists('b.txt'), os.path.exists('empty'), f.read()"); got != "([1, 2], 3, 'two', True, False, 'two')" {
			t.Errorf("after the undo there is %s", got)
		}
		if e, err := c.Execution(within(t), id, after.ID); err != nil || e.Undone {
			t.Errorf("after the undo the execution is undone: %+v, %v", e.Undone, err)
		}
		// To what was before that: undone again.
		list, err := c.Checkpoints(within(t), id)
		if err != nil || !list[0].Undo {
			t.Fatalf("%+v, %v", list, err)
		}
		goBack(t, c, id, list[0].ID, api.RollbackAll)
		if e, err := c.Execution(within(t), id, after.ID); err != nil || !e.Undone {
			t.Errorf("forward again the execution is undone: %v, %v", e.Undone, err)
		}
		if made := checkpoint(t, c, id, "later", api.CheckpointLive); made.ExecutionID == after.ID {
			t.Errorf("the later checkpoint names an undone execution: %+v", made)
		}
	})
}

// names are the changes of a difference.
func names(diff api.CheckpointDiff) string {
	var files, variables []string
	for _, f := range diff.Files {
		files = append(files, f.Path+" "+string(f.Change))
	}
	for _, v := range diff.Variables {
		variables = append(variables, v.Name+" "+string(v.Change))
	}
	return strings.Join(files, ", ") + "; " + strings.Join(variables, ", ")
}

func TestCheckpointsSurviveTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, "x = 1; open('f', 'w').write('1')")
	point := checkpoint(t, s.Client(), id, "", api.CheckpointLive)
	runOK(t, s.Client(), id, "x = 2; open('f', 'w').write('2')")
	s.Kill9()
	s.Restart(t)
	goBack(t, s.Client(), id, point.ID, api.RollbackAll)
	if got := result(t, s.Client(), id, "x, open('f').read()"); got != "(1, '1')" {
		t.Errorf("there is %s", got)
	}
	// Without the host only the files are left.
	runOK(t, s.Client(), id, "open('f', 'w').write('3')")
	host := s.host(t)
	s.Kill9()
	if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	list, err := s.Client().Checkpoints(within(t), id)
	if err != nil || slices.ContainsFunc(list, func(c api.Checkpoint) bool { return c.Level == api.CheckpointLive || c.Reason == "" }) {
		t.Errorf("the checkpoints are %+v, %v", list, err)
	}
	_, err = s.Client().Rollback(within(t), id, api.RollbackRequest{CheckpointID: &point.ID})
	wantCodeAndWords(t, err, api.CodeCheckpointGone, "the kernel has ended", `what: "files"`)
	goBack(t, s.Client(), id, point.ID, api.RollbackFiles)
	if got := result(t, s.Client(), id, "open('f').read()"); got != "'1'" {
		t.Errorf("there is %s", got)
	}
}

func TestRequestsAboutCheckpointsAreChecked(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	_, err := c.Rollback(within(t), id, api.RollbackRequest{})
	wantCodeAndWords(t, err, api.CodeInvalidRequest, "checkpoint_id or execution_id")
	_, err = c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: new("none")})
	wantCodeAndWords(t, err, api.CodeCheckpointGone, "none")
	_, err = c.CheckpointInfo(within(t), id, "none")
	wantCodeAndWords(t, err, api.CodeCheckpointNotFound)
	_, err = c.Checkpoint(within(t), id, api.CheckpointRequest{Level: new(api.CheckpointLevel("warm"))})
	wantCodeAndWords(t, err, api.CodeInvalidRequest, "level")
	waiting := s.queue(t, id, "import time; time.sleep(60)")
	_, err = c.Checkpoint(within(t), id, api.CheckpointRequest{})
	wantCodeAndWords(t, err, api.CodeKernelBusy)
	_, err = c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: new("none")})
	wantCodeAndWords(t, err, api.CodeKernelBusy)
	if err := c.Interrupt(within(t), id, ""); err != nil {
		t.Fatal(err)
	}
	s.ended(t, id, waiting)
	if _, err := c.UpdateSession(within(t), id, api.SessionPatch{Checkpoints: &api.CheckpointsRequest{Mode: new(api.CheckpointsOff)}}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Checkpoint(within(t), id, api.CheckpointRequest{})
	wantCodeAndWords(t, err, api.CodeInvalidRequest, "checkpoints.mode")
}

func TestOnlySoManyCheckpointsAreKept(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{Checkpoints: &api.CheckpointsRequest{Keep: new(int64(2))}})
	runOK(t, c, id, "import os; x = 0")
	named := checkpoint(t, c, id, "first", api.CheckpointLive)
	var last api.Checkpoint
	for range 4 {
		runOK(t, c, id, "x += 1")
		last = checkpoint(t, c, id, "", api.CheckpointLive)
	}
	list, err := c.Checkpoints(within(t), id)
	if err != nil || len(list) != 3 || list[0].ID != last.ID || list[2].ID != named.ID {
		t.Fatalf("the checkpoints are %+v, %v", list, err)
	}
	if got := result(t, c, id, "sum(open(f'/proc/{p}/comm').read() == 'checkpoint\\n' for p in os.listdir('/proc') if p.isdigit())"); got != "3" {
		t.Errorf("%s copies of the interpreter wait, not 3", got)
	}
	goBack(t, c, id, named.ID, api.RollbackAll)
	if got := result(t, c, id, "x"); got != "0" {
		t.Errorf("x is %s", got)
	}
	if err := c.DropCheckpoint(within(t), id, named.ID); err != nil {
		t.Fatal(err)
	}
	_, err = c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: &named.ID})
	wantCodeAndWords(t, err, api.CodeCheckpointGone)
}

func TestACellCanBePrecededByACheckpoint(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	first := run(t, c, id, "x = 1")
	e, err := c.Execute(within(t), id, api.ExecutionRequest{Code: new("x = 2"), Checkpoint: new(true)})
	if err != nil || e.Status != api.StatusOK {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := c.Rollback(within(t), id, api.RollbackRequest{ExecutionID: &first.ID}); err != nil {
		t.Fatal(err)
	}
	if got := result(t, c, id, "x"); got != "1" {
		t.Errorf("x is %s", got)
	}
}

func TestCheckpointsAreMadeAfterCells(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	if info, err := c.Session(within(t), id); err != nil || info.Checkpoints.Mode != api.CheckpointsAuto {
		t.Errorf("the session's checkpoints are %+v, %v", info.Checkpoints, err)
	}
	k := s.attach(t, id, "after=0")
	first := run(t, c, id, "x = 1")
	k.awaits(t, func(h head, raw []byte) bool { return h.Type == "checkpoint_created" })
	runOK(t, c, id, "x = 2")
	if _, err := c.Rollback(within(t), id, api.RollbackRequest{ExecutionID: &first.ID}); err != nil {
		t.Fatal(err)
	}
	k.awaits(t, func(h head, raw []byte) bool { return h.Type == "rolled_back" })
	if got := result(t, c, id, "x"); got != "1" {
		t.Errorf("x is %s", got)
	}
}

func TestCopiesOfASessionAreBoundedByWhatTheyHold(t *testing.T) {
	t.Parallel()
	c := start(t, options{}).Client()
	// What the interpreter says about its own memory does not count.
	const forged = "from talaria_runner.checkpoints import copies; said = iter(%s); copies._resident = lambda: next(said)"
	for name, before := range map[string]string{
		// Copies do not hold what other processes and files in memory take.
		"others": "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', " +
			"'x = bytearray(b\"x\") * (200 << 20); print(1, flush=True); input()'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n" +
			"p.stdout.readline()\nopen('/dev/shm/f', 'wb').write(b'x' * (200 << 20)) and None",
		"too much":   fmt.Sprintf(forged, "[1 << 52] + 9 * [0]"),
		"too little": fmt.Sprintf(forged, "[0] + 9 * [1 << 52]"),
	} {
		t.Run(name, func(t *testing.T) {
			// The interpreter shares some 80 MiB with its fork server, which must not hide what copies hold.
			bound := int64(100 << 20)
			id := session(t, c, api.SessionRequest{Checkpoints: &api.CheckpointsRequest{Mode: new(api.CheckpointsManual), MemoryBytes: &bound}})
			runOK(t, c, id, before)
			for range 6 {
				runOK(t, c, id, "held = bytearray(b'x') * (40 << 20)") // that of before is the last copy's alone
				made, err := c.Checkpoint(within(t), id, api.CheckpointRequest{Level: new(api.CheckpointLive)})
				if err != nil {
					t.Fatal(err)
				}
				if made.Bytes < 40<<20 || made.Bytes > 400<<20 {
					t.Errorf("a checkpoint has %d bytes", made.Bytes)
				}
			}
			list, err := c.Checkpoints(within(t), id)
			if err != nil {
				t.Fatal(err)
			}
			var live int
			for i, point := range list {
				switch {
				case point.Level != api.CheckpointLive && !strings.Contains(point.Reason, "checkpoints.memory_bytes"):
					t.Errorf("a checkpoint has only its files, since %s", point.Reason)
				case point.Level == api.CheckpointLive && live != i:
					t.Error("a newer checkpoint lost its copy before an older one")
				case point.Level == api.CheckpointLive:
					live++
				}
			}
			// The newest holds nothing, and each of the others 40 MiB.
			if live < 2 || live > 4 {
				t.Errorf("%d of %d checkpoints have their copies", live, len(list))
			}
		})
	}
}

func TestTheCopiesOfAllSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "checkpoints_memory_bytes: 4000000\n"}) // one copy
	c := s.Client()
	var ids []string
	for range 4 {
		id := session(t, c, api.SessionRequest{})
		ids = append(ids, id)
		k := s.attach(t, id, "after=0")
		runOK(t, c, id, "x = 1")
		k.awaits(t, func(h head, _ []byte) bool { return h.Type == "checkpoint_created" })
	}
	dropped := func(id string) {
		s.attach(t, id, "after=0").awaits(t, func(h head, raw []byte) bool {
			return h.Type == "checkpoint_dropped" && strings.Contains(string(raw), `"reason":"server_memory","level":"files"`)
		})
	}
	dropped(ids[0])
	levels := func(id string) (levels []api.CheckpointLevel) {
		list, err := c.Checkpoints(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, point := range list {
			levels = append(levels, point.Level)
			if point.Level == api.CheckpointFiles && !strings.Contains(point.Reason, "the copies of all sessions took more than 4000000 bytes") {
				t.Errorf("the checkpoint has the reason %q", point.Reason)
			}
		}
		return levels
	}
	if got := levels(ids[0]); !slices.Equal(got, []api.CheckpointLevel{api.CheckpointFiles}) {
		t.Errorf("the checkpoints of the session that was used first are %v", got)
	}
	if got := levels(ids[3]); !slices.Equal(got, []api.CheckpointLevel{api.CheckpointLive}) {
		t.Errorf("the checkpoints of the session that was used last are %v", got)
	}
	s.Kill9()
	s.Restart(t)
	c = s.Client()
	runOK(t, c, ids[1], "x = 2")
	dropped(ids[3]) // the next server counts the copies that are there
}

func TestEditsOfPeopleCanBeKept(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "open('cell', 'w').write('1')")
	point := checkpoint(t, c, id, "", api.CheckpointLive)
	runOK(t, c, id, "open('cell', 'w').write('2')")
	if _, _, err := c.PutFile(within(t), id, "mine", strings.NewReader("kept")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: &point.ID, KeepUserEdits: new(true)}); err != nil {
		t.Fatal(err)
	}
	if got := result(t, c, id, "open('cell').read(), open('mine').read()"); got != "('1', 'kept')" {
		t.Errorf("there is %s", got)
	}
}

func TestFilesOfCheckpointsOutliveTheSessionsThatMadeThem(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "open('f', 'w').write('made by the first session')")
	made, err := c.Fork(within(t), id, api.ForkRequest{})
	if err != nil || made.Items[0].Session == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	fork := made.Items[0].Session.ID
	point := checkpoint(t, c, fork, "", api.CheckpointSaved) // it has no kernel yet
	runOK(t, c, fork, "open('f', 'w').write('changed')")
	if err := c.DeleteSession(within(t), id); err != nil {
		t.Fatal(err)
	}
	if done := goBack(t, c, fork, point.ID, api.RollbackFiles); len(done.NotRestored) > 0 {
		t.Errorf("not restored: %+v", done.NotRestored)
	}
	if got := result(t, c, fork, "open('f').read()"); got != "'made by the first session'" {
		t.Errorf("there is %s", got)
	}
}

func TestWhatCellsStartedEndsWithARollback(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "import os, subprocess, threading, time; t = threading.Thread(target=time.sleep, args=(600,), daemon=True); t.start()")
	point := checkpoint(t, c, id, "", api.CheckpointLive)
	runOK(t, c, id, "p = subprocess.Popen(['sleep', '600'])")
	done := goBack(t, c, id, point.ID, api.RollbackAll)
	if len(done.NotRestored) != 1 || done.NotRestored[0].Name != "t" {
		t.Errorf("not restored: %+v", done.NotRestored)
	}
	runOK(t, c, id, `def sleeping(): return sum(open(f"/proc/{p}/comm").read() == "sleep\n" for p in os.listdir("/proc") if p.isdigit())
deadline = time.monotonic() + 30  # a killed process may take a moment to end
while sleeping() and time.monotonic() < deadline: time.sleep(0.01)`)
	if got := result(t, c, id, "(sleeping(), t.is_alive())"); got != "(0, False)" {
		t.Errorf("there are %s", got)
	}
}

// Code inside can signal copies.
func TestCopiesThatWereStoppedWakeAndSave(t *testing.T) {
	t.Parallel()
	c := start(t, manual).Client()
	id := session(t, c, api.SessionRequest{})
	stop := func() {
		t.Helper()
		got := runOK(t, c, id, `import os, signal
copies = [int(p) for p in os.listdir("/proc") if p.isdigit() and open(f"/proc/{p}/comm").read() == "checkpoint\n"]
for copy in copies:
    os.kill(copy, signal.SIGSTOP)
print(len(copies) > 0)`)
		if got != "True\n" {
			t.Fatalf("copies were stopped: %s", got)
		}
	}
	runOK(t, c, id, "x = 1")
	point := checkpoint(t, c, id, "", api.CheckpointLive)
	runOK(t, c, id, "x = 2")
	stop()
	made, err := c.Fork(within(t), id, api.ForkRequest{CheckpointID: &point.ID})
	if err != nil || made.Items[0].Session == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if got := result(t, c, made.Items[0].Session.ID, "x"); got != "1" {
		t.Errorf("in the fork, x is %s", got)
	}
	stop()
	done := goBack(t, c, id, point.ID, api.RollbackAll)
	if got := result(t, c, id, "x"); got != "1" {
		t.Errorf("x is %s", got)
	}
	stop()
	goBack(t, c, id, done.Undo, api.RollbackAll)
	if got := result(t, c, id, "x"); got != "2" {
		t.Errorf("after undoing the rollback, x is %s", got)
	}
}

// Each process holds a lock, which is free as soon as the process has ended.
func TestARollbackEndsWhatCellsStartedInSessionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, tier := range isolationTiers {
		t.Run(tier, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{args: []string{"--tier", tier, "--min-tier", "landlock", "--checkpoints", "manual"}})
			c := s.Client()
			id := session(t, c, api.SessionRequest{})
			runOK(t, c, id, `
import fcntl, subprocess, tempfile
folder = tempfile.gettempdir()
def locked(*names):
    def is_locked(name):
        with open(f"{folder}/{name}", "a") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return [name for name in names if is_locked(name)]
def start(name, *command):
    with open(f"{folder}/{name}", "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        p = subprocess.Popen(command, pass_fds=[f.fileno()], start_new_session=name == "child")
        if name == "daemon":
            p.wait()
def start_all():
    start("child", "sleep", "600")
    start("grandchild", "sh", "-c", "setsid -w sleep 600 & wait")
    start("great-grandchild", "setsid", "-w", "sh", "-c", "setsid -w sleep 600 & wait")
    start("daemon", "setsid", "--fork", "sleep", "600")
all = "child", "grandchild", "great-grandchild", "daemon"`)
			point := checkpoint(t, c, id, "", api.CheckpointLive)
			other := checkpoint(t, c, id, "other", api.CheckpointLive)
			wantLocked := func(want string, names string) {
				t.Helper()
				if got := result(t, c, id, "locked("+names+")"); got != want {
					t.Errorf("%s of %s go on, want %s", got, names, want)
				}
			}
			wantAll := "['child', 'grandchild', 'great-grandchild', 'daemon']"
			runOK(t, c, id, "start_all(); x = 1")
			wantLocked(wantAll, "*all")
			undo := goBack(t, c, id, point.ID, api.RollbackAll).Undo // the interpreter steps aside
			wantLocked("[]", "*all")
			runOK(t, c, id, "start_all(); import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
			wantLocked(wantAll, "*all")
			goBack(t, c, id, undo, api.RollbackAll) // the interpreter ends
			wantLocked("[]", "*all")
			if got := result(t, c, id, "x"); got != "1" { // the undo checkpoint, which was a child of pid 1, was left alone
				t.Errorf("x is %s", got)
			}
			goBack(t, c, id, other.ID, api.RollbackAll)

			runOK(t, c, id, "start_all()")
			k := s.attachTerminal(t, id, s.openTerminal(t, id, "{}"), "")
			k.quiet()
			k.say(`cd "${TMPDIR:-/tmp}"; for name in shell background service; do eval "exec 9>$name"; flock 9; ` +
				`case $name in background) sleep 600 & ;; service) setsid --fork sleep 600;; esac; done; exec 9>shell; flock 9; echo locked-$((1))` + "\n")
			k.until("locked-1")
			wantLocked(wantAll, "*all")
			goBack(t, c, id, point.ID, api.RollbackAll)
			wantLocked("[]", "*all")
			wantLocked("['shell', 'background', 'service']", "'shell', 'background', 'service'")
			k.say("exit\n")
			k.ended(0)
		})
	}
}

func TestMemoryPressureEndsCopiesFirst(t *testing.T) {
	t.Parallel()
	s := start(t, manual)
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{MemoryBytes: new(int64(256 << 20))},
		Checkpoints: &api.CheckpointsRequest{MemoryBytes: new(int64(1 << 30))}})
	// Without large pages: Linux looks for the next process to end once the pages of one that ends are unmapped, before it frees them,
	// up to some ten thousand at a time. A copy with fifty large ones is freed all at once, a little too late.
	runOK(t, c, id, "import ctypes; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) # PR_SET_THP_DISABLE")
	runOK(t, c, id, "b = bytearray(100 << 20); b[::4096] = b'1' * len(b[::4096])")
	point := checkpoint(t, c, id, "", api.CheckpointLive)
	k := s.attach(t, id, "after=0")
	e := run(t, c, id, "b[::4096] = b'2' * len(b[::4096]); more = bytearray(60 << 20); more[::4096] = b'3' * len(more[::4096]); b[0]")
	if e.Status != api.StatusOK || e.State != api.VariablesKept {
		t.Fatalf("%s %s: %s", e.Status, e.Reason, e.Text)
	}
	k.awaits(t, func(h head, raw []byte) bool {
		return h.Type == "checkpoint_dropped" && decode[api.CheckpointDropped](t, string(raw)).CheckpointID == point.ID
	})
	_, err := c.Rollback(within(t), id, api.RollbackRequest{CheckpointID: &point.ID})
	wantCodeAndWords(t, err, api.CodeCheckpointGone, "limits.memory_bytes")
	if got := result(t, c, id, "b[0], len(more)"); got != "(50, 62914560)" {
		t.Errorf("there is %s", got)
	}
}
