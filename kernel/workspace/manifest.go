package workspace

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"sort"
	"strings"
)

// Manifest describes every entry of a workspace, so that [Dir.Restore] can put it back. Its zero value is an empty
// workspace. It is immutable.
type Manifest struct {
	Entries []ManifestEntry // by path, in the order of its bytes; without the workspace's own folder
	// Missing names what cannot be put back, by path: files without kept contents, pipes, sockets and devices, and
	// folders that were not looked into. The entries below such a folder are those of the previous manifest. "." is the
	// workspace's own folder.
	Missing []Missing
}

// ManifestEntry is one thing in a workspace, as it was when it was captured.
type ManifestEntry struct {
	Path       string // as on the disk, maybe not UTF-8
	Kind       Kind
	Mode       uint32 // permissions and the sticky bit; set-user-ID and set-group-ID are neither kept nor put back
	Size       int64  // 0 for a folder
	Space      int64  // on the disk, as in [Entry]; 0 for a folder
	ModTime    int64  // nanoseconds since the Unix epoch
	ChangeTime int64  // likewise
	Inode      uint64
	Digest     string // SHA-256 of a file in hexadecimal; "" if its contents were not read or not kept
	Target     string // of a link, as on the disk; "" if it was not kept
}

// Missing is a path that cannot be put back, and why: words for people.
type Missing struct {
	Path   string
	Reason string
}

// FileChange is one difference between two manifests. Size is that of a deleted entry before, of any other after.
type FileChange struct {
	Path   string
	Change ChangeKind
	Size   int64
}

// Diff returns what changes from m to the other manifest, by path: files, links, pipes, sockets and devices, not
// folders. A new mode is a change, another time alone is none. What lies in folders that one of the two did not look
// into is left out. A file whose contents one of the two does not know counts as modified unless size, times and inode
// are equal.
func (m Manifest) Diff(to Manifest) (changes []FileChange) {
	unseen := m.unseen()
	for path := range to.unseen() {
		unseen[path] = true
	}
	for was, is := range pairs(m.Entries, to.Entries) {
		path, change := "", Modified
		switch {
		case is == nil || is.Kind == Directory && was != nil:
			path, change, is = was.Path, Deleted, was
		case was == nil || was.Kind == Directory:
			path, change = is.Path, Created
		default:
			path = is.Path
		}
		if is.Kind == Directory || change == Modified && was.alike(is) || coveredBy(unseen, path) {
			continue
		}
		changes = append(changes, FileChange{path, change, is.Size})
	}
	return changes
}

// Digests returns the digest of each file's contents, once.
func (m Manifest) Digests() iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := make(map[string]bool, len(m.Entries))
		for i := range m.Entries {
			digest := m.Entries[i].Digest
			if digest == "" || seen[digest] {
				continue
			}
			seen[digest] = true
			if !yield(digest) {
				return
			}
		}
	}
}

// Find returns the entry of a path.
func (m Manifest) Find(path string) (ManifestEntry, bool) {
	if e := find(m.Entries, path); e != nil {
		return *e, true
	}
	return ManifestEntry{}, false
}

func find(entries []ManifestEntry, path string) *ManifestEntry {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Path >= path })
	if i < len(entries) && entries[i].Path == path {
		return &entries[i]
	}
	return nil
}

// below returns the entries in a folder; "." is the workspace's own.
func below(entries []ManifestEntry, folder string) []ManifestEntry {
	if folder == "." {
		return entries
	}
	from := sort.Search(len(entries), func(i int) bool { return entries[i].Path >= folder+"/" })
	to := sort.Search(len(entries), func(i int) bool { return entries[i].Path >= folder+"0" }) // the byte after the slash
	return entries[from:to]
}

// unseen returns the folders that were not looked into.
func (m Manifest) unseen() map[string]bool {
	folders := map[string]bool{}
	for _, missing := range m.Missing {
		if missing.Path == "." {
			folders["."] = true
		} else if e := find(m.Entries, missing.Path); e != nil && e.Kind == Directory {
			folders[missing.Path] = true
		}
	}
	return folders
}

// coveredBy reports whether a path lies in one of these folders.
func coveredBy(folders map[string]bool, path string) bool {
	if len(folders) == 0 {
		return false
	}
	for i := range len(path) {
		if path[i] == '/' && folders[path[:i]] {
			return true
		}
	}
	return folders["."]
}

// unchanged reports whether nothing that the file system tells about an entry's contents has changed.
func (e *ManifestEntry) unchanged(now *ManifestEntry) bool {
	return e.Kind == now.Kind && e.Size == now.Size && e.ModTime == now.ModTime && e.ChangeTime == now.ChangeTime &&
		e.Inode == now.Inode
}

// alike reports whether both are the same except for their times.
func (e *ManifestEntry) alike(o *ManifestEntry) bool {
	if e.Kind != o.Kind {
		return false
	}
	switch e.Kind {
	case Symlink:
		return e.Target == o.Target
	case Directory:
		return e.Mode == o.Mode
	}
	if e.Digest == "" || o.Digest == "" {
		return e.unchanged(o)
	}
	return e.Digest == o.Digest && e.Mode == o.Mode
}

