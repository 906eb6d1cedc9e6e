package transcript

import (
	"bytes"
	"unicode/utf8"
)

const (
	// lookBehind is how much of the text a rule may look at before its anchor.
	lookBehind = 96
	// longestPrefix is how much of a secret may come before the anchor of its rule.
	longestPrefix = 24
	// lookAhead is how much of a secret is looked at to decide whether it is one.
	lookAhead = 256
	// longestKey is how far from its beginning the end of a private key is looked for.
	longestKey = 16 << 10
)

// known finds secrets by their form in a text that comes in pieces: tokens with the prefix of a vendor, the values of
// names such as API_KEY, passwords in URLs, private keys. Each rule begins at an anchor, a byte that is rare in
// ordinary text, and looks at a bounded part of the text around it, so that the time is proportional to the text.
// What it finds doesn't depend on how the text is cut into pieces. The zero value is ready to use.
type known struct {
	text   []byte  // what a rule may still look at
	next   int     // in text, where to look for the next anchor
	from   int     // in text, where a secret that isn't decided yet may begin
	enough int     // length of text below which another look at it would be a waste
	goesOn charset // the characters with which the secret before next goes on
}

// match is what a rule finds: text[start:end] is a secret, which goes on with the characters of a class.
type match struct {
	start, end int
	goesOn     charset
}

// window is the text that a rule looks at.
type window struct {
	text  []byte
	final bool // the text ends here
	short bool // the rule looked beyond what has come
}

// at is a byte of the text, 0 before and after it.
func (w *window) at(i int) byte {
	if i < 0 {
		return 0
	}
	if i >= len(w.text) {
		w.short = w.short || !w.final
		return 0
	}
	return w.text[i]
}

// run is the end of the characters of a class from i on, limit at most.
func (w *window) run(i, limit int, c charset) int {
	set := &charsets[c]
	for end := min(limit, len(w.text)); i < end; i++ {
		if !set[w.text[i]] {
			return i
		}
	}
	if i < limit {
		w.at(i)
	}
	return i
}

// write goes on with the text, and hands on the secrets that are decided, counted from the end of the text.
func (k *known) write(piece string, final bool, add func(start, end int)) {
	k.text = append(k.text, piece...)
	if len(k.text) < k.enough && !final {
		return
	}
	found := func(m match) {
		for m.goesOn != 0 && m.end < len(k.text) && charsets[m.goesOn][k.text[m.end]] {
			m.end++
		}
		add(len(k.text)-m.start, len(k.text)-m.end)
		k.next, k.goesOn = m.end, 0
		if m.end == len(k.text) {
			k.goesOn = m.goesOn
		}
	}
	if k.goesOn != 0 {
		found(match{k.next, k.next, k.goesOn})
	}
	k.enough = 0
	w := window{text: k.text, final: final}
	from := -1
	for from < 0 {
		k.next += anchor(k.text[k.next:])
		if k.next == len(k.text) {
			break
		}
		m, ok := w.secret(k.next)
		switch {
		case w.short:
			from = min(m.start, k.next)
			k.enough = 2*len(k.text) - k.next
		case ok:
			found(m)
		default:
			k.next++
		}
	}
	if from < 0 {
		from = k.next
	}
	k.from = min(from, k.prefix())
	k.trim()
}

// prefix is where a secret may begin whose anchor hasn't come yet. No secret has a space before its anchor.
func (k *known) prefix() int {
	begin := max(0, k.next-longestPrefix)
	return begin + 1 + bytes.LastIndexAny(k.text[begin:k.next], " \t\r\n")
}

// settle holds back no longer what may only be the prefix of a secret.
func (k *known) settle() {
	if k.enough == 0 {
		k.from = len(k.text)
	}
}

// anchor is where the first anchor in a text is, its length where there is none.
func anchor(text []byte) int {
	for i, b := range text {
		if anchors[b] {
			return i
		}
	}
	return len(text)
}

// trim forgets what no rule may look at any more. What stays begins between characters.
func (k *known) trim() {
	n := max(0, min(k.from, k.next-lookBehind))
	for n > 0 && !utf8.RuneStart(k.text[n]) {
		n--
	}
	k.text = append(k.text[:0], k.text[n:]...)
	k.next, k.from, k.enough = k.next-n, k.from-n, max(0, k.enough-n)
}

