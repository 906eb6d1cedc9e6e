package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"
)

// Encoding is the version of the encoding of records. Both sides agree on it before they exchange encoded records.
const Encoding = 1

// MaxEncoded bounds one encoded record, in bytes. The frames that come out of a kernel stay far below it.
const MaxEncoded = 64<<20 - 1<<10

// The errors of [Decode].
var (
	ErrTornRecord    = errors.New("a record is cut off")
	ErrCorruptRecord = errors.New("a record is corrupt")
	ErrUnknownRecord = errors.New("a record of a kind that this program does not know; run the version that wrote it, or a newer one")
)

// An encoded record is
//
//	length  u32  of all that follows the check sum
//	check   u32  CRC-32C of all that follows it
//	kseq    u64
//	time    i64  nanoseconds since 1970
//	kind    u8
//	execution id, as text
//	body
//
// with little-endian integers. A text is encoded as its length, a uvarint, and its bytes. The body of a Stream is the
// name as a text, and the printed bytes unchanged. The body of a Display is flags, the display id as a text, and two
// bundles; the body of a Result is two bundles. A bundle is the number of its members as a uvarint, and then the name
// and the JSON of each as texts. The body of a Comm is described at appendComm. All other bodies are JSON.
const (
	Prefix      = 8               // length and check sum
	recordFixed = 17              // number, time and kind
	MinSize     = recordFixed + 1 // the least value of length
)

const (
	KindSegment byte = iota // used by the spool: not a record of a kernel
	KindStarted
	kindStream
	kindDisplay
	kindResult
	kindRaised
	kindClear
	kindInputRequest
	kindInputClosed
	kindFinished
	KindDied
	kindInstallRequest
	kindInstallClosed
	kindToolsRequest
	kindToolsClosed
	kindToolRequest
	kindToolClosed
	kindToolEnded
	kindComm
	kindCommHandled
	kindExpressions
	kindCopyLost
	kindAfterRequest
	kindAfterClosed
)

// aliased is the size from which a bundle's value is not copied when it is decoded.
const aliased = 1 << 20

const displayUpdate = 1 // flag of a Display

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends r, without its key, to dst. It returns an error, and dst unchanged, for a record larger than
// MaxEncoded.
func Append(dst []byte, r Record) ([]byte, error) {
	return AppendBody(dst, r.KSeq, r.Time, r.ExecutionID, r.Body)
}

// AppendBody is [Append] for a record given by its parts.
func AppendBody(dst []byte, kseq uint64, at time.Time, execution string, body Body) ([]byte, error) {
	kind := kindOf(body)
	b := Begin(dst, kseq, at, kind, execution)
	switch body := body.(type) {
	case Stream:
		b = appendText(b, body.Name)
		b = append(b, body.Text...)
	case Display:
		var flags byte
		if body.Update {
			flags = displayUpdate
		}
		b = appendText(append(b, flags), body.DisplayID)
		b = slices.Grow(b, bundleSize(body.Data)+bundleSize(body.Metadata))
		b = appendBundle(appendBundle(b, body.Data), body.Metadata)
	case Result:
		b = slices.Grow(b, bundleSize(body.Data)+bundleSize(body.Metadata))
		b = appendBundle(appendBundle(b, body.Data), body.Metadata)
	case Comm:
		b = appendComm(b, body)
	default:
		if kind == KindSegment {
			return dst, fmt.Errorf("encode record %d: %T is not a kind of record", kseq, body)
		}
		object := bytes.NewBuffer(b)
		encoder := json.NewEncoder(object)
		encoder.SetEscapeHTML(false) // a traceback full of < would become six times as large
		if err := encoder.Encode(encodable(body)); err != nil {
			return dst, fmt.Errorf("encode record %d: %w", kseq, err)
		}
		b = bytes.TrimSuffix(object.Bytes(), []byte("\n"))
	}
	return End(b, len(dst))
}

// AppendStream is AppendBody for a Stream whose text is b.
func AppendStream(dst []byte, kseq uint64, at time.Time, execution, name string, b []byte) ([]byte, error) {
	r := Begin(dst, kseq, at, kindStream, execution)
	r = append(appendText(r, name), b...)
	return End(r, len(dst))
}

// Begin appends the beginning of a record of that kind; its body follows, and then [End].
func Begin(dst []byte, kseq uint64, at time.Time, kind byte, execution string) []byte {
	dst = append(dst, make([]byte, Prefix)...)
	dst = binary.LittleEndian.AppendUint64(dst, kseq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(at.UnixNano()))
	return appendText(append(dst, kind), execution)
}

// End fills in the length and the check sum of the record that begins at from.
func End(b []byte, from int) ([]byte, error) {
	r := b[from:]
	if len(r) > MaxEncoded {
		return b[:from], fmt.Errorf("encode record: it takes %d bytes; the limit is %d", len(r), MaxEncoded)
	}
	binary.LittleEndian.PutUint32(r, uint32(len(r)-Prefix))
	binary.LittleEndian.PutUint32(r[4:], crc32.Checksum(r[Prefix:], castagnoli))
	return b, nil
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBundle(dst []byte, bundle map[string]json.RawMessage) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(bundle)))
	for name, value := range bundle {
		dst = appendText(dst, name)
		dst = append(binary.AppendUvarint(dst, uint64(len(value))), value...)
	}
	return dst
}

