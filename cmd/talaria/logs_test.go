package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLogsBeginsWhereTheLogDoes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/sessions/work":
			_, _ = io.WriteString(w, `{"id":"work","first_seq":41,"last_seq":41}`)
		case r.URL.Query().Get("after") == "40":
			_, _ = io.WriteString(w, `{"seq":41,"time":"2026-11-21T10:37:10.950Z","type":"stream","name":"stdout","text":"the rest\n"}`+"\n")
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"status":410,"code":"events_expired","detail":"gone"}`)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("TALARIA_URL", server.URL)
	t.Setenv("TALARIA_TOKEN", "any")
	if out, err := ran(t, "logs", "work"); out != "the rest" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := ran(t, "logs", "work", "--after", "1"); err == nil || !strings.Contains(err.Error(), "events_expired") {
		t.Errorf("--after 1: %v", err)
	}
}
