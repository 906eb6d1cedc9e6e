package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
)

// shared makes a directory with folders that sessions of that server may mount, and starts the server.
func shared(t *testing.T, who identity) (*Server, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, options{as: who, config: "mount_roots:\n  - " + dir + "\n"})
	for _, open := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"in": 0o755, "out": 0o777, "gone": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		s.give(t, path)
	}
	if err := os.WriteFile(filepath.Join(dir, "in", "cities.csv"), []byte("Lund\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	return s, dir
}

func TestASessionSeesTheDirectoriesThatItMounts(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s, dir := shared(t, who)
		c := s.Client()
		mounts := []api.Mount{
			{Source: dir + "/in", Target: "/data", Mode: "ro"}, {Source: dir + "/out", Target: "/mnt/shared/out", Mode: "rw"},
		}
		for _, isolation := range []api.IsolationMode{api.IsolationDefault, api.IsolationStrict} {
			id := session(t, c, api.SessionRequest{Mounts: &mounts, Isolation: &isolation})
			const look = `import os
print(open("/data/cities.csv").read(), end="")
for path in ("/data/x", "/mnt/x", "/mnt/shared/x"):
    try: open(path, "w")
    except OSError as e: print(e.strerror)
print(sorted(os.listdir("/mnt/shared")), os.listdir("/opt/talaria/mounts"), os.listdir("/opt/talaria/sessions"))
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    if fields[4] in ("/data", "/mnt/shared/out"):
        print(fields[4], *[o for o in fields[5].split(",") if o in ("ro", "rw", "nosuid", "nodev")])
with open("/mnt/shared/out/result", "w") as f: f.write("written")`
			const want = "Lund\nRead-only file system\nRead-only file system\nRead-only file system\n['out'] [] []\n" +
				"/data ro nosuid nodev\n/mnt/shared/out rw nosuid nodev\n"
			if got := runOK(t, c, id, look); got != want {
				t.Errorf("%s: inside it is\n%s", isolation, got)
			}
			info, err := os.Stat(dir + "/out/result")
			if err != nil {
				t.Fatal(err)
			}
			owner := int(info.Sys().(*syscall.Stat_t).Uid)
			if ok := owner >= 1_900_000_000 || s.credential != nil && owner == int(s.credential.Uid) ||
				s.credential == nil && owner == os.Getuid() && owner != 0; !ok {
				t.Errorf("%s: the file on the host is of user %d", isolation, owner)
			}
			if err := os.Remove(dir + "/out/result"); err != nil {
				t.Fatal(err)
			}
			is, err := c.Session(within(t), id)
			if layers := strings.Join(is.Isolation.Layers, "\n"); err != nil || !slices.Equal(is.Mounts, mounts) ||
				!strings.Contains(layers, "mount: /data, read-only") || !strings.Contains(layers, "mount: /mnt/shared/out, writable") {
				t.Errorf("%s: the session has %+v, %s (%v)", isolation, is.Mounts, layers, err)
			}
		}
	})
}

func TestMountsOutsideOfTheRootsAreRefused(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s, dir := shared(t, who)
		c := s.Client()
		one := func(source, target, mode string) *[]api.Mount {
			return &[]api.Mount{{Source: source, Target: target, Mode: mode}}
		}
		id := session(t, c, api.SessionRequest{ID: new("first"), Mounts: one(dir+"/out", "/mnt/out", "rw")})
		runOK(t, c, id, "import os; os.symlink('/etc', '/mnt/out/link'); os.symlink('../in', '/mnt/out/up')")
		for name, r := range map[string]struct {
			mounts *[]api.Mount
			code   api.Code
		}{
			"elsewhere":        {one("/etc", "/data", "ro"), api.CodeMountNotAllowed},
			"a name's start":   {one(dir+"x", "/data", "ro"), api.CodeMountNotAllowed},
			"a link out":       {one(dir+"/out/link", "/data", "ro"), api.CodeMountNotAllowed},
			"a link within":    {one(dir+"/out/up", "/data", "ro"), api.CodeMountNotAllowed},
			"up":               {one(dir+"/in/../..", "/data", "ro"), api.CodeInvalidRequest},
			"relative":         {one("in", "/data", "ro"), api.CodeInvalidRequest},
			"missing":          {one(dir+"/none", "/data", "ro"), api.CodeInvalidRequest},
			"a file":           {one(dir+"/in/cities.csv", "/data", "ro"), api.CodeInvalidRequest},
			"over the system":  {one(dir+"/in", "/usr", "ro"), api.CodeInvalidRequest},
			"the workspace":    {one(dir+"/in", "/workspace", "ro"), api.CodeInvalidRequest},
			"a target's start": {one(dir+"/in", "/database", "ro"), api.CodeInvalidRequest},
			"out of a target":  {one(dir+"/in", "/data/../etc", "ro"), api.CodeInvalidRequest},
			"no mode":          {one(dir+"/in", "/data", ""), api.CodeInvalidRequest},
			"one in another": {&[]api.Mount{{Source: dir + "/in", Target: "/data", Mode: "ro"},
				{Source: dir + "/out", Target: "/data/out", Mode: "rw"}}, api.CodeInvalidRequest},
		} {
			_, err := c.CreateSession(within(t), api.SessionRequest{Mounts: r.mounts})
			if err == nil {
				t.Errorf("%s: a session was made", name)
				continue
			}
			wantCode(t, err, r.code)
		}
		for code, mounts := range map[api.Code]*[]api.Mount{
			"": one(dir+"/out", "/mnt/out", "rw"), api.CodeSessionConflict: one(dir+"/out", "/mnt/out", "ro"),
		} {
			_, _, err := c.EnsureSession(within(t), "first", api.SessionRequest{Mounts: mounts})
			if code != "" {
				wantCode(t, err, code)
			} else if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestASourceThatIsGoneIsToldAndMountsOutliveTheServer(t *testing.T) {
	t.Parallel()
	s, dir := shared(t, me)
	c := s.Client()
	id := session(t, c, api.SessionRequest{Mounts: &[]api.Mount{{Source: dir + "/gone", Target: "/mnt/g", Mode: "ro"}}})
	runOK(t, c, id, "import os; os.listdir('/mnt/g')")
	s.Kill9()
	s.Restart(t)
	c = s.Client()
	if _, err := c.ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	runOK(t, c, id, "import os; os.listdir('/mnt/g')")
	if err := os.Rename(dir+"/gone", dir+"/away"); err != nil {
		t.Fatal(err)
	}
	_, err := c.ResetSession(within(t), id, api.ResetRequest{})
	wantCode(t, err, api.CodeKernelStart)
	if !strings.Contains(err.Error(), "mounts[0]") {
		t.Errorf("the reset says %v", err)
	}
	if e := run(t, c, id, "1"); e.Status != api.StatusDied || !strings.Contains(e.Text, "mounts[0]") {
		t.Errorf("a cell ends %s: %s", e.Status, e.Text)
	}
	if err := os.Rename(dir+"/away", dir+"/gone"); err != nil {
		t.Fatal(err)
	}
	runOK(t, c, id, "import os; os.listdir('/mnt/g')")
}
