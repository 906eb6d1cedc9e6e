package e2e

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"talaria/api"
	"talaria/client"
	"talaria/e2e/nameserver"
)

// world is what a session of these tests may find outside, all of it on this machine's loopback.
type world struct {
	names  string // HOST:PORT of the name server
	web    *httptest.Server
	secure *httptest.Server
	six    *httptest.Server // on IPv6
	asked  atomic.Int64     // requests to all servers
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		switch r.URL.Path {
		case "/away":
			http.Redirect(rw, r, "http://forbidden.test:"+portIn(w.web.URL)+"/", http.StatusFound)
		case "/big":
			_, _ = io.CopyN(rw, zeros{}, 32<<20)
		case "/wait":
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(rw, "hello ", r.Host)
		}
	})
	w.web = httptest.NewServer(handler)
	w.secure = httptest.NewUnstartedServer(handler)
	w.secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that do not trust it
	w.secure.StartTLS()
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // otherwise this machine has no IPv6
		w.six = httptest.NewUnstartedServer(handler)
		_ = w.six.Listener.Close()
		w.six.Listener = l
		w.six.Start()
		t.Cleanup(w.six.Close)
	}
	t.Cleanup(w.web.Close)
	t.Cleanup(w.secure.Close)
	w.names = nameServer(t, map[string]string{
		"web.test": "127.0.0.1", "a.wild.test": "127.0.0.1", "wild.test": "127.0.0.1", "forbidden.test": "127.0.0.1",
		"private.test": "10.255.1.2", "six.test": "::1",
	})
	return w
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func portIn(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

// nameServer answers for these names, and knows no others.
func nameServer(t *testing.T, hosts map[string]string) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { nameserver.Serve(conn, hosts) })
	t.Cleanup(func() { conn.Close(); running.Wait() })
	return conn.LocalAddr().String()
}

// config permits this machine's loopback, which is not permitted by default.
func (w *world) config(more string) string {
	return "network:\n  max_mode: full\n  allowed: [127.0.0.0/8, '::1']\n  name_server: " + w.names + "\n" + more
}

const visit = `
import socket, time, urllib.error, urllib.request
def get(url, **more):
    "What comes of a request, and that it is known at once."
    begin = time.monotonic()
    try:
        return urllib.request.urlopen(url, timeout=60, **more).read()[:100].decode()
    except urllib.error.HTTPError as e:
        return f"HTTP {e.code}"
    except OSError as e:
        e = getattr(e, "reason", e)
        return type(e).__name__ if time.monotonic() - begin < 20 else f"slow {e}"
def reach(host, port, timeout=60):
    try:
        with socket.create_connection((host, port), timeout): return "open"
    except OSError as e: return type(e).__name__
`

// eachWayOut runs a test with a network device, if the system has them for this user, and with the proxies.
func eachWayOut(t *testing.T, test func(t *testing.T, w *world, s *Server, device bool)) {
	everyIdentity(t, func(t *testing.T, who identity) {
		t.Parallel()
		w := newWorld(t)
		s := start(t, options{as: who, config: w.config("")})
		info, err := s.Client().CreateSession(within(t), api.SessionRequest{Network: &api.Network{Mode: api.NetworkFull}})
		if err != nil {
			t.Fatal(err)
		}
		runOK(t, s.Client(), info.ID, "1") // now the kernel is there
		if info, err = s.Client().Session(within(t), info.ID); err != nil {
			t.Fatal(err)
		}
		layers := strings.Join(info.Isolation.Layers, "\n")
		device := strings.Contains(layers, "network: full, through a device, held outside the sandbox")
		if !device && !strings.Contains(layers, "network: full, through proxies, held outside the sandbox, since no device can be created") {
			t.Fatalf("the layers are\n%s", layers)
		}
		if who == asRoot && !device {
			if _, err := os.Stat("/dev/net/tun"); err == nil {
				t.Error("root has no network device")
			}
		}
		if err := s.Client().DeleteSession(within(t), info.ID); err != nil {
			t.Error(err)
		}
		t.Logf("as %s, device: %v", who, device)
		test(t, w, s, device)
	})
}

