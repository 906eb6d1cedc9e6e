package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"talaria/client"
)

func TestASizeThatTheMachineHasNoRoomForIsNotMade(t *testing.T) {
	const terabyte = 1 << 20 // in MiB
	noRoom, err := withHeld(t.Context(), nil, 1000*terabyte, holdArrays, nil)
	if err != nil || !strings.HasPrefix(noRoom, "it takes 4194304000 MiB of memory, and ") {
		t.Errorf("%q, %v", noRoom, err)
	}
	if noRoom, err := needsMachine(bigMiB - 1); err != nil || noRoom != "" {
		t.Errorf("a size that needs no more than the default limit: %q, %v", noRoom, err)
	}
}

func TestALimitThatTheServerRefusesIsTold(t *testing.T) {
	answer, status := `{"code":"invalid_request","detail":"limits.memory_bytes must be at most 5"}`, http.StatusBadRequest
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	ses := &talariaSession{&talariaServer{client: client.New(server.URL, "token")}, "id"}
	if refused, err := ses.allow(t.Context(), bigMiB); err != nil || refused != "limits.memory_bytes must be at most 5" {
		t.Errorf("%q, %v", refused, err)
	}
	answer, status = `{"code":"session_not_found","detail":"gone"}`, http.StatusNotFound
	if refused, err := ses.allow(t.Context(), bigMiB); err == nil || refused != "" {
		t.Errorf("any other problem: %q, %v", refused, err)
	}
}
