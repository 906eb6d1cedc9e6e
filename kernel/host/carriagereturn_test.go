package host_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/kerneltest"
)

// printing runs a test with a function that prints pieces, all within one window after a first piece that is sent by
// itself, and returns the text that arrives.
func printing(t *testing.T, test func(t *testing.T, print func(first string, pieces ...string) string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var cell []string
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			for _, piece := range cell {
				c.Print(piece)
			}
		}))
		executions := 0
		test(t, func(first string, pieces ...string) string {
			executions++
			cell = append([]string{first}, pieces...)
			r.execute(command.Execution{ID: fmt.Sprint("e", executions)})
			got := text(r.untilFinished(), "stdout")
			rest, ok := strings.CutPrefix(got, first)
			if !ok {
				t.Fatalf("%q does not begin with %q", got, first)
			}
			return rest
		})
	})
}

func TestStatesThatWereOverwrittenAsAWholeAreLeftOut(t *testing.T) {
	cases := []struct{ first, printed, want string }{
		{"\n", "\r 10%\r 20%\r100%", "\r100%"},
		{"\n", "10%\r20%\r30%\r", "\r30%\r"},
		{"x", "10%\r20%\r30%\r", "10%\r30%\r"}, // the text is after the x
		{"\n", "\r1000 left\r999 left\r10 left", "\r1000 left\r999 left\r10 left"},
		{"\n", "\r1000 left\r999 left \r10 left  ", "\r10 left  "},
		{"\n", "one\r\ntwo\r\n", "one\r\ntwo\r\n"},
		{"\n", "one\r\r\n", "one\r\r\n"},
		{"\n", "\rdone 1\rdone 2\nnext\r1\r2\n", "\rdone 2\nnext\r2\n"},
		{"\n", "\ra long one\r\x1b[Kshort", "\r\x1b[Kshort"},
		{"\n", "\ra long one\r\x1b[2Kshort\rs", "\r\x1b[2Kshort\rs"},
		{"\n", "\r\x1b[Kabc\rabcd", "\r\x1b[Kabc\rabcd"}, // it erased what came before
		{"\n", "\r\x1b[31mred\x1b[0m\rlonger", "\r\x1b[0mlonger"},
		{"\n", "\r\x1b[31mred\rlonger", "\r\x1b[31mred\rlonger"}, // everything after it is red
		{"\n", "\rab\x1b[Acd\rabcdef", "\rab\x1b[Acd\rabcdef"},
		{"\n", "\ra\tb\rabcdefghijklmnop", "\ra\tb\rabcdefghijklmnop"},
		{"\n", "\rab\b\rabcdef", "\rab\b\rabcdef"},
		{"\n", "\r漢字\rabcd", "\rabcd"},
		{"\n", "\r漢字\rabc", "\r漢字\rabc"},
		{"\n", "\rabcd\r漢字", "\rabcd\r漢字"}, // of four characters, where characters count
		{"\n", "\r 5%|▌   |\r10%|█   |", "\r10%|█   |"},
		{"\n", "\re\u0301\rabc", "\re\u0301\rabc"},
		{"\n", "\r👩\u200d🔬\rabcdefgh", "\r👩\u200d🔬\rabcdefgh"},
		{"\n", "plain\ntext\n", "plain\ntext\n"},
	}
	printing(t, func(t *testing.T, print func(string, ...string) string) {
		for _, c := range cases {
			if got := print(c.first, c.printed); got != c.want {
				t.Errorf("%q behind %q came as %q, want %q", c.printed, c.first, got, c.want)
			}
		}
	})
}

func TestProgressThatComesSlowlyComesAsItWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := ""
		r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
			for i := range 10 {
				c.Print(fmt.Sprintf("\r%d0%%", i))
				time.Sleep(100 * time.Millisecond)
			}
		}))
		for i := range 10 {
			want += fmt.Sprintf("\r%d0%%", i)
		}
		r.execute(command.Execution{ID: "e1"})
		if got := text(r.untilFinished(), "stdout"); got != want {
			t.Errorf("it came as %q", got)
		}
	})
}

// TestAProgressBarDoesNotFillTheLog prints a tqdm bar for a quarter of a minute of a fake clock.
func TestAProgressBarDoesNotFillTheLog(t *testing.T) {
	for _, perSecond := range []int{20, 1000} {
		synctest.Test(t, func(t *testing.T) {
			written := 0
			r := newRig(t, kerneltest.Cells(func(c *kerneltest.Cell) {
				for i := range 15 * perSecond {
					bar := fmt.Sprintf("\r%3d%%|%-10s| %6d/%d [00:01<00:59, %4d.00it/s]",
						i*100/(15*perSecond), strings.Repeat("█", i*10/(15*perSecond)), i, 60*perSecond, perSecond)
					written += len(bar)
					c.Print(bar)
					time.Sleep(time.Second / time.Duration(perSecond))
				}
			}), func(cfg *host.HostConfig, _ *kerneltest.Fake) { cfg.SpoolBytes = 256 << 20 })
			r.execute(command.Execution{ID: "e1"})
			records := r.untilFinished()
			size := len(text(records, "stdout"))
			t.Logf("%d updates a second: 15 s of %d bytes make %d records of %d bytes, an hour %.1f MiB",
				perSecond, written, len(records), size, float64(240*size)/(1<<20))
			if len(records) > 15*22 || size > 15*21*90 {
				t.Errorf("%d records of %d bytes in 15 s", len(records), size)
			}
		})
	}
}

