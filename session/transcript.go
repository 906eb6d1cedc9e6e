package session

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"talaria/api"
)

// The budgets of an execution's text, in bytes: what stdout, results and tracebacks take together, and stderr.
const (
	textBudget   = 50_000
	stderrBudget = 10_000
)

// transcript is the text of an execution for a model: what was printed, the result and the traceback in the order in
// which they appeared, without escape sequences, with secrets redacted before anything is cut. Each of its two
// classes keeps the first 40 % and the last 60 % of its budget. It is not safe for concurrent use.
type transcript struct {
	classes [2]class
	order   int
}

// class is stdout with results and tracebacks, or stderr.
type class struct {
	clean   cleaner
	head    []segment
	tail    []segment
	room    int // left in the head
	budget  int // of the tail
	held    int // bytes in the tail
	dropped int64
}

type segment struct {
	order int
	text  string
}

func newTranscript(r *redactor) *transcript {
	t := &transcript{}
	for i, budget := range []int{textBudget, stderrBudget} {
		t.classes[i] = class{clean: cleaner{redact: r}, room: budget * 2 / 5, budget: budget * 3 / 5}
	}
	return t
}

func (t *transcript) write(stderr bool, text string) {
	c := &t.classes[0]
	if stderr {
		c = &t.classes[1]
	}
	t.settle(c)
	t.order++
	c.add(t.order, c.clean.write(text))
}

// settle ends what the other class writes over: something comes below it.
func (t *transcript) settle(but *class) {
	for i := range t.classes {
		if c := &t.classes[i]; c != but {
			c.add(t.order, c.clean.settle())
		}
	}
}

// line writes text that starts on a line of its own.
func (t *transcript) line(text string) {
	t.settle(nil)
	c := &t.classes[0]
	t.order++
	text = c.clean.flush() + c.clean.redact.all(escapes.ReplaceAllString(text, ""))
	if s := t.String(); s != "" && !strings.HasSuffix(s, "\n") {
		text = "\n" + text
	}
	c.add(t.order, text)
}

func (c *class) add(order int, text string) {
	if n := min(c.room, len(text)); n > 0 {
		first := cut(text, n)
		c.head = append(c.head, segment{order, first})
		c.room -= n
		if len(first) < n {
			c.room = 0 // the head ends before this rune
		}
		text = text[len(first):]
	}
	if text == "" {
		return
	}
	if n := len(c.tail); n > 0 && c.tail[n-1].order == order-1 && len(c.tail[n-1].text) < 1024 {
		c.tail[n-1] = segment{order, c.tail[n-1].text + text}
	} else {
		c.tail = append(c.tail, segment{order, text})
	}
	c.held += len(text)
	for c.held > c.budget {
		excess := c.held - c.budget
		first := c.tail[0].text
		if len(first) <= excess {
			c.tail = c.tail[1:]
			c.held -= len(first)
			c.dropped += int64(len(first))
			continue
		}
		rest := first[excess:]
		for rest != "" && rest[0]&0xC0 == 0x80 {
			rest = rest[1:]
		}
		c.dropped += int64(len(first) - len(rest))
		c.held -= len(first) - len(rest)
		c.tail[0].text = rest
	}
}

// String is the text so far.
func (t *transcript) String() string {
	var all []segment
	for i := range t.classes {
		c := &t.classes[i]
		pending := c.clean.pending()
		if pending != "" { // as if it had come now, without giving up the state
			copied := *c
			copied.head, copied.tail = slices.Clone(c.head), slices.Clone(c.tail)
			copied.add(t.order+1, pending)
			c = &copied
		}
		all = append(all, c.head...)
		for j, s := range c.tail {
			if j == 0 && c.dropped > 0 {
				s.text = fmt.Sprintf("\n[%d bytes are left out here]\n", c.dropped) + s.text
			}
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Compare(a.order, b.order) })
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.text)
	}
	return b.String()
}

// result adds a result's text/plain.
func (o *output) result(data api.MIMEBundle) {
	var text string
	if raw, ok := data["text/plain"]; !ok || json.Unmarshal(raw, &text) != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transcript.line(text)
}

