package e2e

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"talaria/api"
)

// marker is a variable of the server that must not be seen inside.
const marker = "E2E_MARKER=seen-only-by-the-server"

// look collects what a cell finds out about its sandbox.
const look = `import ctypes, glob, json, os, pathlib, socket, sys, time
found = {}
def attempt(f):
    try:
        return "did " + repr(f())[:200]
    except BaseException as e:
        return type(e).__name__
def connect(host, port):
    with socket.create_connection((host, port), timeout=5) as s:
        return s.getpeername()
def read(path):
    with open(path, "rb") as f:
        return f.read(100)
def write(path):
    with open(path, "w") as f:
        f.write("x")
found["server"] = attempt(lambda: connect("127.0.0.1", PORT))
found["internet"] = attempt(lambda: connect("192.0.2.1", 80))
found["dns"] = attempt(lambda: socket.getaddrinfo("example.org", 80))
found["interfaces"] = [n for n in (l.partition(":")[0].strip() for l in list(open("/proc/net/dev"))[2:]) if n != "lo"]
found["netlink"] = attempt(lambda: socket.if_nameindex())
found["cwd"] = os.getcwd()
found["uid"] = os.getuid()
found["groups"] = [g for g in os.getgroups() if g == 0]
found["shadow"] = attempt(lambda: read("/etc/shadow"))
found["root"] = attempt(lambda: os.listdir("/root"))
own = os.environ["HOME"]
found["home"] = [n for n in (os.listdir("/home") if os.path.isdir("/home") else []) if "/home/" + n != own]
found["own home"] = own.startswith("/workspace")
found["state"] = attempt(lambda: os.listdir(STATE))
found["sockets"] = glob.glob("/run/*.sock") + glob.glob("/var/run/*.sock")
for path in ("/usr/x", "/x", "/etc/x", "/proc/sys/kernel/hostname", "/packages/x", "/usr/bin/python3"):
    found["write " + path] = attempt(lambda: write(path))
found["write here"] = attempt(lambda: write("/workspace/mine.txt"))
found["write tmp"] = attempt(lambda: write("/tmp/mine.txt"))
with open("/proc/self/status") as f:
    status = dict(l.rstrip("\n").split(":", 1) for l in f if ":" in l)
found["capabilities"] = sorted({status[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")})
found["no new privileges"] = status["NoNewPrivs"].strip()
found["seccomp"] = status.get("Seccomp", "").strip()
environs = [repr(dict(os.environ))]
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        environs.append(open(path, "rb").read().decode(errors="replace"))
    except OSError:
        pass
found["marker"] = any("seen-only-by-the-server" in e for e in environs)
found["talaria variables"] = [k for k in os.environ if k.startswith("TALARIA_TOKEN") or k.startswith("TALARIA_E2E")]
commands = []
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        commands.append(open(path, "rb").read().replace(b"\0", b" ").decode(errors="replace"))
    except OSError:
        pass
found["serve"] = [c for c in commands if " serve " in c]
found["processes"] = len(commands)
found["tz"] = time.tzname[0]
found["env"] = [os.environ.get("PLAIN"), os.environ.get("API_SECRET")]
found["hostname"] = socket.gethostname()
libc = ctypes.CDLL(None, use_errno=True)
found["unshare"] = libc.unshare(0x10000000)
found["mount"] = libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)
found["setuid"] = attempt(lambda: os.setuid(0))
found["mknod"] = attempt(lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(8, 0)))
found["unix socket"] = attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0/tmp/.X11-unix/X0"))
print(json.dumps(found))`

