package hazard

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a token of Python is.
type tokenKind int

const (
	nameToken   tokenKind = iota
	stringToken           // text is its value
	otherToken            // an operator or a number
	lineToken             // the end of a logical line
	shellToken            // text is a line for the shell
)

// token is a token of Python.
type token struct {
	kind    tokenKind
	text    string
	dynamic bool // a string of which a part is computed
}

func (t token) is(text string) bool { return t.kind == otherToken && t.text == text }

// lexer reads the tokens of a cell: Python as IPython takes it.
type lexer struct {
	src    string
	at     int
	open   int  // brackets
	begins bool // a logical line begins
	tokens []token
}

// tokens reads all tokens of a cell. What is no Python does no harm.
func tokens(src string) []token {
	l := &lexer{src: src, begins: true}
	for l.at < len(src) {
		l.next()
	}
	l.add(lineToken, "")
	return l.tokens
}

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind: kind, text: text})
	l.begins = kind == lineToken
}

// aliases are commands that a line may begin with, as if it were one of the shell.
var aliases = set("rm mv cp rmdir")

// next reads a token, or passes over what is none. It always moves on.
func (l *lexer) next() {
	c := l.src[l.at]
	switch {
	case c == '\n' || c == ';':
		l.at++
		if l.open == 0 || c == ';' {
			l.open = 0
			l.add(lineToken, "")
		}
	case c == ' ' || c == '\t' || c == '\f':
		l.at++
	case c == '\\' && strings.HasPrefix(l.src[l.at:], "\\\n"):
		l.at += 2
	case c == '#':
		l.at = l.lineEnd(l.at)
	case c == '!' && (l.begins || l.assigns()) && !strings.HasPrefix(l.src[l.at:], "!="):
		l.at++
		l.add(shellToken, strings.TrimLeft(l.shellLine(), "!"))
	case c == '%' && (l.begins || l.assigns()):
		l.magic()
	case c == '"' || c == '\'':
		l.string("")
	case c == '_' || c >= utf8.RuneSelf || unicode.IsLetter(rune(c)):
		l.word()
	case c >= '0' && c <= '9':
		end := l.at + 1
		for end < len(l.src) && (isName(l.src[end]) || l.src[end] == '.') {
			end++
		}
		l.add(otherToken, l.src[l.at:end])
		l.at = end
	default:
		switch c {
		case '(', '[', '{':
			l.open++
		case ')', ']', '}':
			l.open = max(l.open-1, 0)
		}
		l.add(otherToken, string(c))
		l.at++
	}
}

func isName(c byte) bool {
	return c == '_' || c >= utf8.RuneSelf || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// assigns reports whether the token before is an equals sign, after which IPython takes a line for the shell.
func (l *lexer) assigns() bool {
	return l.open == 0 && len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].is("=")
}

func (l *lexer) lineEnd(from int) int {
	if i := strings.IndexByte(l.src[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(l.src)
}

// shellLine is the rest of the line, with those that a backslash joins to it.
func (l *lexer) shellLine() string {
	start := l.at
	for {
		l.at = l.lineEnd(l.at)
		if l.at == len(l.src) || l.src[l.at-1] != '\\' {
			return l.src[start:l.at]
		}
		l.at++
	}
}

// magic reads a line magic: those that run a command are one, of others the arguments are read as Python.
func (l *lexer) magic() {
	l.at++
	start := l.at
	for l.at < len(l.src) && isName(l.src[l.at]) {
		l.at++
	}
	switch name := l.src[start:l.at]; {
	case aliases[name]:
		l.add(shellToken, name+l.shellLine())
	case name == "sx" || name == "sc" || name == "system":
		l.add(shellToken, l.shellLine())
	case name == "time" || name == "timeit" || name == "prun" || name == "capture":
		l.begins = true
	default:
		l.shellLine()
	}
}

// word reads a name, a keyword, or the prefix of a string with the string.
func (l *lexer) word() {
	start := l.at
	for l.at < len(l.src) && isName(l.src[l.at]) {
		l.at++
	}
	name := l.src[start:l.at]
	rest := l.src[l.at:]
	if len(name) <= 2 && strings.Trim(strings.ToLower(name), "rbuft") == "" && rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		l.string(strings.ToLower(name))
		return
	}
	if l.begins && aliases[name] && len(rest) > 1 && rest[0] == ' ' && (rest[1] == '-' || rest[1] == '/' || isName(rest[1])) {
		l.add(shellToken, name+l.shellLine())
		return
	}
	l.add(nameToken, name)
}

// string reads a string from its quote on.
func (l *lexer) string(prefix string) {
	quote := l.src[l.at : l.at+1]
	if strings.HasPrefix(l.src[l.at:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	l.at += len(quote)
	start := l.at
	for l.at < len(l.src) && !strings.HasPrefix(l.src[l.at:], quote) {
		if l.src[l.at] == '\n' && len(quote) == 1 {
			break // it has no end
		}
		if l.src[l.at] == '\\' {
			l.at++
		}
		l.at++
	}
	end := min(l.at, len(l.src))
	l.at = min(end+len(quote), len(l.src))
	text := l.src[start:end]
	t := token{kind: stringToken, text: text, dynamic: strings.ContainsAny(prefix, "ft") && strings.Contains(text, "{")}
	if !strings.Contains(prefix, "r") {
		t.text = unescape(strings.ReplaceAll(text, "\\\n", ""))
	}
	if n := len(l.tokens); n > 0 && l.tokens[n-1].kind == stringToken { // adjacent ones are joined
		if l.tokens[n-1].dynamic = l.tokens[n-1].dynamic || t.dynamic; len(l.tokens[n-1].text) < maxJoined {
			l.tokens[n-1].text += t.text
			return
		}
	}
	l.tokens, l.begins = append(l.tokens, t), false
}

// maxJoined is up to which length of the first a string is joined with the next one.
const maxJoined = 256
