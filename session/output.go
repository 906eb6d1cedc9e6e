package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"talaria/api"
	"talaria/artifacts"
	"talaria/session/transcript"
	"talaria/store"
)

// pieceBytes is the largest text of one stream event.
const pieceBytes = 64 << 10

// output is what one execution prints: it caps each stream in the log, keeps all of a capped one in a spool, and
// writes the text for models. Only text may be called from goroutines other than the session's own.
type output struct {
	*outputHome
	id     string
	number int64 // of the execution, once it is queued
	limit  int64
	disk   int64
	// displayLimit bounds what is shown, and shown counts it.
	displayLimit int64
	shown        displays
	events       int64           // stream events that were logged at once
	kept         *artifacts.Hold // what deferred refers to
	streams      map[string]*stream
	deferred     []draft // result and error, when a stream's tail must come before them

	mu         sync.Mutex // guards transcript and truncated
	transcript *transcript.Transcript
	truncated  int64
}

// outputHome is what the output of executions needs from their session. It is immutable.
type outputHome struct {
	session   string // its id; spools are named after it
	artifacts *artifacts.Store
	log       *slog.Logger
	isDiskLow func() bool                                      // the server's disk is down to its reserve
	spare     func() error                                     // why nothing can be written to it, or nil
	makeRoom  func(ctx context.Context, diskBytes int64) error // for an artifact; fails with errNoRoom
}

// stream is one stream of an execution. Its head goes to the log as it arrives, up to 40 % of the limit; the rest
// waits in the spool, since only the end shows whether it is too much.
type stream struct {
	name    string
	head    []string // what the log has, until there is a spool, which begins with it
	logged  int64
	total   int64
	spool   *artifacts.Writer
	dropped int64 // beyond the disk limit, in no spool
	failed  error // of the spool
}

func newOutput(home *outputHome, id string, limits api.Limits, redact *transcript.Redactor) *output {
	return &output{
		outputHome: home, id: id, limit: limits.OutputBytes, disk: limits.DiskBytes, displayLimit: limits.DisplayBytes,
		streams: map[string]*stream{}, kept: home.artifacts.Hold(),
		transcript: transcript.New(redact),
	}
}

// add adds printed text and returns the part that goes to the log now.
func (o *output) add(name, text string) []draft {
	o.write(name == "stderr", text)
	st := o.stream(name)
	st.total += int64(len(text))
	now := text
	if st.spool == nil && st.failed == nil {
		o.events++
		room := o.limit*2/5 - st.logged
		if o.events*eventCost > o.displayLimit { // a great many very short ones
			room = 0
		}
		if int64(len(text)) > room {
			now = transcript.Cut(text, int(room))
		}
	} else {
		now = ""
	}
	if rest := text[len(now):]; rest != "" {
		o.hold(st, now, rest)
	} else {
		st.head = append(st.head, now)
	}
	st.logged += int64(len(now))
	if now == "" {
		return nil
	}
	return []draft{{executionID: o.id, body: api.Stream{Name: name, Text: now}}}
}

// hold writes text that the log does not take now to the spool; the first time, also everything before it.
func (o *output) hold(st *stream, now, rest string) {
	if st.spool == nil && st.failed == nil {
		st.spool, st.failed = o.artifacts.Create(o.spoolName(st.name))
		if st.failed != nil {
			o.log.Error("spool of output", "error", st.failed)
		}
		for _, part := range append(st.head, now) {
			st.keep(part, o.room(st))
		}
		st.head = nil
	}
	st.keep(rest, o.room(st))
}

// room returns how long the spool of a stream may get.
func (o *output) room(st *stream) int64 {
	if st.spool != nil && o.isDiskLow() {
		return st.spool.Size()
	}
	return o.disk
}

func (st *stream) keep(text string, disk int64) {
	if st.failed != nil {
		st.dropped += int64(len(text))
		return
	}
	take := transcript.Cut(text, int(min(int64(len(text)), max(0, disk-st.spool.Size()))))
	n, err := io.WriteString(st.spool, take)
	st.dropped += int64(len(text) - n)
	st.failed = err
}

func (o *output) spoolName(stream string) string { return spoolName(o.session, o.number, stream) }

// spoolName names the spool of a stream of an execution.
func spoolName(session string, execution int64, stream string) string {
	return session + "." + strconv.FormatInt(execution, 10) + "." + stream
}

// overflowing reports whether the rest of a stream waits for the end of the execution.
func (o *output) overflowing() bool {
	for _, st := range o.streams {
		if st.spool != nil || st.failed != nil {
			return true
		}
	}
	return false
}

// last adds a result or an error, which comes after everything that was printed.
func (o *output) last(d draft) []draft {
	if !o.overflowing() {
		return []draft{d}
	}
	o.deferred = append(o.deferred, d)
	return nil
}

