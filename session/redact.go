package session

import (
	"regexp"
	"slices"
	"strings"
)

const (
	redacted = "[redacted]"
	// minSecret is the shortest value that is redacted.
	minSecret = 8
	// patternReach is how far back a configured pattern may begin.
	patternReach = 4096
)

// redactor takes secrets out of texts. It is immutable, and safe for concurrent use.
type redactor struct {
	values   []string
	patterns []*regexp.Regexp
}

func newRedactor(values []string, patterns []*regexp.Regexp) *redactor {
	r := &redactor{patterns: patterns}
	for _, v := range values {
		if len(v) >= minSecret {
			r.values = append(r.values, v)
		}
	}
	slices.SortFunc(r.values, func(a, b string) int { return len(b) - len(a) }) // the longest first
	return r
}

// sensitive lists the values of variables whose names say that they are secret.
func sensitive(env map[string]string) []string {
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

// all is the text without secrets.
func (r *redactor) all(text string) string {
	for _, v := range r.values {
		text = strings.ReplaceAll(text, v, redacted)
	}
	for _, p := range r.patterns {
		text = p.ReplaceAllLiteralString(text, redacted)
	}
	return text
}

// split returns what of the text is surely complete, without secrets, and the rest, which may end in the middle of
// one and is to be given again with what follows.
func (r *redactor) split(text string) (clean, rest string) {
	at := r.boundary(text)
	return r.all(text[:at]), text[at:]
}

// boundary is the last place that no secret reaches over.
func (r *redactor) boundary(text string) int {
	at := len(text)
	for _, v := range r.values { // the longest end of the text that is a beginning of v
		for n := min(len(v)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, v[:n]) {
				at = min(at, len(text)-n)
				break
			}
		}
	}
	if len(r.patterns) > 0 {
		at = min(at, max(0, len(text)-patternReach))
	}
	for moved := true; moved; { // not in the middle of a whole one
		moved = false
		for _, span := range r.spans(text) {
			if span[0] < at && at < span[1] {
				at, moved = span[0], true
			}
		}
	}
	for at > 0 && at < len(text) && text[at]&0xC0 == 0x80 {
		at--
	}
	return at
}

// spans are the places of whole secrets.
func (r *redactor) spans(text string) [][]int {
	var spans [][]int
	for _, v := range r.values {
		for from := 0; ; {
			i := strings.Index(text[from:], v)
			if i < 0 {
				break
			}
			spans = append(spans, []int{from + i, from + i + len(v)})
			from += i + 1
		}
	}
	for _, p := range r.patterns {
		spans = append(spans, p.FindAllStringIndex(text, -1)...)
	}
	return spans
}
