package battery

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talaria/api"
	"talaria/client"
)

//go:embed prelude.py
var prelude string

// Limits of the battery's sessions: small, so that an abuse that succeeds does little harm.
const (
	memoryBytes = 256 << 20
	pids        = 64
	diskBytes   = 64 << 20
	outputBytes = 4 << 20
	cpus        = 1
	cellTimeout = 150.0 // seconds
)

// Trial is one check in progress. It is used by one goroutine.
type Trial struct {
	// Server is the server under test, and Outside what must not be reached from inside.
	Server  Server
	Outside *Outside
	// Session is where the cell ran, and Execution its result; Saw is what it reported, nil if it reported nothing.
	Session   string
	Execution api.Execution
	Saw       map[string]any

	ctx    context.Context
	limits api.LimitsRequest
	mine   []string // sessions made by this trial, to be deleted
}

// Run runs a cell with the prelude in the trial's session, to its end. In the code, the first word of each pair is
// replaced by the second.
func (t *Trial) Run(code string, pairs ...string) (api.Execution, error) {
	return t.RunIn(t.Session, api.ExecutionRequest{Code: &code}, pairs...)
}

// RunIn runs a cell after the prelude in any session; a timeout of the request is the cell's alone. OUTSIDE, ADDRESS, UDP,
// ABSTRACT and SOCKET in the code are the places of Outside, and CELL is the id of the execution.
func (t *Trial) RunIn(session string, req api.ExecutionRequest, pairs ...string) (api.Execution, error) {
	id := client.NewID()
	if req.ID == nil {
		req.ID = &id
	}
	before := prelude
	if req.TimeoutS == nil {
		req.TimeoutS = new(cellTimeout)
	} else { // which counts from the cell's beginning, and on a busy machine the prelude takes most of a second
		e, err := t.Server.Client.Execute(t.ctx, session, api.ExecutionRequest{Code: &prelude, TimeoutS: new(cellTimeout)})
		if err != nil {
			return e, fmt.Errorf("run the prelude: %w", err)
		}
		if e.Status != api.StatusOK {
			return e, fmt.Errorf("the prelude ended %s %s: %.300s", e.Status, e.Reason, e.Text)
		}
		before = ""
	}
	places := append([]string{"CELL", *req.ID}, t.Outside.places()...)
	inside, err := t.inside(session, *req.Code)
	if err != nil {
		return api.Execution{}, err
	}
	places = append(places, inside...)
	code := before + strings.NewReplacer(append(places, pairs...)...).Replace(*req.Code)
	req.Code = &code
	e, err := t.Server.Client.Execute(t.ctx, session, req)
	if err != nil {
		return e, fmt.Errorf("run a cell: %w", err)
	}
	if !e.Status.Final() {
		return e, fmt.Errorf("run a cell: it came back %s", e.Status)
	}
	// A cell that does not do what it is meant to attempt proves nothing.
	if e.Error != nil && slices.Contains(mistakes, e.Error.Ename) {
		return e, fmt.Errorf("run a cell: it is wrong itself: %.1500s", e.Text)
	}
	return e, nil
}

// inside returns pairs of the places that cells name and where these are in a session, for tiers that have no tree of
// their own. They are looked up each time, since a reset moves some of them.
func (t *Trial) inside(session, code string) ([]string, error) {
	named := slices.ContainsFunc(ownPlaces, func(place string) bool { return strings.Contains(code, place) })
	if !t.Server.ownFiles || !named {
		return nil, nil
	}
	const ask = `import os; print(*(os.environ[n] for n in ("TALARIA_WORKSPACE", "TALARIA_PACKAGES", "HOME", "TMPDIR")), sep="\n")`
	e, err := t.Server.Client.Execute(t.ctx, session, api.ExecutionRequest{Code: new(ask), TimeoutS: new(cellTimeout)})
	lines := strings.Fields(stdout(e))
	if err != nil || len(lines) != len(ownPlaces) {
		return nil, fmt.Errorf("ask for the places inside: %s %.300s (%w)", e.Status, e.Text, err)
	}
	var pairs []string
	for i, place := range ownPlaces {
		pairs = append(pairs, place, lines[i])
	}
	return pairs, nil
}

// ownPlaces are where a sandbox with a tree of its own has its directories.
var ownPlaces = []string{"/workspace", "/packages", "/home/talaria", "/tmp"}

// mistakes are errors that no cell of the battery raises on purpose.
var mistakes = []string{"SyntaxError", "IndentationError", "NameError", "UnboundLocalError", "AttributeError", "TypeError", "ImportError"}

