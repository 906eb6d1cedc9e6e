package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/mattn/go-isatty"
)

// terminalText makes text of a sandbox safe for a terminal: colours pass, and all other control sequences, which could
// set the clipboard or write what looks like the terminal's own, are shown as text. It keeps what the end of a piece cut
// in two. The zero value is ready to use.
type terminalText struct {
	rest string // the beginning of a sequence
}

var (
	colour    = regexp.MustCompile("^\x1b\\[[0-9;:]*m")
	cutColour = regexp.MustCompile("\x1b(\\[[0-9;:]{0,64})?$")
)

// clean returns what is to be printed for the next piece.
func (t *terminalText) clean(piece string) string {
	text := t.rest + piece
	t.rest = cutColour.FindString(text)
	text = strings.TrimSuffix(text, t.rest)
	var out strings.Builder
	for text != "" {
		if sequence := colour.FindString(text); sequence != "" {
			out.WriteString(sequence)
			text = text[len(sequence):]
			continue
		}
		next := strings.IndexByte(text[1:], '\x1b') + 1
		if next == 0 {
			next = len(text)
		}
		out.WriteString(escapeControls(text[:next], `\x%02x`))
		text = text[next:]
	}
	return out.String()
}

// escapeControls writes control characters in that format, but for those that only move within lines.
func escapeControls(text, format string) string {
	if !strings.ContainsFunc(text, harmful) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if harmful(r) {
			fmt.Fprintf(&out, format, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func harmful(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\b", r) }

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
