package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var fence = regexp.MustCompile("(?s)(<!-- example: [a-z-]+ -->\n)?```(sh|python)\n(.*?)```")

// blocks returns the fenced blocks of a page, or of one of its sections, each as a piece of a shell script. A Python
// program appears twice, since a reader may well run it twice. Examples of the client libraries are marked, and left
// out.
func blocks(t *testing.T, page, section string) []string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if section != "" {
		_, text, _ = strings.Cut(text, "\n## "+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
	}
	var list []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		marked, language, source := m[1] != "", m[2], m[3]
		if marked {
			continue
		}
		if language == "python" {
			source = strings.Repeat("/usr/bin/python3 - <<'END_OF_PYTHON'\n"+source+"END_OF_PYTHON\n", 2)
		}
		list = append(list, source)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no blocks in section %q", page, section)
	}
	return list
}

func TestTheQuickStartsRunAsTheyStand(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "talaria")); err != nil {
		t.Fatal(err)
	}
	pieces := append(blocks(t, "../docs/quickstart.md", ""), blocks(t, "../docs/api.md", "Quick start")...)
	if len(pieces) < 7 {
		t.Fatalf("only %d blocks", len(pieces))
	}
	ctx := withinProgram(t)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.Join(pieces, "\n"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TALARIA_STATE_DIR="+s.StateDir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The program for WebSocket prints a number before each piece of text, and a busy machine may cut the line into pieces.
	text := regexp.MustCompile(`Hi[\d ]*Ada[\d ]*\n`).ReplaceAllString(string(out), "Hi Ada\n")
	at := 0
	for _, want := range []string{
		"hello from talaria\n42\n", // exec
		"45\n",                     // the session's variables
		"tour", "idle",             // sessions
		`{"id":"tour"`,                // PUT got it
		`"text":"10\n9"`,              // REST
		`"image/png":"iVBORw0KGgo`,    // the chart
		`"path":"out.csv"`,            // an artifact
		"city,n\nLund,8\nÅrhus,4\n",   // the download
		`"type":"execution_started"`,  // the stream
		`"type":"execution_finished"`, // and its end
		"hello\n", "Hi Ada\n", "ok\n", // WebSocket
		"hello\n", "Hi Ada\n", "ok\n", // the same program again
		`"id":"chat-7"`, `"text":"hi\n42"`, // the quick start of the API
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("after byte %d the output lacks %q:\n%s", at, want, text)
		}
		at += i
	}
	notebook, err := os.ReadFile(filepath.Join(dir, "tour.ipynb"))
	if err != nil || !strings.Contains(string(notebook), "df.plot.bar()") {
		t.Errorf("the notebook: %v\n%s", err, notebook)
	}
}

// TestTheFiguresOfTheREADMEAreMeasured compares the figures of the README with the table in docs/performance.md, as
// far as a reader would notice: within a tenth.
func TestTheFiguresOfTheREADMEAreMeasured(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, figure := range []struct {
		says   string // with one number
		row    string
		column int // of the table, from 0
	}{
		{`pandas and matplotlib loaded, in ([\d.]+) ms`, "create session → result of `1+1`, with numpy, pandas, matplotlib loaded", 5},
		{`Jupyter Server takes\s+([\d.]+) ms`, "create session → result of `1+1`, with numpy, pandas, matplotlib loaded", 9},
		{"A warm `1\\+1` takes ([\\d.]+) ms", "warm `1+1` over WebSocket, to the end of the cell", 5},
		{`three libraries takes ([\d.]+) MiB`, "idle session with the three libraries (PSS of all its processes)", 5},
		{`an ipykernel's ([\d.]+) MiB`, "idle session with the three libraries (PSS of all its processes)", 9},
		{`it is ([\d.]+) MiB each`, "many sessions: PSS of everything, including server and host, per session", 5},
		{"A `print` reaches the client in ([\\d.]+) ms", "`print` without flush → first byte", 5},
		{`200,000 printed lines arrive in ([\d.]+) ms`, "200,000 printed lines: the last", 5},
		{`An interrupt takes ([\d.]+) ms`, "interrupt of `while True: pass` → shown", 5},
		{`another session answers\s+in ([\d.]+) ms`, "`1+1` beside a fork bomb, a memory bomb, a full disk, a flood of output and a busy loop on all CPUs", 5},
	} {
		m := regexp.MustCompile(figure.says).FindSubmatch(readme)
		_, row, found := strings.Cut(string(table), "\n| "+figure.row+" |")
		if m == nil || !found {
			t.Errorf("%q is in the README: %t; row %q is in the table: %t", figure.says, m != nil, figure.row, found)
			continue
		}
		row, _, _ = strings.Cut(row, "\n")
		said, err1 := strconv.ParseFloat(string(m[1]), 64)
		measured, err2 := strconv.ParseFloat(strings.TrimSpace(strings.Split(row, "|")[figure.column-1]), 64)
		if err1 != nil || err2 != nil || said < measured*0.9 || said > measured*1.1 {
			t.Errorf("the README says %s; docs/performance.md has %v (%v, %v)", m[0], measured, err1, err2)
		}
	}
}

