package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestPicturesAreDrawnWhereTheTerminalCan(t *testing.T) {
	for _, c := range []struct {
		environment map[string]string
		want        string
	}{
		{map[string]string{}, ""},
		{map[string]string{"TERM": "xterm-256color"}, ""},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, ""},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, ""},
		{map[string]string{"TERM": "xterm-kitty"}, "kitty"},
		{map[string]string{"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"},
		{map[string]string{"TERM": "xterm-ghostty"}, "kitty"},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "kitty"},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"},
		{map[string]string{"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"},
		{map[string]string{"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm"}, // by ssh
		{map[string]string{"TERM": "xterm-kitty", "TMUX": "/tmp/tmux-0/default,1,0"}, ""},
		{map[string]string{"TERM": "screen-256color", "TERM_PROGRAM": "iTerm.app"}, ""},
		{map[string]string{"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, ""},
	} {
		if got := pictureProtocol(func(name string) string { return c.environment[name] }); got != c.want {
			t.Errorf("%v: %q, want %q", c.environment, got, c.want)
		}
	}
}

// kittyCommand is a graphics command: its keys, and a piece of the image.
var kittyCommand = regexp.MustCompile("\x1b_G([^;\x1b]*);([A-Za-z0-9+/=]*)\x1b\\\\")

func TestKittyGetsAPictureInPieces(t *testing.T) {
	for _, length := range []int{1, 3071, 3072, 3073, 3 * 3072, 10_000} { // 3072 bytes are a piece
		png := bytes.Repeat([]byte{0xff, 0x1b, 0x00}, length)[:length]
		text := kittyPicture(png)
		pieces := kittyCommand.FindAllStringSubmatch(text, -1)
		if want := (length + 3071) / 3072; len(pieces) != want {
			t.Errorf("%d bytes are %d pieces, want %d", length, len(pieces), want)
		}
		var data, all strings.Builder
		for i, piece := range pieces {
			last := i == len(pieces)-1
			keys := "m=1"
			if last {
				keys = "m=0"
			}
			if i == 0 {
				keys = "a=T,f=100,q=2," + keys
			}
			if piece[1] != keys || len(piece[2]) > 4096 || !last && len(piece[2]) != 4096 {
				t.Errorf("%d bytes: piece %d has the keys %s and %d bytes, want %s", length, i, piece[1], len(piece[2]), keys)
			}
			data.WriteString(piece[2])
			all.WriteString(piece[0])
		}
		if sent, err := base64.StdEncoding.DecodeString(data.String()); err != nil || !bytes.Equal(sent, png) {
			t.Errorf("%d bytes arrive as %d others (%v)", length, len(sent), err)
		}
		if text != all.String()+"\n" {
			t.Errorf("%d bytes: there is more than pieces and the end of the line in %q", length, text)
		}
	}
}

func TestITermGetsAPictureWithItsSize(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\n\a")
	want := fmt.Sprintf("\x1b]1337;File=inline=1;size=9:%s\a\n", base64.StdEncoding.EncodeToString(png))
	if got := itermPicture(png); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAFileGetsNoPicture(t *testing.T) {
	t.Setenv("TERM", "xterm-kitty")
	t.Setenv("TMUX", "")
	var out bytes.Buffer
	if drawPicture(&out, []byte("png")) || out.Len() > 0 {
		t.Errorf("what is not a terminal gets %q", out.String())
	}
}

func TestTheTracebackOfATimeoutSaysWhereTheCellWas(t *testing.T) {
	for _, c := range []struct{ traceback, want []string }{
		{[]string{"Traceback (most recent call last):", "  File \"<cell 1>\", line 1, in <module>", "KeyboardInterrupt",
			"the cell exceeded its timeout of 1 s; the variables are kept"},
			[]string{"Traceback (most recent call last):", "  File \"<cell 1>\", line 1, in <module>", ""}},
		{[]string{"KeyboardInterrupt", "the cell waited for answers for more than 4 h, the longest that its timeout can be suspended"},
			[]string{"the cell waited for answers for more than 4 h, the longest that its timeout can be suspended", ""}},
		{[]string{"ExecutionTimeout: the cell exceeded its timeout of 1 s and ignored the interrupt"}, []string{""}},
		{nil, []string{""}},
	} {
		if got := where(c.traceback); got != strings.Join(c.want, "\n") {
			t.Errorf("%q leaves %q, want %q", c.traceback, got, c.want)
		}
	}
}
