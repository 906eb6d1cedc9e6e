package transcript

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	redacted = "[redacted]"
	// minSecret is the shortest value that is redacted.
	minSecret = 8
	// reach is how much of a text is held back for what may still become a secret.
	reach = 4096
	// chunk is how much text is looked at before what is clean of it is handed on.
	chunk = 64 << 10
)

// Redactor takes secrets out of texts: values wherever they appear, what patterns match, and secrets of known forms.
// Secrets that overlap or touch each other become one [redacted].
//
// A value longer than 4 KiB is redacted in parts of that size, so that a part of it which appears alone is redacted too.
// A match of a pattern may be of any length; but at most 4 KiB are held back for one that is not complete. Of a match
// that only becomes one later than that, the 4 KiB before that place are redacted and what lies further ahead is not.
// A match that is complete and goes on is redacted to its end. Empty matches are ignored.
//
// Time is proportional to the text, and to the sizes of the patterns. It is immutable, and safe for concurrent use.
type Redactor struct {
	values   []string // of at most 4 KiB each
	patterns []*pattern
	known    bool      // secrets of known forms are redacted
	build    sync.Once // of what follows; most sessions are never asked for a text
	words    *automaton
	first    [256]bool // the bytes that a secret may begin with
}

// Rules say what a [Redactor] takes out of texts.
type Rules struct {
	Values      []string // those of at least 8 bytes
	Expressions []*regexp.Regexp
	Known       bool // secrets that are recognised by their form
}

// NewRedactor makes a redactor of rules.
func NewRedactor(rules Rules) *Redactor {
	r := &Redactor{known: rules.Known}
	for _, v := range rules.Values {
		if len(v) >= minSecret {
			r.values = append(r.values, parts(v)...)
		}
	}
	for _, e := range rules.Expressions {
		if p, err := newPattern(e); err == nil { // it was compiled before
			r.patterns = append(r.patterns, p)
		}
	}
	return r
}

// parts cuts a value between characters into parts of at most 4 KiB. The last one overlaps the one before it, so that
// it is not too short to be a secret.
func parts(value string) []string {
	var list []string
	rest := value
	for len(rest) > reach {
		part := Cut(rest, reach)
		list, rest = append(list, part), rest[len(part):]
	}
	start := max(0, len(value)-reach)
	for !utf8.RuneStart(value[start]) {
		start++
	}
	return append(list, value[start:])
}

// Sensitive lists the values of variables whose names say that they are secret.
func Sensitive(env map[string]string) []string {
	var values []string
	for name, value := range env {
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"} {
			if strings.Contains(name, word) {
				values = append(values, value)
				break
			}
		}
	}
	return values
}

// none reports whether there is nothing to redact.
func (r *Redactor) none() bool { return !r.custom() && !r.known }

// custom reports whether there are values or patterns.
func (r *Redactor) custom() bool { return len(r.values) > 0 || len(r.patterns) > 0 }

// prepare builds what finds secrets.
func (r *Redactor) prepare() {
	r.build.Do(func() {
		r.words = newAutomaton(r.values)
		for b := range r.first {
			r.first[b] = r.words.root[b] != 0 && (b < utf8.RuneSelf || utf8.RuneStart(byte(b)))
			for _, p := range r.patterns {
				r.first[b] = r.first[b] || p.first[b]
			}
		}
	})
}

// redaction is the redaction of one text that comes in pieces. Places are counted in bytes from its beginning.
type redaction struct {
	*Redactor
	place    int64      // the end of what has come
	held     []byte     // the end of that which a secret may have begun in
	spans    []span     // of secrets in held, in order, with something between them
	inside   bool       // what came before held was a secret
	previous rune       // the last character, -1 at the beginning
	word     int32      // node of words
	matching []matching // by pattern
	known    known
}

// span is the place of a secret.
type span struct{ start, end int64 }

func (r *Redactor) begin() redaction {
	d := redaction{Redactor: r, previous: -1}
	for _, p := range r.patterns {
		d.matching = append(d.matching, matching{pattern: p})
	}
	return d
}

// write goes on with the text, and hands on what of it is sure. Pieces end between characters.
func (d *redaction) write(text string, out func(string)) {
	if d.none() {
		if text != "" {
			out(text)
		}
		return
	}
	d.prepare()
	for text != "" {
		piece := Cut(text, chunk)
		text = text[len(piece):]
		d.find(piece)
		d.release(d.sure(piece), piece, out)
	}
}

// finish ends the text, and begins a new one.
func (d *redaction) finish(out func(string)) {
	if d.none() {
		return
	}
	for i := range d.matching {
		if m := &d.matching[i]; len(m.threads) > 0 {
			if start, ok := m.step(d.place, d.previous, -1); ok {
				d.add(max(start, d.back("")), d.place)
			}
		}
	}
	d.findKnown("", true)
	d.release(d.place, "", out)
	*d = d.begin()
}

// settle hands on what is held back only because it may be the prefix of a secret of a known form.
func (d *redaction) settle(out func(string)) {
	if d.Redactor.known && len(d.held) > 0 {
		d.prepare()
		d.known.settle()
		d.release(d.sure(""), "", out)
	}
}