// bundleSize is at least what appendBundle writes, so that a large bundle is copied once.
func bundleSize(bundle map[string]json.RawMessage) int {
	size := binary.MaxVarintLen64
	for name, value := range bundle {
		size += 2*binary.MaxVarintLen64 + len(name) + len(value)
	}
	return size
}

func kindOf(body Body) byte {
	switch body := body.(type) {
	case Started:
		return KindStarted
	case Stream:
		return kindStream
	case Display:
		return kindDisplay
	case Result:
		return kindResult
	case Raised:
		return kindRaised
	case Clear:
		return kindClear
	case Asked:
		switch body.Body.(type) {
		case InputRequest:
			return kindInputRequest
		case PackageChange:
			return kindInstallRequest
		case ToolsRequest:
			return kindToolsRequest
		case ToolCall:
			return kindToolRequest
		case AfterCell:
			return kindAfterRequest
		}
	case AskClosed:
		switch body.Kind {
		case AskInput:
			return kindInputClosed
		case AskInstall:
			return kindInstallClosed
		case AskTools:
			return kindToolsClosed
		case AskTool:
			return kindToolClosed
		case AskAfter:
			return kindAfterClosed
		}
	case ToolEnded:
		return kindToolEnded
	case Comm:
		return kindComm
	case CommHandled:
		return kindCommHandled
	case Expressions:
		return kindExpressions
	case CopyLost:
		return kindCopyLost
	case Finished:
		return kindFinished
	case Died:
		return KindDied
	}
	return KindSegment
}

// The encoded forms of the records about asks: each kind of ask has its own kinds of records.
type (
	inputRecord struct {
		RequestID string
		InputRequest
	}
	installRecord struct {
		RequestID string
		Change    PackageChange
	}
	toolsRecord struct{ RequestID string }
	toolRecord  struct {
		RequestID string
		ToolCall
	}
	afterRecord struct {
		RequestID string
		AfterCell
	}
	closedRecord struct{ RequestID, How string }
)

// encodable returns the value that is encoded for body.
func encodable(body Body) any {
	switch body := body.(type) {
	case Asked:
		switch of := body.Body.(type) {
		case InputRequest:
			return inputRecord{body.ID, of}
		case PackageChange:
			return installRecord{body.ID, of}
		case ToolsRequest:
			return toolsRecord{body.ID}
		case ToolCall:
			return toolRecord{body.ID, of}
		case AfterCell:
			return afterRecord{body.ID, of}
		}
	case AskClosed:
		return closedRecord{body.ID, body.How}
	}
	return body
}

// Decode decodes whole encoded records of key that are consecutive in b and in number. If something is wrong, it
// returns the records before it and an error that wraps one of the above. Values of bundles and buffers of more than 1 MiB alias
// b, which must not be changed then; nothing else aliases it.
func Decode(key Key, b []byte) ([]Record, error) {
	var records []Record
	for len(b) > 0 {
		raw, rest, err := Cut(b)
		if err != nil {
			return records, err
		}
		body, err := raw.decode()
		if err != nil {
			return records, fmt.Errorf("record %d: %w", raw.KSeq, err)
		}
		if n := len(records); n > 0 && raw.KSeq != records[n-1].KSeq+1 {
			return records, fmt.Errorf("record %d follows record %d: %w", raw.KSeq, records[n-1].KSeq, ErrCorruptRecord)
		}
		if records == nil {
			records = make([]Record, 0, min(1+len(rest)/len(b[:len(b)-len(rest)]), 64))
		}
		records = append(records, Record{
			Key: key, KSeq: raw.KSeq, Time: time.Unix(0, raw.nanos), ExecutionID: string(raw.Execution), Body: body,
		})
		b = rest
	}
	return records, nil
}

// Raw is a record whose body is not decoded. It aliases the bytes that it was cut from.
type Raw struct {
	KSeq      uint64
	nanos     int64
	Kind      byte
	Execution []byte
	body      []byte
}

// Size returns how many bytes the record at the beginning of b takes, or ErrTornRecord if b is too short to tell.
func Size(b []byte) (int, error) {
	if len(b) < Prefix {
		return 0, ErrTornRecord
	}
	n := binary.LittleEndian.Uint32(b)
	if n < MinSize || n > MaxEncoded-Prefix {
		return 0, fmt.Errorf("it says that it has %d bytes: %w", n, ErrCorruptRecord)
	}
	return Prefix + int(n), nil
}

// Cut cuts the first record off b and checks that it is unchanged since it was written.
func Cut(b []byte) (r Raw, rest []byte, err error) {
	size, err := Size(b)
	if err != nil {
		return r, b, err
	}
	if size > len(b) {
		return r, b, ErrTornRecord
	}
	if crc32.Checksum(b[Prefix:size], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return r, b, ErrCorruptRecord
	}
	from := b[Prefix:size]
	r.KSeq = binary.LittleEndian.Uint64(from)
	r.nanos = int64(binary.LittleEndian.Uint64(from[8:]))
	r.Kind = from[16]
	in := input{b: from[recordFixed:]}
	r.Execution = in.text()
	if r.body = in.b; in.bad {
		return r, b, ErrCorruptRecord
	}
	return r, b[size:], nil
}

