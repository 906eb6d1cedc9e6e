package batch

import (
	"fmt"
	"unicode/utf8"

	"talaria/api"
	"talaria/session/transcript"
)

// What all items of a job may have together, in bytes of JSON, so that the job fits into an answer ([api.MaxAnswer]).
const (
	allText      = 8 << 20
	allErrors    = 2 << 20
	allArtifacts = 4 << 20
)

// shares are the part of one item, in bytes of JSON.
type shares struct{ text, errors, artifacts int }

func sharesOf(items int64) shares {
	n := int(max(items, 1))
	return shares{allText / n, allErrors / n, allArtifacts / n}
}

// summarize makes the result of an item of an execution that has ended. complete reports whether that is all that came of
// it: no files, no pictures and nothing shortened.
func (s shares) summarize(e api.Execution) (r *api.BatchExecution, complete bool) {
	r = &api.BatchExecution{
		ID: e.ID, SessionID: e.SessionID, Status: e.Status, Reason: e.Reason, State: e.State, Usage: e.Usage,
		CreatedAt: e.CreatedAt, StartedAt: e.StartedAt, FinishedAt: e.FinishedAt,
	}
	r.Text = shorten(e.Text, s.text)
	complete = r.Text == e.Text && !transcript.IsCut(e.Text) && e.TruncatedBytes == 0 && !e.OutputsOmitted && !rich(e.Outputs)
	if e.Error != nil {
		half := s.errors / 2
		r.Error = &api.BatchError{Ename: shorten(e.Error.Ename, half), Evalue: shorten(e.Error.Evalue, half)}
	}
	room := s.artifacts
	for _, a := range e.Artifacts {
		complete = complete && a.Change == api.Deleted
		encoded, err := api.Marshal(a)
		if room -= len(encoded) + 1; err != nil || room < 0 {
			r.ArtifactsOmitted = true
			break
		}
		r.Artifacts = append(r.Artifacts, a)
	}
	return r, complete
}

// rich reports whether outputs have more than the text of their execution has, in which displays are missing.
func rich(outputs []api.Output) bool {
	for _, o := range outputs {
		for kind := range o.Data {
			if kind != "text/plain" || o.OutputType == "display_data" {
				return true
			}
		}
	}
	return false
}

// cutLine is how many bytes the line that stands for what is missing has at most.
const cutLine = 64

// shorten returns the text, or, if its JSON would have more than that many bytes, the first 40 % and the last 60 % of what
// fits.
func shorten(text string, room int) string {
	if encoded(text) <= room {
		return text
	}
	room = max(room-cutLine, 0)
	head, tail := 0, len(text)
	for used := 0; head < len(text); {
		r, size := utf8.DecodeRuneInString(text[head:])
		if used += cost(r); used > room*2/5 {
			break
		}
		head += size
	}
	for used := 0; tail > head; {
		r, size := utf8.DecodeLastRuneInString(text[:tail])
		if used += cost(r); used > room*3/5 {
			break
		}
		tail -= size
	}
	return fmt.Sprintf("%s\n[%d of %d%s\n%s", text[:head], tail-head, len(text), api.TextCutMark, text[tail:])
}

// encoded returns how many bytes the text has in JSON at most, without its quotes.
func encoded(text string) (n int) {
	for _, r := range text {
		n += cost(r)
	}
	return n
}

func cost(r rune) int {
	switch {
	case r < ' ' || r == '\u2028' || r == '\u2029':
		return 6
	case r == '"' || r == '\\':
		return 2
	}
	return utf8.RuneLen(r)
}
