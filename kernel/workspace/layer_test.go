package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"talaria/kernel/workspace"
)

func TestALinkIsMovedInOneStepAndNowhereElse(t *testing.T) {
	parent := t.TempDir()
	made, err := workspace.Create(parent, "s", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	packages, err := workspace.Open(filepath.Join(parent, "s", workspace.PackagesFolder))
	if err != nil {
		t.Fatal(err)
	}
	defer packages.Close()
	if _, err := packages.Target("current"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link that is not there: %v", err)
	}
	for _, layer := range []string{"0001", "0002"} {
		if err := packages.Point("current", layer); err != nil {
			t.Fatal(err)
		}
		if got, err := packages.Target("current"); got != layer || err != nil {
			t.Errorf("current leads to %q, %v", got, err)
		}
	}
	for _, bad := range [][2]string{{"../current", "0001"}, {"current", "../workspace"}, {"current", "/etc"}, {"", "0001"}} {
		if err := packages.Point(bad[0], bad[1]); !errors.Is(err, workspace.ErrOutside) {
			t.Errorf("point %q to %q: %v", bad[0], bad[1], err)
		}
	}
	if err := os.Mkdir(filepath.Join(parent, "s", "packages", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := packages.Point("folder", "0001"); err == nil {
		t.Error("a folder was replaced by a link")
	}
	if left, _ := packages.List(""); len(left) != 2 {
		t.Errorf("left in the folder: %v", left)
	}
}

func TestAStageBelongsToItsSession(t *testing.T) {
	parent := t.TempDir()
	made, err := workspace.Create(parent, "s", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	uid := 0
	if os.Geteuid() == 0 {
		uid = sessionUID
	}
	stage, err := workspace.CreateStage(parent, "s", uid)
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	var st unix.Stat_t
	err = unix.Stat(filepath.Join(parent, "s", workspace.StageFolder), &st)
	if err != nil || st.Mode != unix.S_IFDIR|0o700 || int(st.Uid) != max(uid, os.Geteuid()) {
		t.Errorf("mode %o of %d, %v", st.Mode, st.Uid, err)
	}
	if _, err := workspace.CreateStage(parent, "s", uid); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second stage: %v", err)
	}
}
