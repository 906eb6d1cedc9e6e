package workspace_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"talaria/kernel/workspace"
)

// watching makes a workspace and watches it.
func watching(t *testing.T, recursive bool) (d *workspace.Dir, path string, w *workspace.Watch) {
	t.Helper()
	parent := t.TempDir()
	d, err := workspace.Create(parent, "s", 0)
	if err != nil {
		t.Fatal(err)
	}
	w, err = d.Watch("", recursive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), w.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return d, filepath.Join(parent, "s", workspace.WorkspaceFolder), w
}

// until returns all events up to the last one wanted, as "kind name".
func until(t *testing.T, w *workspace.Watch, last string) string {
	t.Helper()
	var seen []string
	for {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatalf("after %q: %v", seen, err)
		}
		for _, e := range events {
			seen = append(seen, string(e.Kind)+" "+e.Name)
		}
		if seen[len(seen)-1] == last {
			return strings.Join(seen, ", ")
		}
	}
}

func TestAWatchTellsWhatHappensInAFolder(t *testing.T) {
	d, dir, w := watching(t, false)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, errors.Join(os.WriteFile(at("a"), []byte("x"), 0o600), os.Rename(at("a"), at("b")), os.Chmod(at("b"), 0o644), os.Remove(at("b"))))
	if got, want := until(t, w, "remove b"), "create a, write a, rename a, create b, mode b, remove b"; got != want {
		t.Errorf("the events are %s; want %s", got, want)
	}
	_, _, err := d.Write(t.Context(), "put", strings.NewReader("x"), 10)
	must(t, errors.Join(err, os.Mkdir(at("f"), 0o700), os.WriteFile(at("f/inside"), nil, 0o600), os.Remove(at("f/inside")), os.Remove(at("f"))))
	if got, want := until(t, w, "remove f"), "create put, write put, create f, remove f"; got != want {
		t.Errorf("the events are %s; want %s", got, want)
	}
}

func TestARecursiveWatchFollowsNewAndMovedFolders(t *testing.T) {
	_, dir, w := watching(t, true)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, errors.Join(os.MkdirAll(at("a/b"), 0o700), os.WriteFile(at("a/b/c"), nil, 0o600), os.WriteFile(at("end1"), nil, 0o600)))
	if got := until(t, w, "create end1"); !strings.Contains(got, "create a/b/c") {
		t.Errorf("the events are %s", got)
	}
	must(t, errors.Join(os.Rename(at("a"), at("m")), os.WriteFile(at("end2"), nil, 0o600)))
	until(t, w, "create end2")
	must(t, errors.Join(os.WriteFile(at("m/b/d"), nil, 0o600)))
	until(t, w, "create m/b/d")
	outside := t.TempDir()
	must(t, errors.Join(os.Symlink(outside, at("link")), os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600), os.WriteFile(at("end3"), nil, 0o600)))
	if got := until(t, w, "create end3"); strings.Contains(got, "secret") {
		t.Errorf("the watch has followed a link: %s", got)
	}
}

func TestAWatchEndsAndSaysWhy(t *testing.T) {
	d, dir, full := watching(t, false)
	if _, err := d.Watch("none", true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that does not exist: %v", err)
	}
	if _, err := d.Watch("../x", true); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("a folder outside: %v", err)
	}
	must(t, errors.Join(os.Mkdir(filepath.Join(dir, "f"), 0o700)))
	w, err := d.Watch("f", false)
	must(t, err)
	must(t, errors.Join(os.Remove(filepath.Join(dir, "f"))))
	if events, err := w.Next(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the folder was removed: %v (%v)", events, err)
	}
	must(t, errors.Join(w.Close()))

	for i := range workspace.MaxWatchEvents {
		must(t, errors.Join(os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700)))
	}
	<-full.Done()
	events, err := full.Next(t.Context())
	if len(events) == 0 || err != nil {
		t.Errorf("%d events are kept (%v)", len(events), err)
	}
	if _, err := full.Pending(); !errors.Is(err, workspace.ErrEventsLost) {
		t.Errorf("then comes %v", err)
	}
	if _, err := d.Watch("", true); !errors.Is(err, workspace.ErrTooManyFolders) {
		t.Errorf("watching %d folders: %v", workspace.MaxWatchEvents, err)
	}

	third, err := d.Watch("f2", false)
	if err == nil {
		third.Close()
		t.Error("f2 does not exist")
	}
	quiet, err := d.Watch("1", false)
	must(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quiet.Next(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was called off: %v", err)
	}
	must(t, errors.Join(quiet.Close()))
	if _, err := quiet.Next(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestFilesThatCameWithAFolderAreToldAsWritten(t *testing.T) {
	_, dir, w := watching(t, true)
	elsewhere := filepath.Join(filepath.Dir(dir), "elsewhere")
	must(t, errors.Join(os.MkdirAll(filepath.Join(elsewhere, "sub"), 0o700), os.WriteFile(filepath.Join(elsewhere, "sub/f"), []byte("x"), 0o600),
		os.Rename(elsewhere, filepath.Join(dir, "a")), os.Mkdir(filepath.Join(dir, "end"), 0o700)))
	if got, want := until(t, w, "create end"), "create a, create a/sub, create a/sub/f, write a/sub/f, create end"; got != want {
		t.Errorf("the events are %s; want %s", got, want)
	}
}