func TestWhatAFloodOfStatesShowsIsBounded(t *testing.T) {
	var states strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&states, "\r%d", i)
	}
	printing(t, func(t *testing.T, print func(string, ...string) string) {
		got := print("\n", states.String()[:100], states.String()[100:])
		if len(got) > 1000 || !strings.HasSuffix(got, "\r299999") {
			t.Errorf("%d bytes came, which end with %q", len(got), got[max(0, len(got)-20):])
		}
	})
}

// TestWhatIsLeftShowsTheSame prints random progress, and compares how a terminal and a page show it.
func TestWhatIsLeftShowsTheSame(t *testing.T) {
	parts := []string{"\r", "\r", "\r", "\n", "a", "bc", "10%", "    ", "█▌", "漢字", "😀", "\t", "\b", "é",
		"\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[1;32mx\x1b[0m", "\x1b[K", "\x1b[2K", "\x1b[A", "\r\n", "longer text"}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	shorter := 0
	printing(t, func(t *testing.T, print func(string, ...string) string) {
		for range 3000 {
			var in strings.Builder
			kinds := parts[:4+random.IntN(len(parts)-3)]
			for range random.IntN(25) {
				in.WriteString(kinds[random.IntN(len(kinds))])
			}
			first := []string{"\n", "x", "before\r"}[random.IntN(3)]
			out := print(first, in.String())
			if len(out) < in.Len() {
				shorter++
			}
			if want, got := onTerminal(first+in.String()), onTerminal(first+out); got != want {
				t.Fatalf("seed %d: %q came as %q: a terminal shows %q, not %q", seed, first+in.String(), first+out, got, want)
			}
			if strings.Contains(in.String(), "K") {
				continue // a page erases nothing
			}
			if want, got := onPage(first+in.String()), onPage(first+out); got != want {
				t.Fatalf("seed %d: %q came as %q: a page shows %q, not %q", seed, first+in.String(), first+out, got, want)
			}
		}
	})
	if shorter < 300 {
		t.Errorf("only %d of 3000 texts became shorter", shorter)
	}
}

// cell is one column of a terminal.
type cell struct{ text, colour string }

// onTerminal returns what a terminal of infinite width shows in the end.
func onTerminal(text string) string {
	rows, row, column, colour := [][]cell{nil}, 0, 0, ""
	put := func(c cell) {
		for len(rows[row]) <= column {
			rows[row] = append(rows[row], cell{text: " "})
		}
		rows[row][column] = c
		column++
	}
	for text != "" {
		if escape := strings.IndexByte(text, 0x1b); escape == 0 {
			end := strings.IndexAny(text, "mKA")
			sequence := text[:end+1]
			text = text[end+1:]
			switch sequence {
			case "\x1b[K":
				rows[row] = rows[row][:min(column, len(rows[row]))]
			case "\x1b[2K":
				rows[row] = nil
			case "\x1b[A":
				row = max(0, row-1)
			case "\x1b[0m", "\x1b[m":
				colour = ""
			default:
				colour += sequence
			}
			continue
		}
		r := []rune(text)[0]
		text = strings.TrimPrefix(text, string(r))
		switch {
		case r == '\r':
			column = 0
		case r == '\n':
			row, column = row+1, 0
			if row == len(rows) {
				rows = append(rows, nil)
			}
		case r == '\b':
			column = max(0, column-1)
		case r == '\t':
			column += 8 - column%8
		default:
			put(cell{string(r), colour})
			if r == '漢' || r == '字' || r == '😀' {
				put(cell{"", colour})
			}
		}
	}
	return fmt.Sprintf("%q at %d of %d, %q follows", trimmed(rows), column, row, colour)
}

// trimmed returns the rows without the trailing blanks, which nobody sees.
func trimmed(rows [][]cell) [][]cell {
	for i, row := range rows {
		for len(row) > 0 && row[len(row)-1].text == " " && row[len(row)-1].colour == "" {
			row = row[:len(row)-1]
		}
		rows[i] = row
	}
	return rows
}

// onPage returns what a page shows, which knows no columns: after a carriage return, characters replace characters.
func onPage(text string) string {
	var lines []string
	for line := range strings.SplitSeq(withoutEscapes(text), "\n") {
		var shown []rune
		for part := range strings.SplitSeq(line, "\r") {
			runes := []rune(part)
			if len(runes) >= len(shown) {
				shown = runes
			} else {
				copy(shown, runes)
			}
		}
		lines = append(lines, string(shown))
	}
	return strings.Join(lines, "\n")
}

func withoutEscapes(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != 0x1b {
			out.WriteByte(text[i])
			continue
		}
		i += strings.IndexAny(text[i:], "mKA")
	}
	return out.String()
}
