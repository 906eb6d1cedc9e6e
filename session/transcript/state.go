package transcript

import (
	"slices"
	"strings"
)

// State is a transcript that is kept across a restart of the server. It cannot be rebuilt from streams of which the log
// holds only parts, because these do not say in which order they came.
type State struct {
	Order   int           `json:"order"`
	Writing int           `json:"writing,omitzero"` // number of the class, from 1
	Classes [2]savedClass `json:"classes"`
}

type savedClass struct {
	Raw       string          `json:"raw,omitzero"`
	Held      string          `json:"held,omitzero"`
	Redaction *savedRedaction `json:"redaction,omitzero"` // nil where nothing is redacted, and in rows of older servers
	Screen    *savedScreen    `json:"screen,omitzero"`
	Head      []savedSegment  `json:"head,omitzero"`
	Tail      []savedSegment  `json:"tail,omitzero"`
	Room      int             `json:"room"`
	Dropped   int64           `json:"dropped,omitzero"`
}

// savedRedaction is what a redaction knows beside the text that it holds. Places are counted back from its end.
type savedRedaction struct {
	Spans    [][2]int64               `json:"spans,omitzero"` // start, end
	Inside   bool                     `json:"inside,omitzero"`
	Previous rune                     `json:"previous,omitzero"`
	Threads  map[string][]savedThread `json:"threads,omitzero"` // by pattern
	Known    *savedKnown              `json:"known,omitzero"`   // nil where they are not looked for, and in rows of older servers
}

// savedKnown is what the search for secrets of known forms still looks at.
type savedKnown struct {
	Text   []byte  `json:"text"`
	Next   int     `json:"next"`
	From   int     `json:"from"`
	GoesOn charset `json:"goes_on,omitzero"`
}

type savedThread struct {
	PC    uint32 `json:"pc"`
	Start int64  `json:"start"`
}

type savedScreen struct {
	Rows   []string `json:"rows"`
	Row    int      `json:"row,omitzero"`
	Column int      `json:"column,omitzero"`
	Out    int      `json:"out,omitzero"`
}

type savedSegment struct {
	Order int    `json:"order"`
	Text  string `json:"text"`
}

// Save returns the state, from which Restore goes on.
func (t *Transcript) Save() State {
	s := State{Order: t.order}
	for i := range t.classes {
		c := &t.classes[i]
		if t.writing == c {
			s.Writing = i + 1
		}
		s.Classes[i] = savedClass{
			Raw:  strings.ToValidUTF8(string(c.escapes.raw)+string(c.escapes.half), "\uFFFD"),
			Held: string(c.redaction.held), Redaction: c.redaction.save(),
			Head: saveSegments(c.excerpt.head), Tail: saveSegments(c.excerpt.tail),
			Room: c.excerpt.room, Dropped: c.excerpt.dropped,
		}
		if on := c.screen; len(on.rows) > 0 {
			saved := &savedScreen{Row: on.row, Column: on.column, Out: on.gone}
			for _, row := range on.rows {
				saved.Rows = append(saved.Rows, string(row))
			}
			s.Classes[i].Screen = saved
		}
	}
	return s
}

func (d *redaction) save() *savedRedaction {
	if d.none() {
		return nil
	}
	s := &savedRedaction{Inside: d.inside, Previous: d.previous}
	for _, one := range d.spans {
		s.Spans = append(s.Spans, [2]int64{d.place - one.start, d.place - one.end})
	}
	for _, m := range d.matching {
		for _, t := range m.threads {
			if s.Threads == nil {
				s.Threads = map[string][]savedThread{}
			}
			s.Threads[m.expression] = append(s.Threads[m.expression], savedThread{t.pc, d.place - t.start})
		}
	}
	if k := &d.known; d.Redactor.known {
		s.Known = &savedKnown{slices.Clone(k.text), k.next, k.from, k.goesOn}
	}
	return s
}

func saveSegments(list []segment) []savedSegment {
	saved := make([]savedSegment, len(list))
	for i, s := range list {
		saved[i] = savedSegment{s.order, string(s.text)}
	}
	return saved
}

// Restore replaces the whole text by what was saved.
func (t *Transcript) Restore(s State) {
	t.order, t.writing = s.Order, nil
	for i, saved := range s.Classes {
		c := &t.classes[i]
		if s.Writing == i+1 {
			t.writing = c
		}
		c.excerpt.room, c.excerpt.dropped = saved.Room, saved.Dropped
		c.excerpt.head, _ = restoreSegments(saved.Head)
		c.excerpt.tail, c.excerpt.held = restoreSegments(saved.Tail)
		c.redaction.restore(saved.Held, saved.Redaction, func(clean string) { c.excerpt.add(t.order, clean) })
		c.screen.restore(saved.Screen)
		c.escapes = escapes{}
		c.escapes.write(saved.Raw, &c.screen)
	}
}

func (s *screen) restore(saved *savedScreen) {
	*s = screen{out: s.out}
	if saved == nil || saved.Row >= len(saved.Rows) {
		return
	}
	s.row, s.column, s.gone = saved.Row, saved.Column, saved.Out
	for _, row := range saved.Rows {
		s.rows = append(s.rows, []rune(row))
		s.bytes += len(row)
	}
}

// restore goes on where a redaction was, or where one of an older server was: that began at held.
func (d *redaction) restore(held string, saved *savedRedaction, out func(string)) {
	*d = d.begin()
	if d.none() {
		if held != "" {
			out(held)
		}
		return
	}
	d.prepare()
	d.find(held)
	d.held = []byte(held)
	if saved == nil {
		return
	}
	d.inside, d.previous, d.spans = saved.Inside, saved.Previous, nil
	for _, one := range saved.Spans {
		d.spans = append(d.spans, span{d.place - one[0], d.place - one[1]})
	}
	if k := saved.Known; k != nil && k.From <= k.Next && k.Next <= len(k.Text) && int(k.GoesOn) < len(charsets) {
		d.known = known{text: k.Text, next: k.Next, from: k.From, goesOn: k.GoesOn}
	}
	for i := range d.matching {
		m := &d.matching[i]
		m.threads = nil
		for _, t := range saved.Threads[m.expression] {
			if int(t.PC) < len(m.program.Inst) {
				m.threads = append(m.threads, thread{t.PC, d.place - t.Start})
			}
		}
	}
}

func restoreSegments(saved []savedSegment) (list []segment, bytes int) {
	for _, s := range saved {
		list = append(list, segment{s.Order, []byte(s.Text)})
		bytes += len(s.Text)
	}
	return list, bytes
}
