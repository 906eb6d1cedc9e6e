package host_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

// asking is a cell that asks and waits for the answer.
func asking(c *kerneltest.Cell) {
	if _, ok := c.Input("? "); !ok {
		c.Raise("KeyboardInterrupt", "")
	}
}

// installing is a cell that installs again and again.
func installing(c *kerneltest.Cell) {
	for {
		if _, _, ok := c.Install("a"); !ok {
			c.Raise("KeyboardInterrupt", "")
			return
		}
	}
}

// withCPU makes sandboxes use that share of a CPU all the time.
func withCPU(share float64) setting {
	return func(_ *host.HostConfig, f *kerneltest.Fake) {
		began := time.Now()
		f.Usage = func() (kernel.Usage, error) {
			return kernel.Usage{CPU: time.Duration(share * float64(time.Since(began)))}, nil
		}
	}
}

func withoutCPU(_ *host.HostConfig, f *kerneltest.Fake) {
	f.Usage = func() (kernel.Usage, error) { return kernel.Usage{}, errors.New("it cannot be read") }
}

func TestTheClockOfAWaitingCellRunsWithTheCPU(t *testing.T) {
	const timeout = 10 * time.Second
	for _, c := range []struct {
		name       string
		setting    setting
		atLeast    time.Duration
		atMost     time.Duration
		stoodStill bool
	}{
		{"all of one CPU", withCPU(1), timeout, timeout, false},
		{"four CPUs", withCPU(4), timeout, timeout, false},
		{"half a CPU", withCPU(0.5), 2 * timeout, 2*timeout + time.Second, false},
		{"a thousandth of a CPU", withCPU(0.001), 1000 * timeout, 1000*timeout + time.Minute, false},
		{"none", withCPU(0), host.MaxStandstill, host.MaxStandstill, true},
		{"nobody knows how much", withoutCPU, timeout, timeout, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, kerneltest.Cells(asking), c.setting)
				began := time.Now()
				r.execute(command.Execution{ID: "e1", Timeout: timeout, AllowStdin: true})
				r.until(is[record.Asked])
				time.Sleep(c.atMost) // until it takes less
				got := r.until(isEnd)
				why := "the cell exceeded its timeout of 10 s"
				if c.stoodStill {
					why = "the cell waited for answers for more than 24 h, the longest that its timeout can be suspended"
				}
				r.expect(got, "e1: input q1 timeout", "e1: raised KeyboardInterrupt "+why+"; the variables are kept",
					"e1: finished timeout KeyboardInterrupt")
				if took := got[len(got)-1].Time.Sub(began); took < c.atLeast || took > c.atMost {
					t.Errorf("it ended after %v, not between %v and %v", took, c.atLeast, c.atMost)
				}
			})
		})
	}
}

func TestAWaitThatUsedCPUIsChargedWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			c.Input("? ")
			c.Sleep()
		}), withCPU(0.5))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", Timeout: 10 * time.Second, AllowStdin: true})
		r.until(is[record.Asked])
		time.Sleep(4 * time.Second) // 2 s of CPU
		if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInput{RequestID: "q1", Value: "yes"}); err != nil {
			t.Fatal(err)
		}
		r.untilFinished()
		if took, want := time.Since(began), 12*time.Second; took != want {
			t.Errorf("it ended after %v, not %v", took, want)
		}
	})
}

func TestShortWaitsAreChargedTogether(t *testing.T) {
	const waits, each, timeout = 1000, time.Millisecond, 10 * time.Second
	for _, c := range []struct {
		name  string
		share float64 // of a CPU that the sandbox uses
		took  time.Duration
	}{
		{"no CPU", 0, timeout + waits*each},
		{"half a CPU", 0.5, timeout + waits*each/2},
		{"four CPUs", 4, timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int64
				r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
					for range waits {
						c.Input("? ")
					}
					c.Sleep()
				}), withCPU(c.share), func(_ *host.HostConfig, f *kerneltest.Fake) {
					usage := f.Usage
					f.Usage = func() (kernel.Usage, error) { reads.Add(1); return usage() }
				})
				began, before := time.Now(), reads.Load()
				r.execute(command.Execution{ID: "e1", Timeout: timeout, AllowStdin: true})
				for range waits {
					got := r.until(is[record.Asked])
					time.Sleep(each)
					answer := command.AnswerInput{RequestID: got[len(got)-1].Body.(record.Asked).ID, Value: "yes"}
					if err := command.Tell(t.Context(), r.host, r.key, answer); err != nil {
						t.Fatal(err)
					}
				}
				if n := reads.Load() - before; n > waits/5 {
					t.Errorf("the CPU time was read %d times for %d waits", n, waits)
				}
				r.untilFinished()
				if took := time.Since(began); took < c.took-20*time.Millisecond || took > c.took+20*time.Millisecond {
					t.Errorf("the cell ended after %v, not %v", took, c.took)
				}
			})
		})
	}
}

func TestACellCannotStandStillForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, timeout = time.Hour, 10 * time.Second
		r := newRig(t, kerneltest.Cells(installing))
		began := time.Now()
		r.execute(command.Execution{ID: "e1", Timeout: timeout})
		for {
			got := r.until(func(rec record.Record) bool { return is[record.Asked](rec) || isEnd(rec) })
			last := got[len(got)-1]
			if isEnd(last) {
				r.expect([]record.Record{last}, "e1: finished timeout KeyboardInterrupt")
				break
			}
			time.Sleep(each)
			id := last.Body.(record.Asked).ID
			if err := command.Tell(t.Context(), r.host, r.key, command.AnswerInstall{RequestID: id, Result: command.InstallResult{}}); err != nil && !errors.Is(err, command.ErrNoInstallPending) {
				t.Fatal(err)
			}
		}
		// The cell may ask once more before the interrupt reaches it.
		if took := time.Since(began); took < host.MaxStandstill || took > host.MaxStandstill+2*each+timeout {
			t.Errorf("it ended after %v, not after %v", took, host.MaxStandstill)
		}
	})
}
