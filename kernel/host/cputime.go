package host

import (
	"runtime"
	"time"

	"talaria/kernel"
	"talaria/kernel/record"
)

// leastCPUPause is the shortest time until the CPU time of an execution is read again.
const leastCPUPause = 10 * time.Millisecond

// watchCPU reads the CPU time of an execution at the earliest time at which it can have reached its limit, and
// interrupts it if it has. Other processes of the session count too. The caller holds mu.
func (k *interpreter) watchCPU(run *running, used time.Duration) {
	cores := float64(runtime.NumCPU())
	if limit := k.limitsLocked().CPUs; limit > 0 {
		cores = min(cores, limit)
	}
	pause := max(time.Duration(float64(run.CPUTime-used)/cores), leastCPUPause)
	run.cpu = time.AfterFunc(pause, func() {
		used := k.measure(measureTimeout).CPU - run.before.CPU
		hit := record.LimitHit{Name: "execution_cpu_s", Value: int64(run.CPUTime / time.Second), Used: int64(used / time.Second)}
		if used >= run.CPUTime {
			k.interruptFor(hit, "do less in one cell or raise the limit")
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case k.run != run || k.phase != serving:
		case used < run.CPUTime:
			k.watchCPU(run, used)
		case run.grace == nil:
			k.killAfterGrace(run, ending{reason: kernel.LimitCPU, limit: &hit})
		}
	})
}
