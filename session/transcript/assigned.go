package transcript

import (
	"bytes"
	"slices"
	"strings"
)

// longestValue is how much of a value is looked at to decide whether it is a secret.
const longestValue = 128

// sensitivity says what a name promises about its value.
type sensitivity uint8

const (
	ordinary      sensitivity = iota
	doubtful                  // a token may also be a word: only a long value that looks random is secret
	secretive                 // a value that looks random is secret
	exported                  // as secretive, in capital letters right before =, as of an environment variable
	authorization             // the header
)

// assignment is a place where a name gets a value.
type assignment struct {
	kind    sensitivity
	value   int  // where it begins
	quote   byte // 0 for none
	escapes int  // backslashes before the quote
}

// endings are how names of secrets end, without separators and in small letters.
var endings = []string{
	"apikey", "secretkey", "accesskey", "privatekey", "authkey", "signingkey", "encryptionkey", "masterkey", "accountkey",
	"sharedkey", "subscriptionkey", "sessionkey", "appkey", "hmackey", "passkey", "storagekey", "servicekey",
	"accesstoken", "authtoken", "refreshtoken", "bearertoken", "idtoken", "apitoken", "sessiontoken", "bottoken",
	"secrettoken", "securitytoken", "usertoken", "logintoken", "csrftoken", "githubtoken",
	"password", "passwd", "passphrase", "passcode", "pwd", "secret", "credential", "credentials",
}

// endingsBy are the endings by their last letter.
var endingsBy = func() (by [256][]string) {
	for _, ending := range endings {
		last := ending[len(ending)-1]
		by[last] = append(by[last], ending)
	}
	return by
}()

// linguistic are what names of tokens that are words end with.
var linguistic = []string{"padtoken", "eostoken", "bostoken", "unktoken", "septoken", "clstoken", "masktoken", "nexttoken",
	"pagetoken", "starttoken", "endtoken", "stoptoken", "imagetoken", "maxtoken", "specialtoken"}

// signed are the parameters of a URL that are secret only there.
var signed = []string{"key", "sig", "signature", "code", "auth", "xamzsignature", "xgoogsignature"}

// assigned finds the value of a name, or another secret in which there is a colon.
func (w *window) assigned(i int) (match, bool) {
	m := match{start: i + 1}
	if w.text[i] == ':' && i > 0 {
		switch previous := w.text[i-1]; {
		case charsets[digits][previous]:
			return w.bot(i)
		case w.at(i+1) == '/' && w.at(i+2) == '/' && charsets[letters][previous]:
			return w.address(i)
		}
	}
	a := assignment{kind: w.sensitivity(i)}
	if a.kind == ordinary || !w.begins(i, &a) {
		return m, false
	}
	if a.kind == authorization {
		return w.authorized(a)
	}
	end, ok := w.valueEnd(a)
	if !ok {
		return m, false
	}
	m = match{start: a.value, end: end}
	if end-a.value >= longestValue {
		m.goesOn = bare
	}
	return m, a.secret(w.text[a.value:end])
}

// sensitivity returns how sensitive the name is that ends before the = or : at i.
func (w *window) sensitivity(i int) sensitivity {
	j := i
	if j > 0 && w.text[i] == '=' && w.text[j-1] == ':' {
		j--
	}
	for n := 0; n < 16 && j > 0 && w.text[j-1] == ' '; n++ {
		j--
	}
	for n := 0; n < 8 && j > 0 && strings.IndexByte(`"'\]`, w.text[j-1]) >= 0; n++ {
		j--
	}
	if j == 0 || strings.IndexByte("ynetdslhgYNETDSLHG", w.text[j-1]) < 0 { // the last letters of all these names
		return ordinary
	}
	end := j
	for j > 0 && end-j < 64 && charsets[dotted][w.text[j-1]] {
		j--
	}
	name := w.text[j:end]
	if j > 1 && w.text[j-1] == '\\' { // of an escape sequence
		name = name[1:]
	}
	kind := named(name, j > 0 && (w.text[j-1] == '?' || w.text[j-1] == '&'))
	if w.text[i] == '=' && end == i && !bytes.ContainsAny(name, small+".-") {
		switch {
		case kind == secretive, kind == doubtful && hasSuffix(name, "TOKEN"):
			return exported
		case kind == ordinary && bytes.HasSuffix(name, []byte("_KEY")):
			return doubtful
		}
	}
	return kind
}

