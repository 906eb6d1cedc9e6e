package battery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"talaria/api"
)

// clients are attempts to take the server down from outside, without an owner's token.
var clients = []Check{
	{Name: "outside/body-never-comes", Judge: judgeBodies},
	{Name: "outside/answer-not-read", Alone: true, Cell: `print("x" * 3_500_000)`, Judge: judgeAnswers},
}

const (
	bodyTime   = 30 * time.Second // time until a connection whose body does not arrive has to be closed
	answerTime = 10 * time.Second // time in which permitted answers begin
	visits     = 80
)

// dial connects to the server and sends the head of a request.
func (t *Trial) dial(head string) (net.Conn, error) {
	server, err := url.Parse(t.Server.URL)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(t.ctx, "tcp", server.Host)
	if err != nil {
		return nil, err
	}
	if err = conn.(*net.TCPConn).SetReadBuffer(4096); err == nil {
		_, err = io.WriteString(conn, head+"Host: "+server.Host+"\r\n\r\n")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// judgeBodies opens connections without a token whose bodies never arrive. Each must be closed.
func judgeBodies(t *Trial) error {
	heads := []string{
		"POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n",
		"POST /v1/sessions HTTP/1.1\r\nContent-Length: 1000\r\n",
		"PUT /v1/sessions/x/files/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
	}
	var waits sync.WaitGroup
	ends := make(chan error, 4*len(heads))
	for n := range cap(ends) {
		conn, err := t.dial(heads[n%len(heads)])
		if err != nil {
			return err
		}
		defer conn.Close()
		waits.Go(func() {
			err := conn.SetReadDeadline(time.Now().Add(bodyTime))
			if err == nil {
				_, err = io.Copy(io.Discard, conn)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				ends <- fmt.Errorf("the server waited %v and more for the body of %.30q", bodyTime, heads[n%len(heads)])
			}
		})
	}
	waits.Wait()
	close(ends)
	return errors.Join(<-ends, t.Works())
}

// judgeAnswers asks for large answers with a share's token and does not read them. Few may be under way at once, and
// the owner must not notice.
func judgeAnswers(t *Trial) error {
	for range 2 {
		if _, err := t.Run(`print("x" * 3_500_000)`); err != nil {
			return err
		}
	}
	made, err := t.Send("POST", "/shares", "")
	var share api.Share
	if err == nil {
		err = json.Unmarshal(made.Body, &share)
	}
	if err != nil {
		return fmt.Errorf("make a share: %d %.200s: %w", made.Status, made.Body, err)
	}
	token := strings.TrimPrefix(share.URL, "/?token=")
	begun := make([]string, visits)
	var waits sync.WaitGroup
	for n := range begun {
		conn, err := t.dial("GET /v1/sessions/" + url.PathEscape(t.Session) + "/executions?limit=100 HTTP/1.1\r\nAuthorization: Bearer " + token + "\r\n")
		if err != nil {
			return err
		}
		defer conn.Close()
		waits.Go(func() {
			status := make([]byte, len("HTTP/1.1 200"))
			if conn.SetReadDeadline(time.Now().Add(answerTime)) != nil {
				return
			}
			if _, err := io.ReadFull(conn, status); err == nil {
				begun[n] = string(status)
			}
		})
	}
	waits.Wait()
	count := map[string]int{}
	for _, status := range begun {
		count[status]++
	}
	if count["HTTP/1.1 200"] > 8 || count["HTTP/1.1 429"] == 0 {
		return fmt.Errorf("of %d large answers that one visitor does not read %d began at once, and %d were refused",
			visits, count["HTTP/1.1 200"], count["HTTP/1.1 429"])
	}
	return t.Works()
}
