package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
)

// savedOutput is what the output of a running execution holds and the log does not. It is committed with the cursor, so
// that a server which takes the session over goes on exactly there.
type savedOutput struct {
	Streams    map[string]savedStream `json:"streams"`
	Deferred   []savedDraft           `json:"deferred,omitzero"`
	Transcript savedTranscript        `json:"transcript"`
	Shown      displays               `json:"shown,omitzero"`
}

// savedTranscript is the text for models so far: it cannot be made again of streams that the log holds parts of, since
// these do not say in which order they came.
type savedTranscript struct {
	Order   int           `json:"order"`
	Writing int           `json:"writing,omitzero"` // number of the class, from 1
	Classes [2]savedClass `json:"classes"`
}

type savedClass struct {
	Raw       string          `json:"raw,omitzero"`
	Held      string          `json:"held,omitzero"`
	Redaction *savedRedaction `json:"redaction,omitzero"` // nil where nothing is redacted, and in rows of older servers
	Screen    *savedScreen    `json:"screen,omitzero"`
	Head      []savedSegment  `json:"head,omitzero"`
	Tail      []savedSegment  `json:"tail,omitzero"`
	Room      int             `json:"room"`
	Dropped   int64           `json:"dropped,omitzero"`
}

// savedRedaction is what a redaction knows beside the text that it holds. Places are counted back from its end.
type savedRedaction struct {
	Spans    [][2]int64               `json:"spans,omitzero"` // start, end
	Inside   bool                     `json:"inside,omitzero"`
	Previous rune                     `json:"previous,omitzero"`
	Threads  map[string][]savedThread `json:"threads,omitzero"` // by pattern
}

type savedThread struct {
	PC    uint32 `json:"pc"`
	Start int64  `json:"start"`
}

type savedScreen struct {
	Rows   []string `json:"rows"`
	Row    int      `json:"row,omitzero"`
	Column int      `json:"column,omitzero"`
	Out    int      `json:"out,omitzero"`
}

type savedSegment struct {
	Order int    `json:"order"`
	Text  string `json:"text"`
}

// savedStream is a stream that overflowed. What lies behind Spooled in its spool comes again with the next records.
type savedStream struct {
	Total   int64  `json:"total"`
	Spooled int64  `json:"spooled"`
	Dropped int64  `json:"dropped,omitzero"`
	Failed  string `json:"failed,omitzero"`
}

type savedDraft struct {
	Event api.Event  `json:"event"` // with the execution's id and the body; its place in the log is still open
	Refs  []savedRef `json:"refs,omitzero"`
}

type savedRef struct {
	Digest    string `json:"digest"`
	Kind      string `json:"kind"`
	MediaType string `json:"media_type"`
	Bytes     int64  `json:"bytes,omitzero"`
}

// save is what has to be kept beside the log, nil where the log has it all.
func (o *output) save() ([]byte, error) {
	if !o.overflowing() && !o.shown.Over {
		return nil, nil
	}
	saved := savedOutput{Streams: map[string]savedStream{}, Transcript: o.transcript.save(), Shown: o.shown}
	for name, st := range o.streams {
		if st.spool == nil && st.failed == nil {
			continue
		}
		one := savedStream{Total: st.total, Dropped: st.dropped}
		if st.spool != nil {
			one.Spooled = st.spool.Size()
		}
		if st.failed != nil {
			one.Failed = st.failed.Error()
		}
		saved.Streams[name] = one
	}
	for _, d := range o.deferred {
		typ, body, err := api.EncodeBody(d.body)
		if err != nil {
			return nil, fmt.Errorf("save output: %w", err)
		}
		one := savedDraft{Event: api.JoinEvent(0, api.Time{}, typ, d.executionID, body)}
		for _, r := range d.refs {
			one.Refs = append(one.Refs, savedRef{r.digest, r.kind, r.mediaType, r.bytes})
		}
		saved.Deferred = append(saved.Deferred, one)
	}
	return api.Marshal(saved)
}