// See runs a cell that must succeed, and returns what it saw.
func (t *Trial) See(session, code string, pairs ...string) (map[string]any, error) {
	e, err := t.RunIn(session, api.ExecutionRequest{Code: &code}, pairs...)
	if err != nil {
		return nil, err
	}
	if e.Status != api.StatusOK {
		text := e.Text[max(0, len(e.Text)-300):] // its end names the exception
		return nil, fmt.Errorf("a cell ended %s %s: %s", e.Status, e.Reason, text)
	}
	return seen(e), nil
}

// seen returns what a cell reported, from the last line that it reported with.
func seen(e api.Execution) map[string]any {
	text := stdout(e)
	i := strings.LastIndex(text, "\nSAW ")
	if i < 0 {
		return nil
	}
	line, _, _ := strings.Cut(text[i+len("\nSAW "):], "\n")
	var said map[string]any
	if json.Unmarshal([]byte(line), &said) != nil {
		return nil
	}
	return said
}

func stdout(e api.Execution) string {
	var text strings.Builder
	for _, o := range e.Outputs {
		if o.OutputType == "stream" && o.Name == "stdout" {
			text.WriteString(o.Text)
		}
	}
	return text.String()
}

// NewSession makes another session, which ends with the trial.
func (t *Trial) NewSession(change func(*api.SessionRequest)) (string, error) {
	id, err := t.Server.newSession(t.ctx, t.limits, change)
	if err == nil {
		t.mine = append(t.mine, id)
	}
	return id, err
}

// Works checks that the session answers with its own output, whatever happened to its kernel.
func (t *Trial) Works() error {
	e, err := t.Run("print('real ' + 'work')")
	if err != nil {
		return err
	}
	if e.Status != api.StatusOK || stdout(e) != "real work\n" {
		return fmt.Errorf("the next cell ended %s %s with %.100q", e.Status, e.Reason, stdout(e))
	}
	return nil
}

// number returns a number that the cell saw, -1 if it saw none.
func (t *Trial) number(what string) int64 {
	n, ok := t.Saw[what].(float64)
	if !ok {
		return -1
	}
	return int64(n)
}

// Answer is a raw response; Body holds at most bodyLimit bytes of it.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Code   api.Code // of a problem
}

const bodyLimit = 1 << 20

// Send makes a raw request below the session's path, which is sent exactly as given.
func (t *Trial) Send(method, path, body string) (Answer, error) {
	return t.send(t.Server.Token, method, "/v1/sessions/"+t.Session+path, "application/octet-stream", body)
}

func (t *Trial) send(token, method, path, kind, body string) (Answer, error) {
	req, err := http.NewRequestWithContext(t.ctx, method, t.Server.URL, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	path, query, _ := strings.Cut(path, "?")
	req.URL = &url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Opaque: "//" + req.URL.Host + path, RawQuery: query}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", kind)
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		return Answer{}, fmt.Errorf("%s %.200s: %w", method, path, err)
	}
	defer res.Body.Close()
	a := Answer{Status: res.StatusCode, Header: res.Header}
	// A file that was truncated while it was sent ends early.
	if a.Body, err = io.ReadAll(io.LimitReader(res.Body, bodyLimit)); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return a, fmt.Errorf("%s %.200s: %w", method, path, err)
	}
	var problem struct{ Code api.Code }
	if a.Status >= 400 && json.Unmarshal(a.Body, &problem) == nil {
		a.Code = problem.Code
	}
	if bytes.Contains(a.Body, []byte(t.Outside.Secret)) {
		return a, fmt.Errorf("%s %.200s gives a file of the host away", method, path)
	}
	return a, nil
}

// refusedWith sends and checks that the answer has one of the codes.
func (t *Trial) refusedWith(method, path, body string, codes ...api.Code) error {
	a, err := t.Send(method, path, body)
	if err != nil {
		return err
	}
	for _, code := range codes {
		if a.Code == code {
			return nil
		}
	}
	return fmt.Errorf("%s %.200q is answered with %d %s, want %v", method, path, a.Status, a.Code, codes)
}

// running lists the processes of this machine that have the mark among their arguments.
func running(mark string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// cleanUp deletes what the trial made. It may run longer than the trial's own time.
func (t *Trial) cleanUp(ctx context.Context) error {
	var errs []error
	for _, id := range t.mine {
		err := t.Server.Client.DeleteSession(ctx, id)
		if err != nil && !errors.Is(err, api.Errorf(api.CodeSessionNotFound, "")) {
			errs = append(errs, fmt.Errorf("delete a session: %w", err))
		}
	}
	return errors.Join(errs...)
}