func allow(entries ...string) *api.Network {
	return &api.Network{Mode: api.NetworkAllow, Allow: entries}
}

func TestASessionReachesWhatItWasPermittedAndNothingElse(t *testing.T) {
	t.Parallel()
	eachWayOut(t, func(t *testing.T, w *world, s *Server, device bool) {
		c := s.Client()
		port, securePort := portIn(w.web.URL), portIn(w.secure.URL)
		id := session(t, c, api.SessionRequest{Network: allow("web.test:"+port, "web.test:"+securePort, "*.wild.test:"+port,
			"private.test", "six.test", "::1", "127.0.0.1:"+port, "127.0.0.1:"+securePort)})
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.secure.Certificate().Raw})
		if _, _, err := c.PutFile(within(t), id, "ca.pem", strings.NewReader(string(certificate))); err != nil {
			t.Fatal(err)
		}
		runOK(t, c, id, visit)
		want := func(cell, want string) {
			t.Helper()
			if e := run(t, c, id, "print("+cell+")"); !strings.Contains(e.Text, want+"\n") {
				t.Errorf("%s: %q, want %q", cell, e.Text, want)
			}
		}
		want(`get("http://web.test:`+port+`/")`, "hello web.test:"+port)
		want(`get("http://a.wild.test:`+port+`/")`, "hello a.wild.test:"+port)
		want(`get("http://127.0.0.1:`+port+`/") if `+py(device)+` else "other"`, map[bool]string{true: "ConnectionRefusedError", false: "other"}[device]) // its own loopback
		want(`len(urllib.request.urlopen("http://web.test:`+port+`/big").read())`, fmt.Sprint(32<<20))
		if w.six != nil {
			want(`get("http://six.test:`+portIn(w.six.URL)+`/")`, "hello six.test:"+portIn(w.six.URL))
		}
		// TLS unmodified: the server's name goes through, and its certificate comes back.
		want(`__import__("ssl") and get("https://web.test:`+securePort+`/")`, "SSLCertVerificationError")
		runOK(t, c, id, `
import http.client, os, ssl, urllib.parse
context = ssl.create_default_context(cafile="ca.pem")
context.check_hostname = False
print(get("https://web.test:`+securePort+`/", context=context))`)

		before := w.asked.Load()
		denied := func(cell, answer, told string) {
			t.Helper()
			e := run(t, c, id, "print("+cell+")")
			if !strings.Contains(e.Text, answer) || !strings.Contains(e.Text, "["+told) {
				t.Errorf("%s: %q, want %q and %q", cell, e.Text, answer, told)
			}
		}
		const notListed = " refused: not in this session's network.allow"
		if device {
			denied(`get("http://forbidden.test:`+port+`/")`, "gaierror", "lookup of forbidden.test."+notListed)
			denied(`get("http://wild.test:`+port+`/")`, "gaierror", "lookup of wild.test."+notListed)
			denied(`reach("web.test", 22)`, "ConnectionRefusedError", "connection to web.test:22"+notListed)
			denied(`reach("192.0.2.1", 443)`, "ConnectionRefusedError", "connection to 192.0.2.1:443"+notListed)
			denied(`reach("2001:db8::1", 443)`, "ConnectionRefusedError", "connection to [2001:db8::1]:443"+notListed)
			denied(`reach("10.0.2.3", 22)`, "ConnectionRefusedError", "connection to 10.0.2.3:22"+notListed)
			denied(`reach("169.254.169.254", 80)`, "ConnectionRefusedError", "connection to 169.254.169.254:80"+notListed)
			denied(`reach("private.test", 80)`, "ConnectionRefusedError", "connection to private.test:80 refused: it resolves to 10.255.1.2")
			// Packets sent after it are refused after it.
			denied(`socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 123)), reach("192.0.2.1", 444)`,
				"ConnectionRefusedError", "packet to 8.8.8.8:123 refused")
			denied(`reach("c2VjcmV0.evil.test", 80)`, "gaierror", "lookup of c2VjcmV0.evil.test."+notListed)
		} else {
			denied(`get("http://forbidden.test:`+port+`/")`, "HTTP 403", "connection to forbidden.test:"+port+notListed)
			denied(`get("http://wild.test:`+port+`/")`, "HTTP 403", "connection to wild.test:"+port+notListed)
			denied(`get("http://web.test:22/")`, "HTTP 403", "connection to web.test:22"+notListed)
			denied(`get("http://169.254.169.254/")`, "HTTP 403", "connection to 169.254.169.254:80"+notListed)
			want(`reach("192.0.2.1", 443)`, "OSError")
			want(`reach("web.test", `+port+`)`, "gaierror") // programs that use no proxy have no network
		}
		denied(`get("http://web.test:`+port+`/away")`, map[bool]string{true: "gaierror", false: "HTTP 403"}[device], map[bool]string{
			true: "lookup of forbidden.test.", false: "connection to forbidden.test:"}[device])
		if n := w.asked.Load() - before; n != 1 {
			t.Errorf("the servers were asked %d times by what is refused, and once to be led away", n)
		}
	})
}

