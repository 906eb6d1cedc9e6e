package sandbox_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"talaria/kernel"
	"talaria/kernel/disk"
)

func TestAnImageIsTheWorkspaceAndNothingElseIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("images take root")
	}
	dir := stateDir(t)
	b, env := newBackend(t, dir), environment(t)
	if findings, ok := disk.Probe(t.Context(), dir, disk.Image, 1<<30); !ok {
		t.Skipf("this machine cannot hold a workspace in an image: %+v", findings)
	}
	store, err := disk.Open(t.Context(), disk.Config{Root: dir + "/sessions", Mode: disk.Image, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const limit = 16 << 20
	w, err := store.Create(t.Context(), "imaged", sessionUID, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Discard()
	root, release, err := w.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	spec := newSpec(t, dir)
	spec.Limits.DiskBytes = limit
	plain := spec.Workspace
	spec.Workspace, spec.Disk = root, kernel.DiskImage
	s, err := b.Create(t.Context(), env, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Seal(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if layers := strings.Join(s.Layers(), "\n"); !strings.Contains(layers, "disk: loop image, 16 MiB and 40") {
		t.Errorf("the layers are %q", layers)
	}
	p, err := s.Start(t.Context(), kernel.Program{Args: []string{"/bin/sh", "-c",
		"echo inside > x; grep ' /workspace ' /proc/self/mountinfo; dd if=/dev/zero of=fill bs=1M count=20 2>&1 | head -1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout().Close()
	defer p.Stderr().Close()
	said, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	if out := string(said); !strings.Contains(out, "nosuid,nodev,noatime") || !strings.Contains(out, "No space left") {
		t.Errorf("inside it says %q", said)
	}
	if e, err := w.Stat("x"); err != nil || e.Size != 7 {
		t.Errorf("outside there is %+v (%v)", e, err)
	}

	// A workspace declared to be an image has to be one.
	spec.Workspace = plain
	other, err := b.Create(t.Context(), env, true)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Seal(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "not in an image") {
		t.Errorf("a plain directory: %v", err)
	}
}
