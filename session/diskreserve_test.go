package session_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
	"talaria/kernel/disk"
	"talaria/session"
)

// heldBack returns how much the images below a directory keep back from their users, in blocks.
func heldBack(t *testing.T, dir string) (blocks int64) {
	t.Helper()
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		image, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(image), dir) {
			continue
		}
		loop := filepath.Base(filepath.Dir(filepath.Dir(file)))
		text, err := os.ReadFile(filepath.Join("/sys/fs/ext4", loop, "reserved_clusters"))
		if err != nil { // it is being mounted or unmounted
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		blocks += n
	}
	return blocks
}

func TestAWorkspaceWhoseKernelStartsWhileTheDiskIsLowIsFrozen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	sessions := ""
	r := newRig(t, echo, func(cfg *session.Config) {
		if sessions = cfg.SessionsDir; syscall.Mount("none", sessions, "tmpfs", 0, "size=64m") != nil {
			t.Skip("this machine cannot mount a small file system")
		}
		t.Cleanup(func() { _ = syscall.Unmount(sessions, syscall.MNT_DETACH) })
		var err error
		cfg.Disk, err = disk.Open(t.Context(), disk.Config{Root: sessions, Mode: disk.Image, LimitBytes: 8 << 20, MaxBytes: 8 << 20, Log: cfg.Log})
		if err != nil {
			t.Skip("this machine cannot hold a workspace in an image: ", err)
		}
		t.Cleanup(func() { _ = cfg.Disk.Close() })
		cfg.DiskReserve = 16 << 20
	})
	s := r.session(api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(8 << 20))}})
	execute(t, s, "1")
	before := int64(0)
	eventually(t, func() bool { before = heldBack(t, sessions); return before > 0 })
	idle := func(seconds float64) {
		t.Helper()
		if err := s.Update(t.Context(), api.SessionPatch{IdleTimeoutS: &seconds}); err != nil {
			t.Fatal(err)
		}
	}
	idle(0.01)
	eventually(t, func() bool { return s.Info(t.Context()).State == api.StateDead })
	idle(0)
	filler := filepath.Join(sessions, ".filler")
	if err := os.WriteFile(filler, make([]byte, 50<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		_, _, err := s.Files().Put(t.Context(), "f", strings.NewReader("x"))
		return code(err) == api.CodeDiskFull
	})
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return heldBack(t, sessions) > before })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return heldBack(t, sessions) == before })
}