func py(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

func TestANetworkChangesUnderALivingKernel(t *testing.T) {
	t.Parallel()
	eachWayOut(t, func(t *testing.T, w *world, s *Server, device bool) {
		c := s.Client()
		port := portIn(w.web.URL)
		patch := func(id string, n *api.Network) error {
			_, err := c.UpdateSession(within(t), id, api.SessionPatch{Network: n})
			return err
		}
		id := session(t, c, api.SessionRequest{})
		runOK(t, c, id, "kept = 1"+visit)
		if got := runOK(t, c, id, `print(get("http://web.test:`+port+`/"))`); got != "gaierror\n" {
			t.Errorf("without a network: %q", got)
		}
		err := patch(id, allow("web.test:"+port, "127.0.0.1:"+port))
		if device && err != nil || !device && problemCode(err) != api.CodeNeedsReset {
			t.Fatalf("to give a living kernel a network: %v", err)
		}
		if !device { // the variables exist after a reset
			id = session(t, c, api.SessionRequest{Network: allow("web.test:"+port, "127.0.0.1:"+port)})
			runOK(t, c, id, "kept = 1"+visit)
		}
		if got := runOK(t, c, id, `print(get("http://web.test:`+port+`/"), kept)`); got != "hello web.test:"+port+" 1\n" {
			t.Errorf("with a network: %q", got)
		}
		runOK(t, c, id, `waiting = urllib.request.urlopen("http://web.test:`+port+`/wait")`)
		if err := patch(id, &api.Network{Mode: api.NetworkNone}); err != nil {
			t.Fatal(err)
		}
		e := run(t, c, id, `
import http.client
try: print("more:", waiting.read(1))
except (OSError, http.client.HTTPException) as e: print("ended:", type(e).__name__)
print(get("http://web.test:`+port+`/"), kept)`)
		var all strings.Builder // reported to no cell, so it is in the log
		for _, event := range collect(t, c.Events(within(t), id, client.EventsQuery{Past: true})) {
			if stream, ok := event.Body.(api.Stream); ok {
				all.WriteString(stream.Text)
			}
		}
		if !strings.Contains(all.String(), "connection to web.test:"+port+" refused: the session's network was changed") ||
			strings.Contains(e.Text, "hello") || !strings.Contains(e.Text, "ended: ") || !strings.Contains(e.Text, " 1\n") {
			t.Errorf("after it was taken away: %s %q", e.Status, e.Text)
		}
		info, err := c.Session(within(t), id)
		if err != nil || info.Network.Mode != api.NetworkNone || !strings.Contains(strings.Join(info.Isolation.Layers, "\n"), "network: none") {
			t.Errorf("the session says %+v %v (%v)", info.Network, info.Isolation.Layers, err)
		}
	})
}

func TestANetworkOutlivesServerAndReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := start(t, options{config: w.config("")})
	port := portIn(w.web.URL)
	id := session(t, s.Client(), api.SessionRequest{Network: allow("web.test:"+port, "127.0.0.1:"+port)})
	get := visit + `print(get("http://web.test:` + port + `/"))`
	want := "hello web.test:" + port + "\n"
	if got := runOK(t, s.Client(), id, get); got != want {
		t.Errorf("at first: %q", got)
	}
	s.Kill9()
	s.launch(t)
	if got := runOK(t, s.Client(), id, get); got != want {
		t.Errorf("with another server: %q", got)
	}
	if _, err := s.Client().ResetSession(within(t), id, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := runOK(t, s.Client(), id, get); got != want {
		t.Errorf("after a reset: %q", got)
	}
}

func TestTheOperatorBoundsWhatSessionsMayReach(t *testing.T) {
	t.Parallel()
	for config, asked := range map[string]map[*api.Network]api.Code{
		"network: {max_mode: none}": {
			{Mode: api.NetworkNone}: "", allow("example.org"): api.CodeLimitExceeded, {Mode: api.NetworkFull}: api.CodeLimitExceeded,
		},
		"network: {max_mode: allow, allowed: ['*.example.org:443', 10.0.0.0/8]}": {
			allow("a.example.org:443"): "", allow("10.1.2.3"): "", allow(): "", allow("a.example.org"): api.CodeLimitExceeded,
			allow("a.example.org:443", "other.org:443"): api.CodeLimitExceeded, {Mode: api.NetworkFull}: api.CodeLimitExceeded,
		},
		"log-level: info": {
			{Mode: api.NetworkFull}: "", allow("anything.org"): "", allow("127.0.0.1"): api.CodeLimitExceeded,
			allow("169.254.169.254:80"): api.CodeLimitExceeded, allow("0.0.0.0/0"): api.CodeLimitExceeded,
			{Mode: api.NetworkFull, Allow: []string{"192.168.1.1"}}: api.CodeLimitExceeded,
			{Mode: "some"}: api.CodeInvalidRequest, allow("http://example.org"): api.CodeInvalidRequest,
			{Mode: api.NetworkNone, Allow: []string{"example.org"}}: api.CodeInvalidRequest,
		},
	} {
		s := start(t, options{config: config})
		for n, want := range asked {
			_, err := s.Client().CreateSession(within(t), api.SessionRequest{Network: n})
			if problemCode(err) != want {
				t.Errorf("%s: %+v: %v, want %q", config, *n, err, want)
			}
		}
	}
}

func problemCode(err error) api.Code {
	var p *api.Error
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func TestADatabaseIsUsedThroughANetwork(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed: make test-setup")
	}
	port := unusedPort(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--daemonize", "no")
	log, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startDatabase(t, cmd, cancel, log, "Ready to accept connections")
	s := start(t, options{config: "network:\n  allowed: [127.0.0.1]\n  name_server: " + nameServer(t, map[string]string{"db.test": "127.0.0.1"}) + "\n"})
	id := session(t, s.Client(), api.SessionRequest{Network: allow("db.test:"+port, "127.0.0.1:"+port)})
	got := runOK(t, s.Client(), id, `
import redis
db = redis.Redis("db.test", `+port+`)
with db.pipeline() as p:
    for i in range(1000): p.rpush("list", "x" * i)
    p.execute()
print(db.llen("list"), sum(len(v) for v in db.lrange("list", 0, -1)))`)
	if got != "1000 499500\n" {
		t.Errorf("the database says %q", got)
	}
}
