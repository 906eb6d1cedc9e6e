package sandbox_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/sandbox"
)

// What the kernel counts for the owner of a user namespace would otherwise use up root's.
func TestUserNamespacesOfSandboxesAreNotRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no other to be")
	}
	const nsGetOwnerUID = 0xb704
	const owner = sessionUID - 50
	b, env := warm(t, stateDir(t), func(cfg *sandbox.Config) { cfg.OwnUID = owner })
	for _, forked := range []bool{false, true} {
		s := create(t, b, env, forked)
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", s.Handle().PID))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if got, err := unix.IoctlGetUint32(int(file.Fd()), nsGetOwnerUID); err != nil || got != owner {
			t.Errorf("forked %v: it is owned by user %d (%v), want %d", forked, got, err, owner)
		}
	}
	if os.Geteuid() != 0 {
		t.Error("the server is not root any more")
	}
}

// A thread that started a child and later acts as the owner ends after that, and must not take the child with it.
func TestAWayOutIsMadeWhileSandboxesAre(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no other to be")
	}
	dir := stateDir(t)
	b, env := warm(t, dir, func(cfg *sandbox.Config) { cfg.OwnUID = sessionUID - 50 })
	s := create(t, b, env, true)
	interpret(t, s, newSpec(t, dir))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := sandbox.UseOwner(b); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 10 {
		exit, err := s.(kernel.Networker).OpenEgress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []*os.File{exit.Device, exit.HTTP, exit.SOCKS} {
			if file != nil {
				file.Close()
			}
		}
	}
}
