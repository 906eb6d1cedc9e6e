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

// PIDs are the processes of a sandbox on the host, pid 1 first.
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

// Keepers are pid 1 of the keeper and the fork server of an environment that is warm.
func Keepers(b *Backend, env kernel.Environment) (keeper, server int) {
	w, err := b.zygotesOf(env)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	keeper = w.server.keeper.handle.PID
	for _, pid := range procfs.Descendants(keeper)[1:] {
		if p, err := procfs.Read(pid); err == nil && p.Name == "talaria-fork" {
			server = pid
		}
	}
	return keeper, server
}

// Pauses are how long is waited, one time after another, after lives of these lengths.
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

// WithoutLandlock is what a backend says on a machine whose kernel answers with err.
func WithoutLandlock(err error) ([]string, []kernel.Finding) {
	c := confinement{noLandlock: err}
	return c.layers(), c.findings()
}

// UseLandlock has sandboxes use a version, or none with 0.
func UseLandlock(b *Backend, version int) {
	b.confinement.landlock, b.confinement.request.Landlock = version, version
}

// UseFilter has sandboxes use this program.
func UseFilter(b *Backend, program []byte) {
	b.confinement.request.Calls = base64.StdEncoding.EncodeToString(program)
}

// VerifyProcess checks a process as those inside of a sandbox are.
func (b *Backend) VerifyProcess(pid, uid int) error { return b.verifyProcess(pid, uid) }

// UseOwner runs nothing as the owner of sandboxes' user namespaces, on a thread that ends with it.
func UseOwner(b *Backend) error { return b.asOwner(func(bool) error { return nil }) }
