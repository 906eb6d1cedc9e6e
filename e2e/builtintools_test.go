package e2e

import (
	"testing"

	"talaria/api"
)

// TestBuiltinToolsWorkInTheSandbox is row P04: the signatures of the tools, and what they return, with the session's
// user.
func TestBuiltinToolsWorkInTheSandbox(t *testing.T) {
	t.Parallel()
	everyTier(t, func(t *testing.T, tier string, who identity) {
		t.Parallel()
		s := start(t, options{as: who, args: []string{"--tier", tier}})
		c := s.Client()
		id := session(t, c, api.SessionRequest{})
		for _, step := range []struct{ code, want string }{
			{`from hermes_tools import read_file, write_file, search_files, patch, terminal, ToolError, ToolTimeout
import inspect, os
print(inspect.signature(read_file), inspect.signature(terminal))`,
				"(path: str, offset: int = 1, limit: int = 500) (command: str, timeout: float | None = None, workdir: str | None = None)\n"},
			{`print(write_file("notes/a.txt", "one\ntwo\nthree\n"))`, "{'path': 'notes/a.txt', 'bytes': 14}\n"},
			{`print(read_file("notes/a.txt", 2, limit="1"))`, "{'content': 'two\\n', 'total_lines': 3}\n"},
			{`print(search_files("t[wh]"), search_files("*.txt", target="files"))`,
				"{'matches': [{'path': 'notes/a.txt', 'line': 2, 'content': 'two'}, {'path': 'notes/a.txt', 'line': 3, 'content': 'three'}], 'total': 2} " +
					"{'files': ['notes/a.txt'], 'total': 1}\n"},
			{`print(patch("notes/a.txt", "two", "2")["files"], open("notes/a.txt").read())`, "['notes/a.txt'] one\n2\nthree\n\n"},
			{`terminal("cd notes; export WORD=hello; f() { echo f $1; }")
print(terminal("pwd | xargs basename; echo $WORD"), terminal("exit 3")["exit_code"], terminal("pwd | xargs basename", workdir="/")["output"] == "notes\n")`,
				"{'output': 'notes\\nhello\\n', 'exit_code': 0} 3 False\n"},
			{`for outside in ("/etc/passwd", "../x", "link"):
    if outside == "link": os.symlink("/etc/passwd", "link")
    for attempt in (read_file, lambda path: write_file(path, "x")):
        try: print(attempt(outside))
        except ToolError as e: print(e.code)`, "outside\noutside\noutside\noutside\noutside\noutside\n"},
			{`try: terminal("sleep 100", timeout=0.2)
except ToolTimeout as e: print("timeout")
print(terminal("echo $WORD")["output"])`, "timeout\nhello\n\n"},
		} {
			if got := runOK(t, c, id, step.code); got != step.want {
				t.Errorf("%s\nprinted %s\nwant    %s", step.code, got, step.want)
			}
		}
	})
}
