package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"talaria/api"
)

// sparseFiles are large files without content, of another size in each pass.
var sparseFiles = abuse{
	id: "sparse-files", what: "8 sparse files of 100 MB each", harm: keeps(16),
	pass: inSession(api.SessionRequest{}, `
for i in range(8):
    open(f"sROUND-{i}", "wb").truncate(100_000_000 + 8 * ROUND + i)`),
}

// rewrittenFile is one file within the disk's limit whose content is another in each pass.
var rewrittenFile = abuse{
	id: "rewritten-file", what: "a file of 100 MB that is written again and again",
	harm: keeps(320), // twice disk_bytes, and some for the log
	pass: inSession(api.SessionRequest{Limits: &api.LimitsRequest{DiskBytes: new(int64(150_000_000))}}, `
import os
with open("rewritten", "wb") as f:
    for _ in range(100): f.write(os.urandom(1_000_000))`),
}

// longPaths are many empty files whose paths are as long as a system call takes them.
var longPaths = abuse{
	id: "long-paths", what: "20,000 files with paths of 3.8 kB", harm: keeps(0),
	pass: inSession(api.SessionRequest{}, `
import os
folder = "/".join(["d" * 250] * 15)
os.makedirs(folder, exist_ok=True)
at = os.open(folder, os.O_DIRECTORY)
for i in range(20_000): os.close(os.open(f"ROUND-{i}", os.O_CREAT | os.O_WRONLY, dir_fd=at))
os.close(at)`),
}

// deepPaths are longer than any system call takes at once.
var deepPaths = abuse{
	id: "deep-paths", what: "3,000 files with paths of 16 kB",
	harm: &harm{
		metric: metric{what: "growth of the server's log", unit: "MiB", p50: 1},
		begin:  growthOf(func(s *talariaServer) (int64, error) { return s.program.logged.Load(), nil }),
	},
	pass: inSession(api.SessionRequest{}, `
import os
home = os.getcwd()
try:
    for _ in range(64):
        os.makedirs("d" * 250, exist_ok=True)
        os.chdir("d" * 250)
    for i in range(3_000): os.close(os.open(f"ROUND-{i}", os.O_CREAT | os.O_WRONLY))
finally:
    os.chdir(home)`),
}

// inSession makes a pass of a cell that runs in the same session each time.
func inSession(req api.SessionRequest, code string) func(context.Context, *owner) error {
	return func(ctx context.Context, o *owner) error {
		id, err := o.session(ctx, "", req)
		if err != nil {
			return err
		}
		return o.run(ctx, id, code)
	}
}

// keeps is what the server keeps on disk besides the workspaces of sessions, which have limits of their own. most is the
// goal in MiB; 0: there is none.
func keeps(most float64) *harm {
	return &harm{
		metric: metric{what: "growth of what the server keeps on disk", unit: "MiB", p50: most},
		begin:  growthOf(kept),
	}
}

// growthOf begins to measure by how many MiB a number of bytes grows.
func growthOf(bytes func(*talariaServer) (int64, error)) func(*owner) (func() (float64, error), error) {
	return func(o *owner) (func() (float64, error), error) {
		before, err := bytes(o.server)
		return func() (float64, error) {
			now, err := bytes(o.server)
			return float64(now-before) / mib, err
		}, err
	}
}

// kept is how many bytes of disk the state directory takes without its workspaces.
func kept(s *talariaServer) (sum int64, err error) {
	err = filepath.WalkDir(s.state, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() && path == filepath.Join(s.state, "sessions") {
			return fs.SkipDir
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	return sum, err
}
