package transcript

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"talaria/session/cputest"
)

// expressions compiles patterns.
func expressions(list ...string) []*regexp.Regexp {
	var compiled []*regexp.Regexp
	for _, e := range list {
		compiled = append(compiled, regexp.MustCompile(e))
	}
	return compiled
}

// redactedWhole is what redaction should make of a text, found in the plainest way.
func redactedWhole(text string, values []string, patterns []*regexp.Regexp) string {
	secret := make([]bool, len(text))
	mark := func(from, to int) {
		for i := from; i < to; i++ {
			secret[i] = true
		}
	}
	for _, v := range values {
		for i := range text {
			if strings.HasPrefix(text[i:], v) {
				mark(i, i+len(v))
			}
		}
	}
	for _, p := range patterns {
		for _, at := range p.FindAllStringIndex(text, -1) {
			mark(at[0], at[1])
		}
	}
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !secret[i]:
			b.WriteByte(text[i])
		case i == 0 || !secret[i-1]:
			b.WriteString(redacted)
		}
	}
	return b.String()
}

// redactPieces redacts a text that comes in random pieces, now and then taken up from what was saved.
func redactPieces(random *rand.Rand, r *Redactor, text string) string {
	var b strings.Builder
	out := func(clean string) { b.WriteString(clean) }
	d := r.begin()
	for text != "" {
		piece := Cut(text, 4+random.IntN(len(text)))
		text = text[len(piece):]
		d.write(piece, out)
		if random.IntN(3) == 0 {
			held, saved := string(d.held), d.save()
			d = redaction{Redactor: r}
			d.restore(held, saved, out)
		}
	}
	d.finish(out)
	return b.String()
}

func TestRedactionInPiecesIsThatOfTheWholeText(t *testing.T) {
	values := []string{"aaaaaaaa", "aaaaaaaab", "abababab", "aaaaaaaabbbbbbbb", "bbbbbbbbbbbbbbbb", "bbäbbäbbäbb", "c\nc\nc\nc\nc"}
	patterns := expressions(`a+b`, `(?i)[BK]{3,5}`, `bc*?b`, `\bab+\b`, `c[^b]*b`, `(?:ab|a)(?:c|bcd)`, `^a`, `(?m)^b.*$`, `b$`,
		`ä.`, `a.*b`, `(?s).*`, `.*`, `c*`, `(?:aa)+?b`, `sk-[a-z]+(?:\.[a-z]+)?`, `\Bc`, `[^a]{4}`)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"a", "b", "aa", "bb", "aaaaaaa", "bbbbbbb", "c", "ä", "\n", " ", "K", "sk-", "."}
	for range 4000 {
		var in strings.Builder
		for range random.IntN(40) {
			in.WriteString(parts[random.IntN(len(parts))])
		}
		var chosen []string
		var matched []*regexp.Regexp
		for range random.IntN(4) {
			chosen = append(chosen, values[random.IntN(len(values))])
		}
		for range random.IntN(3) {
			matched = append(matched, patterns[random.IntN(len(patterns))])
		}
		want := redactedWhole(in.String(), chosen, matched)
		if got := redactPieces(random, NewRedactor(Rules{Values: chosen, Expressions: matched}), in.String()); got != want {
			t.Fatalf("seed %d: %q without %q and %v is %q, want %q", seed, in.String(), chosen, matched, got, want)
		}
	}
}

