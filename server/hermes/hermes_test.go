package hermes

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
)

func config(t *testing.T) Config {
	dir, err := os.MkdirTemp("", "hermes") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Config{Socket: filepath.Join(dir, "socket"), Owner: "admin", Log: slog.New(slog.DiscardHandler)}
}

func TestTheSocketIsPublished(t *testing.T) {
	cfg := config(t)
	b, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(cfg.Socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket is %v (%v)", info, err)
	}
	if _, err := Listen(cfg); err == nil || !strings.Contains(err.Error(), "may be listening") {
		t.Errorf("a second server gets %v", err)
	}
	b.Close()
	b.Close()
	if _, err := os.Lstat(cfg.Socket); err == nil {
		t.Error("the socket is still there")
	}

	// One that a killed server left is replaced.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: cfg.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	cfg.UIDs = []int{os.Geteuid(), os.Geteuid() + 1}
	b, err = Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(cfg.Socket); err != nil || info.Mode() != fs.ModeSocket|0o666 {
		t.Errorf("with other users, the socket is %v (%v)", info, err)
	}
	// One that another server has put in its place stays.
	if err := os.Remove(cfg.Socket); err != nil {
		t.Fatal(err)
	}
	other, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b.Close()
	if _, err := os.Lstat(cfg.Socket); err != nil {
		t.Error("the socket of another server was removed")
	}
}

func TestASocketIsRefusedWhereItWouldNotBeSafe(t *testing.T) {
	for _, c := range []struct {
		words string
		make  func(*Config) error
	}{
		{"absolute", func(c *Config) error { c.Socket = "socket"; return nil }},
		{"absolute", func(c *Config) error { c.Socket += "/../socket"; return nil }},
		{"bytes", func(c *Config) error { c.Socket += strings.Repeat("x", 100); return nil }},
		{"owner", func(c *Config) error { c.Owner = "no owner"; return nil }},
		{"uid", func(c *Config) error { c.UIDs = []int{-1}; return nil }},
		{"not a socket", func(c *Config) error { return os.WriteFile(c.Socket, nil, 0o600) }},
		{"not a socket", func(c *Config) error { return os.Symlink("/etc/passwd", c.Socket) }},
		{"nobody else can write to", func(c *Config) error { return os.Chmod(filepath.Dir(c.Socket), 0o777) }},
		{"nobody else can write to", func(c *Config) error {
			dir := filepath.Dir(c.Socket)
			c.Socket = filepath.Join(dir, "link", "socket")
			return os.Symlink(dir, filepath.Join(dir, "link"))
		}},
		{"folder", func(c *Config) error {
			c.Socket = filepath.Join(filepath.Dir(c.Socket), "a", "b", "socket")
			return nil
		}},
	} {
		cfg := config(t)
		if err := c.make(&cfg); err != nil {
			t.Fatal(err)
		}
		if b, err := Listen(cfg); err == nil || !strings.Contains(err.Error(), c.words) {
			b.Close()
			t.Errorf("%+v: %v, without %q", cfg, err, c.words)
		}
	}
}

// ask connects to a broker that serves one connection, sends a line and returns the answer.
func ask(t *testing.T, b *Broker, ctx context.Context, line string) (answer refusedReply) {
	t.Helper()
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := b.listener.AcceptUnix(); err == nil {
			b.admit(ctx, conn)
		}
	}()
	conn, err := net.Dial("unix", b.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(line)) // a broker that refuses may not read it
	text, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	<-served
	return answer
}

func TestOtherUsersAndTooManyClientsAreRefused(t *testing.T) {
	cfg := config(t)
	cfg.UIDs = []int{os.Geteuid() + 1}
	b, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.leases.Wait()
	defer b.Close()
	if a := ask(t, b, t.Context(), "{}\n"); a.OK || a.Error != codeStranger || !strings.Contains(a.Message, "fronts.hermes.uids") {
		t.Errorf("another user is answered %+v", a)
	}
	b.leases.Wait()
	b.UIDs = []int{os.Geteuid()}
	if a := ask(t, b, t.Context(), "{}\n"); a.Error != codeBadRequest {
		t.Errorf("a request that is none is answered %+v", a)
	}
	b.leases.Wait()
	for range maxLeases {
		b.places <- struct{}{}
	}
	if a := ask(t, b, t.Context(), "{}\n"); a.Error != "too_many_leases" {
		t.Errorf("a client too many is answered %+v", a)
	}
}

