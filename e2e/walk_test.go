package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
)

// walkState is what a session must have: its variables, all of them lists of numbers but one, and its files.
type walkState struct {
	variables map[string][]int
	files     map[string]int
	big       int // what each byte of the large variable is; 0: there is none
}

// A large variable, and a limit of memory that has room for two of it, but not for one in each of the checkpoints that are kept.
const (
	walkBig   = 50_000_000
	walkLimit = 256 << 20
)

func (w walkState) clone() walkState {
	c := walkState{map[string][]int{}, maps.Clone(w.files), w.big}
	for name, list := range w.variables {
		c.variables[name] = append([]int(nil), list...)
	}
	return c
}

// walker is a session, what it must have, and the checkpoints to go back to.
type walker struct {
	t      *testing.T
	s      *Server
	id     string
	now    walkState
	points map[string]walkState // by the checkpoint's id
	live   map[string]bool      // those that have variables as long as the kernel lives
	saved  map[string]bool      // those that have them for good
	steps  []string
}

func (w *walker) step(format string, args ...any) {
	w.steps = append(w.steps, fmt.Sprintf(format, args...))
}

// lookUp reads what the session has, and compares.
func (w *walker) lookUp() {
	w.t.Helper()
	names := []string{"a", "b", "c"}
	got := strings.TrimSpace(runOK(w.t, w.s.Client(), w.id, "import os\nprint({n: globals()[n] for n in ['a', 'b', 'c'] if n in globals()}, "+
		"{n: int(open(n).read()) for n in sorted(os.listdir('.'))}, all(shared[n] is globals()[n] for n in globals().get('shared', {})), "+
		"big[0] if 'big' in globals() and big.count(big[0]) == len(big) == "+strconv.Itoa(walkBig)+" else 0)"))
	var variables, files []string
	for _, name := range names {
		if list, ok := w.now.variables[name]; ok {
			variables = append(variables, fmt.Sprintf("'%s': %s", name, strings.ReplaceAll(fmt.Sprint(list), " ", ", ")))
		}
	}
	for _, name := range []string{"f", "g", "h"} {
		if n, ok := w.now.files[name]; ok {
			files = append(files, fmt.Sprintf("'%s': %d", name, n))
		}
	}
	want := "{" + strings.Join(variables, ", ") + "} {" + strings.Join(files, ", ") + "} True " + strconv.Itoa(w.now.big)
	if got != want {
		w.t.Fatalf("the session has %s, not %s, after:\n%s", got, want, strings.Join(w.steps, "\n"))
	}
}

func (w *walker) take(r *rand.Rand) {
	t, c := w.t, w.s.Client()
	names, files := []string{"a", "b", "c"}, []string{"f", "g", "h"}
	switch r.IntN(15) {
	case 0, 1, 2:
		name, n := names[r.IntN(3)], r.IntN(100)
		w.step("append %d to %s", n, name)
		runOK(t, c, w.id, fmt.Sprintf("%s = globals().get('%s', []); %s.append(%d); shared = globals().get('shared', {}); shared['%s'] = %s", name, name, name, n, name, name))
		w.now.variables[name] = append(w.now.variables[name], n)
	case 3:
		name, n := files[r.IntN(3)], r.IntN(100)
		w.step("write %d to %s", n, name)
		runOK(t, c, w.id, fmt.Sprintf("open('%s', 'w').write('%d')", name, n))
		w.now.files[name] = n
	case 4:
		name := names[r.IntN(3)]
		w.step("delete %s", name)
		runOK(t, c, w.id, fmt.Sprintf("globals().pop('%s', None); globals().get('shared', {}).pop('%s', None)", name, name))
		delete(w.now.variables, name)
	case 5:
		name := files[r.IntN(3)]
		w.step("remove %s", name)
		runOK(t, c, w.id, fmt.Sprintf("import os; os.path.exists('%s') and os.remove('%s')", name, name))
		delete(w.now.files, name)
	case 6, 7:
		var req api.CheckpointRequest
		if info, err := c.Session(within(t), w.id); err == nil && info.State != api.StateDead && r.IntN(2) == 0 {
			req.Level = new(api.CheckpointSaved)
		}
		w.checkpoint(req)
	case 8, 9:
		w.goBack(r)
	case 10:
		if info, err := c.Session(within(t), w.id); err != nil || info.State == api.StateDead {
			return // there is nothing to save
		}
		w.step("hibernate")
		hibernate(t, c, w.id)
		clear(w.live)
		if r.IntN(2) == 0 {
			if _, err := c.Wake(within(t), w.id); err != nil {
				t.Fatal(err)
			}
		}
	case 11:
		w.restart(r)
	case 12:
		w.fork(r)
	case 13:
		w.step("interrupt a cell that has changed a variable")
		name := names[r.IntN(3)]
		id := w.s.queue(t, w.id, fmt.Sprintf("%s = [1]; shared = globals().get('shared', {}); shared['%s'] = %s; open('f', 'w').write('1')\n"+
			"import time; print('changed', flush=True); time.sleep(600)", name, name, name))
		w.s.attach(t, w.id, "after=0").awaits(t, func(h head, _ []byte) bool { return h.Type == "stream" && h.ExecutionID == id })
		if err := c.Interrupt(within(t), w.id, id); err != nil {
			t.Fatal(err)
		}
		w.s.ended(t, w.id, id)
		w.now.variables[name], w.now.files["f"] = []int{1}, 1
	case 14:
		for range 1 + r.IntN(4) {
			w.now.big = 1 + r.IntN(255)
			w.step("write %d to each byte of a large variable", w.now.big)
			runOK(t, c, w.id, fmt.Sprintf("big = bytearray([%d]) * %d", w.now.big, walkBig))
			w.checkpoint(api.CheckpointRequest{})
		}
	}
}