func TestSecretsOfAnyLengthAreRedacted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	long := make([]rune, 100_000)
	for i := range long {
		long[i] = []rune("abcdé€😀")[random.IntN(7)]
	}
	key := string(long)
	letters := strings.Repeat("x", 1<<20)
	between := strings.Repeat("-", 10_000)
	for _, c := range []struct {
		name     string
		values   []string
		patterns []string
		in, want string
	}{
		{"of itself", []string{"aaaaaaaa"}, nil, "<" + strings.Repeat("a", 150_000) + ">", "<[redacted]>"},
		{"one short", []string{"aaaaaaaa"}, nil, "aaaaaaa baaaaaaa", "aaaaaaa baaaaaaa"},
		{"beside each other", []string{"12345678"}, nil, "1234567812345678 12345678", "[redacted] [redacted]"},
		{"prefixes", []string{"abcdefgh", "abcdefghij", "abcdefghijklmnop"}, nil,
			"abcdefgh! abcdefghi! abcdefghij! abcdefghijklmno! abcdefghijklmnop!",
			"[redacted]! [redacted]i! [redacted]! [redacted]klmno! [redacted]!"},
		{"a long value", []string{key}, nil, "<" + key + "> <" + key + ">", "<[redacted]> <[redacted]>"},
		{"a part of a long value", []string{key}, nil, "<" + Cut(key, reach) + ">", "<[redacted]>"},
		{"a value just as long as its part", []string{letters[:reach]}, nil, letters[:reach-1] + " " + letters[:reach], letters[:reach-1] + " [redacted]"},
		{"a long match", nil, []string{`sk-[A-Za-z0-9]+`}, "sk-" + letters + " end sk-", "[redacted] end sk-"},
		{"a match that is late", nil, []string{`(?s)BEGIN.*?END`}, "BEGIN" + between + "END BEGIN-END",
			"BEGIN" + between[:10_000-reach+3] + "[redacted] [redacted]"},
		{"a match within one that never is", nil, []string{`BEGIN[^!]*END`}, "BEGIN" + between + "BEGIN-END",
			"BEGIN" + between[:10_000-reach+9] + "[redacted]"},
		{"all", nil, []string{`(?s).*`}, letters + "\n" + letters, "[redacted]"},
		{"lines", nil, []string{`.*`}, letters + "\n\n" + letters + "\n", "[redacted]\n\n[redacted]\n"},
		{"nothing", nil, []string{`x*?`, `^`, `$`, `\b`}, "x y", "x y"},
		{"a value and a match", []string{"hunter2hunter2"}, []string{`password=\w+`}, "password=hunter2hunter2; hunter2hunter2", "[redacted]; [redacted]"},
	} {
		r := NewRedactor(Rules{Values: c.values, Expressions: expressions(c.patterns...)})
		for _, n := range []int{4, 1000, 1 << 20, 1 << 30} {
			var b strings.Builder
			out := func(clean string) { b.WriteString(clean) }
			d := r.begin()
			for rest := c.in; rest != ""; {
				piece := Cut(rest, n)
				rest = rest[len(piece):]
				d.write(piece, out)
			}
			d.finish(out)
			if got := b.String(); got != c.want {
				t.Errorf("%s, in pieces of %d: %d bytes, %.80q, want %d, %.80q", c.name, n, len(got), got, len(c.want), c.want)
			}
		}
	}
}

