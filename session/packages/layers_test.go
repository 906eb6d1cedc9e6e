package packages_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"talaria/kernel/workspace"
	"talaria/session/packages"
)

func TestALayerIsCapturedAsAWholeWhileAnotherReplacesIt(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "s", workspace.PackagesFolder)
	layer := func(number string, files ...string) {
		t.Helper()
		for _, name := range files {
			path := filepath.Join(folder, number, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(number), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(folder, "current")
		_ = os.Remove(link)
		if err := os.Symlink(number, link); err != nil {
			t.Fatal(err)
		}
	}
	layer("0001", "a/1", "b/1", "c/1")
	opened, err := workspace.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	p := packages.New(packages.Session{ID: "s", SessionsDir: dir, Dir: opened})
	defer p.Close()
	kept := 0
	captured, err := p.Capture(t.Context(), func(context.Context, *os.File, workspace.Entry) (string, error) {
		if kept++; kept == 1 { // an installation ends
			layer("0002", "a/2", "b/2")
			if err := os.RemoveAll(filepath.Join(folder, "0001")); err != nil {
				return "", err
			}
		}
		return "digest", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range captured.Entries {
		paths = append(paths, e.Path)
	}
	if want := []string{"a", "a/2", "b", "b/2"}; !slices.Equal(paths, want) {
		t.Errorf("captured %q, want %q", paths, want)
	}
}
