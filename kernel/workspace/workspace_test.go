package workspace_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"talaria/kernel/workspace"
)

func TestCreateMakesAWorkspaceOfTheSessionAndPackagesOfTheServer(t *testing.T) {
	old := syscall.Umask(0o077) // modes must not depend on it
	defer syscall.Umask(old)
	parent := t.TempDir()
	d, err := workspace.Create(parent, "s1", uid())
	must(t, err)
	defer d.Close()
	for _, want := range []struct {
		path string
		mode fs.FileMode
		uid  int
	}{
		{"s1", 0o711, os.Geteuid()},
		{"s1/workspace", 0o700, max(uid(), os.Geteuid())},
		{"s1/packages", 0o755, os.Geteuid()},
	} {
		info, err := os.Stat(filepath.Join(parent, want.path))
		must(t, err)
		st := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != want.mode || int(st.Uid) != want.uid || int(st.Gid) != want.uid && want.uid == sessionUID {
			t.Errorf("%s: mode %v, owner %d:%d; want %v, %d", want.path, info.Mode(), st.Uid, st.Gid, want.mode, want.uid)
		}
	}
	if _, err := workspace.Create(parent, "s1", uid()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Create = %v, want fs.ErrExist", err)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "/a", "a\x00"} {
		if _, err := workspace.Create(parent, bad, uid()); err == nil {
			t.Errorf("Create(%q) succeeded", bad)
		}
		if err := workspace.Delete(t.Context(), parent, bad); err == nil {
			t.Errorf("Delete(%q) succeeded", bad)
		}
	}
}

func TestDeleteRemovesASessionAndIsFineWithOneThatIsGone(t *testing.T) {
	parent := t.TempDir()
	d, err := workspace.Create(parent, "s1", uid())
	must(t, err)
	write(t, d, "a/b/c.txt", "x")
	must(t, d.Close())
	must(t, workspace.Delete(t.Context(), parent, "s1"))
	must(t, workspace.Delete(t.Context(), parent, "s1"))
	if left := tree(t, parent); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestTheDescriptorIsThatOfTheWorkspace(t *testing.T) {
	d, path := create(t)
	got, err := os.Stat("/proc/self/fd/" + itoa(d.File().Fd()))
	must(t, err)
	want, err := os.Stat(path)
	must(t, err)
	if !os.SameFile(got, want) {
		t.Error("another directory")
	}
	if _, err := d.File().ReadDir(1); err == nil {
		t.Error("the descriptor is open for more than O_PATH")
	}
}

func TestOpenRefusesALinkToADirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("/etc", filepath.Join(dir, "link")))
	if d, err := workspace.Open(filepath.Join(dir, "link")); err == nil {
		d.Close()
		t.Error("opened")
	}
}

func TestAClosedWorkspaceSaysSoAlsoWhileItIsUsed(t *testing.T) {
	d, _ := create(t)
	write(t, d, "a", "x")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				f, _, err := d.Open("a")
				if err == nil {
					f.Close()
				} else if errors.Is(err, os.ErrClosed) {
					return
				} else {
					t.Errorf("Open = %v", err)
					return
				}
			}
		})
	}
	must(t, d.Close())
	must(t, d.Close())
	wg.Wait()
	if _, _, err := d.Scan(context.Background(), workspace.Snapshot{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Scan = %v, want os.ErrClosed", err)
	}
}

// TestNoPathLeavesTheWorkspace tries each path on each method.
func TestNoPathLeavesTheWorkspace(t *testing.T) {
	d, host := create(t)
	write(t, d, "file", "mine")
	must(t, d.Mkdir("folder"))
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("secret"), 0o644))
	must(t, os.Symlink(secret, filepath.Join(host, "link")))
	must(t, os.Symlink(filepath.Dir(secret), filepath.Join(host, "linked")))
	must(t, os.Symlink("folder", filepath.Join(host, "inner")))
	must(t, os.Symlink("loop", filepath.Join(host, "loop")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(host, "magic")))
	before := tree(t, filepath.Dir(secret))

	names := []string{
		"/", "/etc/passwd", "..", "../x", "folder/..", "folder/../../x", "./file", "folder/.", "a//b", "file/", "folder//",
		"a\x00b", "\x00", "linked/secret", "linked/new", "inner/new", "inner/x/y", "loop/x", "magic/etc/passwd",
	}
	links := []string{"link", "linked", "inner", "loop", "magic"}
	calls := map[string]func(path string) error{
		"Open":  func(p string) error { return openError(d, p) },
		"Stat":  func(p string) error { _, err := d.Stat(p); return err },
		"Write": func(p string) error { return writeError(d, p) },
		"Mkdir": func(p string) error { return d.Mkdir(p) },
		"Remove": func(p string) error {
			return d.Remove(t.Context(), p)
		},
		"Rename from": func(p string) error { _, err := d.Rename(p, "new"); return err },
		"Rename to":   func(p string) error { _, err := d.Rename("file", p); return err },
		"List":        func(p string) error { _, err := d.List(p); return err },
	}
	for call, do := range calls {
		for _, path := range append(names, links...) {
			isLink := contains(links, path)
			var want error = workspace.ErrOutside
			switch {
			case isLink && call == "Remove": // Remove removes the link itself, which is tested elsewhere
				continue
			case isLink && (call == "Mkdir" || call == "Rename to"):
				want = fs.ErrExist
			case call == "List" && path == "file/":
				want = workspace.ErrNotAFolder
			}
			if err := do(path); !errors.Is(err, want) {
				t.Errorf("%s(%q) = %v, want %v", call, path, err, want)
			}
		}
		for _, path := range []string{"", "."} {
			if call == "List" || call == "Stat" {
				must(t, do(path))
			} else if err := do(path); !errors.Is(err, workspace.ErrOutside) {
				t.Errorf("%s(%q) = %v, want ErrOutside", call, path, err)
			}
		}
		for _, path := range []string{strings.Repeat("n", 256), strings.Repeat("n/", 2500) + "n"} {
			if err := do(path); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s(%d bytes) = %v, want fs.ErrInvalid", call, len(path), err)
			}
		}
	}
	if after := tree(t, filepath.Dir(secret)); len(after) != len(before) {
		t.Errorf("outside: %q before, %q after", before, after)
	}
	if b, _ := os.ReadFile(secret); string(b) != "secret" {
		t.Errorf("the file outside now holds %q", b)
	}
	if got := read(t, d, "file"); got != "mine" {
		t.Errorf("file holds %q", got)
	}
}

func TestOddNamesAreOrdinary(t *testing.T) {
	d, _ := create(t)
	for _, name := range []string{
		"new\nline", "\x1b[31mred", "\u202egnp.exe", `qu"ot'es`, `back\slash`, `..\x`, "...", ".hidden", " ", "-rf", "%2e%2e",
		"Größe 日本.csv", strings.Repeat("n", 255),
	} {
		write(t, d, "folder/"+name, name)
		if got := read(t, d, "folder/"+name); got != name {
			t.Errorf("%q holds %q", name, got)
		}
		moved, err := d.Rename("folder/"+name, name)
		must(t, err)
		if moved.Path != name || moved.Name != name {
			t.Errorf("entry %+v, want path %q", moved, name)
		}
		entries, err := d.List("")
		must(t, err)
		if len(entries) != 2 || entries[0].Name != name && entries[1].Name != name {
			t.Errorf("%q is not in %v", name, entries)
		}
		must(t, d.Remove(t.Context(), name))
	}
}