// TestHostileOutputTakesLinearTimeAndBoundedMemory writes some megabytes of what was expensive, which takes well under
// a second of CPU time each.
func TestHostileOutputTakesLinearTimeAndBoundedMemory(t *testing.T) {
	const most = 10 * time.Second
	var prefixes, many []string
	for n := minSecret; n < 400; n++ {
		prefixes = append(prefixes, strings.Repeat("a", n))
	}
	for i := range 5000 {
		many = append(many, fmt.Sprintf("aaaa%08d", i))
	}
	wide := strings.Repeat("wide\t", screenBytes/5)
	for _, c := range []struct {
		name     string
		values   []string
		patterns []string
		first    string
		again    string
	}{
		{name: "plain", again: "a line of the output\n"},
		{name: "one line", again: "0123456789"},
		{name: "secret of itself", values: []string{"aaaaaaaa"}, again: "a"},
		{name: "long secret of itself", values: []string{strings.Repeat("a", 200_000)}, again: "a"},
		{name: "prefixes", values: prefixes, again: strings.Repeat("a", 390) + "b"},
		{name: "many secrets", values: many, again: "aaaa0000499"},
		{name: "almost", values: []string{strings.Repeat("a", 4000) + "b"}, again: strings.Repeat("a", 3999) + "c"},
		{name: "endless match", patterns: []string{`sk-[A-Za-z0-9]+`}, first: "sk-", again: "x"},
		{name: "many beginnings", patterns: []string{`sk-[A-Za-z0-9]+!`}, again: "sk-"},
		{name: "everything", patterns: []string{`(?s).*`, `.*`, ``, `x*`}, again: "xy\n"},
		{name: "never complete", patterns: []string{`(?s)BEGIN.*?END`}, again: "BEGIN"},
		{name: "complete in two ways", patterns: []string{`a|a.*b`, `(?:a.*b|a)`}, again: "a"},
		{name: "open string", again: "\x1b]"},
		{name: "open strings of one byte", again: "\u009d"},
		{name: "long string", first: "\x1b]", again: "x"},
		{name: "open control", again: "\x1b[1"},
		{name: "long control", first: "\x1b[", again: "1"},
		{name: "over a wide row", first: wide, again: "\ra"},
		{name: "erase a wide row", first: wide, again: "\x1b[2Kx"},
		{name: "erase right", first: wide, again: "\ra\x1b[K"},
		{name: "up and down", first: wide, again: "\n\x1b[A\n\n\x1b[2Axx"},
		{name: "wide characters", again: "漢字😀"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for _, size := range []struct{ all, piece int }{{4 << 20, 64 << 10}, {256 << 10, 4}} {
				tr := New(NewRedactor(Rules{Values: c.values, Expressions: expressions(c.patterns...)}))
				text := c.first + strings.Repeat(c.again, size.all/len(c.again))
				begin, held := cputest.ThreadTime(t), 0
				for n := 0; text != ""; n++ {
					piece := Cut(text, size.piece)
					text = text[len(piece):]
					tr.Write(n%8 == 7, piece)
					if size.piece > 1000 || n%500 == 0 {
						held = max(held, tr.held())
						tr.Save()
					}
				}
				if took := cputest.ThreadTime(t) - begin; took > most {
					t.Errorf("in pieces of %d it took %v", size.piece, took)
				}
				if held > 1<<20 {
					t.Errorf("in pieces of %d up to %d bytes are held", size.piece, held)
				}
				if n := len(tr.String()); n > textBudget+stderrBudget+200 {
					t.Errorf("the text has %d bytes", n)
				}
			}
		})
	}
}

// held is how much memory the texts of a transcript take.
func (t *Transcript) held() int {
	const header = 32 // of a segment
	n := 0
	for i := range t.classes {
		c := &t.classes[i]
		n += cap(c.escapes.raw) + cap(c.redaction.held) + 16*cap(c.redaction.spans) + 4*cap(c.screen.spare)
		for _, row := range c.screen.rows {
			n += 4 * cap(row)
		}
		for _, m := range c.redaction.matching {
			n += 16*(cap(m.threads)+cap(m.dense)) + 4*cap(m.sparse)
		}
		n += header * (cap(c.excerpt.head) + cap(c.excerpt.tail))
		for _, s := range slices.Concat(c.excerpt.head, c.excerpt.tail) {
			n += cap(s.text)
		}
	}
	return n
}

func TestManyLinesAfterMuchTextTakeLinearTime(t *testing.T) {
	tr := New(NewRedactor(Rules{Values: []string{"aaaaaaaa"}}))
	tr.Write(false, strings.Repeat("x", 2*textBudget))
	for begin, i := time.Now(), 0; i < 200_000; i++ {
		if tr.Line("a"); time.Since(begin) > 10*time.Second {
			t.Fatalf("%d lines took more than 10 s", i)
		}
	}
}

func TestWritingByTurnsTakesBoundedMemory(t *testing.T) {
	tr := New(NewRedactor(Rules{}))
	for i := range 400_000 {
		tr.Write(i%2 == 0, string(rune('a'+i%26)))
	}
	if n := tr.held(); n > 512<<10 {
		t.Errorf("%d bytes are held", n)
	}
	tr = New(NewRedactor(Rules{}))
	for i := range maxSegments / 2 {
		tr.Write(i%2 == 0, string(rune('a'+i%26)))
	}
	if got := tr.String(); !strings.HasPrefix(got, "abcdefghijklmnopqrstuvwxyzabc") {
		t.Errorf("%.100q", got)
	}
}
