package landlock

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// userTasks counts the processes and threads of this process's user, as RLIMIT_NPROC does, as far as they can be seen.
func userTasks() int64 {
	own := strconv.Itoa(os.Geteuid())
	files, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is well-formed
	tasks := int64(0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		mine, threads := false, int64(0)
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			switch fields := strings.Fields(value); {
			case len(fields) == 0:
			case name == "Uid":
				mine = fields[0] == own
			case name == "Threads":
				threads, _ = strconv.ParseInt(fields[0], 10, 64)
			}
		}
		if mine {
			tasks += threads
		}
	}
	return tasks
}