// open is how many bytes at the end of the text may belong to a secret that isn't decided yet.
func (k *known) open() int {
	n := k.from
	for n > 0 && n < len(k.text) && !utf8.RuneStart(k.text[n]) {
		n--
	}
	return len(k.text) - n
}

func (k *known) clone() known {
	c := *k
	c.text = bytes.Clone(k.text)
	return c
}

// secret applies the rules of the anchor at i. Where the window is short, start is where a secret may begin.
func (w *window) secret(i int) (match, bool) {
	m := match{start: i}
	for _, p := range vendors[w.text[i]][before(w.text, i)] {
		if m, ok := w.vendor(i, p); ok || w.short {
			return m, ok
		}
	}
	switch w.text[i] {
	case ':', '=':
		return w.assigned(i)
	case 'N':
		return w.privateKey(i)
	}
	return m, false
}

// before is the byte before i, 0 at the beginning.
func before(text []byte, i int) byte {
	if i == 0 {
		return 0
	}
	return text[i-1]
}

// apart reports whether a token may begin at i: after what is not part of a word, or after an escape sequence of a
// quoted text such as \n or %3D.
func (w *window) apart(i int) bool {
	if i == 0 {
		return true
	}
	b := w.text[i-1]
	switch {
	case !charsets[token][b]:
		return true
	case i > 1 && w.text[i-2] == '\\':
		return b == 'n' || b == 'r' || b == 't'
	case i > 2 && w.text[i-3] == '%':
		return charsets[hex][b] && charsets[hex][w.text[i-2]]
	}
	return false
}

// privateKey finds a private key in PEM by the last letter of BEGIN. One whose end is missing goes to its last line.
func (w *window) privateKey(i int) (match, bool) {
	const begin, end, dashes = "-----BEGIN", "-----END", "-----"
	start := i + 1 - len(begin)
	if start < 0 || string(w.text[start:i+1]) != begin {
		return match{start: i}, false
	}
	label := w.run(i+1, i+64, upperSpaced)
	m := match{start: start}
	for _, b := range []byte(dashes) {
		if w.at(label) != b {
			return m, false
		}
		label++
	}
	name := w.text[i+1 : label-len(dashes)]
	if !bytes.HasSuffix(bytes.TrimSuffix(name, []byte(" BLOCK")), []byte("PRIVATE KEY")) {
		return m, false
	}
	limit := label + longestKey
	body := w.text[label:min(limit, len(w.text))]
	n := bytes.Index(body, []byte(dashes))
	if n < 0 || n+len(end) > len(body) {
		if limit > len(w.text) {
			w.at(len(w.text))
		}
	}
	if n >= 0 && bytes.HasPrefix(body[n:], []byte(end)) {
		m.end = label + n + len(end)
		m.end = w.run(m.end, m.end+64, upperSpaced)
		m.end = w.run(m.end, m.end+len(dashes), dash)
		return m, longestRun(body[:n], base64Text) >= 16
	}
	if n < 0 {
		n = len(body)
	}
	m.end = label + keyLines(body[:n])
	return m, longestRun(body[:m.end-label], base64Text) >= 16
}

// keyLines is the end of the lines that are those of a private key: each has 16 characters of Base64 beside each other,
// or is the header of one that is encrypted, but the last one may be shorter.
func keyLines(body []byte) int {
	end, at := 0, 0
	for at < len(body) {
		n := bytes.IndexByte(body[at:], '\n') + 1
		if n == 0 {
			n = len(body) - at
		}
		line := body[at : at+n]
		at += n
		text := bytes.TrimSpace(line)
		switch {
		case longestRun(line, base64Text) >= 16, bytes.Contains(line, []byte(": ")) && bytes.Contains(line, []byte(",")) && end == 0,
			len(text) == 0:
			end = at
		case longestRun(text, base64Text) == len(text):
			return at
		default:
			return len(bytes.TrimRight(body[:end], "\r\n"))
		}
	}
	return len(bytes.TrimRight(body[:end], "\r\n"))
}

// longestRun is the length of the most characters of a class beside each other.
func longestRun(text []byte, c charset) int {
	longest, n := 0, 0
	for _, b := range text {
		if n++; !charsets[c][b] {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}
