package session_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/disk"
	"talaria/kernel/kerneltest"
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

// smallDisk puts the sessions on a small disk, of which a quarter is the reserve.
func smallDisk(t *testing.T, cfg *session.Config) string {
	t.Helper()
	kerneltest.SmallDisk(t, cfg.SessionsDir, 64<<20)
	cfg.DiskReserve = 16 << 20
	return cfg.SessionsDir
}

// fill uses up a part of the reserve and returns when the server knows, and so does empty, which undoes it.
func fill(t *testing.T, dir string, s *session.Session) (empty func()) {
	t.Helper()
	file := filepath.Join(dir, ".filler")
	if err := os.WriteFile(file, make([]byte, 50<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	isLow := func() bool {
		_, _, err := s.Files().Put(t.Context(), "f", strings.NewReader("x"))
		return code(err) == api.CodeDiskFull
	}
	eventually(t, isLow)
	return func() {
		t.Helper()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return !isLow() })
	}
}

func TestAWorkspaceWhoseKernelStartsWhileTheDiskIsLowIsFrozen(t *testing.T) {
	sessions := ""
	r := newRig(t, echo, func(cfg *session.Config) {
		sessions = smallDisk(t, cfg)
		var err error
		cfg.Disk, err = disk.Open(t.Context(), disk.Config{Root: sessions, Mode: disk.Image, LimitBytes: 8 << 20, MaxBytes: 8 << 20, Log: cfg.Log})
		if err != nil {
			t.Skip("this machine cannot hold a workspace in an image: ", err)
		}
		t.Cleanup(func() { _ = cfg.Disk.Close() })
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
	empty := fill(t, sessions, s)
	if err := s.Reset(t.Context(), api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return heldBack(t, sessions) > before })
	empty()
	eventually(t, func() bool { return heldBack(t, sessions) == before })
}

// A copy of a large file could use up the disk, and other sessions' images would lose data.
func TestNoFileIsCopiedPastTheReserve(t *testing.T) {
	var blobs *artifacts.Store
	r := scripted(t, func(cfg *session.Config) { blobs = cfg.Artifacts })
	var pieces atomic.Int64
	blobs.Spare = func() error {
		if pieces.Add(1) > 2 {
			return api.Errorf(api.CodeDiskFull, "it has become low")
		}
		return nil
	}
	s := r.session(api.SessionRequest{})
	e := execute(t, s, "noise large 2000000")
	if len(e.Artifacts) != 1 || !e.Artifacts[0].Omitted || *e.Artifacts[0].Size != 2_000_000 {
		t.Errorf("the artifacts are %+v", e.Artifacts)
	}
	made, err := s.Checkpoint(t.Context(), api.CheckpointRequest{Level: ptr(api.CheckpointFiles)})
	if err != nil || len(made.NotSaved) != 1 || !strings.Contains(made.NotSaved[0].Reason, "nearly full") {
		t.Errorf("the checkpoint is %+v, %v", made, err)
	}
	if _, err := s.Fork(t.Context(), api.ForkRequest{CheckpointID: &made.ID}); err != nil {
		t.Errorf("a fork without the file: %v", err)
	}
}

func TestAHibernatingSessionIsNotWokenWhileTheDiskIsLow(t *testing.T) {
	host := new(savingHost)
	r := newRig(t, echo, func(cfg *session.Config) {
		host.Host, host.dir, cfg.Host = cfg.Host, smallDisk(t, cfg), host
	})
	s := r.session(api.SessionRequest{})
	execute(t, s, "1")
	if _, err := s.Hibernate(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty := fill(t, host.dir, s)
	if _, err := s.Wake(t.Context()); err == nil || !strings.Contains(err.Error(), "disk is nearly full") {
		t.Errorf("it is woken: %v", err)
	}
	empty()
	wantVariables(t, api.StateHibernated, s)
}
