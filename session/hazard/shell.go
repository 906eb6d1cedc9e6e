package hazard

import (
	"strings"
	"unicode/utf8"
)

// maxHeredocs is how many here-documents of one line are read.
const maxHeredocs = 16

// maxValue is the longest value of a variable that is put in for it.
const maxValue = 64

// word is a word of a command, without its quotes.
type word struct {
	text    string
	dynamic bool // a part of it is known only when it runs
}

// command is a simple command.
type command struct {
	words  []word
	writes []word // files that redirections write
	input  string // here-documents and here-strings
}

// script reads a script of the shell: its commands, by pipelines.
type script struct {
	e         *examiner
	src       string
	at        int
	depth     int
	loose     bool // quotes are taken for spaces
	unclosed  bool // a quote has no end
	variables map[string]string

	now      command
	pipeline []command
	heredocs []string // delimiters of those that begin on the next line
}

// shell examines a script.
func (e *examiner) shell(text string, depth int) {
	if depth > maxDepth {
		e.ask(tooDeep)
		return
	}
	text = strings.ReplaceAll(text, "\\\n", "")
	if isForkBomb(text) {
		e.never("a fork bomb")
	}
	s := &script{e: e, src: text, depth: depth, variables: map[string]string{}}
	s.run()
	if s.unclosed && depth < 2 { // whatever a shell makes of it, nothing of the first tier hides behind a quote
		e.ask(unbalanced)
		loose := &script{e: e, src: text, depth: depth, loose: true, variables: map[string]string{}}
		loose.run()
	}
}

// run reads all commands and examines each pipeline.
func (s *script) run() {
	for s.at < len(s.src) {
		switch c := s.src[s.at]; {
		case c == ' ' || c == '\t':
			s.at++
		case c == '\n':
			s.at++
			s.readHeredocs()
			s.endPipeline()
		case c == '#':
			s.at = s.indexFrom('\n', s.at)
		case c == '|' && !s.next("||"):
			s.at++
			if s.at < len(s.src) && s.src[s.at] == '&' {
				s.at++
			}
			s.endCommand()
		case c == ';' || c == '|' || c == '(' || c == ')' || c == '&' && !s.next("&>"):
			s.at++
			s.endPipeline()
		case c == '<' || c == '>' || c == '&':
			s.redirect()
		default:
			s.now.words = append(s.now.words, s.fields()...)
		}
	}
	s.endPipeline()
}

func (s *script) next(prefix string) bool { return strings.HasPrefix(s.src[s.at:], prefix) }

// indexFrom is the position of a byte, or of the end.
func (s *script) indexFrom(c byte, from int) int {
	if i := strings.IndexByte(s.src[min(from, len(s.src)):], c); i >= 0 {
		return from + i
	}
	return len(s.src)
}

func (s *script) endCommand() {
	if len(s.now.words) > 0 || len(s.now.writes) > 0 {
		s.pipeline = append(s.pipeline, s.now)
	}
	s.now = command{}
}

func (s *script) endPipeline() {
	s.endCommand()
	if len(s.pipeline) > 0 {
		s.e.pipeline(s, s.pipeline)
	}
	s.pipeline = nil
}

// redirect reads a redirection.
func (s *script) redirect() {
	start := s.at
	for s.at < len(s.src) && strings.IndexByte("<>&|-", s.src[s.at]) >= 0 && s.at-start < 3 {
		s.at++
		if s.src[start:s.at] == "<<" && s.at < len(s.src) && s.src[s.at] != '<' && s.src[s.at] != '-' {
			break
		}
	}
	operator := s.src[start:s.at]
	if (operator[0] == '<' || operator[0] == '>') && s.next("(") { // a process
		s.substitute(s.at + 1)
		s.now.words = append(s.now.words, word{text: operator + "()", dynamic: true})
		return
	}
	for s.at < len(s.src) && (s.src[s.at] == ' ' || s.src[s.at] == '\t') {
		s.at++
	}
	target := s.fields()
	if len(target) == 0 {
		return
	}
	switch {
	case strings.HasPrefix(operator, "<<<"):
		s.now.input += target[0].text + "\n"
	case strings.HasPrefix(operator, "<<"):
		if len(s.heredocs) < maxHeredocs {
			s.heredocs = append(s.heredocs, target[0].text)
		}
	case strings.Contains(operator, ">"):
		if !(strings.Contains(operator, "&") && len(target[0].text) == 1) { // 2>&1
			s.now.writes = append(s.now.writes, target[0])
		}
	}
}