// TestTheSandboxFromInside is rows P50 to P52 and K04.
func TestTheSandboxFromInside(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who, env: []string{marker, "TZ=Pacific/Auckland"}, config: "tz: Europe/Stockholm\n"})
		c := s.Client()
		other := session(t, c, api.SessionRequest{})
		runOK(t, c, other, "import subprocess; p = subprocess.Popen(['sleep', '1234']); open('theirs.txt', 'w').write('x'); open('/tmp/theirs', 'w').close()")
		id := session(t, c, api.SessionRequest{
			Env: &map[string]string{"PLAIN": "a value"}, Secrets: &map[string]string{"API_SECRET": "hush-hush-hush"}})
		at, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		code := strings.NewReplacer("PORT", at.Port(), "STATE", fmt.Sprintf("%q", s.StateDir)).Replace(look)
		e := run(t, c, id, code)
		if e.Status != api.StatusOK {
			t.Fatalf("ended %s:\n%s", e.Status, e.Text)
		}
		found := decode[map[string]any](t, printed(e))
		for what, want := range map[string]any{
			"server": "ConnectionRefusedError|OSError", "internet": "OSError|PermissionError", "dns": "gaierror",
			"interfaces": "[]", "cwd": "/workspace", "own home": "false", "groups": "[]",
			"shadow": "FileNotFoundError|PermissionError", "root": "FileNotFoundError|PermissionError|did []",
			"home": "[user]", "state": "FileNotFoundError", "sockets": "[]",
			"write /usr/x": "OSError|PermissionError", "write /x": "OSError|PermissionError",
			"write /etc/x": "OSError|PermissionError", "write /proc/sys/kernel/hostname": "OSError|PermissionError",
			"write /packages/x": "OSError|PermissionError", "write /usr/bin/python3": "OSError|PermissionError",
			"write here": "did None", "write tmp": "did None",
			"capabilities": "[0000000000000000]", "no new privileges": "1", "seccomp": "2", "netlink": "OSError",
			"marker": "false", "talaria variables": "[]", "serve": "[]",
			"tz": "CET", "env": "[a value hush-hush-hush]",
			"unshare": "-1", "mount": "-1", "setuid": "PermissionError|OSError", "mknod": "PermissionError|OSError",
			"unix socket": "ConnectionRefusedError|PermissionError",
		} {
			if got := fmt.Sprint(found[what]); !strings.Contains("|"+want.(string)+"|", "|"+got+"|") {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		if uid := fmt.Sprint(found["uid"]); uid == "0" {
			t.Error("cells run as uid 0")
		}
		if n, _ := found["processes"].(float64); n > 3 {
			t.Errorf("%v processes are to be seen inside", n)
		}
		if strings.Contains(e.Text, "hush-hush-hush") || !strings.Contains(printed(e), "hush-hush-hush") {
			t.Errorf("the secret is redacted in the text only: %v %v",
				strings.Contains(e.Text, "hush-hush-hush"), strings.Contains(printed(e), "hush-hush-hush"))
		}
		got := runOK(t, c, id, `import os
seen = []
for top in os.listdir("/"):
    if top not in ("proc", "sys", "usr"):
        for path, folders, files in os.walk("/" + top):
            seen += [path + "/" + n for n in files + folders if n.startswith("theirs")]
print(seen)
import numpy, pandas, matplotlib.pyplot
print("imported")`)
		if got != "[]\nimported\n" {
			t.Errorf("of the other session is to be seen: %s", got)
		}
		info, err := c.Session(within(t), id)
		if err != nil || info.Isolation.Tier != "namespace" || len(info.Isolation.Layers) < 5 {
			t.Errorf("the isolation is told as %+v (%v)", info.Isolation, err)
		}
		checkRunning(t, c.Session, other)
	})
}

// checkRunning checks that a session's kernel still has its child.
func checkRunning(t *testing.T, get func(context.Context, string) (api.Session, error), id string) {
	t.Helper()
	info, err := get(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range info.Usage.Processes {
		if p.Name == "sleep" {
			return
		}
	}
	t.Errorf("the other session's child is not among %+v", info.Usage.Processes)
}

func TestLimitsOfASessionAreHeld(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := start(t, options{as: who})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{
			MemoryBytes: new(int64(256 << 20)), PIDs: new(int64(20)), DiskBytes: new(int64(8 << 20))}})
		got := runOK(t, c, id, `import os, subprocess
try:
    open("big", "wb").write(b"x" * (20 << 20)); print("wrote")
except OSError as e: print(e.errno in (27, 28, 122))
os.remove("big")
try:
    x = bytearray(1 << 30); print("allocated")
except MemoryError: print("MemoryError")
children = []
try:
    for _ in range(40): children.append(subprocess.Popen(["sleep", "100"]))
    print("started all")
except OSError: print("bounded", len(children) < 40)
for p in children: p.kill(); p.wait()`)
		if got != "True\nMemoryError\nbounded True\n" {
			t.Errorf("the limits: %q", got)
		}
		big := strings.NewReader(strings.Repeat("x", 9<<20))
		_, _, err := c.PutFile(within(t), id, "big", big)
		wantCode(t, err, api.CodeDiskLimit)
		if list, err := c.Files(within(t), id, ""); err != nil || len(list) != 0 {
			t.Errorf("a refused upload leaves %+v (%v)", list, err)
		}
	})
}
