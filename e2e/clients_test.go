package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"talaria/api"
	"talaria/client"
)

// connect opens a connection, which is closed at the end of the test, and sends text.
func (s *Server) connect(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(within(t), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := errors.Join(conn.(*net.TCPConn).SetReadBuffer(64<<10), conn.SetDeadline(time.Now().Add(patience))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		t.Fatal(err)
	}
	return conn
}

// TestConnectionsWithoutATokenTakeNoDescriptorsFromOthers opens more connections than the server has descriptors.
func TestConnectionsWithoutATokenTakeNoDescriptorsFromOthers(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	const files = 400
	wrapper := filepath.Join(filepath.Dir(s.StateDir), "few-files")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %q \"$@\"\n", files, binary)
	if err := writeProgram(wrapper, []byte(script)); err != nil {
		t.Fatal(err)
	}
	s.program = wrapper
	s.launch(t)
	t.Cleanup(func() { s.stop(t) })
	id := session(t, s.Client(), api.SessionRequest{})
	for n := range files + 100 {
		s.connect(t, []string{
			"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\n",
			"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
			"",
		}[n%4])
	}
	c := client.New(s.URL, s.Token)
	c.HTTP = &http.Client{Transport: &http.Transport{}} // of its own: it must open a connection
	for range 5 {
		if err := c.Ready(within(t)); err != nil {
			t.Fatalf("readiness: %v", err)
		}
		runOK(t, c, id, "1 + 1")
	}
}

// TestAnAnswerThatAVisitorDoesNotReadEnds holds large answers open with a share's token.
func TestAnAnswerThatAVisitorDoesNotReadEnds(t *testing.T) {
	s := start(t, options{env: []string{"TALARIA_CLIENT_TIMEOUT=1s"}})
	id := session(t, s.Client(), api.SessionRequest{})
	for range 2 {
		runOK(t, s.Client(), id, `print("x" * 8_000_000)`)
	}
	made := s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/shares"}, 201, "")
	token := strings.TrimPrefix(decode[api.Share](t, string(made.body)).URL, "/?token=")
	ask := "GET /v1/sessions/" + id + "/executions?limit=100 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	var stuck []net.Conn
	for range 8 {
		stuck = append(stuck, s.connect(t, ask))
	}
	for _, conn := range stuck { // those that wait for their turn get it when the first ones are given up
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("a visitor's request was not answered: %v", err)
		}
	}
	givenUp := 0
	for _, conn := range stuck {
		if rest, _ := io.Copy(io.Discard, conn); rest < 16_000_000 {
			givenUp++
		}
	}
	if givenUp < len(stuck)/2 {
		t.Errorf("of %d answers that were not read %d were given up", len(stuck), givenUp)
	}
	s.want(t, call{method: "GET", path: "/v1/sessions/" + id + "/executions?limit=1"}, 200, "")
}

func TestALargeDownloadIsWholeThroughASlowReader(t *testing.T) {
	t.Parallel()
	s := start(t, options{env: []string{"TALARIA_CLIENT_TIMEOUT=1s"}})
	id := session(t, s.Client(), api.SessionRequest{})
	runOK(t, s.Client(), id, `open("big", "wb").write(bytes(range(256)) * 100_000)`)
	conn := s.connect(t, "GET /v1/sessions/"+id+"/files/big HTTP/1.0\r\nAuthorization: Bearer "+s.Token+"\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(res.Body)
	if err != nil || len(data) != 25_600_000 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	for i, b := range data {
		if b != byte(i) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}