func TestAClientThatSaysNothingEndsWithTheServer(t *testing.T) {
	b, err := Listen(config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	client, server := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.admit(ctx, server)
	cancel()
	b.leases.Wait()
	if n, err := client.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("the client reads %d bytes (%v)", n, err)
	}
}

func TestErrorsHaveTheWordsOfTheProtocol(t *testing.T) {
	b := &Broker{Config: Config{Log: slog.New(slog.DiscardHandler)}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{refused(codeTimeout, "late"), "handshake_timeout: late"},
		{api.Errorf(api.CodeInvalidRequest, "wrong"), "bad_request: wrong"},
		{api.Errorf(api.CodePayloadTooLarge, "too long"), "request_too_large: too long"},
		{api.Errorf(api.CodeLimitExceeded, "too many sessions"), "launch_failed: too many sessions"},
		{os.ErrPermission, "launch_failed: the server failed to do this; its log has the details"},
	} {
		if got := b.refusal(c.err).Error(); got != c.want {
			t.Errorf("%v becomes %q, not %q", c.err, got, c.want)
		}
	}
}

func TestTheClientsFilesMustBeItsOwn(t *testing.T) {
	dir := filepath.Dir(config(t).Socket)
	uid := os.Geteuid()
	module, link, fifo := filepath.Join(dir, "tools.py"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(module, []byte("x = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(module, link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "rpc")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	before := openFiles(t)
	if text, err := readTools(map[string]string{toolsVariable: module}, uid); err != nil || string(text) != "x = 1" {
		t.Errorf("the module is %q (%v)", text, err)
	}
	for _, c := range []struct {
		path string
		uid  int
	}{{link, uid}, {fifo, uid}, {socket, uid}, {dir, uid}, {module, uid + 1}, {"/nowhere", uid}, {"/dev/zero", uid}} {
		if text, err := readTools(map[string]string{toolsVariable: c.path}, c.uid); err == nil {
			t.Errorf("%s of user %d is read: %q", c.path, c.uid, text)
		}
		if c.path == socket {
			c.path = module
		}
		if a, err := openAgent(map[string]string{rpcVariable: c.path}, c.uid); err == nil {
			a.close()
			t.Errorf("%s of user %d is taken for a socket", c.path, c.uid)
		}
	}
	if _, err := openAgent(map[string]string{rpcVariable: socket}, uid+1); err == nil {
		t.Error("a socket of another user is taken")
	}
	a, err := openAgent(map[string]string{rpcVariable: socket}, uid)
	if err != nil {
		t.Fatal(err)
	}
	// The path may change afterwards: it is still the same socket that is connected to.
	if err := os.Rename(socket, socket+".old"); err != nil {
		t.Fatal(err)
	}
	conn, err := a.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	taken := a.take()
	a.close()
	if conn, err = taken.dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	taken.close()
	for _, env := range []map[string]string{{}, {rpcVariable: "tcp://127.0.0.1:1"}} {
		if a, err := openAgent(env, uid); err != nil || a.file != nil {
			t.Errorf("%v is taken for a socket (%v)", env, err)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("there are %d descriptors, and were %d", after, before)
	}
}

func FuzzFramesAreCutAsTheyAreMade(f *testing.F) {
	f.Add([]byte("D\x00\x00\x00\x01x"))
	f.Add([]byte("D\xff\xff\xff\xffx"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		rest, total := sent, 0
		for {
			frame, left, err := cutFrame(rest)
			if err != nil {
				if binary.BigEndian.Uint32(rest[1:]) <= maxFrame {
					t.Errorf("%q is refused: %v", rest, err)
				}
				return
			}
			if frame == nil {
				break
			}
			total += len(frame)
			rest = left
		}
		if total+len(rest) != len(sent) {
			t.Errorf("%d bytes of %d are left", total+len(rest), len(sent))
		}
		data := make([]byte, headerBytes+len(sent))
		copy(data[headerBytes:], sent)
		if len(sent) > maxFrame {
			return
		}
		frame, left, err := cutFrame(append(header(data, frameData, len(sent)), 'C'))
		if err != nil || len(left) != 1 || string(frame[headerBytes:]) != string(sent) || frame[0] != frameData {
			t.Errorf("%q comes as %q, with %q left (%v)", sent, frame, left, err)
		}
	})
}
