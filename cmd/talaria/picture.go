package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
)

// kittyPiece is the longest piece of an image in kitty's protocol.
const kittyPiece = 4096

// drawPicture draws a PNG in terminals that can, and reports whether it did.
func drawPicture(w io.Writer, png []byte) bool {
	if !isTerminal(w) {
		return false
	}
	switch pictureProtocol(os.Getenv) {
	case "kitty":
		fmt.Fprint(w, kittyPicture(png))
	case "iterm":
		fmt.Fprint(w, itermPicture(png))
	default:
		return false
	}
	return true
}

// pictureProtocol is how the terminal draws pictures: "kitty", "iterm" or "". Inside tmux and screen neither passes.
func pictureProtocol(env func(string) string) string {
	program, term := env("TERM_PROGRAM"), env("TERM")
	switch {
	case env("TMUX") != "" || strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux"):
		return ""
	case env("KITTY_WINDOW_ID") != "" || term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty":
		return "kitty"
	case program == "iTerm.app" || program == "WezTerm" || env("LC_TERMINAL") == "iTerm2":
		return "iterm"
	}
	return ""
}

func kittyPicture(png []byte) string {
	data := base64.StdEncoding.EncodeToString(png)
	var out strings.Builder
	keys := "a=T,f=100,q=2,"
	for data != "" {
		piece := data[:min(len(data), kittyPiece)]
		data = data[len(piece):]
		more := 0
		if data != "" {
			more = 1
		}
		fmt.Fprintf(&out, "\x1b_G%sm=%d;%s\x1b\\", keys, more, piece)
		keys = ""
	}
	return out.String() + "\n"
}

func itermPicture(png []byte) string {
	return fmt.Sprintf("\x1b]1337;File=inline=1;size=%d:%s\a\n", len(png), base64.StdEncoding.EncodeToString(png))
}