// end returns what is left to log at the end of the execution, and a change's done that keeps the spools as artifacts.
func (o *output) end(ctx context.Context) ([]draft, func()) {
	drafts := o.leftOut()
	var commits []*artifacts.Writer
	var aborts []*artifacts.Writer
	for _, name := range []string{"stdout", "stderr"} {
		st := o.streams[name]
		if st == nil || (st.spool == nil && st.failed == nil) {
			continue
		}
		if st.total <= o.limit && st.dropped == 0 {
			drafts = append(drafts, o.pieces(st, st.logged)...)
			aborts = append(aborts, st.spool)
			continue
		}
		kept := st.spool != nil && o.makeRoom(ctx, st.spool.Size()) == nil
		drafts = append(drafts, o.truncate(st, kept)...)
		switch {
		case kept:
			commits = append(commits, st.spool)
		case st.spool != nil:
			aborts = append(aborts, st.spool)
		}
	}
	drafts = append(drafts, o.deferred...)
	o.streams, o.deferred = map[string]*stream{}, nil
	return drafts, func() {
		o.kept.Release()
		for _, w := range commits {
			if _, err := w.Commit(); err != nil {
				o.log.Error("keep output as an artifact", "error", err)
			}
		}
		for _, w := range aborts {
			w.Abort()
		}
	}
}

// truncate returns the notice of a capped stream and its tail, the last 60 % of the limit. kept says whether its spool
// becomes an artifact.
func (o *output) truncate(st *stream, kept bool) []draft {
	end := int64(0)
	if st.spool != nil {
		end = st.spool.Size()
	}
	from := max(end-o.limit*3/5, st.logged)
	from = min(from, end)
	tail := o.pieces(st, from)
	inTail := int64(0)
	for _, d := range tail {
		inTail += int64(len(d.body.(api.Stream).Text))
	}
	lacking := st.total - st.logged - inTail
	o.mu.Lock()
	o.truncated += lacking
	o.mu.Unlock()
	notice := draft{executionID: o.id}
	t := &api.Truncated{Bytes: lacking}
	text := fmt.Sprintf("\n[%s: %d bytes were left out here; limits.output_bytes is %d", st.name, lacking, o.limit)
	switch {
	case kept:
		t.SHA256 = st.spool.Blob().SHA256
		t.URL = api.ArtifactURL(t.SHA256)
		notice.refs = []ref{{t.SHA256, store.RefPublic, "text/plain; charset=utf-8", end}}
		text += "; the full output is the artifact " + t.URL
	case st.spool != nil:
		text += "; limits.artifact_bytes leaves no room to keep the full output"
	}
	if st.dropped > 0 {
		text += fmt.Sprintf(", except for %d bytes, for which limits.disk_bytes (%d) or the server's disk left no room", st.dropped, o.disk)
	}
	notice.body = api.Stream{Name: st.name, Text: text + "]\n", Truncated: t}
	return append([]draft{notice}, tail...)
}

// pieces reads the spool from a position to its end as events.
func (o *output) pieces(st *stream, from int64) []draft {
	if st.spool == nil {
		return nil
	}
	var drafts []draft
	buf := make([]byte, pieceBytes)
	for first := true; from < st.spool.Size(); first = false {
		n, err := st.spool.ReadAt(buf, from)
		if n == 0 && err != nil {
			o.log.Error("read back output", "error", err)
			return drafts
		}
		text := string(buf[:n])
		skip := 0
		for first && skip < len(text) && !utf8.RuneStart(text[skip]) {
			skip++
		}
		if from+int64(n) < st.spool.Size() {
			text = cutIncomplete(text)
		}
		from += int64(len(text))
		if text = text[skip:]; text != "" {
			drafts = append(drafts, draft{executionID: o.id, body: api.Stream{Name: st.name, Text: text}})
		}
	}
	return drafts
}

// cutIncomplete drops a rune that s ends in the middle of.
func cutIncomplete(s string) string {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) && i > 0 {
				return s[:i]
			}
			return s
		}
	}
	return s
}

// write adds to the text for models.
func (o *output) write(stderr bool, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transcript.Write(stderr, text)
}

// text returns what a model should read of the execution so far.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.transcript.String()
}

// lacking returns how many bytes the log lacks.
func (o *output) lacking() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.truncated + o.shown.Lacking
}

// tellLoss begins the text with a notice of what was lost before the execution, unless the notice is "".
func (o *output) tellLoss(notice string) {
	if notice == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transcript.Line(notice + "\n")
}

// result adds a result's text/plain.
func (o *output) result(data api.MIMEBundle) {
	text, ok := plainText(data)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transcript.Line(text)
}

func plainText(data api.MIMEBundle) (text string, ok bool) {
	raw, ok := data["text/plain"]
	return text, ok && json.Unmarshal(raw, &text) == nil
}

// traceback adds an exception.
func (o *output) traceback(e api.ErrorOutput) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transcript.Line(tracebackText(e))
}

func tracebackText(e api.ErrorOutput) string {
	if text := strings.TrimRight(strings.Join(e.Traceback, "\n"), "\n"); text != "" {
		return text
	}
	return e.Ename + ": " + e.Evalue
}
