package transcript

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	screenRows  = 12      // lines that can still be written over: bars above each other take one each
	screenBytes = 8 << 10 // of all of them
	manyBytes   = 256     // which are worth being looked at as a whole
	maxGap      = 512     // characters that the cursor can be behind the end of its row
)

// screen holds the end of a text for as long as a carriage return, or a movement upwards, may write over it: of a
// progress bar only its last state is read. It counts characters, not columns, and behaves the same in whatever pieces
// the text comes. What can no longer change goes to out.
type screen struct {
	out    func(string)
	rows   [][]rune // all but the last one are ended by a line break; none before the first text
	bytes  int      // of all rows
	row    int      // of the cursor
	column int      // of the cursor, in characters
	gone   int      // characters of the first row that are out
	spare  []rune   // of use as a new row
}

// print takes text without escape sequences.
func (s *screen) print(text string) {
	if len(s.rows) == 0 {
		s.rows = [][]rune{nil}
	}
	if len(text) > manyBytes && s.atEnd() && strings.IndexByte(text, '\r') < 0 {
		text = s.pass(text)
	}
	for text != "" {
		line, rest, ended := strings.Cut(text, "\n")
		for {
			run, more, returned := strings.Cut(line, "\r")
			if run != "" {
				s.put(run)
			}
			if !returned {
				break
			}
			s.column, line = 0, more
		}
		if ended {
			s.newline()
		}
		text = rest
	}
}

// pass lets out the lines that so many follow that they would not stay, and returns the others. The cursor is at the
// end, and nothing in the text moves it elsewhere.
func (s *screen) pass(text string) string {
	from := len(text)
	for n := screenRows; n >= 0 && from >= 0; n-- {
		from = strings.LastIndexByte(text[:from], '\n')
	}
	if from < 0 {
		return text
	}
	s.flush()
	s.out(text[:from+1])
	s.rows = [][]rune{nil}
	return text[from+1:]
}

// atEnd reports whether the cursor stands behind all that is held.
func (s *screen) atEnd() bool {
	last := len(s.rows) - 1
	return s.row == last && s.column-s.offset() == len(s.rows[last])
}

// put writes a run of characters where the cursor is.
func (s *screen) put(run string) {
	if s.column < s.offset() { // it would write over what is out
		s.out(encode(s.rows[0], "\n"))
		s.bytes -= size(s.rows[0])
		s.rows[0], s.gone = s.rows[0][:0], 0
	}
	if s.atEnd() {
		s.appendRun(run)
		return
	}
	offset, row := s.offset(), s.rows[s.row]
	for _, r := range run {
		at := s.column - offset
		s.column++
		if at < len(row) && r|row[at] < utf8.RuneSelf {
			row[at] = r
			continue
		}
		if at < len(row) {
			s.bytes += utf8.RuneLen(r) - utf8.RuneLen(row[at])
			row[at] = r
		} else {
			gap := min(at-len(row), maxGap)
			s.column -= at - len(row) - gap
			s.bytes += gap + utf8.RuneLen(r)
			row = append(append(row, spaces[:gap]...), r)
			s.rows[s.row] = row
		}
		if s.bytes > screenBytes {
			s.bound()
			offset, row = s.offset(), s.rows[s.row]
		}
	}
}

// appendRun is put at the end of all that is held.
func (s *screen) appendRun(run string) {
	if len(run) > 2*screenBytes { // of which only the end stays
		kept := len(run) - screenBytes
		for !utf8.RuneStart(run[kept]) {
			kept++
		}
		s.gone = s.column + utf8.RuneCountInString(run[:kept])
		column := s.gone
		s.out(s.text())
		s.out(run[:kept])
		s.rows, s.row, s.bytes = [][]rune{s.rows[s.row][:0]}, 0, 0
		s.column, run = column, run[kept:]
	}
	row := s.rows[s.row]
	before := len(row)
	row = slices.Grow(row, utf8.RuneCountInString(run))
	for _, r := range run {
		row = append(row, r)
	}
	s.rows[s.row] = row
	s.column += len(row) - before
	s.bytes += len(run)
	s.bound()
}

// spaces fill the gap between the end of a row and the cursor.
var spaces = slices.Repeat([]rune{' '}, maxGap)

// offset is how many characters of the cursor's row are out.
func (s *screen) offset() int {
	if s.row > 0 {
		return 0
	}
	return s.gone
}

// newline moves to the next row, which may be there already.
func (s *screen) newline() {
	s.row, s.column = s.row+1, 0
	if s.row < len(s.rows) {
		return
	}
	if len(s.rows) < screenRows {
		s.rows = append(s.rows, nil)
		return
	}
	s.release()
	s.rows = append(s.rows, s.spare[:0])
}

func (s *screen) up(rows int) { s.row = max(0, s.row-rows) }

func (s *screen) eraseRight() {
	if len(s.rows) == 0 {
		return
	}
	row := s.rows[s.row]
	if at := max(0, s.column-s.offset()); at < len(row) {
		s.bytes -= size(row[at:])
		s.rows[s.row] = row[:at]
	}
}

func (s *screen) eraseLine() {
	if len(s.rows) == 0 {
		return
	}
	s.bytes -= size(s.rows[s.row])
	s.rows[s.row] = s.rows[s.row][:0]
}

// release lets the first row out.
func (s *screen) release() {
	first := s.rows[0]
	s.bytes -= size(first)
	s.spare = first
	s.out(encode(first, "\n"))
	copy(s.rows, s.rows[1:])
	s.rows = s.rows[:len(s.rows)-1]
	s.row, s.gone = max(0, s.row-1), 0
}

// bound lets go of what is too much to hold: whole rows, or the beginning of the only one.
func (s *screen) bound() {
	for s.bytes > screenBytes && len(s.rows) > 1 {
		s.release()
	}
	if s.bytes <= screenBytes {
		return
	}
	row, n := s.rows[0], 0
	for ; s.bytes > screenBytes; n++ {
		s.bytes -= utf8.RuneLen(row[n])
	}
	s.out(encode(row[:n], ""))
	s.rows[0] = row[n:]
	s.gone += n
}

// size is how many bytes characters take.
func size(row []rune) int {
	n := 0
	for _, r := range row {
		n += utf8.RuneLen(r)
	}
	return n
}

// encode is a row as text, and what ends it.
func encode(row []rune, end string) string {
	var b strings.Builder
	b.Grow(len(row) + len(end))
	write(&b, row)
	b.WriteString(end)
	return b.String()
}

// text is what is held.
func (s *screen) text() string {
	var b strings.Builder
	b.Grow(s.bytes + len(s.rows))
	for i, row := range s.rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		write(&b, row)
	}
	return b.String()
}

func write(b *strings.Builder, row []rune) {
	for _, r := range row {
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
		} else {
			b.WriteRune(r)
		}
	}
}

// flush lets go of all that is held. What follows does not write over it.
func (s *screen) flush() {
	if text := s.text(); text != "" {
		s.out(text)
	}
	*s = screen{out: s.out}
}

// clone is a copy that can go on by itself, with another way out.
func (s *screen) clone(out func(string)) screen {
	c := *s
	c.out, c.rows = out, make([][]rune, len(s.rows))
	for i, row := range s.rows {
		c.rows[i] = slices.Clone(row)
	}
	return c
}
