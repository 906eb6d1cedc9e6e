package transcript

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// pattern is a regular expression that can be matched against a text that comes in pieces, in time proportional to the
// text, which package regexp cannot: it needs the whole text, and to find all matches it may read parts of it again and
// again. It is immutable.
type pattern struct {
	expression string
	program    *syntax.Prog
	first      [256]bool // the bytes that a match may begin with
}

func newPattern(expression *regexp.Regexp) (*pattern, error) {
	parsed, err := syntax.Parse(expression.String(), syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	p := &pattern{expression: expression.String(), program: program}
	p.findFirst(uint32(program.Start), make([]bool, len(program.Inst)))
	return p, nil
}

// findFirst sets first to what an instruction, and those that it leads to without a character, may take.
func (p *pattern) findFirst(pc uint32, seen []bool) {
	if seen[pc] {
		return
	}
	seen[pc] = true
	switch i := &p.program.Inst[pc]; i.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		p.findFirst(i.Out, seen)
		p.findFirst(i.Arg, seen)
	case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
		p.findFirst(i.Out, seen)
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		for b := range utf8.RuneSelf {
			p.first[b] = p.first[b] || i.MatchRune(rune(b))
		}
		if beyondASCII(i) {
			for b := 0xc0; b < 0x100; b++ {
				p.first[b] = true
			}
		}
	}
}

// beyondASCII reports whether an instruction may take characters outside of ASCII.
func beyondASCII(i *syntax.Inst) bool {
	folds := len(i.Rune) == 1 && syntax.Flags(i.Arg)&syntax.FoldCase != 0
	return folds || slices.Max(i.Rune) >= utf8.RuneSelf
}

// thread is a match that has begun, and the instruction that it has come to.
type thread struct {
	pc    uint32
	start int64 // place in the text
}

// matching is how far a pattern has come in a text. All matches that may still become one are followed at the same
// time, the preferred ones first, as in Pike's algorithm. What differs from package regexp is that new ones begin even
// while a match that was found may become longer. One that does ends all those that have begun before its end, so that
// the matches are together the same as those of [regexp.Regexp.FindAllStringIndex], except empty ones.
type matching struct {
	*pattern
	threads []thread // in order of preference, which is also that of their starts
	scratch          // of step
}

type scratch struct {
	dense  []thread
	sparse []uint32 // by instruction, its index in dense
}

// step goes on to the character next at a place of the text, -1 for the end; previous is the one before it. It returns
// where a match starts that ends at the place, if there is one.
func (m *matching) step(place int64, previous, next rune) (start int64, matched bool) {
	if m.sparse == nil {
		m.sparse = make([]uint32, len(m.program.Inst))
	}
	m.dense = m.dense[:0]
	width := syntax.EmptyOpContext(previous, next)
	for _, t := range m.threads {
		if matched = m.add(t, width); matched {
			start = t.start
			break // the others would be less preferred
		}
	}
	m.threads = m.threads[:0]
	if next < 0 {
		return start, matched
	}
	m.add(thread{uint32(m.program.Start), place}, width)
	for _, t := range m.dense {
		if i := &m.program.Inst[t.pc]; takes(i) && i.MatchRune(next) {
			m.threads = append(m.threads, thread{i.Out, t.start})
		}
	}
	return start, matched
}

// add adds a thread, and those that it leads to without a character, unless there is a preferred one at the same
// instruction. It stops and reports true at a match.
func (m *matching) add(t thread, width syntax.EmptyOp) (matched bool) {
	for {
		i := &m.program.Inst[t.pc]
		if i.Op == syntax.InstMatch {
			return true
		}
		if j := m.sparse[t.pc]; int(j) < len(m.dense) && m.dense[j].pc == t.pc {
			return false
		}
		m.sparse[t.pc] = uint32(len(m.dense))
		m.dense = append(m.dense, t)
		switch i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			if m.add(thread{i.Out, t.start}, width) {
				return true
			}
			t.pc = i.Arg
		case syntax.InstCapture, syntax.InstNop:
			t.pc = i.Out
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^width != 0 {
				return false
			}
			t.pc = i.Out
		default:
			return false
		}
	}
}

// takes reports whether an instruction takes a character.
func takes(i *syntax.Inst) bool {
	switch i.Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// clone is a copy that can go on by itself.
func (m *matching) clone() matching {
	return matching{pattern: m.pattern, threads: slices.Clone(m.threads)}
}