// pairs merges two lists by path; one of each pair may be nil.
func pairs(a, b []ManifestEntry) iter.Seq2[*ManifestEntry, *ManifestEntry] {
	return func(yield func(a, b *ManifestEntry) bool) {
		for len(a) > 0 || len(b) > 0 {
			order := -1
			switch {
			case len(a) == 0:
				order = 1
			case len(b) > 0:
				order = strings.Compare(a[0].Path, b[0].Path)
			}
			var left, right *ManifestEntry
			if order <= 0 {
				left, a = &a[0], a[1:]
			}
			if order >= 0 {
				right, b = &b[0], b[1:]
			}
			if !yield(left, right) {
				return
			}
		}
	}
}

// What a manifest holds at most: what was found, and as much again of what was taken over.
const (
	maxManifestEntries = 2 * MaxEntries
	maxManifestPaths   = 2 * MaxPathBytes // of paths and targets
	maxReason          = 200
)

const (
	manifestVersion = 1
	digestSize      = 32
	leastEntry      = 9 // bytes of an encoded entry
)

// kinds are numbered in the encoding; a digest adds hasDigest.
var kinds = []Kind{File, Directory, Symlink, Other}

const hasDigest = 4

var errManifest = errors.New("not an encoded manifest")

// MarshalBinary encodes the manifest, with about 20 bytes, the digest and the new part of its path for each file.
func (m Manifest) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 64*len(m.Entries)+64)
	b = append(b, manifestVersion)
	b = binary.AppendUvarint(b, uint64(len(m.Entries)))
	var last ManifestEntry
	for i := range m.Entries {
		e := &m.Entries[i]
		kind := byte(0)
		for kinds[kind] != e.Kind {
			if kind++; int(kind) == len(kinds) {
				return nil, errManifest
			}
		}
		if e.Digest != "" {
			kind |= hasDigest
		}
		shared := sharedPrefix(last.Path, e.Path)
		b = append(b, kind)
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(e.Path)-shared))
		b = append(b, e.Path[shared:]...)
		b = binary.AppendUvarint(b, uint64(e.Mode))
		b = binary.AppendVarint(b, e.Size)
		b = binary.AppendVarint(b, e.Space/512)
		b = binary.AppendVarint(b, e.ModTime-last.ModTime)
		b = binary.AppendVarint(b, e.ChangeTime-e.ModTime)
		b = binary.AppendVarint(b, int64(e.Inode-last.Inode))
		if e.Kind == Symlink {
			b = binary.AppendUvarint(b, uint64(len(e.Target)))
			b = append(b, e.Target...)
		}
		last = *e
	}
	var err error
	for i := range m.Entries {
		if digest := m.Entries[i].Digest; digest != "" {
			if b, err = hex.AppendDecode(b, []byte(digest)); err != nil || len(digest) != 2*digestSize {
				return nil, errManifest
			}
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.Missing)))
	for _, missing := range m.Missing {
		b = binary.AppendUvarint(b, uint64(len(missing.Path)))
		b = append(b, missing.Path...)
		b = binary.AppendUvarint(b, uint64(len(missing.Reason)))
		b = append(b, missing.Reason...)
	}
	return b, nil
}

// UnmarshalBinary decodes what MarshalBinary made. It checks order and bounds; [Dir.Restore] checks the names.
func (m *Manifest) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != manifestVersion {
		return errManifest
	}
	in := decoder{rest: b[1:]}
	count := in.uvarint()
	if count > uint64(len(in.rest))/leastEntry || count > maxManifestEntries {
		return errManifest
	}
	var out Manifest
	if count > 0 {
		out.Entries = make([]ManifestEntry, count)
	}
	var last ManifestEntry
	paths := 0
	var kept []*ManifestEntry // those with a digest
	for i := range out.Entries {
		e := &out.Entries[i]
		kind := in.uvarint()
		shared := in.uvarint()
		if kind >= 2*hasDigest || shared > uint64(len(last.Path)) {
			return errManifest
		}
		e.Path = last.Path[:shared] + in.text(in.uvarint())
		e.Kind, e.Mode = kinds[kind&^hasDigest], uint32(in.uvarint())
		e.Size, e.Space = in.varint(), in.varint()*512
		e.ModTime = last.ModTime + in.varint()
		e.ChangeTime = e.ModTime + in.varint()
		e.Inode = last.Inode + uint64(in.varint())
		if e.Kind == Symlink {
			e.Target = in.text(in.uvarint())
		}
		if kind&hasDigest != 0 {
			kept = append(kept, e)
		}
		paths += len(e.Path) + len(e.Target)
		if in.failed || e.Path <= last.Path || len(e.Path) > maxScanPath || paths > maxManifestPaths {
			return errManifest
		}
		last = *e
	}
	digests := hex.EncodeToString([]byte(in.text(uint64(len(kept)) * digestSize)))
	if in.failed {
		return errManifest
	}
	for i, e := range kept {
		e.Digest = digests[i*2*digestSize:][:2*digestSize]
	}
	count = in.uvarint()
	if count > uint64(len(in.rest))/2 || count > maxManifestEntries+1 {
		return errManifest
	}
	for range count {
		missing := Missing{in.text(in.uvarint()), in.text(in.uvarint())}
		if in.failed || len(missing.Path) > maxScanPath || len(missing.Reason) > maxReason {
			return errManifest
		}
		out.Missing = append(out.Missing, missing)
	}
	if in.failed || len(in.rest) > 0 {
		return errManifest
	}
	*m = out
	return nil
}
