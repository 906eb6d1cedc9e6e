package gatewaytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// Limits of docs.slack.dev, written here on their own so that they check the gateway.
const (
	slackText     = 40000 // longer texts are cut, which the record shows
	slackSection  = 3000
	slackMarkdown = 12000
	slackTotal    = 13200 // bolt-js #2509
	slackBlocks   = 50
	slackAltText  = 1000
	slackStream   = 12000
	slackPost     = time.Second             // chat.postMessage, for one channel
	slackUpdate   = 1200 * time.Millisecond // chat.update, tier 3: 50 a minute
	slackBurst    = 3
	slackAck      = 3 * time.Second
)

// Slack is a fake of the Web API, Socket Mode and HTTP events for one app in one workspace.
// All methods are safe for concurrent use.
type Slack struct {
	URL      string // the Web API, with the trailing slash that slack-go needs
	BotToken string
	AppToken string
	Secret   string // signs HTTP events

	server *httptest.Server
	once   sync.Once
	stop   chan struct{}

	mu       sync.Mutex // guards everything below
	now      func() time.Time
	changed  chan struct{}
	messages []*SlackMessage
	calls    []SlackCall
	faults   map[string][]Fault
	files    map[string]*slackFile
	channels map[string]bool
	buckets  map[string]*bucket
	parked   map[string]time.Time
	socket   *websocket.Conn
	acks     map[string]time.Duration
	sent     map[string]time.Time
	next     int
	whispers []Whisper
}

// Whisper is a text that one person sees.
type Whisper struct{ Channel, User, Text string }

// SlackMessage is one message of the record.
type SlackMessage struct {
	Channel, TS, Thread string
	User                string // empty for the bot's
	Text                string
	Cut                 bool // Slack cut the text at its limit
	Blocks              []SlackBlock
	Files               []File
	Edits               []string
	Deleted             bool
	Streams             bool            // between chat.startStream and chat.stopStream
	Streamed            []string        // what was appended
	Metadata            json.RawMessage // that the app stored with it
	At                  time.Time
}

// SlackBlock holds the parts of a block that the limits and tests need.
type SlackBlock struct {
	Type     string          `json:"type"`
	BlockID  string          `json:"block_id"`
	Text     json.RawMessage `json:"text"`
	AltText  string          `json:"alt_text"`
	Elements []struct {
		Type     string          `json:"type"`
		ActionID string          `json:"action_id"`
		Value    string          `json:"value"`
		Text     json.RawMessage `json:"text"`
	} `json:"elements"`
}

// SlackCall is one request to the Web API, refused ones included.
type SlackCall struct {
	Method, Channel, Error string
	At                     time.Time
	RetryAfter             int
	Early                  bool // made before an earlier Retry-After of its method and channel had passed
}

type slackFile struct {
	File
	length   int
	uploaded bool
	shared   bool
}

// NewSlack starts a fake. now may be nil for the time of the machine.
func NewSlack(now func() time.Time) *Slack {
	if now == nil {
		now = time.Now
	}
	f := &Slack{
		BotToken: "xoxb-fake", AppToken: "xapp-fake", Secret: "fake-signing-secret", now: now,
		stop: make(chan struct{}), changed: make(chan struct{}), faults: map[string][]Fault{},
		files: map[string]*slackFile{}, channels: map[string]bool{}, buckets: map[string]*bucket{},
		parked: map[string]time.Time{}, acks: map[string]time.Duration{}, sent: map[string]time.Time{},
	}
	f.server = httptest.NewServer(f)
	f.URL = f.server.URL + "/api/"
	return f
}

// Close closes the socket and the server.
func (f *Slack) Close() {
	f.once.Do(func() { close(f.stop) })
	f.mu.Lock()
	if f.socket != nil {
		f.socket.Close()
	}
	f.mu.Unlock()
	f.server.Close()
}

// ServeHTTP answers the Web API, uploads, downloads and the socket.
func (f *Slack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/socket":
		f.serveSocket(w, r)
	case strings.HasPrefix(r.URL.Path, "/upload/"):
		f.receive(w, r, strings.TrimPrefix(r.URL.Path, "/upload/"))
	case strings.HasPrefix(r.URL.Path, "/files/"):
		f.serveFile(w, r, strings.TrimPrefix(r.URL.Path, "/files/"))
	case strings.HasPrefix(r.URL.Path, "/api/"):
		f.perform(w, r, strings.TrimPrefix(r.URL.Path, "/api/"))
	default:
		http.NotFound(w, r)
	}
}

type slackFields map[string]string

