package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talaria/api"
)

// stock starts a program like a container without privileges does: with the capabilities that root has there, and with
// a filter that forbids namespaces, mounts and keyrings.
const stock = `#!/usr/bin/python3 -IS
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
clone, refused, absent = dict(
    x86_64=(56, (165, 166, 272, 308, 155, 250, 248, 249, 428, 429, 430, 431, 432, 433, 442), (435,)),
    aarch64=(220, (40, 39, 97, 268, 41, 219, 217, 218, 428, 429, 430, 431, 432, 433, 442), (435,)),
)[os.uname().machine]
do = lambda code, k, yes=0, no=0: struct.pack("HBBI", code, yes, no, k)
load, equal, any_set, give = 0x20, 0x15, 0x45, 0x06
program = do(load, 0)
for number, errno in [(n, 1) for n in refused] + [(n, 38) for n in absent]:
    program += do(equal, number, 0, 1) + do(give, 0x50000 | errno)
program += do(equal, clone, 0, 3) + do(load, 16) + do(any_set, 0x7e020000, 0, 1) + do(give, 0x50001) + do(give, 0x7fff0000)
length = len(program) // 8
if os.getuid() == 0:
    keep = "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write setfcap"
    bounding = "--bounding-set=-all," + ",".join("+" + name for name in keep.split())
    if os.environ.get("STOCK_DROPPED") is None:
        os.environ["STOCK_DROPPED"] = "1"
        os.execvp("setpriv", ["setpriv", bounding, "--inh-caps=-all", sys.executable, "-IS", __file__, *sys.argv[1:]])
    del os.environ["STOCK_DROPPED"]
buffer = ctypes.create_string_buffer(program)
fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", length, ctypes.addressof(buffer)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 or os.getuid() == 0
assert libc.prctl(22, 2, fprog) == 0, os.strerror(ctypes.get_errno())
os.execv("PROGRAM", ["talaria", *sys.argv[1:]])
`

// inStock returns a server, not started, whose program runs as in a stock container.
func inStock(t *testing.T, o options) *Server {
	t.Helper()
	s := prepare(t, o)
	s.program = filepath.Join(filepath.Dir(s.StateDir), "talaria-in-stock")
	script := strings.ReplaceAll(stock, "PROGRAM", binary)
	if err := writeProgram(s.program, []byte(script)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStockContainerIsRefusedPlainlyAndServedWhereAllowed(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s := inStock(t, options{as: who, args: []string{"--min-tier", "landlock"}})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()

		out, err := s.command(ctx, "serve", "--state-dir", s.StateDir, "--addr", "127.0.0.1:0").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("it serves without being allowed to do with less: %v %s", err, out)
		}
		for _, word := range []string{"allow user namespaces", "--min-tier landlock", "talaria doctor"} {
			if !strings.Contains(string(out), word) {
				t.Errorf("the refusal does not say %q: %s", word, out)
			}
		}
		out, err = s.command(ctx, "doctor", "--state-dir", s.StateDir, "--min-tier", "landlock").CombinedOutput()
		for _, word := range []string{"landlock, since namespace does not work here", "do: to get tier namespace, allow user namespaces"} {
			if err != nil || !strings.Contains(string(out), word) {
				t.Errorf("doctor does not say %q: %v %s", word, err, out)
			}
		}

		s.launch(t)
		t.Cleanup(func() { s.stop(t) })
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(8 << 20))}})
		e := run(t, c, id, `import os; print(os.getcwd() == os.environ["TALARIA_WORKSPACE"]); open("made", "w").write("x")`)
		wantEnd(t, e, api.StatusOK, "", api.VariablesKept)
		if printed(e) != "True\n" {
			t.Errorf("printed %q", printed(e))
		}
		info, err := c.Session(ctx, id)
		if err != nil || info.Isolation.Tier != "landlock" || !slices.ContainsFunc(info.Isolation.Layers, func(l string) bool { return strings.HasPrefix(l, "no namespaces") }) {
			t.Errorf("%v %+v", err, info.Isolation)
		}
		if stats, err := c.Stats(ctx); err != nil || stats.Isolation.Tier != "landlock" {
			t.Errorf("%v %+v", err, stats.Isolation)
		}
		// In a container root may not do all of this for other users.
		e = run(t, c, id, fmt.Sprintf(`
import os, time
held = []
for n in range(40):
    held.append(open(f"f{n}", "wb", buffering=0)); held[-1].write(bytes(1 << 20)); os.unlink(f"f{n}")
    time.sleep(0.05)
print("%s")`, "all written"))
		if e.Error == nil || strings.Contains(printed(e), "all written") {
			t.Errorf("files that are deleted and open are not held to the limit: %s %q", e.Status, printed(e))
		}
		if _, err := c.CreateSession(ctx, api.SessionRequest{Mounts: &[]api.Mount{{Source: "/srv", Target: "/mnt/x", Mode: "ro"}}}); !errors.Is(err, api.Errorf(api.CodeMountNotAllowed, "")) {
			t.Errorf("a mount: %v", err)
		}
	})
}