// TestTheTwoCommandsAreTargets checks the README's two commands against the Makefile; `make test` is what runs this
// test.
func TestTheTwoCommandsAreTargets(t *testing.T) {
	commands := strings.Join(blocks(t, "../README.md", "Two commands"), "")
	for _, want := range []string{"make run ", "make test "} {
		if !strings.Contains(commands, want) {
			t.Errorf("the README lacks %q", want)
		}
	}
	out, err := exec.Command("make", "-C", "..", "help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, target := range []string{"make run", "make test", "make build", "make bench", "make help"} {
		if !strings.Contains(string(out), target) {
			t.Errorf("make help does not list %s:\n%s", target, out)
		}
	}
}

// TestMakeNamesTheToolThatIsMissing runs `make run` with Go programs that cannot build, before it installs anything.
func TestMakeNamesTheToolThatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"old":        "echo go version go1.19.8 linux/amd64",
		"uncompiled": "case $1 in version) echo go version go1.26.8 linux/amd64;; env) echo no-such-compiler -m64;; esac",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for program, want := range map[string]string{
		"missing":    "Go is not installed, or not in PATH: install Go 1.26 or newer from https://go.dev/dl/, then: export PATH=/usr/local/go/bin:$PATH\n",
		"old":        "go version go1.19.8 linux/amd64 is too old: install Go 1.26",
		"uncompiled": "there is no C compiler, no-such-compiler -m64: install it (on Debian: apt-get install gcc libc6-dev)\n",
	} {
		cmd := exec.CommandContext(within(t), "make", "-C", "..", "run", "GO="+filepath.Join(dir, program))
		cmd.Env = append(os.Environ(), "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "\n"+want) || strings.Contains(string(out), "apt-get update") {
			t.Errorf("with a Go that is %s, make run says (%v):\n%s", program, err, out)
		}
	}
}

// TestMakeBuildsWithoutAskingGit looks at what make asks Go for: git refuses the repository of another user, as when root builds in
// somebody's folder, or a container in a folder of its host, and then Go refuses to build.
func TestMakeBuildsWithoutAskingGit(t *testing.T) {
	t.Parallel()
	stub := filepath.Join(t.TempDir(), "go")
	script := "#!/bin/sh\ncase $1 in version) echo go version go1.26.8 linux/amd64;; env) echo sh;; build) echo \"got $*\";; esac\n"
	if err := os.WriteFile(stub, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), "make", "-C", "..", "build", "GO="+stub)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	_, got, _ := strings.Cut(string(out), "\ngot build ")
	if err != nil || !strings.Contains(got, " -buildvcs=false ") || !strings.Contains(got, "-X main.version=") {
		t.Errorf("%v\n%s", err, out)
	}
}
