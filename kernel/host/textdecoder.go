package host

import (
	"unicode/utf8"

	"talaria/kernel/record"
)

// textDecoder makes valid UTF-8 from bytes that come in pieces. A rune that is split across pieces is kept until it is
// whole; each maximal invalid sequence becomes U+FFFD.
type textDecoder struct {
	split []byte // the beginning of a rune
}

// decode returns the text that b completes. It may alias b.
func (d *textDecoder) decode(b []byte) []byte {
	if len(d.split) > 0 {
		b = append(d.split, b...)
		d.split = nil
	}
	if n := splitRune(b); n > 0 {
		d.split = append([]byte(nil), b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	return record.ToValid(b)
}

// flush returns what is left when no more bytes come.
func (d *textDecoder) flush() []byte {
	b := record.ToValid(d.split)
	d.split = nil
	return b
}

// splitRune returns how many bytes at the end of b begin an incomplete rune.
func splitRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}
