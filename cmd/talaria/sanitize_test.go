package main

import "testing"

func TestATerminalGetsColoursAndNoOtherSequences(t *testing.T) {
	for _, test := range []struct {
		pieces []string
		want   string
	}{
		{[]string{"plain\n\ttext\r50 %\b\n"}, "plain\n\ttext\r50 %\b\n"},
		{[]string{"\x1b[31mred\x1b[0m \x1b[38;5;9mmore"}, "\x1b[31mred\x1b[0m \x1b[38;5;9mmore"},
		{[]string{"a\x1b]52;c;cm0=\ab"}, `a\x1b]52;c;cm0=\x07b`},
		{[]string{"\x1b[2J\x1b[H", "\x1bc"}, `\x1b[2J\x1b[H\x1bc`},
		{[]string{"\u009b2J\x7f\x00"}, `\x9b2J\x7f\x00`},
		{[]string{"cut \x1b", "[3", "1mred"}, "cut \x1b[31mred"},
		{[]string{"cut \x1b", "[3", "1Jx"}, `cut \x1b[31Jx`},
		{[]string{"\x1b\x1b[1mx\x1b"}, "\\x1b\x1b[1mx"},
	} {
		var text terminalText
		got := ""
		for _, piece := range test.pieces {
			got += text.clean(piece)
		}
		if got != test.want {
			t.Errorf("%q is printed as %q, want %q", test.pieces, got, test.want)
		}
	}
}
