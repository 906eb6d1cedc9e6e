package session

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
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
			tr := newTranscript(newRedactor(nil, nil))
			for rest := c.in; rest != ""; {
				piece := cut(rest, max(n, len("漢")))
				tr.write(true, piece)
				rest = rest[len(piece):]
			}
			if got := tr.String(); got != c.want && len(c.want) < stderrBudget {
				t.Errorf("%.80q in pieces of %d: %.200q, want %.80q", c.in, n, got, c.want)
			}
		}
	}
}

func TestWhatComesBetweenEndsWhatIsWrittenOver(t *testing.T) {
	tr := newTranscript(newRedactor(nil, nil))
	tr.write(true, "\r10%\r20%")
	tr.write(false, "printed\n")
	tr.write(true, "\r30%\r40%\n")
	tr.write(false, "left open")
	tr.line("result")
	tr.write(false, "\rbehind")
	if got, want := tr.String(), "20%printed\n40%\nleft open\nresultbehind"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestASecretIsNotPutTogetherByCarriageReturns(t *testing.T) {
	for n := 1; n < 40; n++ {
		tr := newTranscript(newRedactor([]string{"my-secret-value"}, nil))
		feed(tr, false, "xxxxxxxxx-value\rmy-secret\nmy-se\x1b[Kcret-value\nmy-\x1b[2Ksecret-value\n", n)
		if got := tr.String(); strings.Contains(got, "my-secret-value") || !strings.Contains(got, redacted) {
			t.Errorf("in pieces of %d: %q", n, got)
		}
	}
}

// TestPiecesMakeNoDifference cuts random progress in random places, with and without taking it up from what was saved.
func TestPiecesMakeNoDifference(t *testing.T) {
	parts := []string{"\r", "\n", "\r\n", "a", "bc", "漢", "50%", "\x1b[K", "\x1b[2K", "\x1b[A", "\x1b[3A", "\x1b[1m",
		strings.Repeat("wide ", 100), strings.Repeat("l\n", 200)}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var in strings.Builder
		for range random.IntN(30) {
			in.WriteString(parts[random.IntN(len(parts))])
		}
		whole := newTranscript(newRedactor(nil, nil))
		whole.write(false, in.String())
		pieces := newTranscript(newRedactor(nil, nil))
		for rest := in.String(); rest != ""; {
			piece := cut(rest, len("漢")+random.IntN(len(rest)))
			pieces.write(false, piece)
			rest = rest[len(piece):]
			if random.IntN(3) == 0 {
				saved := pieces.save()
				pieces = newTranscript(newRedactor(nil, nil))
				pieces.restore(saved)
			}
		}
		if a, b := whole.String(), pieces.String(); a != b {
			t.Fatalf("seed %d: %q is read as %q, and in pieces as %q", seed, in.String(), a, b)
		}
	}
}

func BenchmarkTranscript(b *testing.B) {
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, "a line of the output, number %d\n", i)
	}
	for _, c := range []struct{ name, text string }{
		{"lines", lines.String()}, {"progress", strings.Repeat("\r 50%|█████     | 100/200 [00:01<00:01, 10.0it/s]", 1000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			tr := newTranscript(newRedactor(nil, nil))
			for b.Loop() {
				tr.write(false, c.text)
			}
		})
	}
}
