package host

import "bytes"

const (
	markByte   = 0x1e
	markDigits = 18 // a mark with more digits is not ours
)

// marks recognises the marks of one runner in its pipes.
type marks struct {
	prefix []byte // "\x1e" HEX ":"; empty until the runner has sent HEX
	passed uint64 // the highest mark whose frame was handled
}

// begin begins the marks of an interpreter that has announced hex.
func (m *marks) begin(hex string) {
	m.prefix, m.passed = append(append([]byte{markByte}, hex...), ':'), 0
}

type markMatch int

const (
	noMark markMatch = iota
	halfMark
	wholeMark
)

// match reports whether b, which begins with markByte, begins with a whole mark, or is the beginning of one.
func (m *marks) match(b []byte) (found markMatch, number uint64, length int) {
	if len(m.prefix) == 0 {
		return noMark, 0, 0
	}
	if len(b) < len(m.prefix) {
		if bytes.HasPrefix(m.prefix, b) {
			return halfMark, 0, 0
		}
		return noMark, 0, 0
	}
	if !bytes.HasPrefix(b, m.prefix) {
		return noMark, 0, 0
	}
	for i, c := range b[len(m.prefix):] {
		switch {
		case c == markByte && i > 0:
			return wholeMark, number, len(m.prefix) + i + 1
		case c < '0' || c > '9' || i == markDigits:
			return noMark, 0, 0
		}
		number = number*10 + uint64(c-'0')
	}
	return halfMark, 0, 0
}
