package render

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"talaria/api"
)

// FormatOf returns the format of a target's texts.
func FormatOf(t Target) api.RenderFormat {
	switch t {
	case api.RenderTelegram:
		return api.RenderHTML
	case api.RenderSlack:
		return api.RenderMrkdwn
	case api.RenderDiscord:
		return api.RenderMarkdown
	}
	return api.RenderUnformatted
}

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Code returns a text as a code block of the target.
func Code(t Target, text string) string {
	text = visible(text)
	switch t {
	case api.RenderTelegram:
		return "<pre>" + entities.Replace(text) + "</pre>"
	case api.RenderSlack:
		return "```\n" + entities.Replace(apart(text)) + "\n```"
	case api.RenderDiscord:
		return "```\n" + apart(text) + "\n```"
	}
	return text
}

// Inline returns a text, such as the name of a file, as code within a line of the target.
func Inline(t Target, text string) string {
	text = strings.NewReplacer("\n", " ", "\t", " ").Replace(visible(text))
	switch t {
	case api.RenderTelegram:
		return "<code>" + entities.Replace(text) + "</code>"
	case api.RenderSlack, api.RenderDiscord:
		text = strings.ReplaceAll(text, "`", "ˋ") // there is no way to quote one
		if t == api.RenderSlack {
			text = entities.Replace(text)
		}
		return "`" + text + "`"
	}
	return text
}

// Text returns a text so that it contains no markup and no mention in a line of the target's format.
func Text(t Target, text string) string {
	text = visible(text)
	switch t {
	case api.RenderTelegram:
		return entities.Replace(text)
	case api.RenderSlack:
		return entities.Replace(strings.ReplaceAll(text, "`", "ˋ"))
	case api.RenderDiscord:
		return strings.NewReplacer("`", "ˋ", "@", "@\u200b", "*", "\\*", "_", "\\_", "~", "\\~", "|", "\\|", "<", "\\<").Replace(text)
	}
	return text
}

// Unmarked returns a text of the target's format, as this package makes it, without its markup.
func Unmarked(t Target, text string) string {
	switch t {
	case api.RenderTelegram:
		return html.UnescapeString(tags.Replace(text))
	case api.RenderSlack:
		return html.UnescapeString(text)
	}
	return text
}

var tags = strings.NewReplacer("<pre>", "", "</pre>", "", "<code>", "", "</code>", "")

// apart keeps backticks from being next to each other, since three end a code block.
func apart(text string) string {
	if !strings.Contains(text, "``") {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if r == '`' && i > 0 && text[i-1] == '`' {
			b.WriteRune(zeroWidthSpace)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fence returns what the code block of a target takes besides its text, and whether what is in it counts as it is sent.
func fence(t Target) (room int, escaped bool) {
	switch t {
	case api.RenderSlack, api.RenderDiscord:
		return len("```\n\n```"), true
	}
	return 0, false // Telegram counts what it shows
}

// cost returns how many UTF-16 units a rune takes in a code block of the target, at most.
func cost(t Target, r rune) int {
	_, escaped := fence(t)
	switch {
	case r > 0xFFFF:
		return 2
	case escaped && r == '`':
		return 2
	case t == api.RenderSlack && r == '&':
		return len("&amp;")
	case t == api.RenderSlack && (r == '<' || r == '>'):
		return len("&lt;")
	}
	return 1
}

// visible returns a text in which control characters, which platforms drop or refuse, are replaced by their pictures.
func visible(text string) string {
	if strings.IndexFunc(text, isControl) < 0 && utf8.ValidString(text) {
		return text
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case !isControl(r):
			return r
		case r < ' ':
			return '\u2400' + r
		case r == 0x7F:
			return '\u2421'
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

func isControl(r rune) bool { return r != '\n' && r != '\t' && unicode.IsControl(r) }

// isBlank reports whether a text shows nothing; platforms refuse a message of it.
func isBlank(text string) bool {
	for _, r := range text {
		switch r {
		case '\u115F', '\u1160', '\u2800', '\u3164', '\uFFA0': // letters and patterns without ink
			continue
		}
		if unicode.IsGraphic(r) && !unicode.IsSpace(r) && !isMark(r) {
			return false
		}
	}
	return true
}
