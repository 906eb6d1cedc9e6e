package main

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestAnAddressOpenToOthersIsWarnedOf(t *testing.T) {
	for address, warned := range map[string]bool{
		"127.0.0.1:8765": false, "127.8.9.10:80": false, "[::1]:8765": false,
		"0.0.0.0:8765": true, "[::]:8765": true, "192.0.2.7:8765": true, "[2001:db8::7]:443": true,
	} {
		addr, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		warnOpenAddress(slog.New(slog.NewTextHandler(&log, nil)), addr)
		if got := log.String(); (got != "") != warned || warned && (!strings.Contains(got, "level=WARN") ||
			!strings.Contains(got, "has no TLS") || !strings.Contains(got, address)) {
			t.Errorf("%s is logged as %q", address, got)
		}
	}
	var log bytes.Buffer
	warnOpenAddress(slog.New(slog.NewTextHandler(&log, nil)), &net.UnixAddr{Name: "/run/talaria.sock", Net: "unix"})
	if log.Len() > 0 {
		t.Errorf("a socket of this machine is logged as %q", log.String())
	}
}
