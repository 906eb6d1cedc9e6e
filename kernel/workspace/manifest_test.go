package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talaria/kernel/workspace"
)

func digestOf(b byte) string { return strings.Repeat(fmt.Sprintf("%02x", b), 32) }

// someManifest has an entry of every kind.
func someManifest() workspace.Manifest {
	return workspace.Manifest{
		Entries: []workspace.ManifestEntry{
			{Path: "a", Kind: workspace.Directory, Mode: 0o1777, ModTime: 5, ChangeTime: 9, Inode: 1 << 63},
			{Path: "a!", Kind: workspace.File, Mode: 0o644, Size: 3, Space: 4096, ModTime: -7, ChangeTime: 1 << 62, Inode: 2,
				Digest: digestOf(1)},
			{Path: "a/b", Kind: workspace.File, Size: 12, Inode: 7},
			{Path: "a/\xff", Kind: workspace.File, Size: 1 << 50, ModTime: 1 << 62, ChangeTime: -5, Digest: digestOf(2)},
			{Path: "link", Kind: workspace.Symlink, Mode: 0o777, Target: "/somewhere\xfe"},
			{Path: "pipe", Kind: workspace.Other},
			{Path: "z", Kind: workspace.File, Digest: digestOf(1)},
		},
		Missing: []workspace.Missing{{Path: "a/b", Reason: "larger than 1 MiB"}, {Path: "pipe", Reason: "it is a pipe"}},
	}
}

func encode(t testing.TB, m workspace.Manifest) []byte {
	t.Helper()
	b, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, b []byte) (m workspace.Manifest) {
	t.Helper()
	if err := m.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAManifestSurvivesItsEncodingAndNoPartOfItDoes(t *testing.T) {
	for _, m := range []workspace.Manifest{{}, someManifest(), {Missing: []workspace.Missing{{Path: ".", Reason: "x"}}}} {
		b := encode(t, m)
		if got := decode(t, b); !reflect.DeepEqual(got, m) {
			t.Errorf("got  %+v\nwant %+v", got, m)
		}
		var got workspace.Manifest
		for n := range b {
			if got.UnmarshalBinary(b[:n]) == nil {
				t.Errorf("%d of %d bytes were decoded", n, len(b))
			}
		}
		if got.UnmarshalBinary(append(b, 0)) == nil {
			t.Error("a byte more was decoded")
		}
	}
	unknown := workspace.Manifest{Entries: []workspace.ManifestEntry{{Path: "x", Kind: "new"}}}
	bad := workspace.Manifest{Entries: []workspace.ManifestEntry{{Path: "x", Kind: workspace.File, Digest: "abcd"}}}
	for _, m := range []workspace.Manifest{unknown, bad} {
		if _, err := m.MarshalBinary(); err == nil {
			t.Errorf("%+v was encoded", m)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add(encode(f, someManifest()))
	f.Add(encode(f, workspace.Manifest{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m workspace.Manifest
		if m.UnmarshalBinary(b) != nil {
			return
		}
		if again := decode(t, encode(t, m)); !reflect.DeepEqual(again, m) {
			t.Errorf("got  %+v\nwant %+v", again, m)
		}
	})
}

func TestManyPathsInAShortInputAreRefused(t *testing.T) {
	var m workspace.Manifest
	path := strings.Repeat("p", 10_000)
	for i := range 4_000 { // 40 MB of paths in 200 KB
		m.Entries = append(m.Entries, workspace.ManifestEntry{Path: fmt.Sprintf("%s%05d", path, i), Kind: workspace.Other})
	}
	if err := m.UnmarshalBinary(encode(t, m)); err == nil {
		t.Error("decoded")
	}
}

func TestADiffNamesFilesLinksAndPipesThatDiffer(t *testing.T) {
	from := someManifest()
	to := someManifest()
	if got := from.Diff(to); len(got) != 0 {
		t.Errorf("nothing happened: %+v", got)
	}
	to.Entries[0] = workspace.ManifestEntry{Path: "a", Kind: workspace.File, Size: 77, Digest: digestOf(3)}
	to.Entries[1].ModTime++ // only a time
	to.Entries = slices.Delete(to.Entries, 2, 4)
	to.Entries[2].Target = "elsewhere"
	to.Entries[3].Inode++
	to.Entries[4].Mode = 0o755
	to.Entries = append(to.Entries, workspace.ManifestEntry{Path: "zz", Kind: workspace.Directory})
	var got []string
	for _, c := range from.Diff(to) {
		got = append(got, fmt.Sprintf("%s %q %d", c.Change, c.Path, c.Size))
	}
	want := []string{
		`created "a" 77`, `deleted "a/b" 12`, `deleted "a/\xff" 1125899906842624`, `modified "link" 0`, `modified "pipe" 0`,
		`modified "z" 0`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := slices.Collect(from.Digests()); !slices.Equal(got, []string{digestOf(1), digestOf(2)}) {
		t.Errorf("digests %q", got)
	}
	if e, ok := from.Find("link"); !ok || e.Target != "/somewhere\xfe" {
		t.Errorf("found %+v", e)
	}
	if _, ok := from.Find("lin"); ok {
		t.Error("found what does not exist")
	}
}

// manyFiles makes a workspace of 30,000 files in 300 folders.
func manyFiles(b *testing.B) (*workspace.Dir, string, *kept, workspace.Manifest) {
	d, err := workspace.Create(b.TempDir(), "s1", uid())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	host := d.File().Name()
	for folder := range 300 {
		name := filepath.Join(host, fmt.Sprintf("package-%03d", folder))
		if err := os.Mkdir(name, 0o755); err != nil {
			b.Fatal(err)
		}
		for file := range 100 {
			text := fmt.Appendf(nil, "%d %d", folder, file)
			if err := os.WriteFile(filepath.Join(name, fmt.Sprintf("module_%02d.py", file)), text, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	k := newKept(b)
	m, err := d.Capture(b.Context(), nil, k.keep)
	if err != nil {
		b.Fatal(err)
	}
	return d, host, k, m
}

func BenchmarkCaptureOf30000FilesWithAPreviousManifest(b *testing.B) {
	d, _, k, m := manyFiles(b)
	for b.Loop() {
		again, err := d.Capture(b.Context(), &m, k.keep)
		if err != nil || len(again.Entries) != len(m.Entries) {
			b.Fatal(len(again.Entries), err)
		}
	}
}

func BenchmarkEncoding30000Files(b *testing.B) {
	_, _, _, m := manyFiles(b)
	for b.Loop() {
		b.ReportMetric(float64(len(encode(b, m))), "bytes")
	}
}

func BenchmarkDecoding30000Files(b *testing.B) {
	_, _, _, m := manyFiles(b)
	encoded := encode(b, m)
	for b.Loop() {
		decode(b, encoded)
	}
	if !bytes.Equal(encode(b, decode(b, encoded)), encoded) {
		b.Error("another encoding")
	}
}

func BenchmarkRestoreOf10ChangesAmong30000Files(b *testing.B) {
	d, host, k, m := manyFiles(b)
	for b.Loop() {
		b.StopTimer()
		for i := range 10 {
			name := filepath.Join(host, fmt.Sprintf("package-%03d", i*20), "module_50.py")
			if err := os.WriteFile(name, []byte("changed"), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		now, err := d.Capture(b.Context(), &m, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		done, err := d.Restore(b.Context(), m, now, k.open, workspace.RestoreOptions{})
		if err != nil || done.Modified.Count != 10 {
			b.Fatal(done, err)
		}
		b.StopTimer()
		if m, err = d.Capture(b.Context(), &m, k.keep); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
