package render

import "unicode"

// The characters that join others besides those that Unicode calls marks.
const (
	zeroWidthJoiner = '\u200D'
	zeroWidthSpace  = '\u200B'
)

// graphemes finds where a text may be cut so that each character stays as its reader sees it: a letter with its
// accents, a flag, an emoji with its skin tone, a Hangul syllable. It follows Unicode's annex 29 except for rules that
// need tables of their own (prepended marks, Indic conjuncts).
type graphemes struct {
	previous rune
	flags    int // how many regional indicators previous ends
}

// next takes the next rune, and reports whether the text may be cut before it.
func (g *graphemes) next(r rune) bool {
	previous := g.previous
	g.previous = r
	paired := g.flags%2 == 1
	if isRegional(r) {
		g.flags++
	} else {
		g.flags = 0
	}
	switch {
	case previous == 0 || previous == '\n':
		return true
	case previous == '\r' && r == '\n':
		return false
	case r == '\n':
		return true
	case isMark(r), r == zeroWidthJoiner, r == '\u200C',
		'\U0001F3FB' <= r && r <= '\U0001F3FF', '\U000E0020' <= r && r <= '\U000E007F':
		return false
	case previous == zeroWidthJoiner:
		return false
	case isRegional(r) && paired:
		return false
	}
	return !joinsHangul(previous, r)
}

func isRegional(r rune) bool { return '\U0001F1E6' <= r && r <= '\U0001F1FF' }

// joinsHangul reports whether two runes are parts of one syllable.
func joinsHangul(previous, r rune) bool {
	leading := 0x1100 <= previous && previous <= 0x115F || 0xA960 <= previous && previous <= 0xA97C
	vowel := 0x1160 <= r && r <= 0x11A7 || 0xD7B0 <= r && r <= 0xD7C6
	trailing := 0x11A8 <= r && r <= 0x11FF || 0xD7CB <= r && r <= 0xD7FB
	syllable := 0xAC00 <= previous && previous <= 0xD7A3
	open := syllable && (previous-0xAC00)%28 == 0 || 0x1160 <= previous && previous <= 0x11A7 || 0xD7B0 <= previous && previous <= 0xD7C6
	closed := syllable || 0x11A8 <= previous && previous <= 0x11FF || 0xD7CB <= previous && previous <= 0xD7FB
	switch {
	case leading && (0x1100 <= r && r <= 0x115F || 0xA960 <= r && r <= 0xA97C || 0xAC00 <= r && r <= 0xD7A3):
		return true
	case vowel:
		return leading || open
	case trailing:
		return open || closed
	}
	return false
}

func isMark(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) }
