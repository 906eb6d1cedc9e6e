package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/session/transcript"
)

// savedOutput is the part of a running execution's output that the log does not have. It is committed with the cursor,
// so that a server that takes over the session continues exactly there.
type savedOutput struct {
	Streams    map[string]savedStream `json:"streams"`
	Deferred   []savedDraft           `json:"deferred,omitzero"`
	Transcript transcript.State       `json:"transcript"`
	Shown      displays               `json:"shown,omitzero"`
}

// savedStream is a stream that overflowed. Bytes after Spooled in its spool come again with the next records.
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

// save returns what has to be kept in addition to the log, or nil if the log has everything.
func (o *output) save() ([]byte, error) {
	if !o.overflowing() && !o.shown.Over {
		return nil, nil
	}
	saved := savedOutput{Streams: map[string]savedStream{}, Transcript: o.transcript.Save(), Shown: o.shown}
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

// restoreOutput rebuilds the output of an execution that ran under an earlier server, from its events and from what
// was saved. It also finds the open question.
func (s *Session) restoreOutput(ctx context.Context, r *execution, saved []byte) (pending *api.PendingInput, err error) {
	o := r.out
	o.number = r.row.N
	o.tellLoss(s.journal.lossNotice(ctx, r.row, s.log))
	err = s.journal.eachEvent(ctx, r.row.ID, func(e api.Event, size int) bool {
		switch b := e.Body.(type) {
		case api.Stream:
			o.write(b.Name == "stderr", b.Text)
			st := o.stream(b.Name)
			o.events++
			st.head = append(st.head, b.Text)
			st.logged += int64(len(b.Text))
			st.total = st.logged
		case api.DisplayData, api.UpdateDisplayData, api.ClearOutput, api.CommOpened, api.CommSent, api.CommClosed:
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
	if err != nil { // the rest of what it printed is missing in its text; no session may keep the server from starting
		s.log.Error("read what a cell printed under the last server", "execution", r.row.ID, "error", err)
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
		o.transcript.Restore(state.Transcript)
	}
	return pending, o.takeUp(r, state.Deferred)
}

// stream returns the stream with that name, and creates it if it is new.
func (o *output) stream(name string) *stream {
	st := o.streams[name]
	if st == nil {
		st = &stream{name: name}
		o.streams[name] = st
	}
	return st
}

// reopen continues a stream's spool at the cursor. A spool that was created after the cursor is discarded.
func (o *output) reopen(ctx context.Context, name string, saved map[string]savedStream) error {
	was, overflowed := saved[name]
	spool, err := o.artifacts.OpenSpool(ctx, o.spoolName(name), was.Spooled)
	switch {
	case err == nil && !overflowed:
		return spool.Abort()
	case !overflowed && errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil && was.Failed == "":
		o.log.Error("reopen an output spool; its contents are lost", "stream", name, "error", err)
		was.Failed, was.Dropped = err.Error(), was.Dropped+was.Spooled
	}
	st := o.stream(name)
	st.head, st.spool, st.total, st.dropped = nil, spool, was.Total, was.Dropped
	if was.Failed != "" {
		st.failed = errors.New(was.Failed)
	}
	return nil
}

// takeUp restores the result and the error that wait for the end of the streams.
func (o *output) takeUp(r *execution, saved []savedDraft) error {
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

// savedOutput returns what the session's running execution has to keep in addition to the log, or nil. On the session's
// goroutine.
func (s *Session) savedOutput() ([]byte, error) {
	s.mu.Lock()
	r := s.current
	s.mu.Unlock()
	if r == nil {
		return nil, nil
	}
	return r.out.save()
}
