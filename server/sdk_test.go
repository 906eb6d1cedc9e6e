package server_test

import (
	"strings"
	"testing"

	"talaria/sdk"
)

func TestServerServesItsClientLibrariesWithoutAToken(t *testing.T) {
	h := start(t)
	for name, media := range map[string]string{
		sdk.Module: "text/javascript; charset=utf-8", sdk.Wheel: "application/zip", sdk.Tarball: "application/gzip",
	} {
		got := h.do(request{method: "GET", path: "/sdk/" + name, token: "-"})
		if got.status != 200 || got.header.Get("Content-Type") != media {
			t.Errorf("%s: %d %s", name, got.status, got.header.Get("Content-Type"))
		}
		if index := h.do(request{method: "GET", path: "/sdk/", token: "-"}); !strings.Contains(string(index.body), name) {
			t.Errorf("/sdk/ does not list %s: %s", name, index.body)
		}
	}
	if got := h.do(request{method: "GET", path: "/sdk/nothing.js", token: "-"}); got.status != 404 {
		t.Errorf("/sdk/nothing.js: %d", got.status)
	}
}

// TestPagesOfAnyOriginMayImportTheClientLibrary holds for /sdk/ alone: module scripts are requested with CORS.
func TestPagesOfAnyOriginMayImportTheClientLibrary(t *testing.T) {
	h := start(t)
	foreign := map[string]string{"Origin": "https://elsewhere.example"}
	for path, want := range map[string]string{"/sdk/" + sdk.Module: "*", "/v1/sessions": "", "/": ""} {
		got := h.do(request{method: "GET", path: path, header: foreign})
		if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != want || got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d, for origin %q", path, got.status, got.header.Get("Access-Control-Allow-Origin"))
		}
	}
}