// restore rebuilds the output of an execution that ran under an earlier server, from its events and from what was saved.
// It also finds the question that is open.
func (o *output) restore(ctx context.Context, r *run, saved []byte) (pending *api.PendingInput, err error) {
	o.number = r.row.N
	err = o.s.eachEvent(ctx, r.row.ID, func(e api.Event, size int) bool {
		switch b := e.Body.(type) {
		case api.Stream:
			o.write(b.Name == "stderr", b.Text)
			st := o.stream(b.Name)
			o.events++
			st.head = append(st.head, b.Text)
			st.logged += int64(len(b.Text))
			st.total = st.logged
		case api.DisplayData, api.UpdateDisplayData, api.ClearOutput:
			o.shown.fits(int64(size), o.displayLimit)
		case api.ExecuteResult:
			o.result(b.Data)
		case api.ErrorEvent:
			o.traceback(b.ErrorOutput)
			r.failure = &b.ErrorOutput
		case api.InputRequested:
			pending = &api.PendingInput{
				RequestID: b.RequestID, ExecutionID: r.row.ID, Prompt: b.Prompt, Password: b.Password,
			}
		case api.InputClosed:
			pending = nil
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read what was logged: %w", err)
	}
	var state savedOutput
	if saved != nil {
		if err := jsonv2.Unmarshal(saved, &state); err != nil {
			return nil, fmt.Errorf("read what was saved of the output: %w", err)
		}
	}
	if state.Shown.Over {
		o.shown = state.Shown
	}
	for _, name := range []string{"stdout", "stderr"} {
		if err := o.reopen(ctx, name, state.Streams); err != nil {
			return nil, err
		}
	}
	if len(state.Streams) > 0 {
		o.transcript.restore(state.Transcript)
	}
	return pending, o.takeUp(r, state.Deferred)
}

func (t *transcript) save() savedTranscript {
	s := savedTranscript{Order: t.order}
	for i := range t.classes {
		c := &t.classes[i]
		if t.writing == c {
			s.Writing = i + 1
		}
		s.Classes[i] = savedClass{
			Raw:  strings.ToValidUTF8(string(c.escapes.raw)+string(c.escapes.half), "\uFFFD"),
			Held: string(c.redaction.held), Redaction: c.redaction.save(),
			Head: saveSegments(c.excerpt.head), Tail: saveSegments(c.excerpt.tail),
			Room: c.excerpt.room, Dropped: c.excerpt.dropped,
		}
		if on := c.screen; len(on.rows) > 0 {
			saved := &savedScreen{Row: on.row, Column: on.column, Out: on.gone}
			for _, row := range on.rows {
				saved.Rows = append(saved.Rows, string(row))
			}
			s.Classes[i].Screen = saved
		}
	}
	return s
}

func (d *redaction) save() *savedRedaction {
	if d.none() {
		return nil
	}
	s := &savedRedaction{Inside: d.inside, Previous: d.previous}
	for _, one := range d.spans {
		s.Spans = append(s.Spans, [2]int64{d.place - one.start, d.place - one.end})
	}
	for _, m := range d.matching {
		for _, t := range m.threads {
			if s.Threads == nil {
				s.Threads = map[string][]savedThread{}
			}
			s.Threads[m.expression] = append(s.Threads[m.expression], savedThread{t.pc, d.place - t.start})
		}
	}
	return s
}

func saveSegments(list []segment) []savedSegment {
	saved := make([]savedSegment, len(list))
	for i, s := range list {
		saved[i] = savedSegment{s.order, string(s.text)}
	}
	return saved
}

// restore puts what was saved in place of all that was written.
func (t *transcript) restore(s savedTranscript) {
	t.order, t.writing = s.Order, nil
	for i, saved := range s.Classes {
		c := &t.classes[i]
		if s.Writing == i+1 {
			t.writing = c
		}
		c.excerpt.room, c.excerpt.dropped = saved.Room, saved.Dropped
		c.excerpt.head, _ = restoreSegments(saved.Head)
		c.excerpt.tail, c.excerpt.held = restoreSegments(saved.Tail)
		c.redaction.restore(saved.Held, saved.Redaction, func(clean string) { c.excerpt.add(t.order, clean) })
		c.screen.restore(saved.Screen)
		c.escapes = escapes{}
		c.escapes.write(saved.Raw, &c.screen)
	}
}

func (s *screen) restore(saved *savedScreen) {
	*s = screen{out: s.out}
	if saved == nil || saved.Row >= len(saved.Rows) {
		return
	}
	s.row, s.column, s.gone = saved.Row, saved.Column, saved.Out
	for _, row := range saved.Rows {
		s.rows = append(s.rows, []rune(row))
		s.bytes += len(row)
	}
}

// restore goes on where a redaction was, or where one of an older server was: that began at held.
func (d *redaction) restore(held string, saved *savedRedaction, out func(string)) {
	*d = d.begin()
	if d.none() {
		if held != "" {
			out(held)
		}
		return
	}
	d.prepare()
	d.find(held)
	d.held = []byte(held)
	if saved == nil {
		return
	}
	d.inside, d.previous, d.spans = saved.Inside, saved.Previous, nil
	for _, one := range saved.Spans {
		d.spans = append(d.spans, span{d.place - one[0], d.place - one[1]})
	}
	for i := range d.matching {
		m := &d.matching[i]
		m.threads = nil
		for _, t := range saved.Threads[m.expression] {
			if int(t.PC) < len(m.program.Inst) {
				m.threads = append(m.threads, thread{t.PC, d.place - t.Start})
			}
		}
	}
}

func restoreSegments(saved []savedSegment) (list []segment, bytes int) {
	for _, s := range saved {
		list = append(list, segment{s.Order, []byte(s.Text)})
		bytes += len(s.Text)
	}
	return list, bytes
}

// stream is the stream of that name, made when it is new.
func (o *output) stream(name string) *stream {
	st := o.streams[name]
	if st == nil {
		st = &stream{name: name}
		o.streams[name] = st
	}
	return st
}

// reopen goes on with a stream's spool where the cursor stands. A spool that was begun after it begins anew.
func (o *output) reopen(ctx context.Context, name string, saved map[string]savedStream) error {
	was, overflowed := saved[name]
	spool, err := o.s.m.cfg.Artifacts.OpenSpool(ctx, o.spoolName(name), was.Spooled)
	switch {
	case err == nil && !overflowed:
		return spool.Abort()
	case !overflowed && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && was.Failed == "":
		o.s.log.Error("reopen a spool of output; what it held is lost", "stream", name, "error", err)
		was.Failed, was.Dropped = err.Error(), was.Dropped+was.Spooled
	}
	st := o.stream(name)
	st.head, st.spool, st.total, st.dropped = nil, spool, was.Total, was.Dropped
	if was.Failed != "" {
		st.failed = errors.New(was.Failed)
	}
	return nil
}

// takeUp takes up the result and the error that wait for the end of the streams.
func (o *output) takeUp(r *run, saved []savedDraft) error {
	for _, one := range saved {
		event, err := one.Event.Decoded()
		if err != nil {
			return fmt.Errorf("read what was saved of the output: %w", err)
		}
		d := draft{executionID: r.row.ID, body: event.Body}
		for _, kept := range one.Refs {
			d.refs = append(d.refs, ref{kept.Digest, kept.Kind, kept.MediaType, kept.Bytes})
		}
		if b, ok := event.Body.(api.ErrorEvent); ok {
			r.failure = &b.ErrorOutput
		}
		o.deferred = append(o.deferred, d)
	}
	return nil
}

// saved is what the session's running execution has to keep beside the log, nil for nothing. On the session's goroutine.
func (s *Session) saved() ([]byte, error) {
	s.mu.Lock()
	r := s.current
	s.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	return r.out.save()
}
