package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

const chartsCell = `import pandas as pd, numpy as np, matplotlib.pyplot as plt
print("a < b & c")
display(pd.DataFrame({"city": ["Lund", "Oslo"], "rain": [1.5, 2.25]}))
print("charts:")
for i in range(3):
    plt.plot([i, 2, 3]); plt.show()
open("out.csv", "w").write("n\n1\n")
pd.DataFrame({"n": range(500)})`

// G20: every target gets the whole of a cell, in order, and its files can be downloaded.
func TestG20ACellIsRenderedForEveryTarget(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{ID: new("chat:7")})
	e := run(t, c, id, chartsCell)
	formats := map[api.RenderTarget]api.RenderFormat{
		api.RenderTelegram: api.RenderHTML, api.RenderSlack: api.RenderMrkdwn, api.RenderDiscord: api.RenderMarkdown,
		api.RenderPlain: api.RenderUnformatted,
	}
	for target, format := range formats {
		r, err := c.Render(within(t), id, e.ID, target)
		if err != nil {
			t.Fatal(err)
		}
		wantKinds(t, target, r, "text album document document")
		text := r.Parts[0]
		if text.Format != format {
			t.Errorf("%s: the format is %q", target, text.Format)
		}
		shown := text.Text
		if target == api.RenderTelegram || target == api.RenderSlack {
			shown = html.UnescapeString(shown)
		}
		wantInOrder(t, shown, "a < b & c", "city  rain", "Lund", "Oslo  2.25", "charts:", "499  499", "[500 rows x 1 columns]")
		if album := r.Parts[1]; len(album.Artifacts) != 3 || !strings.HasPrefix(album.Caption, "Cell 1 · ") {
			t.Errorf("%s: the album is %+v", target, album)
		}
		for _, part := range r.Parts[1:] {
			for _, a := range part.Artifacts {
				wantFile(t, c, a)
			}
		}
		if table := string(downloaded(t, c, r.Parts[2].Artifacts[0])); !strings.HasPrefix(table, ",n\n0,0\n") || !strings.HasSuffix(table, "499,499\n") {
			t.Errorf("%s: the table is %.100q", target, table)
		}
	}
}

// G05: what is too long for a few messages is a document, with all that the text of the execution leaves out.
func TestALongOutputIsRenderedAsADocumentWithoutSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Secrets: &map[string]string{"KEY": "hunter2-hunter2"}})
	e := run(t, c, id, `import os
for i in range(200_000): print("line", i)
print(os.environ["KEY"])
from IPython.display import Markdown
display(Markdown("shown " + os.environ["KEY"]))`)
	for _, target := range api.RenderTargets {
		r, err := c.Render(within(t), id, e.ID, target)
		if err != nil {
			t.Fatal(err)
		}
		wantKinds(t, target, r, "text document")
		whole := string(downloaded(t, c, r.Parts[1].Artifacts[0]))
		if n := strings.Count(whole, "line "); n != 200_000 {
			t.Errorf("%s: the document has %d lines", target, n)
		}
		wantInOrder(t, whole, "line 0\n", "line 100000\n", "line 199999\n[redacted]\n", "shown [redacted]")
		wantInOrder(t, r.Parts[0].Text, "line 0\n", "left out here", "line 199999\n[redacted]\n", "shown [redacted]")
		if strings.Contains(whole+r.Parts[0].Text, "hunter2") {
			t.Errorf("%s: the rendering has a secret", target)
		}
	}
}

func TestAStreamTooLongForTheLogIsRenderedInFull(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{Limits: &api.LimitsRequest{OutputBytes: new(int64(100_000))}})
	e := run(t, c, id, "for i in range(50_000): print('line', i)")
	r, err := c.Render(within(t), id, e.ID, api.RenderTelegram)
	if err != nil {
		t.Fatal(err)
	}
	wantKinds(t, api.RenderTelegram, r, "text document document")
	wantFile(t, c, r.Parts[2].Artifacts[0])
	if full := string(downloaded(t, c, r.Parts[2].Artifacts[0])); strings.Count(full, "line ") != 50_000 || r.Parts[2].FileName != "stdout.txt" {
		t.Errorf("%s has %d lines", r.Parts[2].FileName, strings.Count(full, "line "))
	}
}

func TestWhoeverMayReadAnExecutionMayRenderIt(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	other := session(t, c, api.SessionRequest{})
	e := run(t, c, id, "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.savefig('a.png')")
	share := s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/shares"}, http.StatusCreated, "")
	link, err := url.Parse(decode[api.Share](t, string(share.body)).URL)
	if err != nil {
		t.Fatal(err)
	}
	visitor := client.New(s.URL, link.Query().Get("token"))
	r, err := visitor.Render(within(t), id, e.ID, api.RenderTelegram)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range r.Parts {
		for _, a := range part.Artifacts {
			wantFile(t, visitor, a)
		}
	}
	for what, err := range map[string]error{
		"another session's": second(visitor.Render(within(t), other, e.ID, api.RenderTelegram)),
		"no such execution": second(c.Render(within(t), id, "none", api.RenderTelegram)),
		"no such file":      second(c.RenderedFile(within(t), api.RenderArtifact{URL: api.RenderedFileURL(id, e.ID, strings.Repeat("0", 64))})),
	} {
		if code := problemCode(err); !strings.HasSuffix(string(code), "_not_found") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, target := range []api.RenderTarget{"", "irc"} {
		_, err := c.Render(within(t), id, e.ID, target)
		if problemCode(err) != api.CodeInvalidRequest || !strings.Contains(err.Error(), "telegram, slack, discord, plain") {
			t.Errorf("target %q: %v", target, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func wantKinds(t *testing.T, target api.RenderTarget, r api.Rendering, want string) {
	t.Helper()
	var kinds []string
	for _, p := range r.Parts {
		kinds = append(kinds, string(p.Kind))
	}
	if got := strings.Join(kinds, " "); got != want {
		t.Fatalf("%s: the parts are %s, want %s: %.2000v", target, got, want, r.Parts)
	}
}

func wantInOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	for rest := text; len(parts) > 0; parts = parts[1:] {
		_, after, ok := strings.Cut(rest, parts[0])
		if !ok {
			t.Fatalf("%q is missing, or in the wrong place, in %.1500q", parts[0], text)
		}
		rest = after
	}
}

func downloaded(t *testing.T, c *client.Client, a api.RenderArtifact) []byte {
	t.Helper()
	d, err := c.RenderedFile(within(t), a)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	content, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// wantFile downloads a file of a rendering, and checks it against what the rendering says about it.
func wantFile(t *testing.T, c *client.Client, a api.RenderArtifact) {
	t.Helper()
	content := downloaded(t, c, a)
	sum := sha256.Sum256(content)
	if hex.EncodeToString(sum[:]) != a.SHA256 || a.Size == nil || *a.Size != int64(len(content)) || a.FileName == "" {
		t.Errorf("%s has %d bytes, and not those of %+v", a.URL, len(content), a)
	}
	if kind, _, _ := strings.Cut(a.MediaType, ";"); kind == "image/png" && !strings.HasPrefix(string(content), "\x89PNG") {
		t.Errorf("%s is not a PNG: %.20q", a.FileName, content)
	}
}
