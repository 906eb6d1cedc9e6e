package transcript

import (
	"slices"
	"unicode/utf8"
)

// maxSegments is how many segments a head or a tail has before short ones are joined.
const maxSegments = 1024

// shortSegment is the length, in bytes, of a segment that is not to be joined.
const shortSegment = 64

// excerpt keeps the beginning and the end of a text.
type excerpt struct {
	head    []segment
	tail    []segment
	room    int // left in the head
	budget  int // of the tail
	held    int // bytes in the tail
	dropped int64
}

// segment is text that was added in one turn.
type segment struct {
	order int
	text  []byte
}

// add adds text, which ends between characters.
func (x *excerpt) add(order int, text string) {
	if n := min(x.room, len(text)); n > 0 {
		first := Cut(text, n)
		if first != "" {
			x.head = join(x.head, order, first)
		}
		x.room -= n
		if len(first) < n {
			x.room = 0 // the head ends before this character
		}
		text = text[len(first):]
	}
	if excess := len(text) - x.budget; excess > 0 {
		for excess < len(text) && !utf8.RuneStart(text[excess]) {
			excess++
		}
		x.dropped += int64(x.held + excess)
		x.tail, x.held = nil, 0
		text = text[excess:]
	}
	if text == "" {
		return
	}
	x.tail = join(x.tail, order, text)
	x.held += len(text)
	if excess := x.held - x.budget; excess > 0 {
		x.drop(excess)
	}
}

// drop drops at least so many bytes from the beginning of the tail.
func (x *excerpt) drop(excess int) {
	before := x.held
	for excess > 0 && excess >= len(x.tail[0].text) {
		excess -= len(x.tail[0].text)
		x.held -= len(x.tail[0].text)
		x.tail[0], x.tail = segment{}, x.tail[1:]
	}
	if excess > 0 {
		first := x.tail[0].text
		for excess < len(first) && !utf8.RuneStart(first[excess]) {
			excess++
		}
		x.tail[0].text = first[excess:]
		x.held -= excess
	}
	x.dropped += int64(before - x.held)
}

// join adds text to the last segment if that is of the same turn, else as a new one. Where there are many, a short one
// is joined with the next, and moves down to its place.
func join(list []segment, order int, text string) []segment {
	if n := len(list); n > 0 {
		last := &list[n-1]
		if last.order == order || n >= maxSegments && len(last.text) < shortSegment {
			last.order, last.text = order, append(last.text, text...)
			return list
		}
	}
	return append(list, segment{order, []byte(text)})
}

// total is how many bytes were added.
func (x *excerpt) total() int64 {
	n := x.dropped + int64(x.held)
	for _, s := range x.head {
		n += int64(len(s.text))
	}
	return n
}

// last is the last segment, the zero one where there is none.
func (x *excerpt) last() segment {
	if n := len(x.tail); n > 0 {
		return x.tail[n-1]
	}
	if n := len(x.head); n > 0 {
		return x.head[n-1]
	}
	return segment{}
}

// clone is a copy that can go on by itself.
func (x *excerpt) clone() excerpt {
	c := *x
	c.head, c.tail = slices.Clone(x.head), slices.Clone(x.tail)
	return c
}