// named is the sensitivity of a name of at most 64 bytes.
func named(name []byte, inQuery bool) sensitivity {
	var buffer [64]byte
	compact := buffer[:0]
	for _, b := range name {
		switch {
		case 'A' <= b && b <= 'Z':
			compact = append(compact, b+'a'-'A')
		case charsets[letters][b]:
			compact = append(compact, b)
		}
	}
	if len(compact) == 0 {
		return ordinary
	}
	for _, ending := range endingsBy[compact[len(compact)-1]] {
		if hasSuffix(compact, ending) {
			return secretive
		}
	}
	switch {
	case hasSuffix(compact, "authorization"):
		return authorization
	case hasSuffix(compact, "token"):
		if !slices.ContainsFunc(linguistic, func(ending string) bool { return hasSuffix(compact, ending) }) {
			return doubtful
		}
	case inQuery && slices.Contains(signed, string(compact)):
		return doubtful
	}
	return ordinary
}

// hasSuffix is [bytes.HasSuffix] without a conversion.
func hasSuffix(text []byte, suffix string) bool {
	return len(text) >= len(suffix) && string(text[len(text)-len(suffix):]) == suffix
}

// begins finds where a value begins, after spaces and an opening quote, which may itself be escaped.
func (w *window) begins(i int, a *assignment) bool {
	j := i + 1
	switch next := w.at(j); {
	case next == '=', w.text[i] == ':' && next == ':':
		return false // a comparison, or a qualified name
	case w.text[i] == '=' && next == '>':
		j++
	}
	j = w.run(j, j+16, blanks)
	if strings.IndexByte("bBrRuUfF", w.at(j)) >= 0 && j < len(w.text) && strings.IndexByte(`"'`, w.at(j+1)) >= 0 && j+1 < len(w.text) {
		j++ // of a string in Python
	}
	for w.at(j) == '\\' && a.escapes < 8 {
		a.escapes++
		j++
	}
	if b := w.at(j); b == '"' || b == '\'' || b == '`' {
		a.quote = b
		j++
	}
	a.value = j
	return a.escapes == 0 || a.quote != 0
}

// valueEnd is where a value ends. It reports false for one with spaces in its quotes, which is a text.
func (w *window) valueEnd(a assignment) (int, bool) {
	stops := "\"'`,;)]}<>|&"
	switch {
	case a.quote != 0:
		stops = ""
	case a.kind == exported:
		stops = "\"'`;&"
	}
	j := a.value
	for limit := a.value + longestValue; j < limit; {
		if j = w.run(j, limit, unbroken); j == limit {
			break
		}
		b := w.at(j)
		switch {
		case b == a.quote && b != 0:
			return j, a.escapes == 0
		case b == '\\':
			k := j
			for w.at(k) == '\\' && k < j+16 {
				k++
			}
			next := w.at(k)
			if a.quote == 0 && strings.IndexByte("nrtux\"'\\", next) >= 0 {
				return j, true
			}
			if a.quote != 0 && next == a.quote && k-j <= a.escapes {
				return j, true
			}
			if a.quote != 0 && next == a.quote && (k-j)%2 == 1 {
				k++
			}
			j = k
			continue
		case b <= ' ' || b == 0x7f:
			return j, a.quote == 0 || b == 0 || b == '\n'
		case strings.IndexByte(stops, b) >= 0:
			return j, true
		}
		j++
	}
	return a.value + longestValue, true
}

// secret reports whether a value is a secret rather than code, a placeholder, a path or a word.
func (a assignment) secret(value []byte) bool {
	const shortest, long = 6, 16
	if len(value) < shortest {
		return false
	}
	switch a.kind {
	case secretive:
		if !mixed(value) || dataType(value) {
			return false
		}
	case doubtful:
		if len(value) < long || !has(value, digits) || !bytes.ContainsAny(value, small+capitals) {
			return false
		}
	}
	return !placeholder(value) && !fileName(value) && (a.quote != 0 || !code(value))
}

// mixed reports whether a value is not just a word: it has digits, or signs beside letters, or is long and has capital
// letters inside.
func mixed(value []byte) bool {
	const long = 16
	var seen trait
	for _, b := range value[1:] {
		seen |= traits[b]
	}
	first := traits[value[0]]
	all := seen | first
	return all&digit != 0 || all&sign != 0 && all&(smallLetter|capitalLetter) != 0 ||
		len(value) >= long && seen&capitalLetter != 0 && all&smallLetter != 0 && all&separator == 0
}

// trait is what a byte says about the value that it is in.
type trait uint8

const (
	digit trait = 1 << iota
	smallLetter
	capitalLetter
	separator // of words or parts of a name
	sign
)

var traits = func() (table [256]trait) {
	for i := range table {
		switch b := byte(i); {
		case charsets[digits][b]:
			table[i] = digit
		case 'a' <= b && b <= 'z':
			table[i] = smallLetter
		case 'A' <= b && b <= 'Z':
			table[i] = capitalLetter
		case strings.IndexByte("_-./: ,", b) >= 0:
			table[i] = separator
		case ' ' < b && b < 0x7f:
			table[i] = sign
		}
	}
	return table
}()

