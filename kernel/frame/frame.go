// Package frame defines the frames between a host and the runner in a sandbox. Everything the runner sends is hostile
// until decoded: decoding is strict, and every size is bounded.
package frame

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"talaria/api"
	"talaria/kernel/record"
)

// Bounds of what a frame from inside may hold.
const (
	maxFrame     = 33 << 20 // bytes of one line: the runner shows displays of up to 32 MiB
	maxText      = 4 << 20  // of one stream frame, encoded; the runner sends pieces of 64 Ki characters
	maxDepth     = 200      // levels of nesting
	maxMembers   = 1 << 20  // members of all its objects, since checking them for duplicates takes memory
	maxMIMETypes = 64       // in one bundle
	maxNameLen   = 256      // bytes of an id, a display id, a MIME type or a metadata name
	maxEname     = 1 << 10  // longer texts are cut, here and below
	maxEvalue    = 4 << 20
	maxTraceback = 4 << 20 // bytes of all lines, each with lineCost
	lineCost     = 160     // bytes that a line takes besides its text
	maxHint      = 4 << 10
	maxPathLen   = 4 << 10 // of a file in a traceback
	maxErrFrames = 256     // of one exception
)

// Frame is a frame that the runner sends: one of the structs below, valid UTF-8 throughout.
type Frame interface{ frame() }

// The frames of the runner. A Mark is the number of the mark that the runner wrote to both pipes before the frame; 0
// means none.
type (
	Ready  struct{ Mark string }
	Stream struct {
		ID, Name string
		Text     []byte // of record.TakeBuffer
		Mark     uint64
	}
	Display struct {
		ID   string
		Body record.Display
		Mark uint64
	}
	Result struct {
		ID   string
		Body record.Result
	}
	Error struct {
		ID   string
		Info record.ErrorInfo
	}
	Clear struct {
		ID   string
		Wait bool
		Mark uint64
	}
	Done struct {
		ID                  string
		Failed, Interrupted bool
	}
)

func (Ready) frame()   {}
func (Stream) frame()  {}
func (Display) frame() {}
func (Result) frame()  {}
func (Error) frame()   {}
func (Clear) frame()   {}
func (Done) frame()    {}

var (
	hexPattern  = regexp.MustCompile(`^[0-9A-Fa-f]{8,64}$`)
	mimePattern = regexp.MustCompile(`^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?$`)
)

// Decode decodes one line of the control stream, strictly: an unknown type or field, a missing field, or one of the
// wrong type or size is an error. Invalid UTF-8 and unpaired surrogates become U+FFFD. It modifies line.
func Decode(line []byte) (Frame, error) {
	if f, ok := decodeStream(line); ok {
		return f, nil
	}
	return decodeAnyFrame(line)
}

