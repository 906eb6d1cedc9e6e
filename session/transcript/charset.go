package transcript

import "strings"

// charset is a set of bytes, 0 the empty one.
type charset uint8 // saved across restarts of the server: new ones come last

const (
	_           charset = iota
	token               // letters, digits, - and _
	letters             // letters and digits
	upper               // capital letters and digits
	hex                 // hexadecimal digits
	base64Text          // letters, digits, + / and =
	dotted              // token and .
	upperSpaced         // capital letters and spaces
	dash
	digits
	blanks     // spaces and tabs
	bare       // all but white space, quotes and backslashes
	line       // the same with spaces
	credential // what may follow Bearer
	unbroken   // of a value, what never ends it
)

const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	small    = "abcdefghijklmnopqrstuvwxyz"
	numerals = "0123456789"
)

// charsets has the bytes of each class.
var charsets = [...][256]bool{
	token:       bytesOf(capitals + small + numerals + "-_"),
	letters:     bytesOf(capitals + small + numerals),
	upper:       bytesOf(capitals + numerals),
	hex:         bytesOf(numerals + "abcdefABCDEF"),
	base64Text:  bytesOf(capitals + small + numerals + "+/="),
	dotted:      bytesOf(capitals + small + numerals + "-_."),
	upperSpaced: bytesOf(capitals + " "),
	dash:        bytesOf("-"),
	digits:      bytesOf(numerals),
	blanks:      bytesOf(" \t"),
	bare:        bytesBut(" \"'`\\"),
	line:        bytesBut("\"'`\\"),
	credential:  bytesOf(capitals + small + numerals + "-_.~+/="),
	unbroken:    bytesOf(capitals + small + numerals + "-_.~+/=:"),
}

func bytesOf(list string) (set [256]bool) {
	for b := range set {
		set[b] = b < 0x80 && strings.IndexByte(list, byte(b)) >= 0
	}
	return set
}

// bytesBut is all but some bytes and controls.
func bytesBut(list string) (set [256]bool) {
	for b := range set {
		set[b] = b >= ' ' && b != 0x7f && strings.IndexByte(list, byte(b)) < 0
	}
	return set
}

// has reports whether a text has a byte of a class.
func has(text []byte, c charset) bool {
	for _, b := range text {
		if charsets[c][b] {
			return true
		}
	}
	return false
}
