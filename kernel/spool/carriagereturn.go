package spool

import (
	"bytes"
	"unicode/utf8"
)

// appendVisible appends text to dst without the parts that a carriage return caused to be overwritten completely, such
// as the earlier states of a progress bar. The text looks the same in the end wherever it is shown: on terminals,
// which count columns, as well as on pages, which count characters. Lines with anything whose effect is uncertain
// (tabs, backspaces, cursor movements, characters of unknown width) are appended unchanged. fromStart says that text
// begins in the first column; otherwise, what comes before the first carriage return is kept.
func appendVisible(dst, text []byte, fromStart bool) []byte {
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return appendLine(dst, text, fromStart)
		}
		dst = append(appendLine(dst, text[:end], fromStart), '\n')
		text, fromStart = text[end+1:], true
	}
}

// state is what a line shows between two carriage returns.
type state struct {
	from, to int // its position in the line
	extent
	erases  bool // also the part that it does not reach
	resets  bool // it has colours, and ends with the default ones
	dropped bool
}

// extent is how far a state reaches, by each of the ways in which it may be shown.
type extent struct{ columns, runes, units int }

// covers reports whether something with this extent is longer than something with the other.
func (e extent) covers(of extent) bool {
	return e.columns >= of.columns && e.runes >= of.runes && e.units >= of.units
}

func (e extent) join(other extent) extent {
	return extent{max(e.columns, other.columns), max(e.runes, other.runes), max(e.units, other.units)}
}

const maxStates = 1 << 10 // of one line that are looked at; a line with more is cut into parts of that many

// appendLine is appendVisible for a line without its newline.
func appendLine(dst, line []byte, fromStart bool) []byte {
	if first := bytes.IndexByte(line, '\r'); first < 0 || first == len(line)-1 {
		return append(dst, line...) // nothing is overwritten, or not by this line
	}
	states := make([]state, 0, 16)
	for from := 0; ; {
		length := bytes.IndexByte(line[from:], '\r')
		if length < 0 {
			length = len(line) - from
		}
		s, ok := readState(line[from : from+length])
		if !ok {
			return append(dst, line...)
		}
		s.from, s.to = from, from+length
		states = append(states, s)
		if from += length + 1; from > len(line) {
			break
		}
		if len(states) == maxStates {
			head := appendLine(dst, line[:from-1], fromStart)
			return appendLine(append(head, '\r'), line[from:], true)
		}
	}
	if !dropOverwritten(states, fromStart) {
		return append(dst, line...)
	}
	reset := false
	for i, s := range states {
		if s.dropped {
			reset = reset || s.resets
			continue
		}
		if i > 0 {
			dst = append(dst, '\r')
		}
		if reset {
			dst, reset = append(dst, resetColours...), false
		}
		dst = append(dst, line[s.from:s.to]...)
	}
	return dst
}

const resetColours = "\x1b[0m"

// dropOverwritten marks the states that later ones cover, and reports whether there are any. It marks empty states
// too.
func dropOverwritten(states []state, fromStart bool) (any bool) {
	var after extent // of the later states, each of which begins in the first column
	erased := false
	for i := len(states) - 1; i >= 0; i-- {
		s := &states[i]
		visible := s.to > s.from
		if i < len(states)-1 && visible && (i > 0 || fromStart) && (erased || !s.erases && after.covers(s.extent)) {
			s.dropped, any = true, true
			continue
		}
		after, erased = after.join(s.extent), erased || s.erases
	}
	for i := 1; any && i < len(states)-1; i++ {
		states[i].dropped = states[i].dropped || states[i].from == states[i].to
	}
	return any
}

// readState measures a state. It returns false if the effect of anything in it is uncertain.
func readState(b []byte) (s state, ok bool) {
	colours := false
	for i := 0; i < len(b); {
		if b[i] == 0x1b {
			body, final, size := controlSequence(b[i:])
			switch {
			case final == 'm':
				colours, s.resets = true, body == "" || body == "0"
			case final == 'K' && (body == "" || body == "0"), final == 'K' && body == "2" && s.columns == 0:
				s.erases = true
			default:
				return s, false
			}
			i += size
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		columns := columnsOf(r)
		if columns == 0 {
			return s, false
		}
		s.columns += columns
		s.runes++
		s.units++
		if r > 0xffff {
			s.units++
		}
		i += size
	}
	return s, s.resets || !colours
}

// controlSequence reads the sequence ESC [ digits final that b begins with; size is 0 if there is none.
func controlSequence(b []byte) (body string, final byte, size int) {
	if len(b) < 3 || b[1] != '[' {
		return "", 0, 0
	}
	for i := 2; i < len(b); i++ {
		if c := b[i]; c >= '0' && c <= '9' || c == ';' {
			continue
		}
		return string(b[2:i]), b[i], i + 1
	}
	return "", 0, 0
}

// runeRange is a range of characters that all take that many columns.
type runeRange struct {
	from, to rune
	columns  int
}

// columnRanges are the characters whose width is the same everywhere, among those that people draw progress with or
// write next to it: from Unicode's East Asian Width, without combining and emoji sequences.
var columnRanges = []runeRange{
	{0x20, 0x7e, 1}, {0xa1, 0xac, 1}, {0xae, 0x2ff, 1}, {0x370, 0x482, 1}, {0x48a, 0x52f, 1}, {0x1100, 0x115f, 2},
	{0x2010, 0x2027, 1}, {0x2030, 0x205e, 1}, {0x20a0, 0x20c0, 1}, {0x2190, 0x2199, 1}, {0x2200, 0x22ff, 1},
	{0x2500, 0x25fc, 1}, {0x2713, 0x2718, 1}, {0x2800, 0x28ff, 1}, {0x2e80, 0x3029, 2}, {0x3030, 0x303e, 2},
	{0x3041, 0x3096, 2}, {0x309b, 0x33ff, 2}, {0x3400, 0x4dbf, 2}, {0x4e00, 0xa4cf, 2}, {0xac00, 0xd7a3, 2},
	{0xf900, 0xfaff, 2}, {0xff01, 0xff60, 2}, {0x1f300, 0x1f320, 2}, {0x1f600, 0x1f64f, 2},
}

// columnsOf returns how many columns a character takes, or 0 if that is not known.
func columnsOf(r rune) int {
	for _, c := range columnRanges {
		if r <= c.to {
			if r < c.from {
				return 0
			}
			return c.columns
		}
	}
	return 0
}
