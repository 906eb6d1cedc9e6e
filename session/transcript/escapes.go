package transcript

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSequence is the longest escape sequence.
const maxSequence = 4096

const (
	esc              = '\x1b'
	bell             = '\x07'
	stringTerminator = '\u009c'
	blackFlag        = '\U0001F3F4'
	cancelTag        = '\U000E007F'
	longestRegion    = 6 // TAG characters between the two, as in gbeng
)

// escapes takes escape sequences out of a text that comes in pieces: CSI, OSC and the other strings, and short ones,
// each in the form that begins with ESC and in that of one eight-bit control. A sequence that breaks off, or is longer
// than 4 KiB, only loses its controls. It also takes out Unicode's TAG characters, which a reader doesn't see and a
// model does, except those of the flag of a region. The zero value is ready to use.
type escapes struct {
	raw   []byte // of a sequence that has begun
	state sequenceState
	half  []byte // of a character, the bytes that have come
}

// sequenceState is what of a sequence has come.
type sequenceState uint8

const (
	outside      sequenceState = iota
	escaped                    // ESC
	intermediate               // ESC and intermediate bytes
	control                    // CSI and parameters
	controlEnd                 // CSI, parameters and intermediate bytes
	quoted                     // the opening of a string, and what it says
	quotedEscape               // the same and ESC, which may end it
	flag                       // a black flag, and TAG characters that may make it that of a region
)

// display is what obeys the few sequences that mean something to a reader of text.
type display interface {
	print(text string) // without escape sequences
	eraseRight()
	eraseLine()
	up(rows int)
}

// write goes on with the text.
func (e *escapes) write(text string, on display) {
	if len(e.half) > 0 {
		text, e.half = string(e.half)+text, nil
	}
	for text != "" {
		if e.state == outside {
			i := controlIn(text)
			if i > 0 {
				on.print(text[:i])
			}
			if text = text[i:]; text == "" {
				return
			}
		}
		if !utf8.FullRuneInString(text) {
			e.half = []byte(text)
			return
		}
		next, size := utf8.DecodeRuneInString(text)
		if e.state == outside {
			e.open(next, on)
		} else if !e.take(next, text[:size], on) {
			continue // with the same character
		}
		text = text[size:]
	}
}

// controlIn is where the first control that a sequence may begin with is, or a character that is not complete; else the
// length of text.
func controlIn(text string) int {
	end := len(text)
	for i := end - 1; i >= 0 && i >= end-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				end = i
			}
			break
		}
	}
	if i := strings.IndexByte(text[:end], esc); i >= 0 {
		end = i
	}
	if i := strings.Index(text[:end], "\xf3\xa0"); i >= 0 { // U+E0000 and what follows
		end = i
	}
	if i := strings.IndexRune(text[:end], blackFlag); i >= 0 {
		end = i
	}
	for from := 0; ; { // U+0080 to U+009F
		i := strings.IndexByte(text[from:end], 0xc2)
		if i < 0 {
			return end
		}
		from += i
		if text[from+1] < 0xa0 {
			return from
		}
		from += 2
	}
}

// open begins a sequence, or drops a control or a TAG character that begins none.
func (e *escapes) open(first rune, on display) {
	switch first {
	case blackFlag:
		e.state = flag
	case esc:
		e.state = escaped
	case '\u009b':
		e.state = control
	case '\u0090', '\u0098', '\u009d', '\u009e', '\u009f':
		e.state = quoted
	default:
		if first > unicode.MaxLatin1 && !isTag(first) { // U+E0080 and beyond
			on.print(string(first))
		}
		return
	}
	e.raw = utf8.AppendRune(e.raw[:0], first)
}

// take goes on with a sequence. It reports false where the character does not belong to it.
func (e *escapes) take(next rune, text string, on display) bool {
	state := e.after(next)
	if len(e.raw) >= maxSequence || state == outside && !e.ends(next) {
		e.breakOff(on)
		return false
	}
	e.raw = append(e.raw, text...)
	if state == outside {
		switch e.state {
		case control:
			obey(string(e.raw), on)
		case flag:
			on.print(string(e.raw))
		}
		e.raw = e.raw[:0]
	}
	e.state = state
	return true
}

// after is the state after one more character, outside where that ends the sequence or breaks it off.
func (e *escapes) after(next rune) sequenceState {
	switch e.state {
	case escaped:
		switch {
		case next == '[':
			return control
		case strings.ContainsRune("]PX^_", next):
			return quoted
		case ' ' <= next && next <= '/':
			return intermediate
		}
	case intermediate, controlEnd:
		if ' ' <= next && next <= '/' {
			return e.state
		}
	case control:
		switch {
		case '0' <= next && next <= '?':
			return control
		case ' ' <= next && next <= '/':
			return controlEnd
		}
	case flag:
		if isTag(next) && next != cancelTag && len(e.raw) <= utf8.UTFMax*longestRegion {
			return flag
		}
	case quoted:
		switch next {
		case esc:
			return quotedEscape
		case bell, stringTerminator:
		default:
			return quoted
		}
	}
	return outside
}

// ends reports whether a character is a proper end of the sequence.
func (e *escapes) ends(next rune) bool {
	switch e.state {
	case escaped, intermediate:
		return '0' <= next && next <= '~' && next != '[' && next != ']'
	case control, controlEnd:
		return '@' <= next && next <= '~'
	case quoted:
		return next == bell || next == stringTerminator
	case quotedEscape:
		return next == '\\'
	case flag:
		return next == cancelTag && isRegion(e.raw[utf8.UTFMax:])
	}
	return false
}

// isTag reports whether a character is invisible and stands for one of ASCII.
func isTag(r rune) bool { return '\U000E0000' <= r && r <= cancelTag }

// isRegion reports whether TAG characters stand for the code of a region: two letters of the country, and one to three
// letters or digits.
func isRegion(tags []byte) bool {
	n := 0
	for _, r := range string(tags) {
		c := r - '\U000E0000'
		if !('a' <= c && c <= 'z') && (n < 2 || c < '0' || c > '9') {
			return false
		}
		n++
	}
	return n >= 3 && n < longestRegion
}

// breakOff prints what has come of a sequence, without its controls. An ESC that was to end a string begins another one.
func (e *escapes) breakOff(on display) {
	again := e.state == quotedEscape
	text := strings.Map(func(r rune) rune {
		if r == esc || '\u0080' <= r && r <= '\u009f' || isTag(r) {
			return -1
		}
		return r
	}, string(e.raw))
	e.raw, e.state = e.raw[:0], outside
	if text != "" {
		on.print(text)
	}
	if again {
		e.open(esc, on)
	}
}

// finish ends the text.
func (e *escapes) finish(on display) {
	if e.state != outside {
		e.breakOff(on)
	}
	if len(e.half) > 0 {
		on.print(string(utf8.RuneError))
	}
	*e = escapes{}
}

// obey has the display do what a CSI sequence says.
func obey(sequence string, on display) {
	body := strings.TrimPrefix(strings.TrimPrefix(sequence, "\x1b["), "\u009b")
	switch body {
	case "K", "0K":
		on.eraseRight()
	case "2K":
		on.eraseLine()
	default:
		if rows, ok := strings.CutSuffix(body, "A"); ok && len(body) < 4 {
			if n, err := strconv.Atoi(cmp.Or(rows, "1")); err == nil {
				on.up(max(n, 1))
			}
		}
	}
}

// clone is a copy that can go on by itself.
func (e *escapes) clone() escapes { return escapes{slices.Clone(e.raw), e.state, e.half} }
