// Package transcript makes the text of an execution that a model reads: what was printed, as a terminal would show it,
// without secrets and within a budget. It knows no session.
package transcript

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"talaria/api"
)

// The budgets of an execution's text, in bytes: what stdout, results and tracebacks take together, and stderr.
const (
	textBudget   = 50_000
	stderrBudget = 10_000
)

// Transcript is the text of an execution for a model: what was printed, the result and the traceback in the order in
// which they appeared, without escape sequences, with secrets redacted before anything is cut. Each of its two
// classes keeps the first 40 % and the last 60 % of its budget. It takes time in proportion to what is written, and
// memory that has a bound. It is not safe for concurrent use.
type Transcript struct {
	classes [2]class
	writing *class // nil at first and after a line
	order   int    // of the present turn: what one class gets before the other, or a line
}

// class is stdout with results and tracebacks, or stderr. Its text passes through escapes, screen and redaction, each of
// which holds back what it cannot be sure of, and is kept.
type class struct {
	escapes   escapes
	screen    screen
	redaction redaction
	excerpt   excerpt
}

// New begins a transcript from which r takes the secrets.
func New(r *Redactor) *Transcript { return newWithin(r, textBudget, stderrBudget) }

// NewWhole begins a transcript that keeps limit bytes of each class.
func NewWhole(r *Redactor, limit int) *Transcript { return newWithin(r, limit, limit) }

func newWithin(r *Redactor, budgets ...int) *Transcript {
	t := &Transcript{}
	for i, budget := range budgets {
		c := &t.classes[i]
		c.redaction = r.begin()
		keep := func(clean string) { c.excerpt.add(t.order, clean) }
		c.screen.out = func(text string) { c.redaction.write(text, keep) }
		c.excerpt = excerpt{room: budget * 2 / 5, budget: budget * 3 / 5}
	}
	return t
}

// Write adds printed text, in pieces of any size.
func (t *Transcript) Write(stderr bool, text string) {
	c := &t.classes[0]
	if stderr {
		c = &t.classes[1]
	}
	if t.writing != c {
		for i := range t.classes { // nothing is written over any more where something comes below it, and it stays above
			if other := &t.classes[i]; other != c {
				other.screen.flush()
				other.redaction.settle(func(clean string) { other.excerpt.add(t.order, clean) })
			}
		}
		t.writing = c
		t.order++
	}
	c.escapes.write(text, &c.screen)
}

// Line writes text that starts on a line of its own.
func (t *Transcript) Line(text string) {
	for i := range t.classes {
		t.classes[i].finish(func(clean string) { t.classes[i].excerpt.add(t.order, clean) })
	}
	t.writing = nil
	last := t.last()
	t.order++
	c := &t.classes[0]
	if last != 0 && last != '\n' {
		c.excerpt.add(t.order, "\n")
	}
	var e escapes
	on := plain{c.screen.out}
	e.write(text, on)
	e.finish(on)
	c.redaction.finish(func(clean string) { c.excerpt.add(t.order, clean) })
}

// last is the last byte of the text but for what is held back, 0 where there is none.
func (t *Transcript) last() byte {
	var end segment
	for i := range t.classes {
		if s := t.classes[i].excerpt.last(); s.text != nil && s.order >= end.order {
			end = s
		}
	}
	if len(end.text) == 0 {
		return 0
	}
	return end.text[len(end.text)-1]
}

// plain is a display on which nothing is written over.
type plain struct{ out func(string) }

func (p plain) print(text string) { p.out(text) }
func (p plain) eraseRight()       {}
func (p plain) eraseLine()        {}
func (p plain) up(int)            {}

// finish ends the text of a class, and hands on all that it holds back.
func (c *class) finish(out func(string)) {
	c.escapes.finish(&c.screen)
	c.screen.flush()
	c.redaction.finish(out)
}

// pending is what finish would hand on.
func (c *class) pending() string {
	var b strings.Builder
	out := func(clean string) { b.WriteString(clean) }
	copied := class{escapes: c.escapes.clone(), redaction: c.redaction.clone()}
	copied.screen = c.screen.clone(func(text string) { copied.redaction.write(text, out) })
	copied.finish(out)
	return b.String()
}

// String is the text so far.
func (t *Transcript) String() string {
	var all []segment
	for i := range t.classes {
		c := &t.classes[i]
		x := c.excerpt.clone()
		x.add(t.order, c.pending())
		all = append(all, x.head...)
		if x.dropped > 0 {
			all = append(all, segment{x.tail[0].order, fmt.Appendf(nil, "\n[%s of %s"+api.TextCutMark+"\n", grouped(x.dropped), grouped(x.total()))})
		}
		all = append(all, x.tail...)
	}
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Compare(a.order, b.order) })
	var b strings.Builder
	for _, s := range all {
		b.Write(s.text)
	}
	return b.String()
}

// grouped writes a number with a comma after each thousand.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// IsCut reports whether the text of a transcript may lack something. Output that contains the same words as the line
// that says so looks as if it did.
func IsCut(text string) bool { return strings.Contains(text, api.TextCutMark) }

// Cut is the longest prefix of s of at most n bytes that ends between two runes.
func Cut(s string, n int) string {
	if n >= len(s) {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}
