package zmqkernel

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func frames(texts ...string) (list [][]byte) {
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	return list
}

func same(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte{0}), bytes.Join(b, []byte{0})) && len(a) == len(b)
}

func TestASealedMessageOpensWithItsKeyOnly(t *testing.T) {
	route, parts := frames("client", "hop"), frames(`{"msg_id":"1"}`, "{}", "{}", `{"code":"1"}`, "buffer")
	for _, k := range []key{key("secret"), nil} {
		sealed := k.seal(route, parts)
		gotRoute, gotParts, err := k.open(sealed)
		if err != nil || !same(gotRoute, route) || !same(gotParts, parts) {
			t.Errorf("%q: %q, %q, %v", k, gotRoute, gotParts, err)
		}
	}
	sealed := key("secret").seal(route, parts)
	if _, _, err := key("other").open(sealed); !errors.Is(err, errSignature) {
		t.Errorf("with another key: %v", err)
	}
	sealed[len(route)+2+partParent] = []byte("[]")
	if _, _, err := key("secret").open(sealed); !errors.Is(err, errSignature) {
		t.Errorf("after a change: %v", err)
	}
}

// TestTheSignatureIsJupyters compares with what jupyter_client 7.4.9 signs.
func TestTheSignatureIsJupyters(t *testing.T) {
	const want = "6f7c3dea506a2fb840fc9377d65462646f8e8df4acfafa710cf0c50bb2db8de2"
	if got := string(key("k").sign(frames("{}", "{}", "{}", "{}"))); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

func TestMessagesThatAreCutOffAreRefused(t *testing.T) {
	for _, list := range [][][]byte{nil, frames("a"), frames(delimiter), frames("a", delimiter, "", "{}", "{}", "{}")} {
		if _, _, err := key(nil).open(list); !errors.Is(err, errMessage) {
			t.Errorf("%q: %v", list, err)
		}
	}
}

func TestConnectionFiles(t *testing.T) {
	const ports = `, "shell_port": 1, "control_port": 2, "stdin_port": 3, "iopub_port": 4, "hb_port": 5}`
	read := func(text string) (Connection, error) {
		path := filepath.Join(t.TempDir(), "connection.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadConnection(path)
	}
	c, err := read(`{"transport": "tcp", "ip": "::1", "key": "k", "signature_scheme": "hmac-sha256", "kernel_name": "talaria"` + ports)
	if err != nil || c.endpoint(c.Heartbeat) != "tcp://[::1]:5" {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = read(`{"transport": "ipc", "ip": "/run/k", "key": ""` + ports)
	if err != nil || c.endpoint(c.Shell) != "ipc:///run/k-1" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		`[]`:                                     "is not a connection file",
		`{"transport": "udp", "ip": "1"` + ports: `"udp"`,
		`{"transport": "tcp"` + ports:            "ip is missing",
		`{"transport": "tcp", "ip": "1", "key": "k", "signature_scheme": "hmac-md5"` + ports: "hmac-md5",
		`{"transport": "tcp", "ip": "1", "key": ""` + strings.Replace(ports, "5", "0", 1):    "hb_port is 0",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
