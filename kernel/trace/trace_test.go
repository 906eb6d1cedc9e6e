package trace_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"talaria/kernel/trace"
)

func TestStepsHaveTheTimeOfTheSharedClock(t *testing.T) {
	trace.Step("before it is opened")
	dir := t.TempDir()
	if err := trace.Open(dir, "serve"); err != nil {
		t.Fatal(err)
	}
	begin := trace.Now()
	trace.Step("cell received")
	end := trace.Now()
	files, err := filepath.Glob(filepath.Join(dir, "serve-*.steps"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at, name, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if n, err := strconv.ParseInt(at, 10, 64); err != nil || n < begin || n > end || name != "cell received" {
		t.Errorf("%q is not a step between %d and %d", text, begin, end)
	}
}

func TestADirectoryThatIsNotThereIsAnError(t *testing.T) {
	if err := trace.Open(filepath.Join(t.TempDir(), "none"), "host"); err == nil {
		t.Error("no error")
	}
}

func BenchmarkStepThatIsNotTraced(b *testing.B) {
	for b.Loop() {
		trace.Step("nothing")
	}
}
