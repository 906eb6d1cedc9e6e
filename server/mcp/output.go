package mcp

import (
	"context"
	"encoding/json"
	"strings"

	"talaria/api"
	"talaria/session"
)

// wholeText is all that an execution showed as text, as far as the log keeps it, without secrets.
func wholeText(ctx context.Context, sess *session.Session, e api.Execution) (string, error) {
	var b strings.Builder
	if !e.Status.Final() {
		for _, o := range e.Outputs {
			writeText(&b, o.OutputType == "stream", o.Text, o.Data, o.Error.Traceback)
		}
		return sess.Redacted(b.String()), nil
	}
	for event, err := range sess.Journal().ExecutionEvents(ctx, e.ID, 0) {
		if err != nil {
			return "", err
		}
		switch body := bodyOf(event).(type) {
		case api.Stream:
			writeText(&b, true, body.Text, nil, nil)
		case api.DisplayData:
			writeText(&b, false, "", body.Data, nil)
		case api.ExecuteResult:
			writeText(&b, false, "", body.Data, nil)
		case api.ErrorEvent:
			writeText(&b, false, "", nil, body.Traceback)
		}
		if b.Len() > maxResource {
			return "", errTooLarge()
		}
	}
	return sess.Redacted(b.String()), nil
}

// writeText appends what one output shows as text.
func writeText(b *strings.Builder, printed bool, text string, data api.MIMEBundle, traceback []string) {
	switch {
	case printed:
		b.WriteString(text)
		return
	case traceback != nil:
		text = strings.Join(traceback, "\n")
	case json.Unmarshal(data["text/plain"], &text) != nil:
		return
	}
	b.WriteString(text)
	b.WriteByte('\n')
}

// bodyOf is the body of an event, decoded.
func bodyOf(event api.Event) api.EventBody {
	raw, isRaw := event.Body.(api.RawEvent)
	if !isRaw {
		return event.Body
	}
	var decoded api.Event
	if decoded.UnmarshalJSON(raw.JSON) != nil {
		return raw
	}
	return decoded.Body
}

// lastLine is the last line that an event printed, "" for none.
func lastLine(event api.Event) string {
	printed, ok := bodyOf(event).(api.Stream)
	if !ok {
		return ""
	}
	text := strings.TrimRight(printed.Text, "\r\n ")
	if at := strings.LastIndexAny(text, "\r\n"); at >= 0 {
		text = text[at+1:]
	}
	if len(text) > maxProgressLine {
		text = strings.ToValidUTF8(text[:maxProgressLine], "") + "…"
	}
	return text
}
