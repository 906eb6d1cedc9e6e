package network

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// socketServer answers on a socket whose path is longer than socket paths may be.
func socketServer(t *testing.T) (path string) {
	t.Helper()
	dir := t.TempDir()
	short := filepath.Join(dir, "s")
	l, err := net.Listen("unix", short)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", r.Host, r.URL.Path)
	}))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	folder := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.Symlink(dir, filepath.Join(folder, "here"))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, "here", "s")
}

func withHosts(t *testing.T, p Policy, hosts map[string]string) Policy {
	t.Helper()
	var err error
	if p.Hosts, err = ParseHosts(hosts); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAHostIsReachedByItsNameOnly(t *testing.T) {
	path := socketServer(t)
	hosts := map[string]string{"Index.Internal.": "unix:" + path}
	p := proxy(t, Config{
		Policy:   withHosts(t, policy(t, Allow), hosts),
		Resolver: nameServer(t, func(name string) string { t.Errorf("%s is looked up", name); return "" }),
	})
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.http})}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	get := func(address string) (int, string) {
		resp, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, port := range []string{"", ":8080"} {
		if status, body := get("http://index.internal" + port + "/a"); status != 200 || body != "hello index.internal"+port+"/a" {
			t.Errorf("%q: %d %q", port, status, body)
		}
	}
	for _, other := range []string{"a.index.internal", "internal", "127.0.0.1", "198.18.0.1"} {
		if status, body := get("http://" + other + "/"); status != http.StatusForbidden {
			t.Errorf("%s: %d %q", other, status, body)
		}
	}
	p.SetPolicy(withHosts(t, policy(t, None), hosts))
	if status, body := get("http://index.internal/"); status != http.StatusForbidden {
		t.Errorf("without a network: %d %q", status, body)
	}
	p.SetPolicy(withHosts(t, policy(t, Full), hosts))
	if status, body := get("http://index.internal/"); status != 200 {
		t.Errorf("with the whole network: %d %q", status, body)
	}
}

func TestAChangedPolicyEndsConnectionsToAHost(t *testing.T) {
	p := proxy(t, Config{Policy: withHosts(t, policy(t, Allow), map[string]string{"here": "unix:" + socketServer(t)})})
	conn, err := p.through(t, "here:80")
	if err != nil {
		t.Fatal(err)
	}
	p.SetPolicy(policy(t, Allow, "elsewhere"))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is there: %v", err)
	}
}

func TestTheNameOfAHostIsAnswered(t *testing.T) {
	n := New(Config{Policy: withHosts(t, policy(t, Allow), map[string]string{"index.internal": "unix:/nowhere"})})
	defer n.Close()
	for name, code := range map[string]dnsmessage.RCode{
		"index.internal.": dnsmessage.RCodeSuccess, "a.index.internal.": dnsmessage.RCodeNameError,
	} {
		var m dnsmessage.Message
		if err := m.Unpack(n.answerDNS(question(t, name, dnsmessage.TypeA))); err != nil || m.RCode != code {
			t.Errorf("%s: %v %v", name, m.RCode, err)
		}
	}
}

func TestHostsThatAreNoneAreRefused(t *testing.T) {
	for name, at := range map[string]string{"a..b": "unix:/s", "a": "/s", "b": "unix:s", "c": "tcp:127.0.0.1:80", "": "unix:/s"} {
		if hosts, err := ParseHosts(map[string]string{name: at}); err == nil {
			t.Errorf("%q at %q is %v", name, at, hosts)
		}
	}
}
