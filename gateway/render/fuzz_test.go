package render_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"talaria/api"
	"talaria/gateway/render"
)

// FuzzRender holds that any output gives parts within the limits whose texts together are the whole, or a document
// that is; and that no output gets out of its code block.
func FuzzRender(f *testing.F) {
	for _, seed := range hostile {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD") // as every text of the API
		for _, target := range api.RenderTargets {
			checkText(t, target, text)
			checkText(t, target, strings.Repeat(text, 4000/max(1, len(text))+1))
		}
	})
}

func checkText(t *testing.T, target render.Target, text string) {
	t.Helper()
	plan := render.Render(render.Source{Execution: finished(text)}, target)
	checkLimits(t, target, plan)
	var joined strings.Builder
	document := ""
	for _, part := range plan.Parts {
		switch part.Kind {
		case api.RenderText:
			joined.WriteString(shown(t, target, part.Text))
		case api.RenderDocument:
			file, ok := plan.File(part.Artifacts[0].SHA256)
			if !ok {
				t.Fatalf("%s: the plan does not have its document", target)
			}
			document += string(file.Content)
		default:
			t.Fatalf("%s: a text became a %s", target, part.Kind)
		}
	}
	switch {
	case document != "":
		if document != text {
			t.Fatalf("%s: the document is not the text:\n%.300q\n%.300q", target, document, text)
		}
	case strings.TrimSpace(text) == "":
		if joined.String() != "(no output)" {
			t.Fatalf("%s: an empty text became %q", target, joined.String())
		}
	default:
		if got, want := comparable(joined.String()), comparable(text); got != want {
			t.Fatalf("%s: the texts are not the whole:\n%.300q\n%.300q", target, got, want)
		}
	}
}

// shown returns what the target shows of a text that is code blocks and lines between them, or fails if the text is
// anything else.
func shown(t *testing.T, target render.Target, text string) string {
	t.Helper()
	switch target {
	case api.RenderTelegram:
		return shownHTML(t, text)
	case api.RenderSlack:
		if bare := regexp.MustCompile(`&(amp|lt|gt);`).ReplaceAllString(text, ""); strings.ContainsAny(bare, "<>&") {
			t.Fatalf("slack: unescaped characters in %q", text)
		}
		return html.UnescapeString(shownFences(t, target, text))
	case api.RenderDiscord:
		return shownFences(t, target, text)
	}
	return text
}

var preBlock = regexp.MustCompile(`(?s)<pre>([^<>]*)</pre>`)

func shownHTML(t *testing.T, text string) string {
	t.Helper()
	if between := preBlock.ReplaceAllString(text, ""); strings.ContainsAny(between, "<>&") {
		t.Fatalf("telegram: markup outside of blocks: %q", between)
	}
	if bare := regexp.MustCompile(`&(amp|lt|gt);`).ReplaceAllString(text, ""); strings.Contains(bare, "&") {
		t.Fatalf("telegram: an unescaped ampersand in %q", text)
	}
	return html.UnescapeString(preBlock.ReplaceAllString(text, "$1"))
}

// shownFences takes the fences away: every odd one opens a block at the end of a line, every even one closes it.
func shownFences(t *testing.T, target render.Target, text string) string {
	t.Helper()
	pieces := strings.Split(text, "```")
	if len(pieces)%2 == 0 {
		t.Fatalf("%s: a block stays open: %q", target, text)
	}
	var b strings.Builder
	for i, piece := range pieces {
		if i%2 == 0 {
			if strings.ContainsAny(piece, "`@<>*_") {
				t.Fatalf("%s: markup outside of blocks: %q", target, piece)
			}
			b.WriteString(piece)
			continue
		}
		inside, opened := strings.CutPrefix(piece, "\n")
		inside, closed := strings.CutSuffix(inside, "\n")
		if !opened || !closed {
			t.Fatalf("%s: a fence is not on a line of its own: %q", target, piece)
		}
		b.WriteString(inside)
	}
	return b.String()
}

// comparable leaves out what a rendering may change: spaces at the end of a text, how control characters look, and what
// keeps backticks apart.
func comparable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\u200B', r == '\u2421', r == utf8.RuneError, '\u2400' <= r && r < '\u2420':
			return -1
		case r != '\n' && r != '\t' && unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
	return strings.TrimRightFunc(text, unicode.IsSpace)
}

func checkLimits(t *testing.T, target render.Target, plan render.Plan) {
	t.Helper()
	if len(plan.Parts) == 0 {
		t.Fatalf("%s: no parts", target)
	}
	for _, part := range plan.Parts {
		switch part.Kind {
		case api.RenderText:
			text := part.Text
			if target == api.RenderTelegram {
				text = shownHTML(t, text)
			}
			if part.Caption != "" {
				text += "\n" + part.Caption
			}
			if most := map[render.Target]int{"telegram": 4096, "slack": 3000, "discord": 2000}[target]; most > 0 && length(text) > most {
				t.Fatalf("%s: a text of %d", target, length(text))
			}
			if visible := strings.TrimFunc(shown(t, target, part.Text), unicode.IsSpace); visible == "" {
				t.Fatalf("%s: a blank message: %q", target, part.Text)
			}
			if !utf8.ValidString(part.Text) {
				t.Fatalf("%s: a character was cut: %q", target, part.Text)
			}
		case api.RenderAlbum:
			if n := len(part.Artifacts); n < 2 || n > 10 {
				t.Fatalf("%s: an album of %d", target, n)
			}
		default:
			if len(part.Artifacts) != 1 {
				t.Fatalf("%s: a %s of %d files", target, part.Kind, len(part.Artifacts))
			}
		}
	}
}

func length(text string) int { return len(utf16.Encode([]rune(text))) }
