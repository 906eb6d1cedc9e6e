// Package gatewaytest provides loopback fakes of chat platforms for tests: they enforce the
// platform's limits, record every message, and let a test act as the people in the chat.
package gatewaytest

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Telegram is a fake of the Bot API for one bot. All methods are safe for concurrent use.
type Telegram struct {
	URL   string // pass it to the bot as the address of the Bot API
	Token string

	server *httptest.Server
	stop   chan struct{}
	once   sync.Once

	mu       sync.Mutex // guards everything below
	now      func() time.Time
	changed  chan struct{} // closed and replaced whenever the record changes
	chats    map[int64]*telegramChat
	messages []*Message
	calls    []Call
	updates  []update
	again    []update // redelivered, for the next poll whatever its offset
	seen     int      // the highest offset that a poll confirmed
	files    map[string]File
	presses  map[string]*Press
	faults   map[string][]Fault
	hook     webhook
	polling  chan struct{} // closed to end the running getUpdates
	limits   *telegramRates
	next     int
}

// Message is one message of the record, as people in the chat see it.
type Message struct {
	Chat    int64
	ID      int
	Thread  int
	FromBot bool
	From    int64
	Text    string // text or caption after entities were parsed
	Source  string // text or caption as the bot sent it
	Mode    string // parse_mode
	Kind    string // "text", "photo" or "document"
	File    File
	Album   string // the same for all members of an album
	Buttons [][]Button
	ReplyTo int
	Edits   []string // the texts that edits replaced, oldest first
	Deleted bool
	At      time.Time
}

// Button is one inline button of a message.
type Button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
	URL  string `json:"url"`
}

// File is the content of an upload.
type File struct {
	ID, Name, Type string
	Data           []byte
	Declared       int64 // the size to report when it differs from len(Data)
}

// Call is one request of the bot, refused ones included.
type Call struct {
	Method      string
	Chat        int64
	At          time.Time
	Code        int
	Description string
	RetryAfter  int
	Early       bool // made before an earlier retry_after of its chat had passed
}

// Fault is what one call of a method gets instead of its normal answer.
type Fault struct {
	Code        int
	Description string
	RetryAfter  int  // seconds
	Lost        bool // perform the call, then drop the connection without an answer
}

// Press is a press of an inline button.
type Press struct {
	ID       string
	Answered bool
	Toast    string
	Alert    bool
}

type telegramChat struct {
	id      int64
	kind    string
	blocked bool
}

type update struct {
	id   int
	body map[string]any
}

// NewTelegram starts a fake. now may be nil for the time of the machine.
func NewTelegram(now func() time.Time) *Telegram {
	if now == nil {
		now = time.Now
	}
	f := &Telegram{
		Token: "123456:fake-telegram-token", now: now,
		stop: make(chan struct{}), changed: make(chan struct{}),
		chats: map[int64]*telegramChat{}, files: map[string]File{}, presses: map[string]*Press{},
		faults: map[string][]Fault{}, limits: newTelegramRates(), next: 1,
	}
	f.server = httptest.NewServer(f)
	f.URL = f.server.URL
	return f
}

// Close ends pending polls and the server, and waits for its requests.
func (f *Telegram) Close() {
	f.once.Do(func() { close(f.stop) })
	f.server.Close()
}

// ServeHTTP answers Bot API calls and downloads of files.
func (f *Telegram) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+f.Token+"/"); ok {
		f.download(w, id)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/bot"+f.Token+"/")
	if !ok {
		writeTelegram(w, nil, refuse(401, "Unauthorized"))
		return
	}
	q, err := readRequest(w, r)
	if err != nil {
		writeTelegram(w, nil, err)
		return
	}
	if name == "getUpdates" {
		result, err := f.getUpdates(r.Context(), q)
		writeTelegram(w, result, err)
		return
	}
	result, lost, err := f.perform(name, q)
	if lost {
		panic(http.ErrAbortHandler)
	}
	writeTelegram(w, result, err)
}

// perform runs one method under the lock, records it, and applies scripted faults.
func (f *Telegram) perform(name string, q request) (result any, lost bool, err *refusal) {
	method, known := telegramMethods[name]
	if !known {
		return nil, false, refuse(404, "Not Found")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	call := Call{Method: name, Chat: q.int("chat_id"), At: f.now()}
	if method.send > 0 {
		call.Early = f.limits.parked(call.Chat, call.At)
	}
	var fault Fault
	if queue := f.faults[name]; len(queue) > 0 {
		fault, f.faults[name] = queue[0], queue[1:]
	}
	switch {
	case fault.Code == 429:
		f.limits.park(call.Chat, call.At, fault.RetryAfter)
		err = tooMany(fault.RetryAfter)
	case fault.Code != 0:
		err = refuse(fault.Code, "%s", fault.Description)
	default:
		if method.send > 0 {
			err = f.limits.take(call.Chat, q.sends(name), call.At)
		}
		if err == nil {
			result, err = method.run(f, q)
		}
	}
	call.Code = 200
	if err != nil {
		call.Code, call.Description, call.RetryAfter = err.code, err.text, err.retry
	}
	f.calls = append(f.calls, call)
	f.signal()
	return result, fault.Lost, err
}

// signal wakes everything that waits for the record. The caller holds mu.
func (f *Telegram) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

type refusal struct {
	code  int
	text  string
	retry int
}

func refuse(code int, format string, args ...any) *refusal {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

func bad(format string, args ...any) *refusal { return refuse(400, "Bad Request: "+format, args...) }

func tooMany(seconds int) *refusal {
	return &refusal{429, fmt.Sprintf("Too Many Requests: retry after %d", seconds), seconds}
}

func writeTelegram(w http.ResponseWriter, result any, err *refusal) {
	w.Header().Set("Content-Type", "application/json")
	if err == nil {
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
		return
	}
	body := map[string]any{"ok": false, "error_code": err.code, "description": err.text}
	if err.retry > 0 {
		body["parameters"] = map[string]any{"retry_after": err.retry}
	}
	w.WriteHeader(err.code)
	_ = json.NewEncoder(w).Encode(body)
}

// request holds the fields and uploads of one call.
type request struct {
	fields map[string]string
	files  map[string]File
}

const telegramUpload = 50 << 20 // core.telegram.org/bots/api#sending-files

func readRequest(w http.ResponseWriter, r *http.Request) (request, *refusal) {
	q := request{map[string]string{}, map[string]File{}}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	r.Body = http.MaxBytesReader(w, r.Body, telegramUpload+1<<20)
	switch kind {
	case "application/json":
		var fields map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&fields); err != nil {
			return q, bad("can't parse JSON object")
		}
		for name, raw := range fields {
			var text string
			if json.Unmarshal(raw, &text) != nil {
				text = string(raw)
			}
			q.fields[name] = text
		}
		return q, nil
	case "multipart/form-data":
		return q, q.readForm(r)
	}
	if err := r.ParseForm(); err != nil {
		return q, bad("can't parse form")
	}
	for name := range r.Form {
		q.fields[name] = r.Form.Get(name)
	}
	return q, nil
}

func (q request) int(name string) int64 {
	n, _ := strconv.ParseInt(q.fields[name], 10, 64)
	return n
}

// sends counts the messages that a call adds to the rate.
func (q request) sends(name string) int {
	if name != "sendMediaGroup" {
		return 1
	}
	var media []json.RawMessage
	_ = json.Unmarshal([]byte(q.fields["media"]), &media)
	return max(1, len(media))
}
