package hermes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (client, server *net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ends[i] = conn.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// given are files of all kinds that a client could send, by their names in the table below.
func given(t *testing.T) map[string]*os.File {
	t.Helper()
	dir := t.TempDir()
	files := map[string]*os.File{}
	add := func(name string, file *os.File, err error) {
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
		t.Cleanup(func() { file.Close() })
	}
	read, write, err := os.Pipe()
	add("read", read, err)
	add("write", write, err)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	add("null", null, err)
	zero, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
	add("zero", zero, err)
	folder, err := os.Open(dir)
	add("folder", folder, err)
	for name, text := range map[string]string{"runner": "print(1)", "empty": "", "large": strings.Repeat("x", maxRunner+1)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		add(name, file, err)
	}
	named, err := os.OpenFile(filepath.Join(dir, "runner"), oPath, 0)
	add("named", named, err)
	writable, err := os.OpenFile(filepath.Join(dir, "runner"), os.O_RDWR, 0)
	add("writable", writable, err)
	a, b := pair(t)
	socket, err := a.File()
	add("socket", socket, err)
	_ = b
	return files
}

// send sends bytes with descriptors, in pieces that a connection takes.
func send(conn *net.UnixConn, body []byte, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = syscall.UnixRights(fds...)
	}
	n, _, err := conn.WriteMsgUnix(body[:min(len(body), chunk)], rights, nil)
	if err != nil {
		return err
	}
	_, err = conn.Write(body[n:])
	return err
}

