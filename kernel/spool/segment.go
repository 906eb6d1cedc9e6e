package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"talaria/kernel/record"
)

// A spool keeps the records of a key in files, its segments, in a folder of the key. A segment is named after its
// number and only ever grows. It begins with segmentMagic, the version of the encoding, and a head: an encoded record
// of kindSegment with the number of the record before its first one, and the last execution given by then.
const (
	segmentMagic  = "talspool"
	segmentSuffix = ".records"
)

// segment is one file of a spool, or its description.
type segment struct {
	number uint64
	base   uint64   // the number of the record before its first
	last   uint64   // the number of its last record, or base
	begin  int64    // where its records begin
	size   int64    // where they end
	acked  int64    // bytes of its first records that are known to be acknowledged
	file   *os.File // nil if it is opened by its name for reading
}

// unacked returns how many bytes of its records may not be acknowledged.
func (s segment) unacked() int64 { return s.size - s.begin - s.acked }

func (s segment) path(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%010d%s", s.number, segmentSuffix))
}

func segmentHead(base uint64, given string) []byte {
	head := append([]byte(segmentMagic), record.Encoding)
	head = record.Begin(head, base, time.Now(), record.KindSegment, given)
	head, _ = record.End(head, len(segmentMagic)+1) // an execution's id is small
	return head
}

// errSegmentHead reports that a segment has no complete head, as after a crash while it was being made.
var errSegmentHead = errors.New("the head of the file is incomplete")

// cutHead cuts the head off a segment's content.
func cutHead(b []byte) (head record.Raw, rest []byte, err error) {
	const version = len(segmentMagic)
	if len(b) <= version || string(b[:version]) != segmentMagic {
		return head, b, errSegmentHead
	}
	if b[version] != record.Encoding {
		return head, b, fmt.Errorf("its records are in encoding %d, this program reads %d; run the version that wrote it",
			b[version], record.Encoding)
	}
	head, rest, err = record.Cut(b[version+1:])
	if err != nil || head.Kind != record.KindSegment {
		return head, b, errSegmentHead
	}
	return head, rest, nil
}

// recordFollows reports whether a whole record with a number above after begins anywhere in b. If that would take too
// long to find out, it returns true.
func recordFollows(b []byte, after uint64) bool {
	const (
		tries = 1 << 10
		near  = 1 << 32 // numbers are not that far apart
	)
	tried := 0
	for i := 0; i+record.Prefix+record.MinSize <= len(b); i++ {
		n := binary.LittleEndian.Uint32(b[i:])
		number := record.NumberOf(b[i:])
		if n < record.MinSize || int64(n) > int64(len(b)-i-record.Prefix) || number <= after || number-after > near {
			continue
		}
		if tried++; tried > tries {
			return true
		}
		if _, _, err := record.Cut(b[i:]); err == nil {
			return true
		}
	}
	return false
}

const maxSessionID = 128 // bytes

var sessionPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]*$`)

// folderOf returns the name of a key's folder in a spool. A key whose session is not a plain word has none.
func folderOf(k record.Key) (string, error) {
	if len(k.Session) > maxSessionID || !sessionPattern.MatchString(k.Session) || k.Generation < 0 {
		return "", fmt.Errorf("the session id %q, generation %d, cannot name a folder", k.Session, k.Generation)
	}
	return k.Session + "." + strconv.FormatInt(k.Generation, 10), nil
}

// Folder returns the path of the key's folder below dir, or "" if dir is "".
func Folder(dir string, key record.Key) (string, error) {
	if dir == "" {
		return "", nil
	}
	folder, err := folderOf(key)
	if err != nil {
		return "", fmt.Errorf("spool: %w", err)
	}
	return filepath.Join(dir, folder), nil
}

// keyOfFolder returns the key whose folder has that name.
func keyOfFolder(name string) (key record.Key, ok bool) {
	session, digits, _ := strings.Cut(name, ".")
	generation, err := strconv.ParseInt(digits, 10, 64)
	key = record.Key{Session: session, Generation: generation}
	folder, folderErr := folderOf(key)
	return key, err == nil && folderErr == nil && folder == name
}
