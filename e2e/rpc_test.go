package e2e

import (
	"testing"

	"talaria/api"
)

// olderClient is what a hermes_tools.py of the older protocol does: it connects once, and sends a line for each call.
const olderClient = `
open("older.py", "w").write('''
import json, os, socket
_sock = None
def call(tool, **args):
    global _sock
    if _sock is None:
        _sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _sock.connect(os.environ["HERMES_RPC_SOCKET"])
        _sock.settimeout(300)
    _sock.sendall(json.dumps({"tool": tool, "args": args}).encode() + b"\\n")
    buffer = b""
    while not buffer.endswith(b"\\n"):
        chunk = _sock.recv(65536)
        if not chunk:
            raise RuntimeError("Agent process disconnected")
        buffer += chunk
    return json.loads(buffer)
''')`

// TestTheOlderProtocolCallsTools is rows P10, P13, P14 and P51: a client of the older protocol works unchanged in a cell, in
// the processes that a cell starts and in a fork, and its calls count.
func TestTheOlderProtocolCallsTools(t *testing.T) {
	t.Parallel()
	everyTier(t, func(t *testing.T, tier string, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--tier", tier}})
		c := s.Client()
		id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{ToolCalls: new(int64(3))}})
		if tier == "landlock" { // where no cell can make a socket without the network
			if got := runOK(t, c, id, `import os; print("HERMES_RPC_SOCKET" in os.environ)`); got != "False\n" {
				t.Errorf("the variable is there: %s", got)
			}
			return
		}
		for _, step := range []struct{ what, code, want string }{
			{"the client", olderClient, ""},
			{"a call", `import older; print(older.call("write_file", path="a.txt", content="hello"), open("a.txt").read())`,
				"{'path': 'a.txt', 'bytes': 5} hello\n"},
			{"a process, and a tool that is not there",
				`!python3 -c 'import older; print(older.call("read_file", path="a.txt")["content"], older.call("nope"))'`,
				"hello {'error': \"Tool 'nope' is not available. Available: patch, read_file, search_files, terminal, write_file\"}\n"},
			{"the shell of the tool terminal",
				`from hermes_tools import terminal; print(terminal("test -S $HERMES_RPC_SOCKET && echo socket")["output"])`, "socket\n\n"},
			{"a fork", `import os, sys
pid = os.fork()
if not pid:
    older._sock = None
    os._exit(older.call("read_file", path="a.txt")["total_lines"])
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))`, "1\n"},
			{"the limit", `print([("3" in str(a.get("error")), "content" in a) for a in (older.call("read_file", path="a.txt") for _ in range(4))])`,
				"[(False, True), (False, True), (False, True), (True, False)]\n"},
		} {
			if got := runOK(t, c, id, step.code); got != step.want {
				t.Errorf("%s: printed %q, want %q", step.what, got, step.want)
			}
		}
	})
}