// forMemory notes that the variables of a live checkpoint are gone, and reports whether that was for want of memory. A server that was
// away learns why a moment after it has learned that.
func (w *walker) forMemory(point api.Checkpoint) bool {
	delete(w.live, point.ID)
	return strings.Contains(point.Reason, "to make room: the session reached limits.memory_bytes") ||
		point.Reason == "the copy of the interpreter has ended"
}

func (w *walker) checkpoint(req api.CheckpointRequest) {
	w.t.Helper()
	made, err := w.s.Client().Checkpoint(within(w.t), w.id, req)
	if err != nil || len(made.NotSaved) > 0 {
		w.t.Fatalf("%+v, %v, after:\n%s", made, err, strings.Join(w.steps, "\n"))
	}
	w.step("checkpoint %s %s", made.ID, made.Level)
	w.keep(made.ID, made.Level, w.now.clone())
}

// keep notes a checkpoint.
func (w *walker) keep(id string, level api.CheckpointLevel, state walkState) {
	w.points[id], w.live[id], w.saved[id] = state, level == api.CheckpointLive, level == api.CheckpointSaved
}

// fork makes a fork of a checkpoint that has variables, looks into it, and goes on with it, or with the session as it was.
func (w *walker) fork(r *rand.Rand) {
	t, c := w.t, w.s.Client()
	list, err := c.Checkpoints(within(t), w.id)
	if err != nil {
		t.Fatal(err)
	}
	list = slices.DeleteFunc(list, func(p api.Checkpoint) bool { return p.Level == api.CheckpointFiles })
	if len(list) == 0 {
		return
	}
	from := list[r.IntN(len(list))]
	made, err := c.Fork(within(t), w.id, api.ForkRequest{CheckpointID: &from.ID})
	if again, _ := c.CheckpointInfo(within(t), w.id, from.ID); err != nil && again.Level == api.CheckpointFiles && w.forMemory(again) {
		return
	}
	if err != nil || made.Items[0].Session == nil {
		t.Fatalf("%+v, %v, after:\n%s", made, err, strings.Join(w.steps, "\n"))
	}
	fork := &walker{t: t, s: w.s, id: made.Items[0].Session.ID, now: w.points[from.ID].clone(), steps: w.steps}
	for _, lost := range made.Items[0].NotRestored {
		if lost.Name != "big" || !strings.Contains(lost.Reason, "memory") {
			t.Fatalf("the fork lacks %+v, after:\n%s", lost, strings.Join(w.steps, "\n"))
		}
		fork.now.big = 0 // it was named
	}
	fork.step("look into a fork of %s, which is %s", from.ID, from.Level)
	w.steps = fork.steps
	fork.lookUp()
	if r.IntN(2) == 0 {
		return
	}
	w.step("go on with it")
	w.id, w.now = fork.id, fork.now
	clear(w.points)
	clear(w.live)
	clear(w.saved)
}

