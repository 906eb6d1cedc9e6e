package session

import (
	"fmt"
	"strings"
	"unicode"

	"talaria/session/transcript"
)

// maxSummary bounds the summary of a question, in bytes.
const maxSummary = 300

// shown is a text that came from a cell or a client, as a person may safely read it when deciding: bounded, and with
// what changes how other text looks (control characters, escape sequences, direction marks, invisible characters) written
// out as \u{…}. A text of several lines keeps its line breaks and tabs.
func shown(text string, limit int, lines bool) string {
	whole := len(text)
	text = strings.ToValidUTF8(text[:min(whole, 2*limit)], "\uFFFD")
	var b strings.Builder
	for _, r := range text {
		switch {
		case lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r),
			unicode.Is(unicode.Co, r), r != ' ' && unicode.Is(unicode.Zs, r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	if b.Len() <= limit && whole <= 2*limit {
		return b.String()
	}
	note := fmt.Sprintf(" [cut; %d bytes in total]", whole)
	return transcript.Cut(b.String(), max(limit-len(note), 0)) + note
}
