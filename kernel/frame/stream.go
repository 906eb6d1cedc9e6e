package frame

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"talaria/kernel/record"
)

// decodeStream decodes a stream frame in the form that our runner writes, which makes up most of the bytes that
// arrive. For any other line it returns false. What it decodes equals what decodeFrame would return.
func decodeStream(line []byte) (f Stream, ok bool) {
	b, ok := bytes.CutPrefix(line, []byte(`{"type":"stream","id":"`))
	if !ok || len(b) > maxText || !utf8.Valid(b) {
		return f, false
	}
	n := plainRun(b)
	if n > maxNameLen || n == len(b) || b[n] != '"' {
		return f, false
	}
	f.ID, b = string(b[:n]), b[n:]
	var isErr bool
	if b, ok = bytes.CutPrefix(b, []byte(`","name":"stdout","text":"`)); !ok {
		if b, isErr = bytes.CutPrefix(b, []byte(`","name":"stderr","text":"`)); !isErr {
			return f, false
		}
	}
	f.Name = "stdout"
	if isErr {
		f.Name = "stderr"
	}
	text, rest, ok := unquoteText(slices.Grow(record.TakeBuffer(), len(b)), b)
	if ok {
		f.Mark, ok = markAtEnd(rest)
	}
	if !ok {
		record.RecycleBuffer(text)
		return Stream{}, false
	}
	f.Text = text
	return f, true
}

// markAtEnd returns the mark of a frame, where b is the part after its text.
func markAtEnd(b []byte) (mark uint64, ok bool) {
	digits, ok := bytes.CutPrefix(b, []byte(`,"mark":`))
	if !ok {
		return 0, string(b) == "}"
	}
	digits, ok = bytes.CutSuffix(digits, []byte("}"))
	if !ok || len(digits) == 0 || len(digits) > 15 || digits[0] == '0' {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		mark = mark*10 + uint64(c-'0')
	}
	return mark, true
}

// unquoteText appends to dst the text that b, valid UTF-8, begins with up to its closing quote, and returns the rest
// of b. Each unpaired surrogate becomes U+FFFD. It returns false for invalid JSON.
func unquoteText(dst, b []byte) (text, rest []byte, ok bool) {
	for {
		n := plainRun(b)
		dst = append(dst, b[:n]...)
		if b = b[n:]; len(b) == 0 {
			return dst, nil, false
		}
		if b[0] == '"' {
			return dst, b[1:], true
		}
		if b[0] != '\\' || len(b) < 2 {
			return dst, nil, false
		}
		c := b[1]
		switch c {
		case 'n':
			c = '\n'
		case 't':
			c = '\t'
		case 'r':
			c = '\r'
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case '"', '\\', '/':
		case 'u':
			r, size := escapedRune(b)
			if size == 0 {
				return dst, nil, false
			}
			dst, b = utf8.AppendRune(dst, r), b[size:]
			continue
		default:
			return dst, nil, false
		}
		dst, b = append(dst, c), b[2:]
	}
}

// escapedRune returns the rune that b begins with, written as one or two \uXXXX, and how many bytes it takes; 0 if b
// does not begin with one.
func escapedRune(b []byte) (r rune, size int) {
	if len(b) < 6 {
		return 0, 0
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	high := surrogate(b)
	if high == 0 {
		return rune(unit), 6
	}
	if low := surrogate(b[6:]); high < 0xdc00 && low >= 0xdc00 {
		return rune(0x10000 + (high-0xd800)<<10 + low - 0xdc00), 12
	}
	return utf8.RuneError, 6
}

// plainRun returns how many bytes of b come before a quote, a backslash or a control character.
func plainRun(b []byte) int {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	n := 0
	for ; n+8 <= len(b); n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, slash := x^ones*'"', x^ones*'\\'
		// The lowest bit that is set is right; the bits above a match may not be.
		found := ((x-ones*0x20)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for ; n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= 0x20; n++ {
	}
	return n
}
