package e2e

import (
	"testing"

	"talaria/api"
)

// TestTheFileToolsUseTheMounts is row P04 in a session with mounts: one can be read, the other one written to as well.
func TestTheFileToolsUseTheMounts(t *testing.T) {
	t.Parallel()
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		s, dir := shared(t, who)
		c := s.Client()
		id := session(t, c, api.SessionRequest{Mounts: &[]api.Mount{
			{Source: dir + "/in", Target: "/data", Mode: "ro"}, {Source: dir + "/out", Target: "/mnt/shared/out", Mode: "rw"},
		}})
		const use = `from hermes_tools import read_file, write_file, search_files, patch, ToolError
import os
os.symlink("/mnt/shared/out", "link")
def attempt(tool, *args, **named):
    try: print(tool(*args, **named))
    except ToolError as e: print(e.code)
attempt(read_file, "/data/cities.csv")
attempt(search_files, "L.nd", path="/data")
attempt(write_file, "/mnt/shared/out/new/a.txt", "one\n")
attempt(write_file, "/data/x", "")
attempt(patch, mode="patch", patch="*** Begin Patch\n*** Update File: /mnt/shared/out/new/a.txt\n-one\n+two\n*** Delete File: /data/cities.csv\n*** End Patch")
attempt(lambda: read_file("/mnt/shared/out/new/a.txt")["content"])
for outside in ("/mnt/x", "/mnt/shared/x", "/data/../etc/passwd", "link/b"):
    attempt(write_file, outside, "")`
		const want = "{'content': 'Lund\\n', 'total_lines': 1}\n" +
			"{'matches': [{'path': '/data/cities.csv', 'line': 1, 'content': 'Lund'}], 'total': 1}\n" +
			"{'path': '/mnt/shared/out/new/a.txt', 'bytes': 4}\nread_only\nread_only\none\n\noutside\noutside\noutside\noutside\n"
		if got := runOK(t, c, id, use); got != want {
			t.Errorf("the tools printed\n%swant\n%s", got, want)
		}
	})
}