// placeholder reports whether a value stands for another one: $VAR, ${VAR}, {{ name }}, <token>, %s, ***, [redacted].
func placeholder(value []byte) bool {
	switch value[0] {
	case '$':
		return charsets[token][value[1]] || value[1] == '{' || value[1] == '(' || value[1] == '$'
	case '<', '{', '[', '(':
		return true
	case '%':
		return value[1] == '(' || value[1] == 's' || value[len(value)-1] == '%'
	}
	if len(value) <= 10 {
		switch strings.ToLower(string(value)) {
		case "undefined", "required", "optional", "missing", "string", "object", "not-set", "not_set", "redacted", "default":
			return true
		}
	}
	return bytes.Count(value, value[:1]) == len(value) || bytes.Contains(value, []byte("..."))
}

// fileName reports whether a value is a path, a URL or the name of a file.
func fileName(value []byte) bool {
	for _, p := range []string{"/", "./", "../", "~/"} {
		if bytes.HasPrefix(value, []byte(p)) {
			return true
		}
	}
	if bytes.Contains(value, []byte("://")) || value[1] == ':' && value[2] == '\\' {
		return true
	}
	dot := bytes.LastIndexByte(value, '.')
	end := value[dot+1:]
	return dot > 0 && len(end) >= 2 && len(end) <= 5 && len(bytes.Trim(end, small)) == 0
}

// code reports whether a value without quotes is an expression: a name with points, or a call.
func code(value []byte) bool {
	n := len(value)
	for i, b := range value {
		if !charsets[dotted][b] || b == '-' {
			n = i
			break
		}
	}
	if n == 0 || charsets[digits][value[0]] {
		return false
	}
	if n < len(value) {
		return value[n] == '(' || value[n] == '['
	}
	return bytes.IndexByte(value, '.') > 0 && !has(value, digits) || strings.HasPrefix(string(value), "self.")
}

// dataType reports whether a value is the name of one, such as float64.
func dataType(value []byte) bool {
	switch strings.TrimRight(string(value), numerals) {
	case "int", "uint", "float", "complex", "datetime", "timedelta", "Int", "Float", "UInt", "string", "varchar":
		return true
	}
	return false
}

// authorized finds what follows the scheme in an Authorization header.
func (w *window) authorized(a assignment) (match, bool) {
	m := match{start: a.value}
	scheme := w.run(a.value, a.value+24, token)
	name := strings.ToLower(string(w.text[a.value:scheme]))
	set, shortest := bare, 8
	if w.at(scheme) == ' ' {
		switch name {
		case "bearer", "basic", "token", "bot", "apikey", "negotiate", "key", "splunk":
			m.start = scheme + 1
		case "digest", "aws4-hmac-sha256":
			m.start, set = scheme+1, line
		default:
			return m, false
		}
	}
	m.end = w.run(m.start, m.start+lookAhead, set)
	if m.end == m.start+lookAhead {
		m.goesOn = set
	}
	value := w.text[m.start:m.end]
	if len(value) < shortest || name != "basic" && !mixed(value) && (len(value) < 20 || m.start == a.value) {
		return m, false
	}
	return m, !placeholder(value) && !code(value)
}

// bot finds what follows the number and the colon in the token of a bot of Telegram.
func (w *window) bot(i int) (match, bool) {
	m := match{start: i + 1}
	j := i
	for j > 0 && i-j <= 10 && charsets[digits][w.text[j-1]] {
		j--
	}
	if n := i - j; n < 8 || n > 10 {
		return m, false
	}
	if !w.apart(j) && (j < 3 || string(w.text[j-3:j]) != "bot") {
		return m, false
	}
	m.end = w.run(m.start, m.start+40, token)
	n := m.end - m.start
	return m, n >= 34 && n <= 36 && random(w.text[m.start:m.end])
}

// address finds the password in the URL whose scheme ends at i, or a token in the place of its user.
func (w *window) address(i int) (match, bool) {
	user := i + len("://")
	m := match{start: user}
	colon, at, j := 0, 0, user
	for ; j < user+lookAhead; j++ {
		b := w.at(j)
		if b <= ' ' || strings.IndexByte("/?#\"'`\\<>", b) >= 0 {
			break
		}
		switch {
		case b == '@':
			at = j
		case b == ':' && colon == 0:
			colon = j
		}
	}
	if at == 0 {
		return m, false
	}
	m.end = at
	if colon > 0 && colon < at {
		m.start = colon + 1
		value := w.text[m.start:m.end]
		return m, len(value) > 0 && !(len(value) > 1 && placeholder(value)) && value[0] != '*'
	}
	value := w.text[m.start:m.end]
	return m, len(value) >= 16 && has(value, digits) && len(bytes.TrimFunc(value, func(r rune) bool { return r < 0x80 && charsets[token][byte(r)] })) == 0
}
