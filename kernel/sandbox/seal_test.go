package sandbox_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A directory may have been swapped between the check and the moment when pid 1 opens it.
func TestSealingOpensNoOtherDirectoryThanTheGivenOne(t *testing.T) {
	dir := stateDir(t)
	newBackend(t, dir)
	found, err := filepath.Glob(filepath.Join(library, "*", "talaria_init"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	out, err := exec.Command(environment(t).Python, "-I", "-B", "-c", `
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
from talaria_init import root, seal
os.chdir(sys.argv[2])
os.makedirs("sessions/one/workspace")
os.makedirs("sessions/two")
os.symlink("../one/workspace", "sessions/two/workspace")
root.SESSIONS = os.path.abspath("sessions")
found = os.stat("sessions/one/workspace")
for path, inode in (
    ("one/workspace", found.st_ino + 1),
    ("two/workspace", found.st_ino),
    ("../sessions/one/workspace", found.st_ino),
    (os.path.abspath("sessions/one/workspace"), found.st_ino),
    ("one/none", found.st_ino),
):
    try:
        seal._bind(seal.Directory(path, found.st_dev, inode), "/no/such/target", 0)
    except OSError as e:
        print(os.strerror(e.errno) if e.filename != "/no/such/target" else "bound")
    except RuntimeError as e:
        print("another" if "is not the directory that was handed over" in str(e) else e)
`, found[0], dir).CombinedOutput()
	want := "another\nToo many levels of symbolic links\nInvalid cross-device link\nInvalid cross-device link\n" +
		"No such file or directory\n"
	if string(out) != want || err != nil {
		t.Errorf("%s\nnot\n%s%v", strings.TrimSpace(string(out)), want, err)
	}
}
