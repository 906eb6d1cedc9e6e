package transcript

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"talaria/api"
)

func TestTheTextHasTheLastStateOfAProgressLine(t *testing.T) {
	long := strings.Repeat("x", screenBytes+10)
	for _, c := range []struct{ in, want string }{
		{"\r 10%\r 20%\r100%\n", "100%\n"},
		{"10%\r20%\r", "20%"},
		{"one\r\ntwo\r\n", "one\ntwo\n"},
		{"\rlonger\rshort", "shortr"},
		{"\rlonger\r\x1b[Kshort", "short"},
		{"\rlonger\x1b[2K\rshort", "short"},
		{"\r\x1b[31m50%\x1b[0m\r\x1b[32m100%\x1b[0m done", "100% done"},
		{"a: 1\n\rb: 1\x1b[A\ra: 2\n\rb: 2\x1b[A\ra: 3\n\n", "a: 3\nb: 2\n"},
		{"a\nb\nc\x1b[2A\rA\n\nC", "A\nb\nC"},
		{"漢字\r漢", "漢字"},
		{"plain\n", "plain\n"},
		{long + "\rnext", long + "\nnext"},
		{long + "y\nnext", long + "y\nnext"},
		{strings.Repeat("line\n", 1000) + "\r1\r2", strings.Repeat("line\n", 1000) + "2"},
		{"\x1b[A\x1b[999A up", " up"},
	} {
		for _, n := range []int{1, 2, 3, 7, 300, 1 << 20} {
			tr := New(NewRedactor(Rules{}))
			for rest := c.in; rest != ""; {
				piece := Cut(rest, max(n, len("漢")))
				tr.Write(true, piece)
				rest = rest[len(piece):]
			}
			if got := tr.String(); got != c.want && len(c.want) < stderrBudget {
				t.Errorf("%.80q in pieces of %d: %.200q, want %.80q", c.in, n, got, c.want)
			}
		}
	}
}

func TestWhatComesBetweenEndsWhatIsWrittenOver(t *testing.T) {
	tr := New(NewRedactor(Rules{}))
	tr.Write(true, "\r10%\r20%")
	tr.Write(false, "printed\n")
	tr.Write(true, "\r30%\r40%\n")
	tr.Write(false, "left open")
	tr.Line("result")
	tr.Write(false, "\rbehind")
	if got, want := tr.String(), "20%printed\n40%\nleft open\nresultbehind"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestASecretIsNotPutTogetherByCarriageReturns(t *testing.T) {
	for n := 1; n < 40; n++ {
		tr := New(NewRedactor(Rules{Values: []string{"my-secret-value"}}))
		feed(tr, false, "xxxxxxxxx-value\rmy-secret\nmy-se\x1b[Kcret-value\nmy-\x1b[2Ksecret-value\n", n)
		if got := tr.String(); strings.Contains(got, "my-secret-value") || !strings.Contains(got, redacted) {
			t.Errorf("in pieces of %d: %q", n, got)
		}
	}
}

// rewritten is made of what writes over and of what must not be cut.
var rewritten = []string{"\r", "\n", "\r\n", "a", "bc", "漢", "50%", "\x1b[K", "\x1b[2K", "\x1b[A", "\x1b[3A", "\x1b[1m",
	"\x1b", "\x1b[", "\x1b]", "\u009d0;t", "\u009c", "\a", "\u0085", "my-sec", "ret-value", "my-secret-value", "sk-", "é", "!",
	strings.Repeat("wide ", 100), strings.Repeat("l\n", 20), strings.Repeat("long", 3000), strings.Repeat("€", 3000)}

// FuzzPiecesMakeNoDifference makes a text of rewritten parts, turns and lines, one for each byte of choices, and writes it
// at once, and in pieces, taken up now and then from what was saved.
func FuzzPiecesMakeNoDifference(f *testing.F) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for range 300 {
		choices := make([]byte, random.IntN(60))
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(random.Uint64(), choices)
	}
	redact := NewRedactor(Rules{Values: []string{"my-secret-value", "50%50%50%", strings.Repeat("€", 3)}, Expressions: expressions(`sk-[a-z]+!?`, `\bbc+\b`)})
	f.Fuzz(func(t *testing.T, seed uint64, choices []byte) {
		random := rand.New(rand.NewPCG(seed, 0))
		whole, pieces := New(redact), New(redact)
		var in strings.Builder
		stderr := false
		flush := func() {
			if in.Len() == 0 {
				return
			}
			whole.Write(stderr, in.String())
			for rest := in.String(); rest != ""; {
				piece := Cut(rest, 4+random.IntN(len(rest)))
				rest = rest[len(piece):]
				pieces.Write(stderr, piece)
				switch random.IntN(4) {
				case 0:
					pieces = takenUp(t, redact, pieces)
				case 1:
					_ = pieces.String() // changes nothing
				}
			}
			in.Reset()
		}
		for _, c := range choices {
			switch part := int(c) % (len(rewritten) + 2); part - len(rewritten) {
			case 0:
				flush()
				stderr = !stderr
			case 1:
				flush()
				whole.Line("a result")
				pieces.Line("a result")
			default:
				in.WriteString(rewritten[part])
			}
		}
		flush()
		if a, b := whole.String(), pieces.String(); a != b {
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			t.Fatalf("choices %v: from byte %d on read as %.200q, and in pieces as %.200q", choices, at, a[at:], b[at:])
		}
	})
}