// goBack goes back to a checkpoint that the server still has.
func (w *walker) goBack(r *rand.Rand) {
	t, c := w.t, w.s.Client()
	list, err := c.Checkpoints(within(t), w.id)
	if err != nil || len(list) == 0 {
		return
	}
	to := list[r.IntN(len(list))]
	point, known := w.points[to.ID]
	if !known {
		t.Fatalf("nobody made the checkpoint %+v", to)
	}
	what := []api.RollbackPart{api.RollbackAll, api.RollbackVariables, api.RollbackFiles}[r.IntN(3)]
	if to.Level == api.CheckpointFiles {
		if w.live[to.ID] && !w.forMemory(to) || w.saved[to.ID] {
			t.Fatalf("the variables of %s are gone: %s, after:\n%s", to.ID, to.Reason, strings.Join(w.steps, "\n"))
		}
		what = api.RollbackFiles
	}
	before := w.now.clone()
	done, err := c.Rollback(within(t), w.id, api.RollbackRequest{CheckpointID: &to.ID, What: &what})
	w.step("go back to %s, %s: undo %s", to.ID, what, done.Undo)
	if again, _ := c.CheckpointInfo(within(t), w.id, to.ID); err != nil && again.Level == api.CheckpointFiles && w.forMemory(again) {
		// The undo point took the memory that it had. Nothing was changed.
		list, err := c.Checkpoints(within(t), w.id)
		if _, known := w.points[list[0].ID]; err == nil && !known && list[0].Undo {
			w.keep(list[0].ID, list[0].Level, before)
		}
		return
	}
	if err != nil || len(done.NotRestored) > 0 {
		t.Fatalf("%+v, %v, after:\n%s", done, err, strings.Join(w.steps, "\n"))
	}
	if to.Level == api.CheckpointSaved && what != api.RollbackFiles {
		clear(w.live) // the kernel has ended
	}
	w.keep(done.Undo, done.UndoLevel, before)
	point = point.clone()
	if what != api.RollbackFiles {
		w.now.variables, w.now.big = point.variables, point.big
	}
	if what != api.RollbackVariables {
		w.now.files = point.files
	}
}

// restart kills the server, and sometimes the host: then the variables are gone, unless they were saved.
func (w *walker) restart(r *rand.Rand) {
	host := w.s.host(w.t)
	info, err := w.s.Client().Session(within(w.t), w.id)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Kill9()
	if r.IntN(3) == 0 {
		w.step("kill server and host")
		if err := syscall.Kill(host.pid, syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
		clear(w.live)
		if info.State != api.StateHibernated {
			w.now.variables, w.now.big = map[string][]int{}, 0
		}
	} else {
		w.step("kill the server")
	}
	w.s.Restart(w.t)
}

// TestRandomWalks does random things to a session and compares it with what it must be. WALK_SEEDS and WALK_STEPS make it longer.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	seeds, steps := 3, 40
	if n, err := strconv.Atoi(os.Getenv("WALK_SEEDS")); err == nil {
		seeds = n
	}
	if n, err := strconv.Atoi(os.Getenv("WALK_STEPS")); err == nil {
		steps = n
	}
	for i := range seeds {
		seed := uint64(i + 1)
		if os.Getenv("WALK_SEEDS") != "" {
			seed = rand.Uint64()
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 18))
			s := start(t, manual)
			w := &walker{t: t, s: s, id: session(t, s.Client(), api.SessionRequest{
				Limits:      &api.LimitsRequest{MemoryBytes: new(int64(walkLimit))},
				Checkpoints: &api.CheckpointsRequest{Keep: new(int64(4)), MemoryBytes: new(int64(walkLimit))},
			}), now: walkState{variables: map[string][]int{}, files: map[string]int{}}, points: map[string]walkState{}, live: map[string]bool{}, saved: map[string]bool{}}
			for range steps {
				w.take(r)
				if r.IntN(2) == 0 {
					w.lookUp()
				}
			}
			w.lookUp()
		})
	}
}
