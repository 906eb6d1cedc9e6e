package index_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"talaria/session/index"
	"talaria/session/index/indextest"
)

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// eachFormat runs a test over an index of HTML and one of JSON.
func eachFormat(t *testing.T, test func(t *testing.T, from *indextest.Index)) {
	for _, html := range []bool{true, false} {
		t.Run(fmt.Sprint("html ", html), func(t *testing.T) {
			from := indextest.Standard(t)
			from.HTML = html
			test(t, from)
		})
	}
}

func TestProjectsAreServedInBothFormats(t *testing.T) {
	eachFormat(t, func(t *testing.T, from *indextest.Index) {
		g := newGateway(t, from)
		names := []string{}
		for _, f := range g.files("greet") {
			names = append(names, f.Filename)
			if status, body, err := g.fetch(f.URL); err != nil || status != 200 || digestOf(body) != f.Hashes["sha256"] {
				t.Errorf("%s: %d, %d bytes, %v", f.Filename, status, len(body), err)
			}
		}
		want := []string{"greet-1.0-py3-none-any.whl", "greet-2.0-py3-none-any.whl", "greet-3.0rc1-py3-none-any.whl"}
		if !slices.Equal(names, want) {
			t.Errorf("greet has %v", names)
		}
		if f := g.file("recalled", "1.1-py3-none-any.whl"); f.Yanked != "it is wrong" {
			t.Errorf("recalled is %+v", f)
		}
		if f := g.file("future", "2.0-py3-none-any.whl"); f.RequiresPython != ">=4" {
			t.Errorf("future is %+v", f)
		}
		parcel := g.file("parcel", "1.5-py3-none-any.whl")
		status, metadata, err := g.fetch(parcel.URL + ".metadata")
		if sums, _ := parcel.CoreMetadata.(map[string]any); err != nil || status != 200 || sums["sha256"] != digestOf(metadata) ||
			!strings.Contains(metadata, "Name: parcel") {
			t.Errorf("the metadata of parcel: %v %d %q %v", parcel.CoreMetadata, status, metadata, err)
		}
		html := g.want("/simple/parcel/", 200, "<a href=", "Accept", "text/html")
		for _, part := range []string{"#sha256=" + parcel.Hashes["sha256"], "data-core-metadata=\"sha256=" + digestOf(metadata)} {
			if !strings.Contains(html, part) {
				t.Errorf("%q is not in %s", part, html)
			}
		}
		g.want("/simple/future/", 200, `data-requires-python="&gt;=4"`)
		g.want("/simple/recalled/", 200, `data-yanked="it is wrong"`)
		if page := g.want("/simple/parcel/", 200, "core-metadata", "Accept", asJSON); strings.Contains(page, "dist-info-metadata") {
			t.Errorf("the page has what pip 23.0 cannot read: %s", page)
		}
		if strings.Contains(html, from.Host()) {
			t.Errorf("the page says where the index is: %s", html)
		}
	})
}

func TestNothingElseIsServed(t *testing.T) {
	g := newGateway(t, indextest.Standard(t))
	for _, path := range []string{"/simple/", "/simple/%2e%2e/", "/simple/a b/", "/", "/files/greet/other.whl", "/files/greet/",
		"/files/greet/greet-1.0-py3-none-any.whl.metadata", "/files/greet/..%2fparcel%2fparcel-1.0-py3-none-any.whl", "/simple/is-nowhere/"} {
		g.want(path, 404, "")
	}
	for _, path := range []string{"/simple/greet/", "/" + strings.Repeat("0", 32) + "/simple/greet/", "//simple/greet/"} {
		if status, body, err := g.fetch(path); err != nil || status != 404 {
			t.Errorf("%s: %d %q %v", path, status, body, err)
		}
	}
	resp, err := g.client.Post("http://"+index.Name+"/"+g.token+"/simple/greet/", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v", resp.Status)
	}
	g.want("/simple/GREET/", 200, "greet-1.0")
	g.want("/simple/greet", 200, "greet-1.0")
}

func TestTheListsHoldForEachProject(t *testing.T) {
	from := indextest.Standard(t)
	g := newGateway(t, from, func(c *index.Config) { c.Deny = []string{"Secret", "old_*"} })
	g.want("/simple/needs-secret/", 200, "needs_secret-1.0")
	g.want("/simple/secret/", 403, "secret is refused: the operator's packages.deny lists it")
	g.want("/simple/old-parcel/", 403, "packages.deny")
	g.want("/files/secret/secret-1.0-py3-none-any.whl", 403, "packages.deny")
	g.want("/reasons", 200, `["secret is refused: the operator's packages.deny lists it","old-parcel is refused`)
	if from.Asked("/simple/secret/") > 0 {
		t.Error("the index was asked for what is refused")
	}
	g = newGateway(t, from, func(c *index.Config) { c.Allow, c.Deny = []string{"greet", "par*"}, []string{"parcel-*"} })
	g.want("/simple/greet/", 200, "")
	g.want("/simple/parcel/", 200, "")
	g.want("/simple/secret/", 403, "secret is refused: the operator's packages.allow does not list it")
	for _, entry := range []string{"", "a b", "-x", "*a", "a-", "a**", "../x"} {
		if _, err := index.New(index.Config{URL: from.URL(), CacheDir: "/nowhere", Allow: []string{entry}}); err == nil {
			t.Errorf("%q is taken", entry)
		}
	}
}

