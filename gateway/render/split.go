package render

import (
	"strings"
	"unicode/utf8"
)

// numberRoom is what the caption of a text takes: a line such as "(2/3)".
const numberRoom = 8

// Split cuts a text into pieces that each fit into a message of the target as a code block, with its caption: at the
// ends of lines where it can, and never inside a character as its reader sees it. The pieces together are the text,
// but for control characters, which have become visible.
func Split(t Target, text string) (pieces []string) {
	for text = visible(text); text != ""; {
		var piece string
		piece, text = cut(t, text, room(t))
		pieces = append(pieces, piece)
	}
	return pieces
}

// Preview returns the end of a text as a code block that leaves room for spare UTF-16 units in a message of the target.
// It is for a message that is edited while the execution runs. A blank text is "".
func Preview(t Target, text string, spare int) string {
	end := tail(t, visible(text), room(t)-spare)
	if isBlank(end) {
		return ""
	}
	return Code(t, end)
}

// room returns how much of a text fits into one code block.
func room(t Target) int {
	around, _ := fence(t)
	return LimitsOf(t).Text - around - numberRoom
}

// cut returns the first piece of a text, of at most that many units, and the rest.
func cut(t Target, text string, room int) (piece, rest string) {
	var g graphemes
	taken, line, character, end := 0, 0, 0, 0
	for i, r := range text {
		if g.next(r) {
			character = i
		}
		taken += cost(t, r)
		if taken > room {
			end = i
			break
		}
		if r == '\n' {
			line = i + 1
		}
	}
	switch {
	case taken <= room:
		return text, ""
	case line > 0 && !isBlank(text[:line]):
		end = line
	case character > 0:
		end = character
	case end == 0: // one rune, however small the room
		_, end = utf8.DecodeRuneInString(text)
	}
	return text[:end], text[end:]
}

// tail returns the last piece of a text, of at most that many units.
func tail(t Target, text string, room int) string {
	start := len(text)
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:start])
		if room -= cost(t, r); room < 0 {
			break
		}
		start -= size
	}
	if start == 0 {
		return text
	}
	if text[start-1] == '\n' {
		return text[start:]
	}
	if line := strings.IndexByte(text[start:], '\n'); line >= 0 && !isBlank(text[start+line:]) {
		return text[start+line+1:]
	}
	return text[characterFrom(text, start):]
}

// characterFrom returns the first place from start on where a character begins.
func characterFrom(text string, start int) int {
	from := max(0, start-256)
	for from < start && !utf8.RuneStart(text[from]) {
		from++
	}
	var g graphemes
	for i, r := range text[from:] {
		if g.next(r) && from+i >= start {
			return from + i
		}
	}
	return len(text)
}
