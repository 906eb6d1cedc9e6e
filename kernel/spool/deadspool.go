package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"talaria/kernel/record"
)

// ErrDamaged reports that a spool has records that cannot be read, though others follow them.
var ErrDamaged = errors.New("the spool is damaged")

// Dead is what a dead host left of a key. It changes nothing on the disk. It is safe for concurrent use.
type Dead struct {
	spool  *spool
	key    record.Key
	last   uint64
	given  string
	ended  bool
	damage error
}

// OpenDead opens what a dead host left of a key in its SpoolDir; it returns fs.ErrNotExist if there is nothing. It
// checks all of it. It drops an incomplete last record, as a crash may leave it: nobody has seen that record. Anything
// else that is incomplete is not an error here, but Read will report it. The caller closes it.
func OpenDead(dir string, key record.Key) (*Dead, error) {
	folder, err := Folder(dir, key)
	if err != nil {
		return nil, err
	}
	numbers, err := segmentNumbers(folder)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	d := &Dead{spool: &spool{dir: folder}, key: key}
	for i, number := range numbers {
		next := segment{number: number}
		if i > 0 && number != numbers[i-1]+1 {
			missing := segment{number: numbers[i-1] + 1}
			d.damage = fmt.Errorf("%w: %s is missing", ErrDamaged, missing.path(folder))
			break
		}
		b, err := os.ReadFile(next.path(folder))
		if err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
		if err := d.scan(next, b, i == len(numbers)-1); err != nil {
			d.damage = fmt.Errorf("%w: %s: %w", ErrDamaged, next.path(folder), err)
			break
		}
	}
	return d, nil
}

func segmentNumbers(folder string) ([]uint64, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, entry := range entries {
		digits, ok := strings.CutSuffix(entry.Name(), segmentSuffix)
		number, err := strconv.ParseUint(digits, 10, 64)
		if ok && err == nil && (segment{number: number}).path("") == entry.Name() {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// scan adds the complete records of a segment whose content is b.
func (d *Dead) scan(next segment, b []byte, final bool) error {
	head, rest, err := cutHead(b)
	if err != nil {
		if final && errors.Is(err, errSegmentHead) && !recordFollows(b, d.last) {
			return nil
		}
		return err
	}
	if len(d.spool.segments) > 0 && head.KSeq != d.last {
		return fmt.Errorf("it follows record %d, and record %d is the last before it", head.KSeq, d.last)
	}
	d.last, d.given = head.KSeq, string(head.Execution)
	next.base, next.last = head.KSeq, head.KSeq
	next.begin = int64(len(b) - len(rest))
	for err == nil && len(rest) > 0 {
		err = d.scanRecord(&rest)
	}
	next.last, next.size = d.last, int64(len(b)-len(rest))
	d.spool.segments = append(d.spool.segments, next)
	if err != nil && final && !recordFollows(rest, d.last) {
		return nil
	}
	return err
}

// scanRecord cuts a record off rest, unless it is not the expected one.
func (d *Dead) scanRecord(rest *[]byte) error {
	r, after, err := record.Cut(*rest)
	if err != nil {
		return fmt.Errorf("after record %d: %w", d.last, err)
	}
	if r.KSeq != d.last+1 {
		return fmt.Errorf("record %d follows record %d: %w", r.KSeq, d.last, record.ErrCorruptRecord)
	}
	*rest, d.last, d.ended = after, r.KSeq, r.Kind == record.KindDied
	if r.Kind == record.KindStarted {
		d.given = string(r.Execution)
	}
	return nil
}

// Read returns the records numbered above after as a host's Read does; it does not wait. At the end it returns io.EOF,
// or, if records follow that cannot be read, an error that wraps ErrDamaged and names the file.
func (d *Dead) Read(after uint64) (encoded []byte, last uint64, err error) {
	encoded, last, err = d.spool.read(after)
	switch {
	case err != nil || len(encoded) > 0:
		return encoded, last, err
	case d.damage != nil:
		return nil, after, d.damage
	}
	return nil, after, io.EOF
}

// Next is Read with the records decoded.
func (d *Dead) Next(after uint64) ([]record.Record, error) {
	encoded, _, err := d.Read(after)
	if err != nil {
		return nil, err
	}
	return record.Decode(d.key, encoded)
}

// Last returns the number of the last readable record, even if that has been acknowledged and is gone.
func (d *Dead) Last() uint64 { return d.last }

// Given returns the id of the last execution that the kernel was given, or "".
func (d *Dead) Given() string { return d.given }

// Ended reports whether the last record is a Died record: the kernel ended before its host.
func (d *Dead) Ended() bool { return d.ended && d.damage == nil }

// Close ends the reading.
func (d *Dead) Close() { d.spool.close() }

// Keys lists the keys that have records in a SpoolDir; none if that does not exist.
func Keys(dir string) ([]record.Key, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list spool: %w", err)
	}
	var keys []record.Key
	for _, entry := range entries {
		if key, ok := keyOfFolder(entry.Name()); ok && entry.IsDir() {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Remove removes what a dead host left of a key, if anything.
func Remove(dir string, key record.Key) error {
	folder, err := Folder(dir, key)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove spool: %w", err)
	}
	return nil
}