func TestCredentialsGoToTheIndexAndNowhereElse(t *testing.T) {
	from := indextest.Standard(t)
	from.User, from.Password = "reader", "hunter2"
	away := indextest.New(t)
	seen := make(chan string, 10)
	away.Mux.HandleFunc("GET /simple/away/{$}", func(w http.ResponseWriter, r *http.Request) {
		seen <- fmt.Sprint(r.Header)
		http.Error(w, "", http.StatusNotFound)
	})
	from.Mux.Handle("GET /simple/away/{$}", http.RedirectHandler(away.URL()+"away/", http.StatusFound))
	from.Mux.Handle("GET /simple/moved/{$}", http.RedirectHandler("../greet/", http.StatusFound))
	elsewhere := func(c *index.Config) { c.Hosts = []string{from.Elsewhere.Host(), away.Host()} }
	withUser := func(c *index.Config) { c.URL = strings.Replace(c.URL, "http://", "http://reader:hunter2@", 1) }
	g := newGateway(t, from, withUser, elsewhere)
	status, _, err := g.fetch(g.file("greet", "1.0-py3-none-any.whl").URL)
	if err != nil || status != 200 {
		t.Errorf("a file: %d %v", status, err)
	}
	g.want("/simple/moved/", 200, "greet-2.0")
	g.want("/simple/away/", 404, "")
	if header := <-seen; strings.Contains(header, "Authorization") || strings.Contains(header, "hunter2") ||
		strings.Contains(header, "Referer") {
		t.Errorf("another host is told %s", header)
	}
	if status, _, err := g.fetch(g.file("elsewhere", ".whl").URL); err != nil || status != 200 { // asks for no user
		t.Errorf("a file elsewhere: %d %v", status, err)
	}
	g = newGateway(t, from, func(c *index.Config) { c.Username, c.Password = "reader", "wrong" })
	g.want("/simple/greet/", 403, "the package index answers 401 Unauthorized")
	_, err = index.New(index.Config{URL: "ftp://reader:hunter2@x/", CacheDir: "/nowhere"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a wrong address: %v", err)
	}
}

func TestLinksAreFollowedToPublicAndListedHostsOnly(t *testing.T) {
	from := indextest.Standard(t)
	inward := from.Elsewhere.FileURL("elsewhere", "elsewhere-1.0-py3-none-any.whl")
	from.Mux.Handle("GET /inward/{file}", http.RedirectHandler(inward, http.StatusFound))
	sly := indextest.Wheel{Name: "sly", Version: "1.0"}.File()
	sly.URL = "../../inward/" + sly.Name
	from.Add("sly", sly)
	g := newGateway(t, from)
	for _, project := range []string{"elsewhere", "metadata-host", "sly"} {
		status, body, err := g.fetch(g.file(project, ".whl").URL)
		if err != nil || status != 403 || !strings.Contains(body, "is not part of the public network") {
			t.Errorf("%s: %d %q %v", project, status, body, err)
		}
	}
	if n := from.Elsewhere.Downloads("elsewhere-1.0-py3-none-any.whl"); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
	proxied := 0
	g = newGateway(t, from, func(c *index.Config) { // an address is refused, whoever would connect to it
		c.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Host == from.Host() {
				return nil, nil
			}
			proxied++
			return url.Parse("http://127.0.0.1:1")
		}
	})
	if status, body, err := g.fetch(g.file("metadata-host", ".whl").URL); err != nil || status != 403 || proxied != 1 {
		t.Errorf("through a proxy: %d %q %v, %d", status, body, err, proxied)
	}
	g = newGateway(t, from, func(c *index.Config) { c.Hosts = []string{"127.0.0.1"} })
	if status, _, err := g.fetch(g.file("elsewhere", ".whl").URL); err != nil || status != 200 {
		t.Errorf("a listed host: %d %v", status, err)
	}
}

func TestFilesAreDownloadedOnceAndSharedWhileTheyCome(t *testing.T) {
	from := indextest.Standard(t)
	g := newGateway(t, from)
	name := "greet-1.0-py3-none-any.whl"
	f := g.file("greet", name)
	reached, release := from.Hold(name)
	type answer struct {
		status int
		body   string
		err    error
	}
	answers := make(chan answer, 3)
	var all sync.WaitGroup
	for range cap(answers) {
		all.Go(func() {
			status, body, err := g.fetch(f.URL)
			answers <- answer{status, body, err}
		})
	}
	<-reached
	release()
	all.Wait()
	for range cap(answers) {
		if a := <-answers; a.err != nil || a.status != 200 || digestOf(a.body) != f.Hashes["sha256"] {
			t.Errorf("%d, %d bytes, %v", a.status, len(a.body), a.err)
		}
	}
	if _, _, err := g.fetch(f.URL); err != nil {
		t.Error(err)
	}
	if n := from.Downloads(name); n != 1 {
		t.Errorf("the index was asked %d times", n)
	}
}
