package session_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"talaria/api"
	"talaria/kernel"
	"talaria/session"
)

// endings are the ways in which a server ends and leaves its kernels.
var endings = map[string]func(*rig){"in order": (*rig).leave, "killed": (*rig).kill}

func TestASessionGoesOnUnderTheNextServer(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r := scripted(t, nil)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			detach := s.Attach()
			execute(t, s, "print before")
			asking := submit(t, s, "print one\nask go?\nprint two\nresult 3", allowStdin)
			waitFor(t, s, asking, "input_request")
			waiting := submit(t, s, "print later")
			before := now(t, s)
			detach()
			end(r)
			r.open()

			s, err := r.Get("ann", "x")
			if err != nil {
				t.Fatal(err)
			}
			sameEvents(t, before, now(t, s))
			info := s.Info(t.Context())
			if info.State != api.StateBusy || info.PendingInput == nil || info.PendingInput.Prompt != "go?" ||
				info.PendingInput.ExecutionID != asking || info.ExecutionCount != 2 || info.Kernel.Generation != 1 {
				t.Fatalf("the session is %+v", info)
			}
			if err := s.Input(t.Context(), api.InputRequest{Value: "yes"}); err != nil {
				t.Fatal(err)
			}
			if e := wait(t, s, asking); e.Status != api.StatusOK || e.Text != "one\ngot yes\ntwo\n3" || *e.ExecutionCount != 2 || e.Generation != 1 {
				t.Errorf("what ran is %+v", e)
			}
			if e := wait(t, s, waiting); e.Status != api.StatusOK || e.Text != "later\n" || *e.ExecutionCount != 3 || e.Generation != 1 {
				t.Errorf("what waited is %+v", e)
			}
			if got := shape(now(t, s)); strings.Contains(got, "reset:") || strings.Contains(got, "died:") {
				t.Errorf("the log is %s", got)
			}
		})
	}
}

// sameEvents checks that the log begins with the earlier events.
func sameEvents(t *testing.T, before, after []api.Event) {
	t.Helper()
	for i, e := range before {
		was, _ := api.Marshal(e)
		is, _ := api.Marshal(after[i])
		if string(was) != string(is) {
			t.Fatalf("event %d was\n%s\nand is\n%s", e.Seq, was, is)
		}
	}
}

func allowStdin(r *api.ExecutionRequest) { r.AllowStdin = ptr(true) }

// However often the server is killed while a cell prints, the log ends up with what it would have had without that.
func TestACellThatOutlivesItsServersIsLoggedExactlyOnce(t *testing.T) {
	const cell = "flood 1200\nerr half\nresult 4\nflood 1200\nerr end"
	for name, limit := range map[string]int64{"all of it": 8 << 20, "capped": 8_000} {
		t.Run(name, func(t *testing.T) {
			r := scripted(t, func(c *session.Config) { c.Defaults.OutputBytes = limit })
			s := r.session(api.SessionRequest{ID: ptr("x")})
			want := execute(t, s, cell)
			random := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				id := submit(t, s, cell)
				for stops := 1 + random.IntN(3); stops > 0; stops-- {
					seen := 0
					for _, err := range s.Journal().ExecutionEvents(t.Context(), id, 0) {
						if err != nil {
							t.Fatal(err)
						}
						if seen++; seen > random.IntN(800) {
							break
						}
					}
					r.kill()
					r.open()
					var err error
					if s, err = r.Get("ann", "x"); err != nil {
						t.Fatal(err)
					}
				}
				got := wait(t, s, id)
				if len(got.Outputs) != len(want.Outputs) || got.Text != want.Text || got.TruncatedBytes != want.TruncatedBytes ||
					got.Status != want.Status {
					t.Fatalf("%s, %d outputs, %d bytes of text, %d lacking; want %s, %d, %d, %d", got.Status, len(got.Outputs),
						len(got.Text), got.TruncatedBytes, want.Status, len(want.Outputs), len(want.Text), want.TruncatedBytes)
				}
				for i, o := range got.Outputs {
					if o.OutputType != want.Outputs[i].OutputType || o.Text != want.Outputs[i].Text {
						t.Fatalf("output %d is\n%.300s\nand was\n%.300s", i, o.Text, want.Outputs[i].Text)
					}
				}
			}
		})
	}
}

// Text that came on stderr after stdout exceeded its limit is in the text once, whichever server was running.
func TestTheTextOfACappedCellIsTheSameUnderTheNextServer(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r := scripted(t, func(c *session.Config) { c.Defaults.OutputBytes = 20_000 })
			s := r.session(api.SessionRequest{ID: ptr("x")})
			texts := map[bool]string{}
			for _, ends := range []bool{false, true} {
				detach := s.Attach()
				id := submit(t, s, "flood 3000\nerr half\nflood 100\nask go?\nflood 100", allowStdin)
				waitFor(t, s, id, "input_request")
				detach()
				if ends {
					end(r)
					r.open()
					var err error
					if s, err = r.Get("ann", "x"); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Input(t.Context(), api.InputRequest{Value: "yes"}); err != nil {
					t.Fatal(err)
				}
				texts[ends] = wait(t, s, id).Text
			}
			if diff := cmp.Diff(texts[false], texts[true]); diff != "" || !strings.Contains(texts[true], "half") {
				t.Error(diff)
			}
		})
	}
}