var slackMethods = map[string]func(*Slack, slackFields) (map[string]any, string){
	"auth.test":                    (*Slack).authTest,
	"apps.connections.open":        (*Slack).openConnection,
	"chat.postMessage":             (*Slack).post,
	"chat.update":                  (*Slack).update,
	"chat.delete":                  (*Slack).remove,
	"chat.startStream":             (*Slack).startStream,
	"chat.appendStream":            (*Slack).appendStream,
	"chat.stopStream":              (*Slack).stopStream,
	"conversations.history":        (*Slack).history,
	"conversations.replies":        (*Slack).replies,
	"chat.postEphemeral":           (*Slack).postEphemeral,
	"files.getUploadURLExternal":   (*Slack).uploadURL,
	"files.completeUploadExternal": (*Slack).completeUpload,
}

func (f *Slack) perform(w http.ResponseWriter, r *http.Request, name string) {
	fields, token, err := slackRequest(w, r)
	if errors.Is(err, io.ErrUnexpectedEOF) { // whoever sent it was killed
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	call := SlackCall{Method: name, Channel: fields["channel"] + fields["channel_id"], At: f.now()}
	key := name + " " + call.Channel
	call.Early = call.At.Before(f.parked[key])
	var fault Fault
	if queue := f.faults[name]; len(queue) > 0 {
		fault, f.faults[name] = queue[0], queue[1:]
	}
	method, known := slackMethods[name]
	want := f.BotToken
	if name == "apps.connections.open" {
		want = f.AppToken
	}
	var result map[string]any
	switch {
	case err != nil:
		call.Error = "invalid_form_data"
	case !known:
		call.Error = "unknown_method"
	case token != want:
		call.Error = "invalid_auth"
	case fault.Code == 429:
		call.RetryAfter = fault.RetryAfter
	case fault.Description != "":
		call.Error = fault.Description
	default:
		if call.RetryAfter = f.wait(name, key, call.At); call.RetryAfter == 0 {
			result, call.Error = method(f, fields)
		}
	}
	f.calls = append(f.calls, call)
	f.signal()
	if fault.Lost {
		panic(http.ErrAbortHandler)
	}
	f.answer(w, key, call, result)
}

func (f *Slack) answer(w http.ResponseWriter, key string, call SlackCall, result map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case call.RetryAfter > 0:
		if until := call.At.Add(time.Duration(call.RetryAfter) * time.Second); until.After(f.parked[key]) {
			f.parked[key] = until
		}
		w.Header().Set("Retry-After", strconv.Itoa(call.RetryAfter))
		w.WriteHeader(http.StatusTooManyRequests)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": "ratelimited"})
	case call.Error != "":
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": call.Error})
	default:
		result["ok"] = true
		_ = json.NewEncoder(w).Encode(result)
	}
}

// wait returns the seconds that a call comes too early, or 0.
func (f *Slack) wait(name, key string, now time.Time) int {
	every := map[string]time.Duration{
		"chat.postMessage": slackPost, "chat.update": slackUpdate, "chat.startStream": 3 * time.Second, "chat.stopStream": 3 * time.Second,
		"chat.appendStream": 600 * time.Millisecond, "conversations.history": slackUpdate, "conversations.replies": slackUpdate,
	}[name]
	if every == 0 {
		return 0
	}
	b := f.buckets[key]
	if b == nil {
		b = &bucket{slackBurst, now}
		f.buckets[key] = b
	}
	b.tokens = min(slackBurst, b.tokens+float64(now.Sub(b.at))/float64(every))
	b.at = now
	wait := f.parked[key].Sub(now)
	if b.tokens < 1-1e-9 {
		wait = max(wait, time.Duration((1-b.tokens)*float64(every)))
	}
	if wait > 0 {
		return int((wait + time.Second - 1) / time.Second)
	}
	b.tokens--
	return 0
}

func slackRequest(w http.ResponseWriter, r *http.Request) (slackFields, string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	fields := slackFields{}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		var raw map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil && err != io.EOF { // calls without arguments have no body
			return fields, token, err
		}
		for name, value := range raw {
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value)
			}
			fields[name] = text
		}
		return fields, token, nil
	}
	err := r.ParseForm()
	for name := range r.Form {
		fields[name] = r.Form.Get(name)
	}
	if fields["token"] != "" {
		token = fields["token"]
	}
	return fields, token, err
}

func (f *Slack) authTest(slackFields) (map[string]any, string) {
	return map[string]any{"user_id": "UBOT", "bot_id": "BBOT", "team_id": "T1", "team": "Fake", "user": "talaria", "url": f.server.URL}, ""
}