// traceback adds an exception.
func (o *output) traceback(e api.ErrorOutput) {
	text := strings.TrimRight(strings.Join(e.Traceback, "\n"), "\n")
	if text == "" {
		text = e.Ename + ": " + e.Evalue
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.transcript.line(text)
}

// escapes matches what terminals obey: CSI, OSC and the other string kinds, and short ones, each in the form that
// begins with ESC and in that of one eight-bit control, and what is left of those.
var escapes = regexp.MustCompile(
	"(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]" +
		"|(?:\x1b[\\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\x07\x1b\u009c]*(?:\x07|\x1b\\\\|\u009c)" +
		"|\x1b[ -/]*[0-Z\\\\^-~]|[\u0080-\u009f]")

// unfinished matches an escape sequence that the text ends in the middle of.
var unfinished = regexp.MustCompile("(?:(?:\x1b\\[|\u009b)[0-?]*[ -/]*" +
	"|(?:\x1b[\\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\x07\x1b\u009c]*\x1b?" +
	"|\x1b[ -/]*)$")

// cleaner takes escape sequences, what was written over, and secrets out of a text that comes in pieces. What may be
// the beginning of one is held back until the next piece.
type cleaner struct {
	redact *redactor
	raw    string // ends in the middle of an escape sequence
	screen screen // free of escapes, may be written over
	held   string // cannot change any more, may end in the middle of a secret
}

func (c *cleaner) write(text string) string {
	c.raw += text
	end := len(c.raw)
	if obeyed(c.raw) {
		from := max(0, len(c.raw)-4200)
		if at := unfinished.FindStringIndex(c.raw[from:]); at != nil {
			end = from + at[0]
		}
	}
	final := c.screen.write(strip(c.raw[:end]))
	c.raw = c.raw[end:]
	return c.take(final)
}

// take takes text that cannot change any more, and returns what of it is surely complete.
func (c *cleaner) take(final string) (out string) {
	out, c.held = c.redact.split(c.held + final)
	return out
}

// settle has nothing written over what there is.
func (c *cleaner) settle() string {
	if len(c.screen.rows) == 0 {
		return ""
	}
	return c.take(c.screen.flush())
}

// The sequences that a screen obeys, in the one form that strip leaves them in.
const (
	eraseRight = "\x1b[K"
	eraseAll   = "\x1b[2K"
	moveUp     = "\x1b[A"
)

// strip leaves no escape sequences but those of a screen.
func strip(s string) string {
	if !obeyed(s) {
		return s
	}
	return escapes.ReplaceAllStringFunc(s, func(sequence string) string {
		switch body := strings.TrimPrefix(strings.TrimPrefix(sequence, "\x1b["), "\u009b"); body {
		case "K", "0K":
			return eraseRight
		case "2K":
			return eraseAll
		default:
			if rows, ok := strings.CutSuffix(body, "A"); ok && len(body) < 4 {
				n, err := strconv.Atoi(cmp.Or(rows, "1"))
				if err == nil {
					return strings.Repeat(moveUp, min(max(n, 1), screenRows))
				}
			}
			return ""
		}
	})
}

// obeyed reports whether s has a control that escapes could match.
func obeyed(s string) bool {
	if strings.IndexByte(s, 0x1b) >= 0 {
		return true
	}
	for { // U+0080 to U+009F
		i := strings.IndexByte(s, 0xc2)
		if i < 0 || i+1 >= len(s) {
			return false
		}
		if s[i+1] < 0xa0 {
			return true
		}
		s = s[i+2:]
	}
}

// pending is what write holds back, as it would come out at the end.
func (c *cleaner) pending() string {
	screen := c.screen
	screen.rows = slices.Clone(screen.rows)
	final := screen.write(strip(c.raw))
	return c.redact.all(c.held + final + screen.flush())
}

// flush ends the text.
func (c *cleaner) flush() string {
	out := c.pending()
	c.raw, c.screen, c.held = "", screen{}, ""
	return out
}
