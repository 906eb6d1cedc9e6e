package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"talaria/web"
)

func TestThePagesFilesAreThereAndCompressed(t *testing.T) {
	h := start(t)
	index := h.do(request{method: "GET", path: "/", token: "-", header: map[string]string{"Cookie": h.cookie()}})
	login := h.do(request{method: "GET", path: "/", token: "-"})
	found := regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`).FindAllStringSubmatch(string(index.body)+string(login.body), -1)
	if len(found) < 5 {
		t.Fatalf("the pages name %d files", len(found))
	}
	script, brotli := 0, 0
	for _, m := range found {
		plain := h.do(request{method: "GET", path: m[1], token: "-", header: map[string]string{"Accept-Encoding": "identity"}})
		if plain.status != 200 || plain.header.Get("ETag") == "" {
			t.Errorf("%s: status %d, ETag %q", m[1], plain.status, plain.header.Get("ETag"))
		}
		packed := h.do(request{method: "GET", path: m[1], token: "-", header: map[string]string{"Accept-Encoding": "br;q=0, gzip;q=0.9"}})
		if packed.header.Get("Content-Encoding") != "gzip" {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(packed.body))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); err != nil || !bytes.Equal(data, plain.body) {
			t.Errorf("%s is another one when compressed: %v", m[1], err)
		}
		if packed.header.Get("ETag") == plain.header.Get("ETag") {
			t.Errorf("%s has one ETag for two encodings", m[1])
		}
		again := h.do(request{method: "GET", path: m[1], token: "-", header: map[string]string{
			"Accept-Encoding": "gzip", "If-None-Match": packed.header.Get("ETag")}})
		if again.status != 304 || len(again.body) > 0 {
			t.Errorf("%s again: %d", m[1], again.status)
		}
		best := h.do(request{method: "GET", path: m[1], token: "-", header: map[string]string{"Accept-Encoding": "gzip, deflate, BR"}})
		built, err := fs.ReadFile(web.FS(), strings.TrimPrefix(m[1], "/static/")+".br")
		if best.header.Get("Content-Encoding") != "br" || err != nil || !bytes.Equal(best.body, built) || len(built) > len(packed.body) {
			t.Errorf("%s: coding %q, %d bytes, %d gzipped, %v", m[1], best.header.Get("Content-Encoding"), len(best.body), len(packed.body), err)
		}
		if tag := best.header.Get("ETag"); tag == packed.header.Get("ETag") || tag == plain.header.Get("ETag") {
			t.Errorf("%s has one ETag for two encodings", m[1])
		}
		for _, r := range []response{plain, packed, best} {
			if r.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s: Vary %q", m[1], r.header.Get("Vary"))
			}
		}
		if strings.HasSuffix(m[1], ".js") {
			script += len(packed.body)
			brotli += len(best.body)
		}
	}
	if script == 0 || script > 220<<10 {
		t.Errorf("the first load takes %d bytes of compressed scripts, want at most %d", script, 220<<10)
	}
	t.Logf("first load: %d bytes of scripts by gzip, %d by brotli", script, brotli)
}

func TestThePageHasAPolicyWithAFreshNonce(t *testing.T) {
	h := start(t)
	seen := map[string]bool{}
	for range 3 {
		page := h.do(request{method: "GET", path: "/", token: "-", header: map[string]string{"Cookie": h.cookie()}})
		policy := page.header.Get("Content-Security-Policy")
		m := regexp.MustCompile(`'nonce-([^']+)'`).FindStringSubmatch(policy)
		if m == nil || !strings.Contains(string(page.body), `content="`+m[1]+`"`) {
			t.Fatalf("the policy %q has no nonce that the page knows", policy)
		}
		seen[m[1]] = true
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "connect-src 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("the policy %q lacks %s", policy, want)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d nonces for 3 pages", len(seen))
	}
}

func TestFramesAreSandboxedByTheirHeader(t *testing.T) {
	h := start(t)
	for frame, want := range map[string]string{
		"static": "script-src 'sha256-", "live": "script-src 'unsafe-inline' 'unsafe-eval' blob: data:", "data": "'strict-dynamic'",
	} {
		r := h.do(request{method: "GET", path: "/sandbox/" + frame, token: "-"})
		policy := r.header.Get("Content-Security-Policy")
		for _, part := range []string{want, "sandbox allow-scripts;", "default-src 'none'", "connect-src 'none'", "frame-src 'none'",
			"form-action 'none'", "frame-ancestors 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", frame, policy, part)
			}
		}
		if strings.Contains(policy, "allow-same-origin") || r.status != 200 {
			t.Errorf("%s: %d, %q", frame, r.status, policy)
		}
	}
	if r := h.do(request{method: "GET", path: "/sandbox/other", token: "-"}); r.status != 404 {
		t.Errorf("another frame: %d", r.status)
	}
}

func TestThePagesWorkerMayLoadScriptsAndNothingElse(t *testing.T) {
	h := start(t)
	got := h.do(request{method: "GET", path: "/static/assets/worker.js", token: "-"}).header.Get("Content-Security-Policy")
	if got != "default-src 'none'; script-src 'self'; frame-ancestors 'none'" {
		t.Errorf("the policy of the worker is %q", got)
	}
}