// readHeredocs reads the here-documents whose operators were on the line before.
func (s *script) readHeredocs() {
	for _, delimiter := range s.heredocs {
		start := s.at
		end := len(s.src)
		for s.at < len(s.src) {
			line := s.at
			s.at = min(s.indexFrom('\n', s.at)+1, len(s.src))
			if strings.TrimSpace(s.src[line:s.at]) == delimiter {
				end = line
				break
			}
		}
		s.now.input += s.src[start:end]
	}
	s.heredocs = nil
}

// fields reads a word, which is several where an expansion splits it, and none where none is there.
func (s *script) fields() []word {
	var b strings.Builder
	var all []word
	w := word{}
	quoted := false
	flush := func() {
		if w.text = b.String(); w.text != "" || quoted || w.dynamic {
			all = append(all, w)
		}
		b.Reset()
		w, quoted = word{}, false
	}
	for s.at < len(s.src) {
		c := s.src[s.at]
		switch {
		case strings.IndexByte(" \t\n;&|()<>", c) >= 0:
			flush()
			return braces(all)
		case c == '\\' && s.at+1 < len(s.src):
			b.WriteByte(s.src[s.at+1])
			s.at += 2
		case s.loose && (c == '\'' || c == '"'):
			s.at++
			flush()
		case c == '\'':
			end := s.indexFrom('\'', s.at+1)
			s.unclosed = s.unclosed || end == len(s.src)
			b.WriteString(s.src[s.at+1 : end])
			s.at, quoted = min(end+1, len(s.src)), true
		case c == '"':
			s.doubleQuoted(&b, &w)
			quoted = true
		case c == '`':
			s.backquoted(&w)
		case c == '$':
			if text, split := s.dollar(&b, &w); split {
				parts := strings.Fields(text)
				for i, part := range parts {
					if i > 0 || strings.HasPrefix(text, " ") {
						flush()
					}
					b.WriteString(part)
				}
				if len(parts) == 0 || strings.HasSuffix(text, " ") {
					flush()
				}
			}
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	flush()
	return braces(all)
}

// braces expands a whole word like {rm,-rf,/}.
func braces(list []word) []word {
	if len(list) != 1 {
		return list
	}
	text := list[0].text
	if len(text) < 3 || text[0] != '{' || text[len(text)-1] != '}' || !strings.Contains(text, ",") {
		return list
	}
	var all []word
	for part := range strings.SplitSeq(text[1:len(text)-1], ",") {
		all = append(all, word{text: part, dynamic: list[0].dynamic})
	}
	return all
}

// doubleQuoted reads "…".
func (s *script) doubleQuoted(b *strings.Builder, w *word) {
	for s.at++; s.at < len(s.src); {
		switch c := s.src[s.at]; {
		case c == '"':
			s.at++
			return
		case c == '\\' && s.at+1 < len(s.src) && strings.IndexByte("\"\\$`", s.src[s.at+1]) >= 0:
			b.WriteByte(s.src[s.at+1])
			s.at += 2
		case c == '`':
			s.backquoted(w)
		case c == '$':
			if text, ok := s.dollar(b, w); ok {
				b.WriteString(text)
			}
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	s.unclosed = true
}

// backquoted examines `…`.
func (s *script) backquoted(w *word) {
	end := s.indexFrom('`', s.at+1)
	s.unclosed = s.unclosed || end == len(s.src)
	s.e.shell(s.src[s.at+1:end], s.depth+1)
	s.at, w.dynamic = min(end+1, len(s.src)), true
}

// dollar reads an expansion. known reports that text is its value, which the shell splits unless it is quoted.
func (s *script) dollar(b *strings.Builder, w *word) (text string, known bool) {
	rest := s.src[s.at+1:]
	switch {
	case strings.HasPrefix(rest, "("):
		s.substitute(s.at + 2)
		w.dynamic = true
		return "", false
	case strings.HasPrefix(rest, "'") && !s.loose:
		end := s.at + 2
		for end < len(s.src) && s.src[end] != '\'' {
			if s.src[end] == '\\' {
				end++
			}
			end++
		}
		s.unclosed = s.unclosed || end >= len(s.src)
		end = min(end, len(s.src))
		b.WriteString(unescape(s.src[s.at+2 : end]))
		s.at = min(end+1, len(s.src))
		return "", false
	}
	name := rest
	if strings.HasPrefix(rest, "{") {
		end := s.indexFrom('}', s.at)
		name = s.src[s.at+2 : max(end, s.at+2)]
		s.at = min(end+1, len(s.src))
		name = name[:nameLength(name)]
	} else {
		name = rest[:nameLength(rest)]
		if s.at += 1 + len(name); name == "" { // $1, $?, or a dollar
			b.WriteByte('$')
			w.dynamic = true
			return "", false
		}
	}
	value, set := s.variables[name]
	switch {
	case name == "IFS" && !set:
		return " ", true
	case name == "HOME" && !set:
		return "~", true
	case set:
		return value, true
	}
	w.dynamic = true
	return "", false
}

func nameLength(text string) int {
	for i := range len(text) {
		if c := text[i]; c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9' || i == 0) {
			return i
		}
	}
	return len(text)
}

// substitute examines the script inside of $(…), from a position on, and moves behind it.
func (s *script) substitute(from int) {
	open, at := 1, from
	for ; at < len(s.src) && open > 0; at++ {
		switch s.src[at] {
		case '\\':
			at++
		case '\'':
			at = s.indexFrom('\'', at+1)
		case '(':
			open++
		case ')':
			open--
		}
	}
	at = min(at, len(s.src))
	end := at
	if open == 0 {
		end = at - 1
	} else {
		s.unclosed = true
	}
	s.e.shell(s.src[min(from, end):end], s.depth+1)
	s.at = at
}

// unescape decodes $'…'.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		base, most := 8, 3
		switch c := text[i]; {
		case c == 'n':
			b.WriteByte('\n')
			continue
		case c == 't':
			b.WriteByte('\t')
			continue
		case c == 'x' || c == 'u' || c == 'U':
			base, most = 16, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			i++
		case c < '0' || c > '7':
			b.WriteByte(c)
			continue
		}
		value, n := 0, 0
		for ; n < most && i+n < len(text); n++ {
			digit := strings.IndexByte("0123456789abcdef", text[i+n]|0x20)
			if text[i+n] >= '0' && text[i+n] <= '9' {
				digit = int(text[i+n] - '0')
			}
			if digit < 0 || digit >= base {
				break
			}
			value = value*base + digit
		}
		i += n - 1
		if value <= utf8.MaxRune {
			b.WriteRune(rune(value))
		}
	}
	return b.String()
}

// isForkBomb reports whether a function is defined that pipes itself into itself in the background.
func isForkBomb(text string) bool {
	text = strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' || r == '\n' {
			return -1
		}
		return r
	}, text)
	for from := 0; ; {
		i := strings.Index(text[from:], "(){")
		if i < 0 {
			return false
		}
		at := from + i
		start := at
		for start > 0 && at-start < 32 && strings.IndexByte(";&|(){}", text[start-1]) < 0 {
			start--
		}
		name := text[start:at]
		if name != "" && strings.HasPrefix(text[at+3:], name+"|"+name+"&") {
			return true
		}
		from = at + 3
	}
}
