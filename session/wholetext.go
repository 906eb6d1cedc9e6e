package session

import (
	"context"

	"talaria/api"
	"talaria/session/transcript"
)

// wholeLimit bounds the text of an execution in full; beyond it, its beginning and its end are kept.
const wholeLimit = 20 << 20

// FullStream is an artifact that holds all of a stream that was too long for the log, as it was printed.
type FullStream struct {
	Name   string // stdout or stderr
	SHA256 string
	URL    string
	Size   int64
}

// WholeText returns all of an execution's text where Execution.Text was cut, and else "". The streams are those that
// the log lacks parts of; the text lacks the same.
func (x *Executions) WholeText(ctx context.Context, e api.Execution) (text string, streams []FullStream, err error) {
	if !transcript.IsCut(e.Text) {
		return "", nil, nil
	}
	whole := transcript.NewWhole(x.redact, wholeLimit)
	err = x.journal.eachEvent(ctx, e.ID, func(event api.Event, _ int) bool {
		switch b := event.Body.(type) {
		case api.Stream:
			whole.Write(b.Name == "stderr", b.Text)
			if kept, ok := x.fullStream(b); ok {
				streams = append(streams, kept)
			}
		case api.ExecuteResult:
			if plain, ok := plainText(b.Data); ok {
				whole.Line(plain)
			}
		case api.ErrorEvent:
			whole.Line(tracebackText(b.ErrorOutput))
		case api.ExecutionFinished:
			return false
		}
		return true
	})
	if text = whole.String(); len(text) < len(e.Text) { // the log has lost its outputs
		text = ""
	}
	return text, streams, err
}

// fullStream returns the artifact that the notice of a cut stream names, if it is still there.
func (x *Executions) fullStream(notice api.Stream) (FullStream, bool) {
	if notice.Truncated == nil || notice.Truncated.URL == "" {
		return FullStream{}, false
	}
	f, size, err := x.journal.blobs.artifacts.Get(notice.Truncated.SHA256)
	if err != nil {
		return FullStream{}, false
	}
	f.Close()
	return FullStream{notice.Name, notice.Truncated.SHA256, notice.Truncated.URL, size}, true
}