// find takes text and adds the secrets in it.
func (d *redaction) find(text string) {
	if d.custom() {
		d.findCustom(text)
	} else {
		d.place += int64(len(text))
	}
	d.findKnown(text, false)
}

// findKnown takes text that find counted already, and adds the secrets of known forms.
func (d *redaction) findKnown(text string, final bool) {
	if d.Redactor.known {
		d.known.write(text, final, func(start, end int) { d.add(d.place-int64(start), d.place-int64(end)) })
	}
}

// findCustom takes text and adds the values and the matches of patterns in it.
func (d *redaction) findCustom(text string) {
	for i := 0; i < len(text); {
		if d.idle() {
			skipped := i
			for i < len(text) && !d.first[text[i]] {
				i++
			}
			if i > skipped {
				d.previous, _ = utf8.DecodeLastRuneInString(text[:i])
				d.place += int64(i - skipped)
				continue
			}
		}
		next, size := utf8.DecodeRuneInString(text[i:])
		d.match(next, text[i], text[:i])
		for range size {
			d.word = d.words.next(d.word, text[i])
			i++
			d.place++
			if n := d.words.nodes[d.word].longest; n > 0 {
				d.add(d.place-int64(n), d.place)
			}
		}
		d.previous = next
	}
}

// idle reports whether no secret may have begun.
func (d *redaction) idle() bool {
	for i := range d.matching {
		if len(d.matching[i].threads) > 0 {
			return false
		}
	}
	return d.word == 0
}

// match has the patterns go on to the next character, which begins with a byte. text is what came since held.
func (d *redaction) match(next rune, first byte, text string) {
	for i := range d.matching {
		m := &d.matching[i]
		if len(m.threads) == 0 && !m.first[first] {
			continue
		}
		if start, ok := m.step(d.place, d.previous, next); ok {
			d.add(max(start, d.back(text)), d.place)
		}
	}
}

// add adds a secret, and joins it with those that it touches.
func (d *redaction) add(start, end int64) {
	to := len(d.spans)
	for to > 0 && d.spans[to-1].start > end {
		to--
	}
	from := to
	for from > 0 && d.spans[from-1].end >= start {
		from--
		start, end = min(start, d.spans[from].start), max(end, d.spans[from].end)
	}
	d.spans = slices.Replace(d.spans, from, to, span{start, end})
}

// back is the first place that is held for a match that is not complete, at the beginning of a character. text is what
// came since held.
func (d *redaction) back(text string) int64 {
	place := d.place - reach
	begin := d.place - int64(len(text)) // of text
	for ; place > begin-int64(len(d.held)); place-- {
		i := place - begin
		if i >= 0 && utf8.RuneStart(text[i]) || i < 0 && utf8.RuneStart(d.held[int64(len(d.held))+i]) {
			break
		}
	}
	return place
}

// sure is the first place where a secret that is not complete may have begun. text is what came since held.
func (d *redaction) sure(text string) int64 {
	place := d.place - int64(d.words.nodes[d.word].depth)
	oldest := d.place
	for i := range d.matching {
		if threads := d.matching[i].threads; len(threads) > 0 {
			oldest = min(oldest, threads[0].start)
		}
	}
	return min(place, max(oldest, d.back(text)), d.place-int64(d.known.open()))
}

// release hands on what lies before a place, held and then text, and holds the rest.
func (d *redaction) release(place int64, text string, out func(string)) {
	begin := d.place - int64(len(text)) // of text
	from := begin - int64(len(d.held))
	place = max(place, from) // what was settled isn't held again
	for from < place {
		to := place
		if len(d.spans) > 0 {
			to = min(place, d.spans[0].start)
		}
		if from < to {
			d.inside = false
			d.hand(from-begin, to-begin, text, out)
			from = to
			continue
		}
		if !d.inside {
			out(redacted)
		}
		d.inside = true
		from = min(place, d.spans[0].end)
		if from == d.spans[0].end {
			d.spans = d.spans[1:]
		} else {
			d.spans[0].start = from
		}
	}
	if n := begin - place; n > 0 {
		d.held = append(d.held[int64(len(d.held))-n:], text...)
	} else {
		d.held = append(d.held[:0], text[-n:]...)
	}
}

// hand hands on a part of held and text, counted from the beginning of text.
func (d *redaction) hand(from, to int64, text string, out func(string)) {
	if from < 0 {
		n := int64(len(d.held))
		out(string(d.held[n+from : n+min(to, 0)]))
		from = 0
	}
	if from < to {
		out(text[from:to])
	}
}

// clone is a copy that can go on by itself.
func (d *redaction) clone() redaction {
	c := *d
	c.known = d.known.clone()
	c.held, c.spans = slices.Clone(d.held), slices.Clone(d.spans)
	c.matching = make([]matching, len(d.matching))
	for i := range d.matching {
		c.matching[i] = d.matching[i].clone()
	}
	return c
}
