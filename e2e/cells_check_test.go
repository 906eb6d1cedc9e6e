package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"talaria/api"
)

// happened is the outcome of one step.
type happened struct {
	events []api.Event   // of the execution, in order
	late   []api.Event   // that came after its end, as far as they were awaited
	took   time.Duration // from the interrupt, else from the start
	end    api.Execution
}

func (h happened) stream(name string) string {
	var text strings.Builder
	for _, s := range of[api.Stream](h.events) {
		if s.Name == name {
			text.WriteString(s.Text)
		}
	}
	return text.String()
}

func (h happened) error() api.ErrorOutput {
	if list := of[api.ErrorEvent](h.events); len(list) > 0 {
		return list[0].ErrorOutput
	}
	return api.ErrorOutput{}
}

// kinds returns the types of the outputs, with streams by their names, and repeats collapsed to one.
func (h happened) kinds() []string {
	var kinds []string
	for _, e := range h.events {
		kind := e.Body.EventType()
		switch b := e.Body.(type) {
		case api.Stream:
			kind = b.Name
		case api.ExecutionQueued, api.ExecutionStarted, api.SessionStateEvent:
			continue
		}
		kinds = append(kinds, kind)
	}
	return slices.Compact(kinds)
}

// streams returns the names and texts of what was printed, with adjacent text of one stream joined.
func (h happened) streams() []string {
	var list []string
	for _, s := range of[api.Stream](h.events) {
		if n := len(list); n > 0 && list[n-2] == s.Name {
			list[n-1] += s.Text
			continue
		}
		list = append(list, s.Name, s.Text)
	}
	return list
}

func (h happened) inputs() []string {
	var list []string
	for _, in := range of[api.InputRequested](h.events) {
		kind := "input"
		if in.Password {
			kind = "password"
		}
		list = append(list, kind, in.Prompt)
	}
	return list
}

// shown is one value that was displayed.
type shown struct {
	data     api.MIMEBundle
	metadata map[string]api.Raw
}

func (h happened) results() (list []shown) {
	for _, r := range of[api.ExecuteResult](h.events) {
		list = append(list, shown{r.Data, r.Metadata})
	}
	return list
}

func (h happened) displays() (list []shown) {
	for _, d := range of[api.DisplayData](h.events) {
		list = append(list, shown{d.Data, d.Metadata})
	}
	return list
}

func (h happened) updates() (list []shown) {
	for _, d := range of[api.UpdateDisplayData](h.events) {
		list = append(list, shown{d.Data, d.Metadata})
	}
	return list
}

// value returns the text for a MIME type, or its JSON unchanged.
func (s shown) value(mime string) (string, bool) {
	raw, ok := s.data[mime]
	if mime == "metadata" {
		b, err := json.Marshal(s.metadata)
		return string(b), err == nil && len(s.metadata) > 0
	}
	var text string
	if ok && json.Unmarshal([]byte(raw), &text) != nil {
		text = string(raw)
	}
	return text, ok
}

// status returns how the execution ended, in the terms of a table.
func (h happened) status() string {
	switch e := h.end; e.Status {
	case api.StatusError:
		if e.Error == nil {
			return "error"
		}
		return "error " + e.Error.Ename
	case api.StatusDied:
		return "died " + e.Reason
	default:
		return string(e.Status)
	}
}

// isStatus reports whether an expectation is about how the execution ended.
func (e expectation) isStatus() bool {
	return slices.Contains([]string{"ok", "error", "interrupted", "timeout", "cancelled", "died", "any"}, e.words[0])
}

// allowsInternals reports whether the cell may show our internals, since it asks for everything there is.
func (e expectation) allowsInternals() bool { return e.words[0] == "internals" }