func TestAKernelThatDiesWithoutAServerIsTold(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r := scripted(t, nil)
			s := r.session(api.SessionRequest{ID: ptr("x")})
			detach := s.Attach()
			asking := submit(t, s, "print one\nask go?", allowStdin)
			waitFor(t, s, asking, "input_request")
			waiting := submit(t, s, "print never")
			detach()
			end(r)
			r.fake.KillAll(syscall.SIGKILL)
			r.open()

			s, err := r.Get("ann", "x")
			if err != nil {
				t.Fatal(err)
			}
			e := wait(t, s, asking)
			if e.Status != api.StatusDied || e.State != api.VariablesLost || !strings.HasPrefix(e.Text, "one\n") {
				t.Errorf("what ran is %+v", e)
			}
			if e := wait(t, s, waiting); e.Status != api.StatusCancelled || e.State != api.VariablesLost {
				t.Errorf("what waited is %+v", e)
			}
			if e := execute(t, s, "print again"); e.Status != api.StatusOK || e.Generation != 2 {
				t.Errorf("the next cell is %+v", e)
			}
		})
	}
}

// An execution that was queued and given to no kernel runs under the next server, even if the start produced no
// kernel.
func TestTheQueueOutlivesTheServer(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			r := scripted(t, nil)
			var held atomic.Bool
			begun := make(chan struct{}, 1)
			r.fake.OnCreate = func(ctx context.Context) {
				if held.Load() {
					begun <- struct{}{}
					<-ctx.Done()
				}
			}
			s := r.session(api.SessionRequest{ID: ptr("x")})
			execute(t, s, "exit 3")
			held.Store(true)
			var ids []string
			for _, text := range []string{"one", "two"} {
				ids = append(ids, submit(t, s, "print "+text))
			}
			<-begun
			end(r)
			held.Store(false)
			r.open()

			s, err := r.Get("ann", "x")
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range []string{"one\n", "two\n"} {
				e := wait(t, s, ids[i])
				if i == 0 {
					e.Text = textAfterLoss(e, "Python exited with status 3")
				}
				if e.Status != api.StatusOK || e.Text != text || e.Generation != 2 {
					t.Errorf("%d is %+v", i, e)
				}
			}
		})
	}
}

func TestAKernelOfNoSessionIsEnded(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	execute(t, s, "print one")
	keys, err := r.host.Kernels(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("kernels: %v, %v", keys, err)
	}
	stranger := keys[0]
	stranger.Generation = 77
	if _, err := r.host.Start(t.Context(), stranger, kernel.Environment{}, kernel.Spec{}); err != nil {
		t.Fatal(err)
	}
	r.leave()
	r.open()
	if left, err := r.host.Kernels(t.Context()); err != nil || len(left) != 1 || left[0] != keys[0] {
		t.Errorf("kernels: %v, %v", left, err)
	}
}

func TestAShutdownDuringTheSearchForChangedFilesLeavesThemToTheNextServer(t *testing.T) {
	r := scripted(t, nil)
	s := r.session(api.SessionRequest{ID: ptr("x")})
	detach := s.Attach()
	id := submit(t, s, "folders 2000\nask go?", allowStdin)
	waitFor(t, s, id, "input_request")
	listed := whenListed(t, filepath.Join(r.dir, "sessions", "*", "workspace"))
	if err := s.Input(t.Context(), api.InputRequest{Value: "yes"}); err != nil {
		t.Fatal(err)
	}
	detach()
	listed()
	r.leave()
	r.open()

	s, err := r.Get("ann", "x")
	if err != nil {
		t.Fatal(err)
	}
	e := wait(t, s, id)
	if e.Status != api.StatusOK || len(e.Artifacts) != 1000 || // as many as are listed
		strings.Contains(e.Text, "interrupt") {
		t.Errorf("the cell ended %s with %d artifacts and said %q", e.Status, len(e.Artifacts), e.Text)
	}
}

// whenListed watches a folder; the function that it returns waits until a program starts to list it.
func whenListed(t *testing.T, pattern string) func() {
	t.Helper()
	return whenFolder(t, pattern, syscall.IN_ACCESS)
}

// whenFolder is whenListed for other events of inotify.
func whenFolder(t *testing.T, pattern string, events uint32) func() {
	t.Helper()
	folders, err := filepath.Glob(pattern)
	if err != nil || len(folders) != 1 {
		t.Fatalf("folders %v (%v)", folders, err)
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if _, err := syscall.InotifyAddWatch(fd, folders[0], events|syscall.IN_ONLYDIR); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		var event [4096]byte
		if _, err := syscall.Read(fd, event[:]); err != nil {
			t.Fatal(err)
		}
	}
}
