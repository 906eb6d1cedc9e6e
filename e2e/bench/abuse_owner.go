package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"talaria/api"
	"talaria/client"
)

// owner is the owner of some sessions who abuses the server. It is used by one goroutine, but for server and began.
type owner struct {
	server *talariaServer
	token  string
	round  int          // how many passes there were before this one
	began  atomic.Int64 // when this one began, in ns since 1970; 0 between passes

	http     http.Client
	sessions map[string]string // ids by names
	held     []net.Conn
}

func newOwner(ctx context.Context, s *talariaServer) (*owner, error) {
	token, err := s.owner(ctx, "abuser")
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableCompression: true}
	return &owner{server: s, token: token, http: http.Client{Transport: transport}, sessions: map[string]string{}}, nil
}

// close lets go of what is held. Sessions end with their server.
func (o *owner) close() {
	for _, c := range o.held {
		_ = c.Close() // the server may have closed it
	}
	o.http.CloseIdleConnections()
}

// session returns the id of a session of that name, which is made on first use.
func (o *owner) session(ctx context.Context, name string, req api.SessionRequest) (string, error) {
	if id := o.sessions[name]; id != "" {
		return id, nil
	}
	made, err := client.New(o.server.url, o.token).CreateSession(ctx, req)
	if err != nil {
		return "", fmt.Errorf("make a session: %w", err)
	}
	o.sessions[name] = made.ID
	return made.ID, nil
}

// mistakes are errors that no cell of an abuse means.
var mistakes = []string{"SyntaxError", "NameError", "AttributeError", "TypeError", "ImportError"}

// run runs a cell in a session to its end, however that comes. ROUND in the code is the number of the pass.
func (o *owner) run(ctx context.Context, session, code string) error {
	code = strings.ReplaceAll(code, "ROUND", strconv.Itoa(o.round))
	body, err := api.Marshal(api.ExecutionRequest{Code: &code})
	if err != nil {
		return err
	}
	head := o.call(ctx, http.MethodPost, "/v1/sessions/"+session+"/executions", body)
	for _, mistake := range mistakes {
		if bytes.Contains(head, []byte(`"ename":"`+mistake)) {
			return fmt.Errorf("the cell of an abuse is wrong itself: %.2000s", head)
		}
	}
	return nil
}

// get asks for something below a session and reads the answer.
func (o *owner) get(ctx context.Context, session, path string) {
	o.call(ctx, http.MethodGet, "/v1/sessions/"+session+path, nil)
}

// headBytes is what is looked at of an answer.
const headBytes = 64 << 10

// call reads an answer to its end and returns its head. It decodes nothing, which would take CPU time from the server.
// A call that is refused or breaks is not an error: it is what a server may do to an abuser.
func (o *owner) call(ctx context.Context, method, path string, body []byte) (head []byte) {
	req, err := http.NewRequestWithContext(ctx, method, o.server.url+path, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := o.http.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	head, _ = io.ReadAll(io.LimitReader(resp.Body, headBytes))
	_, _ = io.Copy(io.Discard, resp.Body)
	return head
}

// share makes a share of a session and returns its token.
func (o *owner) share(ctx context.Context, session string) (string, error) {
	answer := o.call(ctx, http.MethodPost, "/v1/sessions/"+session+"/shares", nil)
	var made api.Share
	err := json.Unmarshal(answer, &made)
	_, token, ok := strings.Cut(made.URL, "token=")
	if err != nil || !ok {
		return "", fmt.Errorf("make a share: the answer is %.200q", answer)
	}
	return token, nil
}

// bystander is another owner, who works in a session while the server is abused.
type bystander struct {
	client  *client.Client
	session string
}

// newBystander makes the session and runs a first cell. Each call has a connection of its own.
func newBystander(ctx context.Context, s *talariaServer) (*bystander, error) {
	b := &bystander{client: client.New(s.url, s.token)}
	b.client.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	made, err := b.client.CreateSession(ctx, api.SessionRequest{})
	if err != nil {
		return nil, fmt.Errorf("make a session: %w", err)
	}
	b.session = made.ID
	if _, err := b.answer(ctx); err != nil {
		return nil, fmt.Errorf("run a first cell: %w", err)
	}
	return b, nil
}

// answer runs `1+1` and returns how long that took.
func (b *bystander) answer(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	begin := time.Now()
	text, err := ask(ctx, b.client, b.session, "1+1")
	if err == nil && text != "2" {
		err = fmt.Errorf("%w: 1+1 is %q", errCell, text)
	}
	return time.Since(begin), err
}

// ask asks at a steady pace, at least n times and until the channel is closed, though no longer than passTime for that.
// An answer that is late delays no question. It calls look at each question, and returns how long the answers took.
func (b *bystander) ask(ctx context.Context, n int, until <-chan struct{}, look func() error) (took []float64, err error) {
	var asked sync.WaitGroup
	var mu sync.Mutex // guards took
	next := time.NewTicker(pace)
	defer next.Stop()
	give := time.After(passTime)
	for i := 0; i < n || until != nil; i++ {
		asked.Go(func() {
			d, err := b.answer(ctx)
			if err != nil {
				d = answerTime
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, ms(d))
		})
		err = errors.Join(err, look())
		select {
		case <-until:
			until = nil
		case <-give:
			until = nil
		default:
		}
		<-next.C
	}
	asked.Wait()
	return took, errors.Join(err, ctx.Err())
}