// check returns what is wrong, or "".
func (e expectation) check(h happened) string {
	if e.isStatus() {
		return e.checkStatus(h)
	}
	switch e.words[0] {
	case "internals":
		return ""
	case "stdout", "stderr":
		text := h.stream(e.words[0])
		return e.compare(text, text != "")
	case "printed": // everything that a person reads, the traceback included
		text := strings.Join(append(h.streams(), h.error().Traceback...), "\n")
		return e.compare(text, text != "")
	case "evalue":
		return e.compare(h.error().Evalue, true)
	case "traceback":
		text := strings.Join(h.error().Traceback, "\n")
		return e.compare(text, text != "")
	case "text":
		return e.compare(h.end.Text, h.end.Text != "")
	case "late":
		late := happened{events: h.late}
		return expectation{words: e.words[1:], op: e.op, text: e.text}.check(late)
	case "result":
		return e.checkShown(h.results(), 1, e.words[1:])
	case "display", "update":
		list := h.displays()
		if e.words[0] == "update" {
			list = h.updates()
		}
		if len(e.words) == 2 && e.words[1] == "none" {
			return e.checkShown(list, 1, e.words[1:])
		}
		n, err := strconv.Atoi(e.words[1])
		if err != nil {
			return "which one of the displays?"
		}
		return e.checkShown(list, n, e.words[2:])
	case "displays", "updates", "results":
		count := map[string]int{"displays": len(h.displays()), "updates": len(h.updates()), "results": len(h.results())}
		return wantCount(e.words, count[e.words[0]])
	case "pieces":
		return wantCount(e.words, len(of[api.Stream](h.events)))
	case "order":
		return e.checkOrder(h.kinds())
	case "streams":
		return wantList(h.streams(), e.words[1:])
	case "inputs":
		return wantList(h.inputs(), e.words[1:])
	case "within":
		limit, err := time.ParseDuration(e.words[1])
		if err != nil || h.took > limit {
			return fmt.Sprintf("it took %v (%v)", h.took, err)
		}
		return ""
	}
	return "nobody knows what that means"
}

func (e expectation) checkStatus(h happened) string {
	if got := h.status(); e.words[0] != "any" && got != e.line[strings.Index(e.line, e.words[0]):] {
		return fmt.Sprintf("it ended %s", got)
	}
	if n := len(of[api.ErrorEvent](h.events)); e.words[0] == "error" && n != 1 || e.words[0] == "ok" && n != 0 {
		return fmt.Sprintf("it ended %s with %d events of type error", h.end.Status, n)
	}
	return ""
}

func (e expectation) checkShown(list []shown, n int, words []string) string {
	if len(words) == 1 && words[0] == "none" {
		if len(list) >= n {
			return fmt.Sprintf("there is %s", list[n-1].data)
		}
		return ""
	}
	if len(list) < n {
		return fmt.Sprintf("there are only %d", len(list))
	}
	mime := "text/plain"
	if len(words) > 0 && (strings.Contains(words[0], "/") || words[0] == "metadata") {
		mime, words = words[0], words[1:]
	}
	text, ok := list[n-1].value(mime)
	e.words = append([]string{mime}, words...)
	return e.compare(text, ok)
}

// compare checks a text with the operator, or with the words "none" and "size N" after its name.
func (e expectation) compare(text string, there bool) string {
	switch {
	case e.op == "=":
		if text != e.text {
			return fmt.Sprintf("it is %.2000q", text)
		}
	case e.op != "":
		pattern, err := regexp.Compile("(?s)" + e.text)
		if err != nil {
			return err.Error()
		}
		if pattern.MatchString(text) != (e.op == "~") {
			return fmt.Sprintf("it is %.2000q", text)
		}
	case len(e.words) == 2 && e.words[1] == "none":
		if there {
			return fmt.Sprintf("it is %.2000q", text)
		}
	case len(e.words) > 2 && e.words[1] == "size":
		return wantCount(e.words[1:], len(text))
	default:
		return "nobody knows what that means"
	}
	return ""
}

// wantCount checks a number as "NAME N" or "NAME below N".
func wantCount(words []string, got int) string {
	last, err := strconv.Atoi(words[len(words)-1])
	if err == nil && (len(words) == 2 && got == last || len(words) == 3 && words[1] == "below" && got < last) {
		return ""
	}
	return fmt.Sprintf("there are %d", got)
}

func wantList(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("they are %.2000q", got)
}

// checkOrder checks that the kinds come in that order, whatever is between them.
func (e expectation) checkOrder(kinds []string) string {
	rest := kinds
	for _, want := range e.words[1:] {
		i := slices.Index(rest, want)
		if i < 0 {
			return fmt.Sprintf("the order is %v", kinds)
		}
		rest = rest[i+1:]
	}
	return ""
}
