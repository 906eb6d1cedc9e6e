package kerneltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"talaria/kernel"
)

// closed is code that checks files that must not be openable.
const closed = `
import os
def attempt(f, *arguments):
    try:
        f(*arguments)
        return "allowed"
    except OSError as e:
        return type(e).__name__
`

func seeOnlyThemselves(t *testing.T, r *rig) {
	s := r.sealed(t)
	if r.view == OwnFiles {
		r.prints(t, s, closed+`
print(attempt(os.listdir, "/proc"), attempt(open, "/proc/1/cmdline"), attempt(open, f"/proc/{os.getppid()}/status"))
`, "PermissionError PermissionError PermissionError")
		return
	}
	res := r.python(t, s, `
import os
pids = [p for p in os.listdir("/proc") if p.isdigit()]
print(os.getpid() in map(int, pids), len(pids) <= 2, os.getpid() != 1)
`)
	if strings.TrimSpace(res.stdout) != "True True True" {
		t.Errorf("%+v", res)
	}
}

func workspacePersists(t *testing.T, r *rig) {
	s, spec := r.sealedSpec(t)
	r.prints(t, s, `
import os
open("made.txt", "w").write("kept")
os.mkdir(os.environ["TALARIA_WORKSPACE"] + "/folder")
print(os.getcwd(), os.environ["TALARIA_WORKSPACE"])
`, r.workspace(t, spec)+" "+r.workspace(t, spec))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(hostPath(t, spec.Workspace), "made.txt")
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "kept" {
		t.Fatalf("%q %v", content, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := spec.UID
	if want == 0 {
		want = os.Geteuid()
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != want {
		t.Errorf("the file belongs to %d, not %d", uid, want)
	}
}

func systemIsReadOnly(t *testing.T, r *rig) {
	packages := "/packages"
	s, spec := r.sealedSpec(t)
	if r.view == OwnFiles {
		packages = hostPath(t, spec.Packages)
	}
	for _, dir := range []string{packages, "/usr", "/usr/bin", "/etc", "/", "/dev", "/opt"} {
		res := r.python(t, s, fmt.Sprintf(`
import errno
try:
    open(%q + "/made", "w")
except OSError as e:
    print(e.errno in (errno.EROFS, errno.EACCES, errno.ENOENT))
`, dir))
		if strings.TrimSpace(res.stdout) != "True" {
			t.Errorf("%s: %+v", dir, res)
		}
	}
	// Its files belong to the user, so only the mount can forbid it.
	r.prints(t, s, fmt.Sprintf(`
import errno, os
for change in (lambda: open("%[1]s/made", "w"), lambda: os.chmod("%[1]s", 0o777)):
    try:
        change()
    except OSError as e:
        print(e.errno in (errno.EROFS, errno.EACCES, errno.EPERM), end="")
`, packages), "TrueTrue")
}

func noNetwork(t *testing.T, r *rig) {
	s := r.sealed(t)
	interfaces := "('lo',)"
	if r.view == OwnFiles {
		interfaces = "None" // there are others, for which nothing inside can have a socket
	}
	r.prints(t, s, `
import socket
print(`+interfaces+` is None or [line.split(":")[0].strip() for line in open("/proc/self/net/dev").readlines()[2:]] in ([], ["lo"]))
for address in (("192.0.2.1", 80), ("1.1.1.1", 53)):
    try:
        socket.create_connection(address, timeout=5)
    except OSError as e:
        print(type(e).__name__ in ("OSError", "PermissionError"))
`, "True\nTrue\nTrue")
}

func noHostVariable(t *testing.T, r *rig) {
	t.Setenv("TALARIA_TEST_SECRET", "hush")
	s := r.sealed(t)
	r.prints(t, s, `
import os
text = open("/proc/self/environ").read() + str(os.environ)
try:
    text += open("/proc/1/environ").read()
except OSError:
    pass
print("hush" in text, os.environ["TZ"], os.listdir(os.environ["HOME"]) != [])
`, "False UTC True")
}

func sessionVariables(t *testing.T, r *rig) {
	s := r.sealed(t, func(spec *kernel.Spec) {
		spec.Env = map[string]string{"GREETING": "žluťoučký", "LANG": "C"}
		spec.TZ = "Europe/Prague"
	})
	cmd := r.pythonCommand(`import os, time; print(*map(os.environ.get, ("GREETING", "LANG", "TZ", "ONE")), time.tzname[0])`)
	cmd.Env = map[string]string{"ONE": "1", "LANG": "C.UTF-8"}
	res := finish(t, start(t, s, cmd))
	if strings.TrimSpace(res.stdout) != "žluťoučký C.UTF-8 Europe/Prague 1 CET" {
		t.Errorf("%+v", res)
	}
}

func noPrivileges(t *testing.T, r *rig) {
	s := r.sealed(t)
	r.prints(t, s, `
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print({status[f"Cap{s}"].strip("0\t\n ") for s in `+r.sets()+`}, status["NoNewPrivs"].strip())
print(os.getuid() != 0, len(set(os.getresuid() + os.getresgid())))
for call in (lambda: os.setuid(0), lambda: os.chroot("/"), lambda: os.mknod("/tmp/x", 0o20666, os.makedev(1, 1))):
    try:
        call()
        print("allowed")
    except OSError:
        pass
`, "{''} 1\nTrue 1")
}

// The runner may enter the sandbox in another way than commands do.
func runnerHasNoPrivileges(t *testing.T, r *rig) {
	k := runner(t, r.sealed(t))
	k.prints(`
import ctypes, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print({status[f"Cap{s}"].strip("0\t\n ") for s in `+r.sets()+`}, status["NoNewPrivs"].strip())
print(os.getuid() != 0, len(set(os.getresuid() + os.getresgid())))
libc = ctypes.CDLL(None)
print([libc.unshare(flag) for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x10020000)])
print(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None), libc.umount2(b"/proc", 2))
for call in (lambda: os.setuid(0), lambda: os.chroot("/"), lambda: open("/proc/1/environ"), lambda: open("/proc/1/mem")):
    try:
        call()
        print("allowed")
    except OSError:
        pass
`, "{''} 1\nTrue 1\n[-1, -1, -1, -1, -1]\n-1 -1")
}

// sets returns the capability sets that are empty inside. An ordinary user cannot drop the bounding set of a user
// namespace other than the sandbox's own.
func (r *rig) sets() string {
	if r.view == OwnFiles && os.Geteuid() != 0 {
		return `("Inh", "Prm", "Eff", "Amb")`
	}
	return `("Inh", "Prm", "Eff", "Bnd", "Amb")`
}

// workspace returns the path of a sandbox's workspace inside.
func (r *rig) workspace(t *testing.T, spec kernel.Spec) string {
	if r.view == OwnFiles {
		return hostPath(t, spec.Workspace)
	}
	return "/workspace"
}

// needs skips the test if a tier has nothing of the kind.
func (r *rig) needs(t *testing.T, view View, why string) {
	t.Helper()
	if r.view != view {
		t.Skip("not of this tier: " + why)
	}
}

func ownFilesOfEtc(t *testing.T, r *rig) {
	r.needs(t, OwnTree, "the host's name is the machine's")
	a := r.sealed(t, func(spec *kernel.Spec) { spec.Hostname = "one" })
	b := r.sealed(t, func(spec *kernel.Spec) { spec.Hostname = "two" })
	for name, s := range map[string]kernel.Sandbox{"one": a, "two": b} {
		r.prints(t, s, `
import socket
print(socket.gethostname(), open("/etc/hostname").read().strip(), socket.gethostbyname(socket.gethostname()))
try:
    open("/etc/hosts", "a")
except OSError:
    print("read-only")
`, name+" "+name+" 127.0.1.1\nread-only")
	}
}

func hostFilesInvisible(t *testing.T, r *rig) {
	marker := filepath.Join(t.TempDir(), "marker")
	if err := os.WriteFile(marker, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s, spec := r.sealedSpec(t)
	other := r.newSpec(t)
	const name = "of-another-session"
	if err := os.WriteFile(filepath.Join(hostPath(t, other.Workspace), name), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(hostPath(t, other.Workspace), 0o777); err != nil {
		t.Fatal(err)
	}
	// Wherever it might be.
	r.prints(t, s, fmt.Sprintf(`
import os
for path, folders, files in os.walk("/"):
    if path == "/":
        folders[:] = [f for f in folders if f not in ("proc", "usr")]
    if %q in files:
        print(path)
`, name), "")
	if r.view == OwnFiles {
		r.prints(t, s, closed+fmt.Sprintf(`
print({attempt(open, p) for p in (%q, %q, "/etc/shadow", "/etc/hosts")}, {attempt(os.listdir, p) for p in ("/", "/etc",
    "/tmp", "/dev/shm", "/sys", "/home", "/root", "/var/lib", %q, %q)})
`, marker, filepath.Join(hostPath(t, other.Workspace), name), filepath.Dir(hostPath(t, spec.Packages)),
			hostPath(t, other.Workspace)), "{'PermissionError'} {'PermissionError'}")
		return
	}
	hidden := []string{
		marker, "/etc/shadow", "/etc/ssh", "/sys/kernel", "/var/lib", "/var/log", "/run/systemd", "/run/dbus", "/boot",
		hostPath(t, spec.Workspace), filepath.Dir(hostPath(t, spec.Packages)),
	}
	for _, path := range hidden {
		r.prints(t, s, fmt.Sprintf("import os; print(os.path.lexists(%q))", path), "False")
	}
	// The interpreter's own files may be there, and nothing next to them.
	for _, dir := range []string{"/root", "/home", "/run", "/var", "/mnt"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			needed := func(prefix string) bool { return prefix == path || strings.HasPrefix(prefix, path+"/") }
			if path == "/home/user" || path == "/mnt/data" || path == "/home/talaria" || path == "/var/tmp" || slices.ContainsFunc(r.env.Prefix, needed) {
				continue
			}
			r.prints(t, s, fmt.Sprintf("import os; print(os.path.lexists(%q))", path), "False")
			break // one of the many will do: each takes an interpreter
		}
	}
}

func noFurtherNamespaces(t *testing.T, r *rig) {
	s := r.sealed(t)
	r.prints(t, s, `
import ctypes
libc = ctypes.CDLL(None)
print([libc.unshare(flag) for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x10020000)])
print(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
points = [line.split()[1].encode() for line in open("/proc/self/mounts")]
print(len(points) > 0, {libc.umount2(point, 2) for point in points})
`, "[-1, -1, -1, -1, -1]\n-1\nTrue {-1}")
}

// descriptors is code that lists what is open; the descriptor used for listing is closed by then.
const descriptors = `
import os
def target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
opened = {int(fd): target(fd) for fd in os.listdir("/proc/self/fd") if target(fd)}
`

func onlyStandardDescriptors(t *testing.T, r *rig) {
	s := r.sealed(t)
	r.prints(t, s, descriptors+`print(sorted(opened), opened[0])`, "[0, 1, 2] /dev/null")
}

func procIsMasked(t *testing.T, r *rig) {
	s := r.sealed(t)
	r.prints(t, s, `
import os
for name in ("keys", "kallsyms", "timer_list", "kcore"):
    try:
        print(open("/proc/" + name, "rb").read(100), end=" ")
    except OSError:
        print(b"", end=" ")
for path in ("/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/1/mem", "/proc/1/environ"):
    try:
        open(path, "r+b").read(1)
        print(path)
    except OSError:
        pass
for look in (lambda: os.listdir("/proc/1/root"), lambda: os.readlink("/proc/1/cwd"), lambda: os.readlink("/proc/1/fd/3")):
    try:
        print(look())
    except OSError:
        pass
`, "b'' b'' b'' b''")
}

func sandboxesAreApart(t *testing.T, r *rig) {
	if r.view == OwnFiles {
		filesAndSignalsAreApart(t, r)
		return
	}
	a, b := r.sealed(t), r.sealed(t)
	p := start(t, a, r.pythonCommand(`
import os, socket, sys
for path in ("/tmp/mine", "/dev/shm/mine", "/workspace/mine", "/home/talaria/mine"):
    open(path, "w").write("a")
s = socket.socket(socket.AF_UNIX)
s.bind("\0mine")
s.listen()
print("ready", flush=True)
s.accept()
`))
	if line := output(t, p).next(); line != "ready" {
		t.Fatal(line)
	}
	r.prints(t, b, `
import os, socket
print([p for p in ("/tmp/mine", "/dev/shm/mine", "/workspace/mine", "/home/talaria/mine") if os.path.exists(p)])
try:
    socket.socket(socket.AF_UNIX).connect("\0mine")
    print("connected")
except OSError:
    pass
names = [open(f"/proc/{p}/cmdline").read() for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
print(any("mine" in name for name in names))
`, "[]\nFalse")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
		t.Errorf("the other sandbox's process ended: %+v", p.Exit())
	default:
	}
}

func workspaceHasAlias(t *testing.T, r *rig) {
	r.needs(t, OwnTree, "paths are the machine's")
	r.prints(t, r.sealed(t), `
import os
open("/home/user/made", "w").write("x")
print(os.path.samefile("/home/user/made", "/workspace/made"), os.path.samefile(os.path.expanduser("~"), "/home/user"),
      os.path.samefile("/mnt/data/made", "/workspace/made"))
`, "True False True")
}