// NumberOf returns the number of the record at the beginning of b, whose head must be complete.
func NumberOf(b []byte) uint64 { return binary.LittleEndian.Uint64(b[Prefix:]) }

func (r Raw) decode() (Body, error) {
	in := input{b: r.body}
	var body Body
	switch r.Kind {
	case kindStream:
		name := in.text()
		body, in.b = Stream{Name: streamName(name), Text: string(in.b)}, nil
	case kindDisplay:
		update := in.byte()&displayUpdate != 0
		id := string(in.text())
		body = Display{DisplayID: id, Update: update, Data: in.bundle(), Metadata: in.bundle()}
	case kindResult:
		body = Result{Data: in.bundle(), Metadata: in.bundle()}
	case KindStarted:
		return decodeJSON[Started](r.body)
	case kindRaised:
		return decodeJSON[Raised](r.body)
	case kindClear:
		return decodeJSON[Clear](r.body)
	case kindInputRequest:
		asked, err := decodeJSON[inputRecord](r.body)
		return Asked{asked.RequestID, asked.InputRequest}, err
	case kindInstallRequest:
		asked, err := decodeJSON[installRecord](r.body)
		return Asked{asked.RequestID, asked.Change}, err
	case kindToolsRequest:
		asked, err := decodeJSON[toolsRecord](r.body)
		return Asked{asked.RequestID, ToolsRequest{}}, err
	case kindToolRequest:
		asked, err := decodeJSON[toolRecord](r.body)
		return Asked{asked.RequestID, asked.ToolCall}, err
	case kindAfterRequest:
		asked, err := decodeJSON[afterRecord](r.body)
		return Asked{asked.RequestID, asked.AfterCell}, err
	case kindInputClosed:
		return decodeClosed(AskInput, r.body)
	case kindInstallClosed:
		return decodeClosed(AskInstall, r.body)
	case kindToolsClosed:
		return decodeClosed(AskTools, r.body)
	case kindToolClosed:
		return decodeClosed(AskTool, r.body)
	case kindAfterClosed:
		return decodeClosed(AskAfter, r.body)
	case kindToolEnded:
		return decodeJSON[ToolEnded](r.body)
	case kindComm:
		body = in.comm()
	case kindCommHandled:
		return decodeJSON[CommHandled](r.body)
	case kindExpressions:
		return decodeJSON[Expressions](r.body)
	case kindCopyLost:
		return decodeJSON[CopyLost](r.body)
	case kindFinished:
		return decodeJSON[Finished](r.body)
	case KindDied:
		return decodeJSON[Died](r.body)
	default:
		return nil, fmt.Errorf("kind %d: %w", r.Kind, ErrUnknownRecord)
	}
	if in.bad || len(in.b) > 0 {
		return nil, ErrCorruptRecord
	}
	return body, nil
}

func decodeJSON[T any](b []byte) (body T, err error) {
	if err := json.Unmarshal(b, &body); err != nil {
		return body, fmt.Errorf("%w: %w", ErrCorruptRecord, err)
	}
	return body, nil
}

func decodeClosed(kind AskKind, b []byte) (Body, error) {
	closed, err := decodeJSON[closedRecord](b)
	return AskClosed{kind, closed.RequestID, closed.How}, err
}

// streamName avoids allocating the two usual names.
func streamName(b []byte) string {
	switch string(b) {
	case "stdout":
		return "stdout"
	case "stderr":
		return "stderr"
	}
	return string(b)
}

// input is the unread rest of bytes that are read front to back; bad is set if they ended too early.
type input struct {
	b   []byte
	bad bool
}

func (in *input) byte() byte {
	if len(in.b) == 0 {
		in.bad = true
		return 0
	}
	c := in.b[0]
	in.b = in.b[1:]
	return c
}

func (in *input) uvarint() uint64 {
	n, size := binary.Uvarint(in.b)
	if size <= 0 {
		in.bad, in.b = true, nil
		return 0
	}
	in.b = in.b[size:]
	return n
}

func (in *input) text() []byte {
	n := in.uvarint()
	if n > uint64(len(in.b)) {
		in.bad, in.b = true, nil
		return nil
	}
	s := in.b[:n]
	in.b = in.b[n:]
	return s
}

// bundle is never nil.
func (in *input) bundle() map[string]json.RawMessage {
	bundle := map[string]json.RawMessage{}
	for n := in.uvarint(); n > 0 && !in.bad; n-- {
		name := string(in.text())
		bundle[name] = json.RawMessage(in.value())
	}
	return bundle
}

// value is a text that aliases the input only if it is large.
func (in *input) value() []byte {
	value := in.text()
	if len(value) <= aliased {
		return bytes.Clone(value)
	}
	return value[:len(value):len(value)]
}
