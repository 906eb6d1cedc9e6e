package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"talaria/api"
)

// postgres starts a PostgreSQL server that listens on this machine's loopback interface only, and returns its port.
func postgres(t *testing.T) (port string) {
	t.Helper()
	programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well-formed
	if len(programs) == 0 {
		t.Fatal("PostgreSQL is not installed: make test-setup")
	}
	bin := filepath.Dir(programs[len(programs)-1])
	owner := prepare(t, options{as: asUser}) // it refuses to run as root
	dir := owner.StateDir
	command := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.Env = []string{"LC_ALL=C.UTF-8", "TZ=UTC"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner.credential}
		return cmd
	}
	data := filepath.Join(dir, "data")
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("sesame\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := command(within(t), "initdb", "-D", data, "-U", "shop", "--auth=scram-sha-256", "--pwfile="+password, "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	port = unusedPort(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := command(ctx, "postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	startDatabase(t, cmd, cancel, log, "ready to accept connections")
	create := exec.Command(filepath.Join(bin, "createdb"), "-h", "127.0.0.1", "-p", port, "-U", "shop", "shop")
	create.Env = []string{"PGPASSWORD=sesame"}
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("createdb: %v: %s", err, out)
	}
	return port
}

// unusedPort is a TCP port of the loopback interface that nothing listens on.
func unusedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return portIn(l.Addr().String())
}

// startDatabase starts a server that ends with the test by cancel, and returns once a line of its log has the word ready.
func startDatabase(t *testing.T, cmd *exec.Cmd, cancel context.CancelFunc, log io.Reader, ready string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(log); ; {
		if !lines.Scan() {
			t.Fatalf("%s ended before it was ready: %v", cmd.Path, lines.Err())
		}
		if strings.Contains(lines.Text(), ready) {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return
		}
	}
}

var databaseExample = regexp.MustCompile("(?s)<!-- example: database-session -->\n```json\n(.*?)```.*<!-- example: database-cell -->\n```python\n(.*?)```")

// TestADatabaseOnTheSameMachineIsUsedByPermission runs the example of docs/operations.md against a real PostgreSQL.
func TestADatabaseOnTheSameMachineIsUsedByPermission(t *testing.T) {
	t.Parallel()
	port := postgres(t)
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	example := databaseExample.FindSubmatch(text)
	if example == nil || !strings.Contains(string(example[1]), "host:5432") {
		t.Fatal("docs/operations.md has no example of a database")
	}
	request := strings.ReplaceAll(string(example[1]), "5432", port)
	everyIdentity(t, func(t *testing.T, who identity) {
		s := start(t, options{as: who, config: "network:\n  host_ports: [" + port + "]\n"})
		asked := decode[api.SessionRequest](t, request)
		asked.Env = &map[string]string{"PGPORT": port}
		id := session(t, s.Client(), asked)
		runOK(t, s.Client(), id, "1") // then its kernel reports how it is isolated
		info, err := s.Client().Session(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.Join(info.Isolation.Layers, "\n"), "through proxies") {
			t.Skip("SKIP: this user can make no network device, and the driver knows no proxies")
		}
		code := string(example[2]) + fmt.Sprintf(`
with db, db.cursor() as c:
    c.execute("create table if not exists orders_%[1]s as select n, n * 1.5 as price from generate_series(1, 1000) n")
    c.execute("select sum(price) from orders_%[1]s")
    print(c.fetchone()[0])`, who)
		if got := runOK(t, s.Client(), id, code); got != "750750.0\n" {
			t.Errorf("the database says %q", got)
		}
		// The permission is for that port, and for nothing else of the machine.
		other := runOK(t, s.Client(), id, fmt.Sprintf(`
import socket
for address in ("host", 22), ("127.0.0.1", %s), ("localhost", %[1]s):
    try: socket.create_connection(address, 10); print("connected to", address)
    except OSError as e: print(type(e).__name__)`, port))
		if strings.Contains(other, "connected") || strings.Count(other, "Error") != 3 {
			t.Errorf("other ports and addresses: %q", other)
		}
		for _, n := range []*api.Network{allow("host:5"), allow("host"), allow("*.host:" + port)} {
			_, err := s.Client().CreateSession(within(t), api.SessionRequest{Network: n})
			if code := problemCode(err); code != api.CodeLimitExceeded && code != api.CodeInvalidRequest {
				t.Errorf("%v: %v", n.Allow, err)
			}
		}
		// Without an entry the name means nothing, whatever the operator permits.
		closed := session(t, s.Client(), api.SessionRequest{Network: &api.Network{Mode: api.NetworkFull}})
		e, err := s.Client().Execute(within(t), closed, api.ExecutionRequest{
			Code: new("import socket; socket.create_connection(('host', " + port + "), 10)")})
		if err != nil || !strings.Contains(e.Text, "connection to host:"+port+" refused: not in this session's network.allow") {
			t.Errorf("without an entry: %q %v", e.Text, err)
		}
	})
}
