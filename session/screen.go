package session

import (
	"strings"
	"unicode/utf8"
)

const (
	screenRows  = 12      // lines that can still be written over: bars above each other take one each
	screenBytes = 8 << 10 // of all of them
	manyBytes   = 256     // which are worth being looked at as a whole
)

// screen holds the end of a text for as long as a carriage return, or a movement upwards, may write over it: of a
// progress bar only its last state is read. It counts characters, not columns. The zero value is ready to use.
type screen struct {
	rows   []string // all but the last one are ended by a line break
	row    int      // of the cursor
	column int      // of the cursor, in characters
	out    int      // characters of the first row that can no longer change
}

// write takes text in which the only escape sequences are those that kept keeps, and returns what can no longer change.
func (s *screen) write(text string) string {
	if len(s.rows) == 0 {
		s.rows = []string{""}
	}
	var out strings.Builder
	if len(text) > manyBytes && s.atEnd() && !strings.ContainsAny(text, "\r\x1b") {
		s.append(&out, text)
		return out.String()
	}
	for text != "" {
		run, rest := text, ""
		if i := strings.IndexAny(text, "\r\n\x1b"); i >= 0 {
			run, rest = text[:i], text[i:]
		}
		if run != "" {
			s.put(&out, run)
		}
		text = rest
		switch {
		case text == "":
		case text[0] == '\r':
			s.column, text = 0, text[1:]
		case text[0] == '\n':
			s.newline(&out)
			text = text[1:]
		case strings.HasPrefix(text, eraseRight):
			s.rows[s.row], _ = splitAt(s.rows[s.row], max(0, s.column-s.offset()))
			text = text[len(eraseRight):]
		case strings.HasPrefix(text, eraseAll):
			s.rows[s.row], text = "", text[len(eraseAll):]
		case strings.HasPrefix(text, moveUp):
			s.row, text = max(0, s.row-1), text[len(moveUp):]
		default: // half a sequence, which nothing followed
			text = text[1:]
		}
	}
	return out.String()
}

// atEnd reports whether the cursor stands behind all that is held.
func (s *screen) atEnd() bool {
	last := len(s.rows) - 1
	return s.row == last && s.column-s.offset() == utf8.RuneCountInString(s.rows[last])
}

// append is write of text that writes over nothing, where the cursor is at the end.
func (s *screen) append(out *strings.Builder, text string) {
	text = s.text() + text
	from := len(text)
	for n := screenRows; n > 0 && from >= 0; n-- {
		from = strings.LastIndexByte(text[:from], '\n')
	}
	if from >= 0 {
		out.WriteString(text[:from+1])
		text, s.out = text[from+1:], 0
	}
	s.rows = strings.Split(text, "\n")
	s.row = len(s.rows) - 1
	s.column = utf8.RuneCountInString(s.rows[s.row]) + s.offset()
	s.bound(out)
}

// put writes a run of characters where the cursor is.
func (s *screen) put(out *strings.Builder, run string) {
	if s.column < s.offset() { // it would write over what is out
		out.WriteString(s.rows[0])
		out.WriteByte('\n')
		s.rows[0], s.out = "", 0
	}
	at := s.column - s.offset()
	before, after := splitAt(s.rows[s.row], at)
	if missing := at - utf8.RuneCountInString(before); missing > 0 {
		before += strings.Repeat(" ", missing)
	}
	count := utf8.RuneCountInString(run)
	_, after = splitAt(after, count)
	s.rows[s.row] = before + run + after
	s.column += count
	s.bound(out)
}

// offset is how many characters of the cursor's row are out.
func (s *screen) offset() int {
	if s.row > 0 {
		return 0
	}
	return s.out
}

// newline moves to the next row, which may be there already.
func (s *screen) newline(out *strings.Builder) {
	s.row, s.column = s.row+1, 0
	if s.row < len(s.rows) {
		return
	}
	s.rows = append(s.rows, "")
	if len(s.rows) > screenRows {
		s.release(out)
	}
}

// release lets the first row out.
func (s *screen) release(out *strings.Builder) {
	out.WriteString(s.rows[0])
	out.WriteByte('\n')
	s.rows = append(s.rows[:0], s.rows[1:]...)
	s.row, s.out = max(0, s.row-1), 0
}

// bound lets go of what is too much to hold.
func (s *screen) bound(out *strings.Builder) {
	size := 0
	for _, row := range s.rows {
		size += len(row)
	}
	for ; size > screenBytes && len(s.rows) > 1; size -= len(s.rows[0]) {
		s.release(out)
	}
	if size > screenBytes {
		out.WriteString(s.rows[0])
		s.out += utf8.RuneCountInString(s.rows[0])
		s.rows[0] = ""
	}
}

// text is what is held.
func (s *screen) text() string { return strings.Join(s.rows, "\n") }

// flush lets go of all that is held. What follows does not write over it.
func (s *screen) flush() string {
	text := s.text()
	*s = screen{}
	return text
}

// splitAt splits text behind so many characters.
func splitAt(text string, characters int) (before, after string) {
	if len(text) <= characters {
		return text, ""
	}
	for i := range text {
		if characters == 0 {
			return text[:i], text[i:]
		}
		characters--
	}
	return text, ""
}