func decodeAnyFrame(line []byte) (Frame, error) {
	if api.TooComplex(line, maxDepth, maxMembers) {
		return nil, errors.New("nested too deep or too many members")
	}
	replaceSurrogates(line)
	if !utf8.Valid(line) { // checking is far quicker than replacing
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if len(line) > maxFrame {
		return nil, ErrTooLong
	}
	f, err := splitFields(line)
	if err != nil {
		return nil, err
	}
	var out Frame
	switch kind := f.text("type"); kind {
	case "ready":
		out = Ready{Mark: f.matching("mark", hexPattern.MatchString)}
	case "stream":
		out = Stream{ID: f.name("id"), Name: f.oneOf("name", "stdout", "stderr"), Text: f.piece("text"), Mark: f.mark()}
	case "display":
		d := Display{ID: f.name("id"), Mark: f.mark()}
		d.Body.Data, d.Body.Metadata = f.bundle("data"), f.object("metadata")
		d.Body.DisplayID, d.Body.Update = f.optionalName("display_id"), f.flag("update")
		out = d
	case "result":
		r := Result{ID: f.name("id")}
		r.Body.Data, r.Body.Metadata = f.bundle("data"), f.object("metadata")
		out = r
	case "error":
		e := Error{ID: f.name("id")}
		e.Info.Ename = Truncate(f.text("ename"), maxEname)
		e.Info.Evalue = Truncate(f.text("evalue"), maxEvalue)
		e.Info.Traceback = f.lines("traceback", maxTraceback)
		e.Info.Hint = Truncate(f.optionalText("hint"), maxHint)
		e.Info.Frames = f.errorFrames("frames", len(e.Info.Traceback))
		out = e
	case "clear":
		out = Clear{ID: f.name("id"), Wait: f.flag("wait"), Mark: f.mark()}
	case "ask":
		out = decodeAsk(f)
	case "ask_end":
		out = AskEnd{Ask: f.matching("ask", api.ValidID)}
	case "tool_end":
		out = decodeToolEnd(f)
	case "comm":
		out = decodeComm(f)
	case "expressions":
		out = decodeExpressions(f)
	case "comm_end":
		out = CommEnd{ID: f.name("id")}
	case "done":
		failed := f.oneOf("status", "ok", "error") == "error"
		out = Done{ID: f.name("id"), Failed: failed, Interrupted: f.flag("interrupted")}
	default:
		if out = answerOf(kind, f); out == nil {
			return nil, errors.New("unknown type")
		}
	}
	return out, f.check()
}

// replaceSurrogates replaces each escape of an unpaired surrogate by \ufffd, in place.
func replaceSurrogates(line []byte) {
	for at := 0; ; {
		i := bytes.IndexByte(line[at:], '\\')
		if i < 0 {
			return
		}
		at += i
		switch high := surrogate(line[at:]); {
		case high == 0:
			at += 2
		case high < 0xdc00 && surrogate(line[at+6:]) >= 0xdc00:
			at += 12
		default:
			copy(line[at:], `\ufffd`)
			at += 6
		}
		if at >= len(line) {
			return
		}
	}
}

// surrogate returns the surrogate whose escape b begins with, or 0.
func surrogate(b []byte) uint64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return 0
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil || r < 0xd800 {
		return 0
	}
	return r
}

// fields are the members of a frame. It keeps the first fault found in them.
type fields struct {
	list []field
	err  error
}

type field struct {
	name  string
	value jsontext.Value // aliases the line
	used  bool
}

func splitFields(line []byte) (*fields, error) {
	f := &fields{list: make([]field, 0, 8)}
	err := eachMember(line, 16, func(name string, value jsontext.Value) {
		f.list = append(f.list, field{name: name, value: value})
	})
	return f, err
}

// eachMember calls do for each member of the one object in src. The values alias src.
func eachMember(src []byte, most int, do func(name string, value jsontext.Value)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(src))
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '{' {
		return errors.New("not an object")
	}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if most--; most < 0 {
			return errors.New("too many members")
		}
		end := int(d.InputOffset())
		do(name, src[end-len(value):end:end])
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if len(bytes.TrimSpace(src[d.InputOffset():])) > 0 {
		return errors.New("more than one value")
	}
	return nil
}

func (f *fields) fail(name, problem string) {
	if f.err == nil {
		f.err = fmt.Errorf("field %s: %s", name, problem)
	}
}

// check returns what went wrong; a field that nobody asked for is an error, too.
func (f *fields) check() error {
	for _, field := range f.list {
		if !field.used {
			f.fail("unknown", "not expected")
		}
	}
	return f.err
}

// take returns the value of that name; null counts as absent.
func (f *fields) take(name string) (jsontext.Value, bool) {
	for i := range f.list {
		if f.list[i].name == name {
			f.list[i].used = true
			return f.list[i].value, f.list[i].value.Kind() != 'n'
		}
	}
	return nil, false
}

func (f *fields) bytes(name string) []byte {
	v, ok := f.take(name)
	if !ok {
		f.fail(name, "missing")
		return nil
	}
	return f.unquote(name, v, make([]byte, 0, len(v)))
}

// piece returns the bytes of a text of at most maxText, in a buffer of record.TakeBuffer.
func (f *fields) piece(name string) []byte {
	v, ok := f.take(name)
	switch {
	case !ok:
		f.fail(name, "missing")
		return nil
	case len(v) > maxText:
		f.fail(name, "too long")
		return nil
	}
	return f.unquote(name, v, slices.Grow(record.TakeBuffer(), len(v)))
}

// unquote appends the text to b.
func (f *fields) unquote(name string, v jsontext.Value, b []byte) []byte {
	if v.Kind() != '"' {
		f.fail(name, "not a string")
		return nil
	}
	b, err := jsontext.AppendUnquote(b, v)
	if err != nil {
		f.fail(name, "not a string")
	}
	return b
}

