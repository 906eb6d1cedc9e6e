package disk_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"talaria/kernel"
	"talaria/kernel/disk"
	"talaria/kernel/workspace"
)

// quotas returns a store with project quotas below TMPDIR, or skips the test if that file system has none.
func quotas(t *testing.T) (*disk.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := disk.Open(t.Context(), disk.Config{Root: dir, Mode: disk.Quota})
	if err != nil {
		t.Skip(err)
	}
	for parent := dir; parent != "/"; parent = filepath.Dir(parent) { // for the session's user
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(parent) == filepath.Base(os.TempDir()) {
			break
		}
	}
	return s, dir
}

// fill makes the session's user write so many MiB, and then create files until that fails.
func fill(t *testing.T, dir string, mebibytes string) (free bool) {
	t.Helper()
	cmd := exec.Command("dd", "if=/dev/zero", "of=fill", "bs=1M", "count="+mebibytes)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	return err == nil
}

func TestAProjectQuotaHoldsAWorkspace(t *testing.T) {
	s, dir := quotas(t)
	w := create(t, s, "s", 8*mib)
	inside := filepath.Join(dir, "s", "workspace")
	if w.Held() != kernel.DiskQuota {
		t.Fatalf("it is held by %q", w.Held())
	}
	if used, files := usage(t, w); used != 0 || files != 0 {
		t.Errorf("an empty workspace takes %d bytes and %d files", used, files)
	}
	if fill(t, inside, "9") {
		t.Error("9 MiB fit into 8")
	}
	if used, files := usage(t, w); used > 8*mib || used < 7*mib || files != 1 {
		t.Errorf("a full workspace takes %d bytes and %d files", used, files)
	}
	if err := w.SetLimit(16 * mib); err != nil {
		t.Fatal(err)
	}
	if !fill(t, inside, "9") {
		t.Error("9 MiB do not fit into 16")
	}
	if err := w.SetLimit(4 * mib); err != nil {
		t.Fatal(err)
	}
	space, err := w.Space()
	if err != nil || space.Free != 0 {
		t.Errorf("below what is used there is %+v (%v)", space, err)
	}
	if fill(t, inside, "9") {
		t.Error("9 MiB fit into 4")
	}

	found, err := s.Load("s", uid, 4*mib)
	if err != nil || found.Held() != kernel.DiskQuota {
		t.Fatalf("the next server finds %+v (%v)", found, err)
	}
	if err := errors.Join(found.Close(), w.Discard(), s.Delete(t.Context(), "s")); err != nil {
		t.Fatal(err)
	}
}

func TestAProjectQuotaHoldsFiles(t *testing.T) {
	s, dir := quotas(t)
	w := create(t, s, "s", 1*mib)
	script := exec.Command("sh", "-c", "i=0; while : > f$i; do i=$((i+1)); [ $i -gt 5000 ] && exit; done; :")
	script.Dir = filepath.Join(dir, "s", "workspace")
	script.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	_ = script.Run()
	if _, files := usage(t, w); files > 4096 || files < 4000 {
		t.Errorf("%d files were made, the limit is 4096", files)
	}
	if space, err := w.Space(); err != nil || space.FreeInodes != 0 && space.Free > 64<<10 {
		t.Errorf("there is %+v left (%v)", space, err)
	}
	if err := put(w, "upload", 4096); err != nil && !errors.Is(err, workspace.ErrNoSpace) {
		t.Errorf("an upload: %v", err)
	}
	if err := errors.Join(w.Discard(), s.Delete(t.Context(), "s")); err != nil {
		t.Fatal(err)
	}
}
