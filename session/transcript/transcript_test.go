package transcript

import (
	"regexp"
	"strings"
	"testing"
)

// feed gives a text to a transcript in pieces of n bytes.
func feed(t *Transcript, stderr bool, text string, n int) {
	for len(text) > n {
		t.Write(stderr, text[:n])
		text = text[n:]
	}
	t.Write(stderr, text)
}

func TestEscapeSequencesAndSecretsAreTakenOutHoweverTheTextIsCut(t *testing.T) {
	const in = "a\x1b[1;31mred\x1b[0m \x1b]0;title\x07link \x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\ my-secret-value my-sec my-se\x1b[0mcret-value2 end" +
		" \u009b31meight\u009d0;title\u009c b\u0085its £"
	const want = "ared link here [redacted] my-sec [redacted]2 end eight bits £"
	for n := 1; n <= len(in); n++ {
		tr := New(NewRedactor(Rules{Values: []string{"my-secret-value", "short"}}))
		runes := []rune(in)
		for len(runes) > 0 {
			k := min(n, len(runes))
			tr.Write(false, string(runes[:k]))
			runes = runes[k:]
		}
		if got := tr.String(); got != want {
			t.Fatalf("in pieces of %d: %q, want %q", n, got, want)
		}
	}
}

func TestOverlappingSecretsAndPatterns(t *testing.T) {
	r := NewRedactor(Rules{Values: []string{"abcdefgh", "abcdefghijkl", "ghijklmnop"}, Expressions: []*regexp.Regexp{regexp.MustCompile(`sk-[a-z0-9]{10}`)}})
	for n := 1; n < 40; n++ {
		tr := New(r)
		feed(tr, false, "x abcdefghijkl y abcdefgh z sk-0123456789 sk-012", n)
		if got, want := tr.String(), "x [redacted] y [redacted] z [redacted] sk-012"; got != want {
			t.Fatalf("in pieces of %d: %q, want %q", n, got, want)
		}
	}
}

// TestTextOfTheBudgetIsNotCut is rows P30 and P31.
func TestTextOfTheBudgetIsNotCut(t *testing.T) {
	for stderr, budget := range map[bool]int{false: textBudget, true: stderrBudget} {
		for _, n := range []int{budget, budget + 1} {
			tr := New(NewRedactor(Rules{}))
			feed(tr, stderr, strings.Repeat("x", n), 997)
			got := tr.String()
			if n == budget && got != strings.Repeat("x", n) {
				t.Errorf("stderr %v: text of %d bytes is cut: %d bytes", stderr, n, len(got))
			}
			mark := map[bool]string{false: "\n[1 of 50,001 bytes were left out here]\n", true: "\n[1 of 10,001 bytes were left out here]\n"}[stderr]
			if want := strings.Repeat("x", budget*2/5) + mark + strings.Repeat("x", budget*3/5); n > budget && got != want {
				t.Errorf("stderr %v: text of %d bytes is %d bytes, want %d", stderr, n, len(got), len(want))
			}
		}
	}
}

// TestTheTextKeepsHeadAndTailOfEachClassInOrder is rows P30 and P31; stderr keeps its end too, which has the error.
func TestTheTextKeepsHeadAndTailOfEachClassInOrder(t *testing.T) {
	tr := New(NewRedactor(Rules{}))
	out, errs := strings.Repeat("o", 200_000), strings.Repeat("e", 50_000)
	tr.Write(false, "first ")
	tr.Write(true, "E1 ")
	feed(tr, false, out, 997)
	feed(tr, true, errs, 333)
	tr.Write(false, " last-out")
	tr.Write(true, " last-err")
	tr.Line("result")
	got := tr.String()
	if len(got) > textBudget+stderrBudget+200 {
		t.Errorf("%d bytes", len(got))
	}
	if !strings.HasPrefix(got, "first E1 ooo") || !strings.HasSuffix(got, " last-out last-err\nresult") {
		t.Errorf("%q … %q", got[:20], got[len(got)-40:])
	}
	if strings.Count(got, "bytes were left out here]") != 2 {
		t.Error("two notices are wanted")
	}
	if o := strings.Count(got, "o"); o < 49_000 || o > 50_100 {
		t.Errorf("%d bytes of stdout are kept", o)
	}
}

// TestRunesAreNeverCut is row P33.
func TestRunesAreNeverCut(t *testing.T) {
	tr := New(NewRedactor(Rules{}))
	feed(tr, false, strings.Repeat("åäö€😀", 20_000), 14)
	if got := tr.String(); strings.Contains(got, "\uFFFD") || !strings.Contains(got, "left out") {
		t.Error("a rune was cut")
	}
	for n := range 20 {
		if s := Cut("a€😀b", n); !strings.HasPrefix("a€😀b", s) || strings.ContainsRune(s, '\uFFFD') || len(s) > n {
			t.Errorf("cut to %d: %q", n, s)
		}
	}
}

func TestAWholeTranscriptLacksNothing(t *testing.T) {
	r := NewRedactor(Rules{Values: []string{"my-secret-value"}})
	long := strings.Repeat("0123456789\n", 20_000)
	cut, whole := New(r), NewWhole(r, 1<<20)
	for _, tr := range []*Transcript{cut, whole} {
		tr.Write(false, long)
		tr.Write(true, "my-secret-value\n")
	}
	if got := whole.String(); got != long+"[redacted]\n" || IsCut(got) {
		t.Errorf("the whole has %d bytes, and ends with %q", len(got), got[max(0, len(got)-40):])
	}
	if got := cut.String(); len(got) > 60_000 || !IsCut(got) {
		t.Errorf("the text has %d bytes and does not say that it is cut", len(got))
	}
}

func TestACleanTextHasNoSecretsAndNoEscapeSequences(t *testing.T) {
	r := NewRedactor(Rules{Values: []string{"my-secret-value"}})
	long := strings.Repeat("x", 100_000)
	if got, want := r.Clean("a\x1b[31mred\x1b[0m my-secret-value\n"+long), "ared [redacted]\n"+long; got != want {
		t.Errorf("%.80q", got)
	}
}