// takenUp is a transcript as the next server takes it up.
func takenUp(t *testing.T, r *Redactor, from *Transcript) *Transcript {
	row, err := api.Marshal(from.Save())
	if err != nil {
		t.Fatal(err)
	}
	var saved State
	if err := json.Unmarshal(row, &saved); err != nil {
		t.Fatal(err)
	}
	next := New(r)
	next.Restore(saved)
	return next
}

func TestTheTextOfAnOlderServerIsTakenUp(t *testing.T) {
	const row = `{"order":7,"classes":[{"raw":"\u001b[3","held":"my-sec","screen":{"rows":["one","tw"],"row":1,"column":2},
		"head":[{"order":1,"text":"head "},{"order":7,"text":"more "}],"room":0},{"tail":[{"order":5,"text":"stderr "}],"room":0,"dropped":9}]}`
	var saved State
	if err := json.Unmarshal([]byte(row), &saved); err != nil {
		t.Fatal(err)
	}
	tr := New(NewRedactor(Rules{Values: []string{"my-secretone"}, Expressions: expressions(`sk-[a-z]+`)}))
	tr.Restore(saved)
	tr.Write(false, "1mo\rT")
	if got, want := tr.String(), "head \n[9 of 16 bytes were left out here]\nstderr more my-secone\nTwo"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	saved.Classes[0].Held = "my-secret"
	tr.Restore(saved)
	tr.Write(false, "1mo\rT")
	if got, want := tr.String(), "head \n[9 of 16 bytes were left out here]\nstderr more [redacted]\nTwo"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAResultBeginsALineOfItsOwnEvenBehindHalfASecret(t *testing.T) {
	for _, stderr := range []bool{false, true} {
		tr := New(NewRedactor(Rules{Values: []string{"my-secret-value"}}))
		tr.Write(stderr, "it is my-sec")
		tr.Line("result")
		tr.Write(stderr, "ret-value\n")
		tr.Line("my-secret-value")
		if got, want := tr.String(), "it is my-sec\nresultret-value\n[redacted]"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestASequenceThatBreaksOffIsText(t *testing.T) {
	long := strings.Repeat("x", maxSequence)
	for _, c := range []struct{ in, want string }{
		{"a\x1b]b", "a]b"}, {"a\x1b]b\x1b[31mc", "a]bc"}, {"a\x1b[1, 2]", "a[1, 2]"}, {"a\x1b", "a"}, {"\x1b[3\nb", "[3\nb"},
		{"\x1b]" + long + "\ab", "]" + long + "\ab"}, {"\u009d" + long + "\u009cb", long + "b"},
		{"\x1b]\u0085b\x1b", "]b"}, {"\x1b\x1b\x1b[1mb", "b"}, {"\x1b(Bb", "b"}, {"\x1b]0;t\x1b\\b", "b"},
	} {
		for _, n := range []int{1, 2, 5, 1 << 20} {
			tr := New(NewRedactor(Rules{}))
			feed(tr, false, c.in, n)
			if got := tr.String(); got != c.want {
				t.Errorf("%.80q in pieces of %d: %.80q, want %.80q", c.in, n, got, c.want)
			}
		}
	}
}

func BenchmarkTranscript(b *testing.B) {
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "a line of the output, number %d\n", i)
	}
	secrets := NewRedactor(Rules{Values: []string{"sk-0123456789abcdef", "correct horse battery", "ghp_ABCDEFGHIJKLMNOP"}})
	patterns := NewRedactor(Rules{Expressions: []*regexp.Regexp{regexp.MustCompile(`sk-[A-Za-z0-9]{16,}`), regexp.MustCompile(`(?i)password=\S+`)}})
	for _, c := range []struct {
		name   string
		text   string
		pieces int // bytes
		redact *Redactor
	}{
		{"lines", lines.String(), 64 << 10, NewRedactor(Rules{})},
		{"each-line", lines.String(), 32, NewRedactor(Rules{})},
		{"one-line", strings.Repeat("0123456789abcdef", 4096), 64 << 10, NewRedactor(Rules{})},
		{"accents", strings.Repeat("Ångström, größer, déjà vu, 漢字\n", 2000), 64 << 10, NewRedactor(Rules{})},
		{"progress", strings.Repeat("\r 50%|█████     | 100/200 [00:01<00:01, 10.0it/s]", 1000), 64 << 10, NewRedactor(Rules{})},
		{"secrets", lines.String(), 64 << 10, secrets},
		{"secrets-each-line", lines.String(), 32, secrets},
		{"patterns", lines.String(), 64 << 10, patterns},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			tr := New(c.redact)
			for b.Loop() {
				for rest := c.text; rest != ""; {
					piece := Cut(rest, c.pieces)
					tr.Write(false, piece)
					rest = rest[len(piece):]
				}
			}
		})
	}
}