func TestRequestsAreRefusedInWordsAndLeaveNoDescriptor(t *testing.T) {
	files := given(t)
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		body  string
		files string // names, of the descriptors that come with it
		code  string
		words string
	}{
		{"{", "read", codeBadRequest, ""},
		{`[]`, "read", codeBadRequest, ""},
		{`null`, "", codeBadRequest, "op"},
		{strings.Repeat("[", 10_000), "", codeBadRequest, "nested"},
		{`{"op":"launch","op":"launch","argv":["a"],"cwd":"/"}`, "", codeBadRequest, ""},
		{"{\"op\":\"launch\",\"argv\":[\"\xff\"],\"cwd\":\"/\"}", "", codeBadRequest, ""},
		{`{"op":"stop"}`, "read write", codeBadRequest, "only launch"},
		{`{"op":"launch"}`, "", codeBadRequest, "exactly one"},
		{`{"op":"launch","argv":["a"],"cwd":"/","runner_fd":true}`, "runner", codeBadRequest, "exactly one"},
		{`{"op":"launch","runner":"/tmp/runner.py"}`, "", codeBadRequest, "its path"},
		{`{"op":"launch","argv":[],"cwd":"/"}`, "", codeBadRequest, "argv"},
		{`{"op":"launch","argv":"ls","cwd":"/"}`, "", codeBadRequest, "argv"},
		{`{"op":"launch","argv":["a"]}`, "", codeBadRequest, "cwd"},
		{`{"op":"launch","argv":["a"],"cwd":"here"}`, "", codeBadRequest, "absolute"},
		{`{"op":"launch","argv":["a"],"cwd":"/","runner_python":"/p"}`, "", codeBadRequest, "runners only"},
		{`{"op":"launch","argv":["a"],"cwd":"/","scratch":true}`, "", codeBadRequest, "runners only"},
		{`{"op":"launch","argv":["a"],"cwd":"/","env":{"A=B":"c"}}`, "", codeBadRequest, "variable"},
		{`{"op":"launch","argv":["a"],"cwd":"/","env":{"A":1}}`, "", codeBadRequest, "env"},
		{`{"op":"launch","argv":["a"],"cwd":"/","detached":true,"stdout_fd":0}`, "write", codeBadRequest, "detached"},
		{`{"op":"launch","runner_fd":true,"detached":true}`, "runner", codeBadRequest, "commands only"},
		{`{"op":"launch","runner_fd":true}`, "", codeNoRunner, "not received"},
		{`{"op":"launch","runner_fd":true}`, "read", codeNotRegular, "regular"},
		{`{"op":"launch","runner_fd":true}`, "folder", codeNotRegular, "regular"},
		{`{"op":"launch","runner_fd":true}`, "named", codeUnreadable, "reading"},
		{`{"op":"launch","runner_fd":true}`, "writable", codeUnreadable, "reading"},
		{`{"op":"launch","runner_fd":true}`, "empty", codeBadRequest, "empty"},
		{`{"op":"launch","runner_fd":true}`, "large", codeTooLarge, "bytes"},
		{`{"op":"launch","runner_fd":true,"runner_python":"python"}`, "runner", codeBadRequest, "absolute"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":0}`, "runner", codeBadRequest, "used twice"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":1,"stdout_fd":1}`, "runner null", codeBadRequest, "used twice"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":9}`, "runner read", codeBadRequest, "not received"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":-1}`, "runner read", codeBadRequest, "not received"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":true}`, "runner read", codeBadRequest, ""},
		{`{"op":"launch","runner_fd":true,"stdin_fd":1}`, "runner write", codeBadRequest, "direction"},
		{`{"op":"launch","runner_fd":true,"stdout_fd":1}`, "runner read", codeBadRequest, "direction"},
		{`{"op":"launch","runner_fd":true,"stdout_fd":1}`, "runner socket", codeBadRequest, "another kind"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":1}`, "runner zero", codeBadRequest, "another kind"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":1}`, "runner folder", codeBadRequest, "another kind"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":1}`, "runner named", codeBadRequest, "names a file"},
		{`{"op":"launch","runner_fd":true,"stdin_fd":1}`, "runner read write", codeBadRequest, "only the standard streams"},
		{`{"op":"launch","argv":["a"],"cwd":"/"}`, strings.Repeat("null ", maxFDs+1), codeTruncated, "at most 12"},
		{`{"op":"launch","argv":["a","` + long + `"],"cwd":"/"}`, "read", codeTooLarge, "bytes"},
	} {
		t.Run(fmt.Sprintf("%.80s %.40s", c.body, c.files), func(t *testing.T) {
			client, server := pair(t)
			var list []*os.File
			for name := range strings.FieldsSeq(c.files) {
				list = append(list, files[name])
			}
			before := openFiles(t)
			sent := make(chan error, 1)
			go func() { sent <- send(client, []byte(c.body+"\n"), list...) }()
			l, err := receive(server, time.Minute)
			refusal := new(refusal)
			if !errors.As(err, &refusal) || refusal.code != c.code || !strings.Contains(refusal.message, c.words) {
				t.Errorf("%+v, and %v; not %s with %q", l, err, c.code, c.words)
			}
			if err := <-sent; err != nil {
				t.Errorf("the client cannot send its request: %v", err)
			}
			if after := openFiles(t); after != before {
				t.Errorf("there are %d descriptors, and were %d", after, before)
			}
		})
	}
}

func TestRequestsThatAreNotCompleteAreRefused(t *testing.T) {
	files := given(t)
	for _, c := range []struct {
		what, code string
		do         func(client *net.UnixConn) error
	}{
		{"nothing comes", codeTimeout, func(*net.UnixConn) error { return nil }},
		{"a part comes", codeTimeout, func(c *net.UnixConn) error { return send(c, []byte(`{"op":`), files["read"]) }},
		{"a part comes, and the end", codeIncomplete, func(c *net.UnixConn) error {
			return errors.Join(send(c, []byte(`{"op":`), files["read"]), c.Close())
		}},
		{"the end comes", codeIncomplete, func(c *net.UnixConn) error { return c.Close() }},
		{"descriptors come in many messages", codeTooMany, func(c *net.UnixConn) error {
			for range maxFDs + 1 {
				if err := send(c, []byte(" "), files["null"]); err != nil {
					return nil // nobody reads any more
				}
			}
			return nil
		}},
		{"a line does not end", codeTooLarge, func(c *net.UnixConn) error {
			for range maxDiscarded/chunk + 1 {
				if err := send(c, make([]byte, chunk)); err != nil {
					return nil // nobody reads any more
				}
			}
			return nil
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			client, server := pair(t)
			before := openFiles(t)
			sent := make(chan error, 1)
			go func() { sent <- c.do(client) }()
			within := time.Minute
			if c.code == codeTimeout {
				within = 50 * time.Millisecond
			}
			_, err := receive(server, within)
			refusal := new(refusal)
			if !errors.As(err, &refusal) || refusal.code != c.code {
				t.Errorf("%v, not %s", err, c.code)
			}
			server.Close()
			if err := <-sent; err != nil {
				t.Error(err)
			}
			client.Close()
			if after := openFiles(t); after != before-2 { // the connection itself
				t.Errorf("there are %d descriptors, and were %d", after, before)
			}
		})
	}
}

func TestARequestComesInPieces(t *testing.T) {
	files := given(t)
	client, server := pair(t)
	before := openFiles(t)
	body := `{"op":"launch","env":{"A":"b"},"runner_fd":true,"runner_python":"/p","cwd":"/a/../b","scratch":true,"later":{},"stdin_fd":1,"stdout_fd":2}` + "\n"
	go func() {
		_ = send(client, []byte(body[:1]), files["runner"], files["read"])
		for _, b := range []byte(body[1:20]) {
			_, _ = client.Write([]byte{b})
		}
		_ = send(client, []byte(body[20:]), files["write"])
	}()
	l, err := receive(server, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if string(l.runner) != "print(1)" || l.cwd != "/b" || l.env["A"] != "b" || !l.scratch || l.stdin == nil || l.stdout == nil || l.stderr != nil {
		t.Errorf("the launch is %+v", l)
	}
	// A read that waits ends when its stream is closed, which it does not if the server may block.
	read := make(chan error, 1)
	go func() { _, err := l.stdin.Read(make([]byte, 1)); read <- err }()
	l.closeStreams()
	if err := <-read; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a read that is called off ends with %v", err)
	}
	l.closeStreams()
	if after := openFiles(t); after != before {
		t.Errorf("there are %d descriptors, and were %d", after, before)
	}
	if at, err := files["runner"].Seek(0, io.SeekCurrent); err != nil || at != 0 {
		t.Errorf("the client's cursor in its runner is at %d (%v)", at, err)
	}
}

func TestVariablesOfTheHostStayOutside(t *testing.T) {
	got := inside(map[string]string{
		"PATH": "x", "LD_PRELOAD": "x", "PYTHONPATH": "x", "PYTHONUTF8": "1", "https_proxy": "x", "HTTPS_PROXY": "x", "XDG_RUNTIME_DIR": "x",
		"HERMES_RPC_SOCKET": "x", "HERMES_RPC_TOKEN": "t", "HERMES_KERNEL_PARENT_DEATH_FD": "3", "TALARIA_PYTHON": "x", "LANG": "C", "PROJECT": "p",
	})
	names := make([]string, 0, len(got))
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := "HERMES_RPC_TOKEN LANG PROJECT PYTHONUTF8"; strings.Join(names, " ") != want {
		t.Errorf("inside are %v, not %s", names, want)
	}
}

func TestFoldersOfTheClientAreThoseOfTheSandboxWhereThereAreSuch(t *testing.T) {
	for cwd, want := range map[string]string{
		"": "", "/home/me": "", "/workspace": "", "/workspace/a": "/workspace/a", "/workspaces": "", "/tmp": "/tmp", "/data/x": "/data/x", "/": "",
	} {
		if got := directory(cwd); got != want {
			t.Errorf("%q becomes %q, not %q", cwd, got, want)
		}
	}
}
