package disk_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the run if one of its images stays attached.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "talaria-disk-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", dir)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, left := range attached(dir) {
			println("FAIL: left attached:", left)
			code = 1
		}
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

// attached lists the images below a directory that loop devices work on.
func attached(dir string) []string {
	var found []string
	entries, _ := os.ReadDir("/sys/block")
	for _, e := range entries {
		file, err := os.ReadFile("/sys/block/" + e.Name() + "/loop/backing_file")
		if err == nil && strings.HasPrefix(string(file), dir) {
			found = append(found, e.Name()+" "+strings.TrimSpace(string(file)))
		}
	}
	return found
}
