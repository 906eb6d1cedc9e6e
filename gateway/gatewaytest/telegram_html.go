package gatewaytest

import (
	"html"
	"regexp"
	"strings"
	"unicode/utf16"
)

var (
	telegramTag   = regexp.MustCompile(`^<(/?)([a-zA-Z][a-zA-Z0-9-]*)((?:\s+[a-zA-Z-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?)*)\s*>`)
	telegramNamed = regexp.MustCompile(`&(?:lt|gt|amp|quot|#[0-9]+|#x[0-9a-fA-F]+);`)
)

var telegramTags = map[string]bool{
	"b": true, "strong": true, "i": true, "em": true, "u": true, "ins": true, "s": true, "strike": true,
	"del": true, "span": true, "tg-spoiler": true, "tg-emoji": true, "a": true, "code": true, "pre": true,
	"blockquote": true,
}

// units returns the length of a text in UTF-16 code units, which is how Telegram counts.
func units(text string) int { return len(utf16.Encode([]rune(text))) }

// parseTelegramHTML returns the text that people see, or the refusal of the Bot API.
// Only the four named entities of the Bot API and numeric ones are decoded.
func parseTelegramHTML(source string) (string, *refusal) {
	var text strings.Builder
	var open []string
	for at := 0; at < len(source); {
		if source[at] != '<' {
			end := strings.IndexByte(source[at:], '<')
			if end < 0 {
				end = len(source) - at
			}
			text.WriteString(telegramNamed.ReplaceAllStringFunc(source[at:at+end], html.UnescapeString))
			at += end
			continue
		}
		tag := telegramTag.FindStringSubmatch(source[at:])
		if tag == nil {
			return "", bad("can't parse entities: Unclosed start tag at byte offset %d", at)
		}
		name := strings.ToLower(tag[2])
		switch {
		case tag[1] == "/" && len(open) == 0:
			return "", bad("can't parse entities: Unexpected end tag at byte offset %d", at)
		case tag[1] == "/" && open[len(open)-1] != name:
			return "", bad("can't parse entities: Unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", at, open[len(open)-1], name)
		case tag[1] == "/":
			open = open[:len(open)-1]
		case !telegramTags[name]:
			return "", bad("can't parse entities: Unsupported start tag %q at byte offset %d", name, at)
		default:
			open = append(open, name)
		}
		at += len(tag[0])
	}
	if len(open) > 0 {
		return "", bad("can't parse entities: Can't find end tag corresponding to start tag %q", open[len(open)-1])
	}
	return text.String(), nil
}
