package index_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talaria/session/index"
	"talaria/session/index/indextest"
)

// cached are the names of the files below a directory.
func cached(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, entry.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestAFileWithAnotherHashIsNeverWhole(t *testing.T) {
	from := indextest.Standard(t)
	dir := filepath.Join(t.TempDir(), "cache")
	g := newGateway(t, from, func(c *index.Config) { c.CacheDir = dir })
	status, body, err := g.fetch(g.file("wrong-hash", ".whl").URL)
	if err == nil && status == 200 {
		t.Errorf("it came whole: %d bytes", len(body))
	}
	g.want("/reasons", 200, "wrong_hash-1.0-py3-none-any.whl does not match the package index")
	if names := cached(t, dir); len(names) > 0 {
		t.Errorf("the cache has %v", names)
	}
}

func TestAFileWithoutAHashIsNotShared(t *testing.T) {
	from := indextest.Standard(t)
	dir := filepath.Join(t.TempDir(), "cache")
	g := newGateway(t, from, func(c *index.Config) { c.CacheDir = dir })
	f := g.file("no-hash", ".whl")
	for range 2 {
		if status, body, err := g.fetch(f.URL); err != nil || status != 200 || !strings.HasPrefix(body, "PK") {
			t.Errorf("%d %.20q %v", status, body, err)
		}
	}
	if from.Downloads(f.Filename) != 2 || len(f.Hashes) > 0 {
		t.Errorf("%d downloads, hashes %v", from.Downloads(f.Filename), f.Hashes)
	}
	if _, err := os.Stat(dir); err == nil && len(cached(t, dir)) > 0 {
		t.Error("it is in the cache")
	}
}

func TestFilesAreBounded(t *testing.T) {
	from := indextest.Standard(t)
	big := indextest.File{Name: "liar-1.0.tar.gz", Content: []byte(strings.Repeat("x", 5000)), SHA256: indextest.NoHash}
	sized := big
	sized.Name, sized.SHA256 = "liar-2.0.tar.gz", ""
	from.Add("liar", big, sized)
	from.HTML = true // says no sizes
	g := newGateway(t, from, func(c *index.Config) { c.FileBytes = 4000 })
	for _, version := range []string{"1.0", "2.0"} {
		status, body, err := g.fetch(g.file("liar", version+".tar.gz").URL)
		if err != nil || status != 403 || !strings.Contains(body, "is larger than") {
			t.Errorf("%s: %d %.100q %v", version, status, body, err)
		}
	}
	from.HTML = false
	g = newGateway(t, from, func(c *index.Config) { c.FileBytes = 4000 })
	if status, body, err := g.fetch(g.file("liar", "2.0.tar.gz").URL); err != nil || status != 403 {
		t.Errorf("%d %.100q %v", status, body, err)
	}
	if n := from.Downloads("liar-2.0.tar.gz"); n != 1 { // the second time its size was known
		t.Errorf("it was asked for %d times", n)
	}
}

func TestTheCacheIsBoundedAndFoundAgain(t *testing.T) {
	from := indextest.New(t)
	for _, name := range []string{"a", "b", "c"} {
		from.Add(name, indextest.File{Name: name + "-1.tar.gz", Content: []byte(strings.Repeat(name, 1000))})
	}
	dir := filepath.Join(t.TempDir(), "cache")
	shared := func(c *index.Config) { c.CacheDir, c.CacheBytes = dir, 2500 }
	g := newGateway(t, from, shared)
	fetch := func(name string) {
		t.Helper()
		if status, _, err := g.fetch(g.file(name, ".tar.gz").URL); err != nil || status != 200 {
			t.Errorf("%s: %d %v", name, status, err)
		}
	}
	fetch("a")
	fetch("b")
	fetch("a") // b is what was not used for longest
	fetch("c")
	fetch("a")
	if a, names := from.Downloads("a-1.tar.gz"), cached(t, dir); a != 1 || len(names) != 2 {
		t.Errorf("a was downloaded %d times, the cache has %v", a, names)
	}
	from.Add("big", indextest.File{Name: "big-1.tar.gz", Content: []byte(strings.Repeat("x", 3000))})
	if status, _, err := g.fetch(g.file("big", ".tar.gz").URL); err == nil && status == 200 {
		t.Error("what has no room came whole")
	}
	g.want("/reasons", 200, "big-1.tar.gz: there is no room for it")
	fetch("a")
	fetch("c")
	from.Forget()
	g.ix.Close()
	if err := os.WriteFile(filepath.Join(dir, "unfinished-1"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	g = newGateway(t, from, shared)
	fetch("a")
	fetch("c")
	if a, c, names := from.Downloads("a-1.tar.gz"), from.Downloads("c-1.tar.gz"), cached(t, dir); a+c != 0 || len(names) != 2 {
		t.Errorf("a and c were downloaded %d and %d times, the cache has %v", a, c, names)
	}
}

func TestReleaseEndsTheRequestsOfAnInstallation(t *testing.T) {
	from := indextest.Standard(t)
	dir := filepath.Join(t.TempDir(), "cache")
	g := newGateway(t, from, func(c *index.Config) { c.CacheDir = dir })
	name := "greet-1.0-py3-none-any.whl"
	f := g.file("greet", name)
	reached, release := from.Hold(name)
	defer release()
	whole := make(chan bool, 1)
	go func() { status, _, err := g.fetch(f.URL); whole <- err == nil && status == 200 }()
	<-reached
	g.release()
	if <-whole {
		t.Error("what was released came whole")
	}
	if status, _, err := g.fetch(f.URL); err != nil || status != 404 {
		t.Errorf("after the release: %d %v", status, err)
	}
	g.ix.Close() // waits for the download
	if names := cached(t, dir); len(names) > 0 {
		t.Errorf("the cache has %v", names)
	}
}

// What one installation no longer waits for goes on for the other.
func TestADownloadGoesOnForWhoeverWaits(t *testing.T) {
	from := indextest.Standard(t)
	g := newGateway(t, from)
	name := "greet-1.0-py3-none-any.whl"
	f := g.file("greet", name)
	reached, release := from.Hold(name)
	defer release()
	first := make(chan bool, 1)
	go func() { status, _, err := g.fetch(f.URL); first <- err == nil && status == 200 }()
	<-reached
	other, end := g.ix.Admit()
	defer end()
	second, err := g.client.Get("http://" + index.Name + strings.Replace(f.URL, g.token, other, 1))
	if err != nil { // with its header it has joined
		t.Fatal(err)
	}
	defer second.Body.Close()
	g.release()
	if <-first {
		t.Error("what was released came whole")
	}
	release()
	if body, err := io.ReadAll(second.Body); err != nil || digestOf(string(body)) != f.Hashes["sha256"] {
		t.Errorf("the other one got %d bytes (%v)", len(body), err)
	}
	if n := from.Downloads(name); n != 1 {
		t.Errorf("%d downloads", n)
	}
}

func TestAnIndexThatSaysNothingIsGivenUp(t *testing.T) {
	from := indextest.Standard(t)
	g := newGateway(t, from, func(c *index.Config) { c.Timeout = 2 * time.Second }) // in which it answers all else
	name := "greet-1.0-py3-none-any.whl"
	f := g.file("greet", name)
	_, release := from.Hold(name)
	defer release()
	if status, _, err := g.fetch(f.URL); err == nil && status == 200 {
		t.Error("it came whole")
	}
	g.want("/reasons", 200, "the package index did not answer within 2s")
}

func TestAnInstallationSeesNothingOlderThanItself(t *testing.T) {
	from := indextest.Standard(t)
	g := newGateway(t, from)
	before := len(g.files("greet"))
	from.Add("greet", indextest.Wheel{Name: "greet", Version: "4.0"}.File())
	if now := len(g.files("greet")); now != before {
		t.Errorf("the page changed within an installation: %d files, %d before", now, before)
	}
	if n := from.Asked("/simple/greet/"); n != 1 {
		t.Errorf("the page was asked for %d times", n)
	}
	var end func()
	g.token, end = g.ix.Admit()
	defer end()
	if now := len(g.files("greet")); now != before+1 {
		t.Errorf("the next installation sees %d files, want %d", now, before+1)
	}
}