func (f *Slack) post(q slackFields) (map[string]any, string) {
	if !f.channels[q["channel"]] {
		return nil, "channel_not_found"
	}
	m, refused := f.compose(q)
	if refused != "" {
		return nil, refused
	}
	f.add(m)
	return map[string]any{"channel": m.Channel, "ts": m.TS}, ""
}

// compose checks text and blocks of a message.
func (f *Slack) compose(q slackFields) (*SlackMessage, string) {
	m := &SlackMessage{Channel: q["channel"], Thread: q["thread_ts"], Text: q["text"]}
	if raw := q["blocks"]; raw != "" {
		if json.Unmarshal([]byte(raw), &m.Blocks) != nil {
			return nil, "invalid_blocks_format"
		}
	}
	if m.Text == "" && len(m.Blocks) == 0 {
		return nil, "no_text"
	}
	if raw := q["metadata"]; raw != "" {
		var metadata struct {
			Type    string          `json:"event_type"`
			Payload json.RawMessage `json:"event_payload"`
		}
		if json.Unmarshal([]byte(raw), &metadata) != nil || metadata.Type == "" || len(metadata.Payload) == 0 {
			return nil, "invalid_metadata_format"
		}
		m.Metadata = json.RawMessage(raw)
	}
	if runes := []rune(m.Text); len(runes) > slackText {
		m.Text, m.Cut = string(runes[:slackText]), true
	}
	return m, checkBlocks(m.Blocks)
}

func checkBlocks(blocks []SlackBlock) string {
	if len(blocks) > slackBlocks {
		return "too_many_blocks"
	}
	total := 0
	for _, b := range blocks {
		n, limit := utf8.RuneCountInString(b.text()), slackSection
		if b.Type == "markdown" {
			limit = slackMarkdown
		}
		total += n
		empty := n == 0 && (b.Type == "section" || b.Type == "markdown")
		if empty || n > limit || utf8.RuneCountInString(b.AltText) > slackAltText || len(b.Elements) > 25 {
			return "invalid_blocks"
		}
	}
	if total > slackTotal {
		return "msg_blocks_too_long"
	}
	return ""
}

func (b SlackBlock) text() string {
	var object struct{ Text string }
	if json.Unmarshal(b.Text, &object) == nil {
		return object.Text
	}
	var text string
	_ = json.Unmarshal(b.Text, &text)
	return text
}

func (f *Slack) add(m *SlackMessage) {
	f.next++
	m.At = f.now()
	m.TS = fmt.Sprintf("%d.%06d", m.At.Unix(), f.next)
	f.messages = append(f.messages, m)
}

func (f *Slack) find(channel, ts string) *SlackMessage {
	for _, m := range f.messages {
		if m.Channel == channel && m.TS == ts && !m.Deleted {
			return m
		}
	}
	return nil
}

func (f *Slack) update(q slackFields) (map[string]any, string) {
	m := f.find(q["channel"], q["ts"])
	switch {
	case m == nil:
		return nil, "message_not_found"
	case m.User != "":
		return nil, "cant_update_message"
	case m.Streams:
		return nil, "streaming_state_conflict"
	}
	n, refused := f.compose(q)
	if refused != "" {
		return nil, refused
	}
	if n.Cut { // unlike chat.postMessage, chat.update does not cut
		return nil, "msg_too_long"
	}
	m.Edits = append(m.Edits, m.Text)
	m.Text, m.Blocks = n.Text, n.Blocks
	return map[string]any{"channel": m.Channel, "ts": m.TS, "text": m.Text}, ""
}

func (f *Slack) remove(q slackFields) (map[string]any, string) {
	m := f.find(q["channel"], q["ts"])
	switch {
	case m == nil:
		return nil, "message_not_found"
	case m.User != "":
		return nil, "cant_delete_message"
	}
	m.Deleted = true
	return map[string]any{"channel": m.Channel, "ts": m.TS}, ""
}

// postEphemeral shows a text to one person.
func (f *Slack) postEphemeral(q slackFields) (map[string]any, string) {
	switch {
	case !f.channels[q["channel"]]:
		return nil, "channel_not_found"
	case q["user"] == "" || q["text"] == "":
		return nil, "invalid_arguments"
	}
	f.whispers = append(f.whispers, Whisper{q["channel"], q["user"], q["text"]})
	return map[string]any{"message_ts": "1.0"}, ""
}

func (f *Slack) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Script queues faults for the next calls of a method. Code 429 sends Retry-After, and any other
// fault answers its Description as Slack's error.
func (f *Slack) Script(method string, faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[method] = append(f.faults[method], faults...)
}