func (f *fields) text(name string) string { return string(f.bytes(name)) }

// name returns a string of at most maxNameLen bytes.
func (f *fields) name(name string) string {
	s := f.text(name)
	if len(s) > maxNameLen {
		f.fail(name, "too long")
	}
	return s
}

func (f *fields) optionalName(name string) string {
	if _, ok := f.take(name); !ok {
		return ""
	}
	return f.name(name)
}

func (f *fields) optionalText(name string) string {
	if _, ok := f.take(name); !ok {
		return ""
	}
	return f.text(name)
}

func (f *fields) matching(name string, matches func(string) bool) string {
	s := f.text(name)
	if !matches(s) {
		f.fail(name, "not of the expected form")
	}
	return s
}

func (f *fields) oneOf(name string, words ...string) string {
	s := f.bytes(name)
	for _, word := range words {
		if string(s) == word {
			return word
		}
	}
	f.fail(name, "unknown word")
	return ""
}

// flag returns a boolean, false if it is absent.
func (f *fields) flag(name string) bool {
	v, ok := f.take(name)
	if !ok {
		return false
	}
	if k := v.Kind(); k != 't' && k != 'f' {
		f.fail(name, "not a boolean")
	}
	return v.Kind() == 't'
}

// mark returns the number of the mark in the pipes, 0 if there is none.
func (f *fields) mark() uint64 { return f.whole("mark") }

// whole returns a non-negative whole number, 0 if it is absent.
func (f *fields) whole(name string) uint64 {
	v, ok := f.take(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(string(v), 10, 53)
	if err != nil {
		f.fail(name, "not a whole number")
	}
	return n
}

// object returns a small object with arbitrary values, never nil. The values alias the line.
func (f *fields) object(name string) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	v, ok := f.take(name)
	if !ok {
		return members
	}
	err := eachMember(v, maxMIMETypes, func(key string, value jsontext.Value) {
		if len(key) > maxNameLen {
			f.fail(name, "name too long")
			return
		}
		members[key] = json.RawMessage(value)
	})
	if err != nil {
		f.fail(name, err.Error())
	}
	return members
}

// bundle returns a bundle of MIME types. It leaves out members whose name is not a MIME type, or whose value is not a
// string although the type is not a JSON one.
func (f *fields) bundle(name string) map[string]json.RawMessage {
	if _, ok := f.take(name); !ok {
		f.fail(name, "missing")
		return nil
	}
	bundle := f.object(name)
	for key, value := range bundle {
		if !mimePattern.MatchString(key) || (value[0] != '"' && !isJSONType(key)) {
			delete(bundle, key)
		}
	}
	return bundle
}

func isJSONType(mime string) bool {
	base, _, _ := strings.Cut(mime, ";")
	base = strings.TrimRight(base, " ")
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

// lines returns an array of strings, cut so that all of it, lineCost included, is at most size bytes.
func (f *fields) lines(name string, size int) []string {
	lines, taken := []string{}, 0
	f.each(name, func(value jsontext.Value) {
		if taken+lineCost >= size {
			if value.Kind() != '"' {
				f.fail(name, "not a string")
			}
			return
		}
		line := Truncate(string(f.unquote(name, value, nil)), size-taken-lineCost)
		lines = append(lines, line)
		taken += len(line) + lineCost
	})
	return lines
}

// each calls do for each element of an array. The values alias the line.
func (f *fields) each(name string, do func(jsontext.Value)) {
	v, ok := f.take(name)
	if !ok || v.Kind() != '[' {
		f.fail(name, "not an array")
		return
	}
	if !elements(v, func(value jsontext.Value) bool { do(value); return f.err == nil }) {
		f.fail(name, "not an array")
	}
}

// elements passes on the values of an array until do has had enough, and reports whether it is an array as far as it
// was read.
func elements(array jsontext.Value, do func(jsontext.Value) bool) bool {
	if array.Kind() != '[' {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(array))
	_, _ = d.ReadToken()
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return false
		}
		end := int(d.InputOffset())
		if !do(array[end-len(value) : end : end]) {
			return true
		}
	}
	return true
}

// Truncate cuts s to at most size bytes and whole runes.
func Truncate(s string, size int) string {
	if len(s) <= size {
		return s
	}
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return strings.Clone(s[:size])
}
