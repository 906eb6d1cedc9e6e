package sandbox_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/record"
)

const askHosts = `
import socket, urllib.error, urllib.request
def get(url):
    try:
        return urllib.request.urlopen(url, timeout=60).read().decode()
    except urllib.error.HTTPError as e:
        return f"HTTP {e.code}"
    except OSError as e:
        return "refused"
print(get("http://index.test/a"), get("http://index.test:8080/b"), sep="\n")
print(*(get(f"http://{other}/") in ("refused", "HTTP 403") for other in ("a.index.test", "other.test", "127.0.0.1:1")))
`

// A host of the network is a socket outside. It is reached, and nothing else, through a device and through proxies.
func TestHostsAreReachedFromForkedKernels(t *testing.T) {
	dir := stateDir(t)
	path := filepath.Join(dir, "index.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello ", r.Host, r.URL.Path)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-served })

	backend, env := warm(t, dir)
	host := host.NewHost(host.HostConfig{Backend: backend, SpoolDir: t.TempDir()})
	t.Cleanup(func() {
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	spec := newSpec(t, dir)
	spec.Network = kernel.Network{Mode: "allow", Hosts: map[string]string{"index.test": "unix:" + path}}
	key := record.Key{Session: "hosts", Generation: 1}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err := host.Start(ctx, key, env, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(info.Layers)
	if err := command.Tell(t.Context(), host, key, command.Execution{ID: "1", Code: askHosts}); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for seen := uint64(0); ; {
		batch, err := host.Next(ctx, key, seen)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range batch {
			seen = rec.KSeq
			switch body := rec.Body.(type) {
			case record.Stream:
				if body.Name == "stdout" {
					printed.WriteString(body.Text)
				}
			case record.Finished:
				if got := printed.String(); got != "hello index.test/a\nhello index.test:8080/b\nTrue True True\n" {
					t.Errorf("it printed %q", got)
				}
				return
			}
		}
	}
}
