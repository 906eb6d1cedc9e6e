package transcript

import "testing"

func TestP34EscapeSequencesAndInvisibleCharactersAreTakenOut(t *testing.T) {
	const hidden = "\U000E0069\U000E0067\U000E006E\U000E006F\U000E0072\U000E0065"
	const england = "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F"
	for _, c := range []struct{ name, in, want string }{
		{"CSI", "a\x1b[1;31mb\x1b[?25lc\x1b[38:5:1md", "abcd"},
		{"OSC with BEL or ST", "a\x1b]0;title\x07b\x1b]8;;x\x1b\\c\x1b]0;x\u009cd", "abcd"},
		{"DCS, SOS, PM and APC", "a\x1bPx\x1b\\b\x1bXx\x1b\\c\x1b^x\x1b\\d\x1b_x\x1b\\e", "abcde"},
		{"nF, Fp, Fe and Fs", "a\x1b(Bb\x1b#8c\x1b7d\x1bMe\x1bcf", "abcdef"},
		{"eight-bit controls", "a\u009b1mb\u009d0;x\x07c\u0090x\u009cd\u0085e", "abcde"},
		{"TAG characters", "a" + hidden + "b\U000E0001c\U000E007Fd", "abcd"},
		{"the flag of a region", "a" + england + "b", "a" + england + "b"},
		{"a black flag", "a\U0001F3F4b\U0001F3F4", "a\U0001F3F4b\U0001F3F4"},
		{"a pirate's flag", "\U0001F3F4\u200d\u2620\ufe0f", "\U0001F3F4\u200d\u2620\ufe0f"},
		{"TAG characters behind a flag", "\U0001F3F4" + hidden + hidden + "\U000E007F!", "\U0001F3F4!"},
		{"a flag without its end", england[:16] + " " + england, "\U0001F3F4 " + england},
		{"a flag of no region", "\U0001F3F4\U000E0021\U000E0021\U000E0021\U000E007F", "\U0001F3F4"},
		{"variants of characters", "a\U000E0100b", "a\U000E0100b"},
		{"clean text", "déjà vu, 漢字 😀\n", "déjà vu, 漢字 😀\n"},
	} {
		for _, n := range []int{1, 3, 1 << 20} {
			tr := New(NewRedactor(Rules{}))
			feed(tr, false, c.in, n)
			if got := tr.String(); got != c.want {
				t.Errorf("P34: %s, in pieces of %d: %+q, want %+q", c.name, n, got, c.want)
			}
		}
	}
}
