package record

import "unicode/utf8"

// ToValid returns b if it is valid UTF-8, else a copy in which every invalid sequence is one U+FFFD.
func ToValid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	valid := make([]byte, 0, len(b)+len(b)/8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		valid = utf8.AppendRune(valid, r)
		b = b[n:]
	}
	return valid
}
