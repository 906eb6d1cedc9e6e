package index

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// Whatever a page says, what we say of it can be read again and leads nowhere but to us.
func FuzzPages(f *testing.F) {
	f.Add([]byte(`{"meta":{"api-version":"1.1"},"files":[{"filename":"a-1.whl","url":"../../f/a-1.whl","hashes":{"sha256":"x"},"yanked":"no","core-metadata":{"sha256":"x"}}]}`))
	f.Add([]byte(`<base href="http://b/"><a href="a-1.tar.gz#sha256=` + strings.Repeat("a", 64) + `" data-yanked data-requires-python="&gt;=3">a</a>`))
	f.Add([]byte(`<meta name="pypi:repository-version" content="2.0">`))
	f.Add([]byte(`<a href="http://x/%2e%2e/..%2f%00.whl"><a href='javascript:a.whl'><a href="//[::1]/b%22.zip">`))
	base, err := url.Parse("https://index.test/simple/a/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, read := range []func([]byte, *url.URL) ([]file, error){readJSON, readHTML} {
			files, err := read(content, base)
			if err != nil {
				continue
			}
			p := &page{files: files}
			encoded, err := p.json("a", "/token/files/a/")
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(encoded) {
				t.Fatalf("no JSON: %s", encoded)
			}
			ours, err := url.Parse("http://" + Name + "/token/simple/a/")
			if err != nil {
				t.Fatal(err)
			}
			for name, reread := range map[string]func() ([]file, error){
				"JSON": func() ([]file, error) { return readJSON(encoded, ours) },
				"HTML": func() ([]file, error) { return readHTML(p.html("a", "/token/files/a/"), ours) },
			} {
				again, err := reread()
				if err != nil || len(again) != len(files) {
					t.Fatalf("%s: %d files of %d (%v)", name, len(again), len(files), err)
				}
				for i, f := range again {
					if f.name != files[i].name || f.sha256 != files[i].sha256 || !strings.HasPrefix(f.at, "http://"+Name+"/token/files/a/") {
						t.Fatalf("%s: %+v was %+v", name, f, files[i])
					}
				}
			}
		}
	})
}
