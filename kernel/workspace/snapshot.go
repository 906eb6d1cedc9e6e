package workspace

import (
	"encoding/binary"
	"errors"
	"path"
	"time"
)

// Snapshot is what a scan saw. Its zero value is an empty workspace. It is immutable.
type Snapshot struct {
	Files     []FileState `json:"files"` // by path
	Truncated bool        `json:"truncated,omitempty"`
}

// FileState is what a scan compares about a file.
type FileState struct {
	Path    string `json:"path"` // as on the disk, maybe not UTF-8
	Size    int64  `json:"size"`
	ModTime int64  `json:"mod_time"` // nanoseconds since the Unix epoch
	Inode   uint64 `json:"inode"`
}

// Entry returns the file as [Dir.Stat] would have at the time of the scan.
func (f FileState) Entry() Entry {
	return Entry{Name: path.Base(f.Path), Path: f.Path, Kind: File, Size: f.Size, ModTime: time.Unix(0, f.ModTime), Inode: f.Inode}
}

const snapshotVersion = 1

var errSnapshot = errors.New("not an encoded snapshot")

// MarshalBinary encodes the snapshot, with about 20 bytes plus the new part of its path for each file. Unlike JSON it
// keeps paths that are not UTF-8.
func (s Snapshot) MarshalBinary() ([]byte, error) {
	b := []byte{snapshotVersion, 0}
	if s.Truncated {
		b[1] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(s.Files)))
	last := ""
	for _, f := range s.Files {
		shared := sharedPrefix(last, f.Path)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(f.Path)-shared))
		b = append(b, f.Path[shared:]...)
		b = binary.AppendVarint(b, f.Size)
		b = binary.AppendVarint(b, f.ModTime)
		b = binary.AppendUvarint(b, f.Inode)
		last = f.Path
	}
	return b, nil
}

// UnmarshalBinary decodes what MarshalBinary made.
func (s *Snapshot) UnmarshalBinary(b []byte) error {
	if len(b) < 2 || b[0] != snapshotVersion || b[1] > 1 {
		return errSnapshot
	}
	in := decoder{rest: b[2:]}
	count := in.uvarint()
	if count > uint64(len(in.rest))/5 || count > 3*MaxEntries { // a file takes at least 5 bytes
		return errSnapshot
	}
	out := Snapshot{Truncated: b[1] == 1}
	if count > 0 {
		out.Files = make([]FileState, 0, count)
	}
	last := ""
	for range count {
		shared := in.uvarint()
		if shared > uint64(len(last)) {
			return errSnapshot
		}
		f := FileState{Path: last[:shared] + in.text(in.uvarint())}
		f.Size, f.ModTime, f.Inode = in.varint(), in.varint(), in.uvarint()
		if in.failed || f.Path <= last || len(f.Path) > maxScanPath {
			return errSnapshot
		}
		out.Files = append(out.Files, f)
		last = f.Path
	}
	if in.failed || len(in.rest) > 0 {
		return errSnapshot
	}
	*s = out
	return nil
}

// maxScanPath is the longest path that a scan can meet.
const maxScanPath = (MaxDepth + 1) * (maxName + 1)

func sharedPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// decoder reads numbers and text, and returns zeros once something was wrong.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.failed = d.failed || n == 0
	return take(d, v, n)
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.failed = d.failed || n == 0
	return take(d, v, n)
}

func (d *decoder) text(n uint64) string {
	if n > uint64(len(d.rest)) {
		d.failed = true
		return ""
	}
	return take(d, string(d.rest[:n]), int(n))
}

func take[T any](d *decoder, v T, n int) T {
	if n < 0 || n > len(d.rest) {
		d.failed = true
	}
	if d.failed {
		var zero T
		return zero
	}
	d.rest = d.rest[n:]
	return v
}
