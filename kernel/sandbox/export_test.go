package sandbox

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"talaria/kernel"
	"talaria/kernel/procfs"
)

// SweepHandles is the part of Sweep that goes by handles.
func SweepHandles(ctx context.Context, b *Backend, handles []kernel.Handle) error {
	return b.sweepHandles(ctx, handles)
}

// PIDs lists the processes of a sandbox on the host, pid 1 first.
func PIDs(s kernel.Sandbox) ([]int, error) {
	pid1 := s.(*Sandbox).handle.PID
	pids, err := s.(*Sandbox).pids()
	slices.SortFunc(pids, func(a, b int) int {
		if a == pid1 || b == pid1 {
			return map[bool]int{true: -1, false: 1}[a == pid1]
		}
		return a - b
	})
	return pids, err
}

// Forked reports whether a fork server made the sandbox.
func Forked(s kernel.Sandbox) bool { return s.(*Sandbox).cmd == nil }

// Keepers returns pid 1 of the keeper and the fork server of a warm environment.
func Keepers(b *Backend, env kernel.Environment) (keeper, server int) {
	w, err := b.zygotesOf(env)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	keeper = w.server.keeper.handle.PID
	for _, pid := range procfs.Descendants(keeper)[1:] {
		// What it has just forked has its name too.
		if p, err := procfs.Read(pid); err == nil && p.Name == "talaria-fork" && p.Parent == keeper {
			server = pid
		}
	}
	return keeper, server
}

// Pauses returns how long each wait is, one after another, after lives of these lengths.
func Pauses(ctx context.Context, lived ...time.Duration) []time.Duration {
	var p pause
	var waited []time.Duration
	for _, life := range lived {
		began := time.Now()
		p.wait(ctx, life)
		waited = append(waited, time.Since(began))
	}
	return waited
}

// WithoutLandlock returns what a backend reports on a machine whose kernel answers with err.
func WithoutLandlock(err error) ([]string, []kernel.Finding) {
	c := confinement{noLandlock: err}
	return c.layers(), c.findings()
}

// UseLandlock makes sandboxes use a version, or none if it is 0.
func UseLandlock(b *Backend, version int) {
	b.confinement.landlock, b.confinement.request.Landlock = version, version
}

// UseFilter makes sandboxes use this program.
func UseFilter(b *Backend, program []byte) {
	b.confinement.request.Calls = base64.StdEncoding.EncodeToString(program)
}

// VerifyProcess checks a process like those inside a sandbox.
func (b *Backend) VerifyProcess(pid, uid int) error { return b.verifyProcess(pid, uid) }

// UseOwner does nothing as the owner of sandboxes' user namespaces, on a thread that ends afterwards.
func UseOwner(b *Backend) error { return b.asOwner(func(bool) error { return nil }) }

// LimitReached names the limit for which a process has just been killed, as the end of the interpreter or of another process does.
func LimitReached(s kernel.Sandbox, interpreter bool) string {
	return s.(*Sandbox).limitReached(interpreter)
}

// CompileLibrary compiles the embedded Python in a directory as a new process does.
func CompileLibrary(ctx context.Context, dir string, env kernel.Environment) error {
	l := newLibrary(dir)
	return l.compile(ctx, env)
}

// LimitAll limits the processes that unlimited returns, until it returns none.
func LimitAll(unlimited func() ([]int, error), limit func(pids []int) error) error {
	return limitAll(unlimited, limit)
}
