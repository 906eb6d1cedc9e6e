package render_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"talaria/api"
	"talaria/gateway/render"
)

// hostile are texts that try to break out of a message, or to be cut in a bad place.
var hostile = []string{
	"", " \n\n", "\f", "hello\n", "a & b < c > d", "&amp;&lt;", "</pre><b>x</b><pre>", "<script>alert(1)</script>",
	"```\n@everyone\n```", "``````", "a`", "`` ` ```", "<!channel> <!here> <@U123> <https://example.com|x>", "@everyone @here <@&1>",
	"_*[]()~`>#+-=|{}.!\\", "\x00\x07\x1b[31mred\x1b[0m", "a\r\nb\rc", "\u202Etxt.exe", "\u2028\u2029", "\u2800\u3164", "\uFEFF",
	strings.Repeat("😀", 3000), strings.Repeat("👨‍👩‍👧‍👦", 800), strings.Repeat("🇩🇪", 3000), strings.Repeat("e\u0301", 5000),
	"a" + strings.Repeat("\u0301", 9000), strings.Repeat("한글", 2500), strings.Repeat("\u1112\u1161\u11ab", 2000),
	strings.Repeat("\n", 9000), "x" + strings.Repeat("\n", 9000) + "y", strings.Repeat("&", 5000), strings.Repeat("`", 5000),
	strings.Repeat("line\n", 3000), strings.Repeat(strings.Repeat("x", 4090)+"\n", 4), strings.Repeat(" ", 5000) + "x",
}

// finished returns an execution that ended well and printed a text.
func finished(text string) api.Execution {
	count := int64(3)
	return api.Execution{
		ID: "e1", SessionID: "s1", ExecutionCount: &count, Status: api.StatusOK, State: api.VariablesKept, Text: text,
		Usage: api.ExecutionUsage{DurationMS: 1234},
	}
}

// showing returns an execution that printed nothing and showed displays.
func showing(displays ...api.MIMEBundle) api.Execution {
	e := finished("")
	for _, d := range displays {
		e.Outputs = append(e.Outputs, api.Output{OutputType: "display_data", Data: d})
	}
	return e
}

func picture(width, height int) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func shownImage(mediaType string, content []byte) api.MIMEBundle {
	return api.MIMEBundle{
		mediaType: api.Text(base64.StdEncoding.EncodeToString(content)), "text/plain": api.Text("<Figure size 640x480 with 1 Axes>"),
	}
}

func kinds(p render.Plan) string {
	var list []string
	for _, part := range p.Parts {
		kind := string(part.Kind)
		if part.Kind == api.RenderAlbum {
			kind += fmt.Sprint(len(part.Artifacts))
		}
		list = append(list, kind)
	}
	return strings.Join(list, " ")
}

func wantKinds(t *testing.T, p render.Plan, want string) {
	t.Helper()
	if got := kinds(p); got != want {
		t.Fatalf("the parts are %q, want %q: %.1000v", got, want, p.Parts)
	}
}

// G01, G02, G04: each target has one format, and all that its markup could mean is escaped in it.
func TestG02G04EachTargetHasItsOwnCodeBlock(t *testing.T) {
	const text = "if a < b & c > d: ``` <!channel> @everyone *x*\n"
	for target, want := range map[render.Target]string{
		api.RenderTelegram: "<pre>if a &lt; b &amp; c &gt; d: ``` &lt;!channel&gt; @everyone *x*\n</pre>",
		api.RenderSlack:    "```\nif a &lt; b &amp; c &gt; d: `\u200b`\u200b` &lt;!channel&gt; @everyone *x*\n\n```",
		api.RenderDiscord:  "```\nif a < b & c > d: `\u200b`\u200b` <!channel> @everyone *x*\n\n```",
		api.RenderPlain:    text,
	} {
		plan := render.Render(render.Source{Execution: finished(text)}, target)
		wantKinds(t, plan, "text")
		if got := plan.Parts[0].Text; got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
		if got := plan.Parts[0].Format; got != render.FormatOf(target) {
			t.Errorf("%s: the format is %q", target, got)
		}
	}
}

func TestANameInALineIsCodeThatCannotEnd(t *testing.T) {
	const name = "a`<b>&\n@everyone.csv"
	for target, want := range map[render.Target]string{
		api.RenderTelegram: "<code>a`&lt;b&gt;&amp; @everyone.csv</code>",
		api.RenderSlack:    "`aˋ&lt;b&gt;&amp; @everyone.csv`",
		api.RenderDiscord:  "`aˋ<b>& @everyone.csv`",
		api.RenderPlain:    "a`<b>& @everyone.csv",
	} {
		if got := render.Inline(target, name); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
}

// G03: texts are cut at the ends of lines, each closes its block, and numbers stand outside.
func TestG03ATextIsCutAtTheEndsOfLines(t *testing.T) {
	lines := strings.Repeat(strings.Repeat("x", 99)+"\n", 50)
	for target, want := range map[render.Target]int{api.RenderTelegram: 2, api.RenderSlack: 2, api.RenderDiscord: 3, api.RenderPlain: 1} {
		plan := render.Render(render.Source{Execution: finished(lines)}, target)
		checkLimits(t, target, plan)
		if len(plan.Parts) != want {
			t.Fatalf("%s: %d texts, want %d", target, len(plan.Parts), want)
		}
		for i, part := range plan.Parts {
			if text := shown(t, target, part.Text); len(text)%100 != 0 || !strings.HasSuffix(text, "\n") {
				t.Errorf("%s: text %d ends in the middle of a line: %.50q", target, i, text)
			}
			number := ""
			if want > 1 {
				number = fmt.Sprintf("(%d/%d)", i+1, want)
			}
			if part.Caption != number {
				t.Errorf("%s: text %d is numbered %q", target, i, part.Caption)
			}
		}
	}
}

// G03: what a reader sees as one character is never cut.
func TestACharacterIsNeverCut(t *testing.T) {
	for _, character := range []string{
		"😀", "👨‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0302", "👍🏽", "\u1112\u1161\u11ab", "가\u11a8", "🏴\U000E0067\U000E0062\U000E007F", "नि",
	} {
		text := "x" + strings.Repeat(character, 3000)
		for _, target := range []render.Target{api.RenderTelegram, api.RenderSlack, api.RenderDiscord} {
			pieces := render.Split(target, text)
			if strings.Join(pieces, "") != text || len(pieces) < 2 {
				t.Fatalf("%s: %d pieces of %q are not the whole", target, len(pieces), character)
			}
			pieces[0] = strings.TrimPrefix(pieces[0], "x")
			for _, piece := range pieces {
				if strings.ReplaceAll(piece, character, "") != "" {
					t.Errorf("%s: %q was cut: …%q", target, character, piece[max(0, len(piece)-40):])
				}
			}
			preview := shown(t, target, render.Preview(target, text, 20))
			if strings.ReplaceAll(preview, character, "") != "" {
				t.Errorf("%s: a preview cuts %q: %.60q", target, character, preview)
			}
		}
	}
}

// G05: more than three messages are an excerpt, and a document with everything.
func TestG05ALongTextIsAnExcerptAndADocument(t *testing.T) {
	var lines strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	for _, target := range []render.Target{api.RenderTelegram, api.RenderSlack, api.RenderDiscord} {
		plan := render.Render(render.Source{Execution: finished(lines.String())}, target)
		checkLimits(t, target, plan)
		wantKinds(t, plan, "text document")
		text := shown(t, target, plan.Parts[0].Text)
		if !strings.HasPrefix(text, "line 0\nline 1\n") || !strings.HasSuffix(text, "line 19998\nline 19999\n") {
			t.Errorf("%s: the excerpt is %q", target, text)
		}
		left := regexp.MustCompile(`… ([0-9,]+) lines left out here, all of the output is in output\.txt …`).FindStringSubmatch(text)
		if left == nil || strings.ReplaceAll(left[1], ",", "") != fmt.Sprint(20_000-strings.Count(text, "line ")) {
			t.Errorf("%s: the excerpt of %d lines says %q", target, strings.Count(text, "line "), left)
		}
		a := plan.Parts[1].Artifacts[0]
		file, ok := plan.File(a.SHA256)
		if !ok || string(file.Content) != lines.String() || a.FileName != "output.txt" || *a.Size != int64(lines.Len()) {
			t.Errorf("%s: the document is %+v", target, a)
		}
	}
}

func TestAnExcerptOfOneLineCountsCharacters(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 50_000): "characters left out here, all of", "\u2800": "… all of the output is in output.txt …",
	} {
		plan := render.Render(render.Source{Execution: finished(text)}, api.RenderTelegram)
		wantKinds(t, plan, "text document")
		if !strings.Contains(plan.Parts[0].Text, want) {
			t.Errorf("%.10q: the excerpt is %q", text, plan.Parts[0].Text)
		}
	}
}

func TestTheWholeOfACutTextIsADocument(t *testing.T) {
	src := render.Source{
		Execution: finished("a\n[7 bytes were left out here]\nz\n"), Whole: "a\nsecret\nz\n",
		Streams: []render.Artifact{{SHA256: "5e", URL: "/v1/artifacts/5e", FileName: "stdout.txt"}},
	}
	for _, target := range api.RenderTargets {
		plan := render.Render(src, target)
		wantKinds(t, plan, "text document document")
		if file, _ := plan.File(plan.Parts[1].Artifacts[0].SHA256); string(file.Content) != src.Whole {
			t.Errorf("%s: the document is %q", target, file.Content)
		}
		if got := plan.Parts[2].Artifacts[0]; got.URL != "/v1/artifacts/5e" {
			t.Errorf("%s: the stream is %+v", target, got)
		}
	}
}

func TestADocumentThatIsTooLargeIsSeveral(t *testing.T) {
	text := strings.Repeat(strings.Repeat("é", 49)+"\n", 250_000)
	plan := render.Render(render.Source{Execution: finished(text)}, api.RenderDiscord)
	wantKinds(t, plan, "text document document document")
	var joined []byte
	for _, part := range plan.Parts[1:] {
		file, _ := plan.File(part.Artifacts[0].SHA256)
		if len(file.Content) > 10<<20 || !utf8.Valid(file.Content) || !bytes.HasSuffix(file.Content, []byte("\n")) {
			t.Errorf("%s has %d bytes", part.FileName, len(file.Content))
		}
		joined = append(joined, file.Content...)
	}
	if string(joined) != text {
		t.Error("the documents are not the whole")
	}
}

// G10: charts are photos, several an album, within what the platform takes.
func TestG10ChartsArePhotosAndAlbums(t *testing.T) {
	chart := shownImage("image/png", picture(640, 480))
	for _, test := range []struct {
		name     string
		displays []api.MIMEBundle
		telegram string
		discord  string
	}{
		{"one", []api.MIMEBundle{chart}, "photo", "photo"},
		{"three", []api.MIMEBundle{chart, chart, chart}, "album3", "album3"},
		{"eleven", slices.Repeat([]api.MIMEBundle{chart}, 11), "album10 photo", "album10 photo"},
		{"sides of 10,000", []api.MIMEBundle{shownImage("image/png", picture(9000, 1000))}, "photo", "photo"},
		{"longer", []api.MIMEBundle{shownImage("image/png", picture(9000, 1001))}, "document", "photo"},
		{"20 times as wide", []api.MIMEBundle{shownImage("image/png", picture(2000, 100))}, "photo", "photo"},
		{"wider", []api.MIMEBundle{shownImage("image/png", picture(2001, 100))}, "document", "photo"},
		{"higher", []api.MIMEBundle{shownImage("image/png", picture(100, 2001))}, "document", "photo"},
		{"10 MB", []api.MIMEBundle{shownImage("image/png", sized(10_000_000))}, "photo", "photo"},
		{"larger", []api.MIMEBundle{shownImage("image/png", sized(10_000_001))}, "document", "photo"},
		{"too large for a file", []api.MIMEBundle{shownImage("image/png", sized(10<<20+1))}, "document", "text"},
		{"six of 10 MB", slices.Repeat([]api.MIMEBundle{shownImage("image/png", sized(10_000_000))}, 6), "album4 album2", "album2 album2 album2"},
		{"not a PNG", []api.MIMEBundle{shownImage("image/png", []byte("GIF89a"))}, "document", "document"},
		{"a JPEG that is a PNG", []api.MIMEBundle{shownImage("image/jpeg", picture(8, 8))}, "document", "document"},
		{"a GIF", []api.MIMEBundle{shownImage("image/gif", []byte("GIF89a"))}, "document", "photo"},
		{"an SVG", []api.MIMEBundle{{"image/svg+xml": api.Text("<svg/>")}}, "document", "document"},
		{"a chart, a GIF, a chart", []api.MIMEBundle{chart, shownImage("image/gif", []byte("GIF89a")), chart}, "album2 document", "album3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for target, want := range map[render.Target]string{api.RenderTelegram: test.telegram, api.RenderDiscord: test.discord} {
				plan := render.Render(render.Source{Execution: showing(test.displays...)}, target)
				if got := kinds(plan); got != want {
					t.Errorf("%s: %s, want %s", target, got, want)
				}
				if part := plan.Parts[0]; (part.Kind == api.RenderPhoto || part.Kind == api.RenderAlbum) && part.Caption != "Cell 3 · 1.2 s" {
					t.Errorf("%s: the caption is %q", target, part.Caption)
				}
			}
		})
	}
}

// sized returns a PNG of that many bytes, padded by a chunk that readers pass over.
func sized(n int) []byte {
	p := picture(8, 8)
	const head = 8 + 25 // the signature and IHDR
	padding := make([]byte, n-len(p)-12)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(padding)))
	chunk = append(append(chunk, "teXt"...), padding...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return slices.Concat(p[:head], chunk, p[head:])
}

func TestDisplaysStandWhereTheyWereShown(t *testing.T) {
	shows := func(mediaType, value string) api.Output {
		return api.Output{OutputType: "display_data", Data: api.MIMEBundle{
			mediaType: api.Text(value), "text/plain": api.Text("<IPython.core.display.Thing object>"),
		}}
	}
	e := finished("one\ntwo\n")
	e.Outputs = []api.Output{
		{OutputType: "stream", Name: "stdout", Text: "one\n"}, shows("text/markdown", "**bold**"), shows("text/html", "<b>x</b>"),
		{OutputType: "stream", Name: "stderr", Text: "two\n"}, {OutputType: "display_data", Data: api.MIMEBundle{"text/plain": api.Text("{'a': 1}")}},
		shows("application/pdf", base64.StdEncoding.EncodeToString([]byte("%PDF-1.7"))),
	}
	plan := render.Render(render.Source{Execution: e, Clean: func(s string) string { return strings.ReplaceAll(s, "bold", "[redacted]") }},
		api.RenderPlain)
	wantKinds(t, plan, "text document document")
	if want := "one\n**[redacted]**\ntwo\n{'a': 1}\n"; plan.Parts[0].Text != want {
		t.Errorf("%q, want %q", plan.Parts[0].Text, want)
	}
	if plan.Parts[1].FileName != "display-1.html" || plan.Parts[2].FileName != "display-2.pdf" {
		t.Errorf("the documents are %+v", plan.Parts[1:])
	}
	e.Text = "cut" // not what the outputs printed
	if got := render.Render(render.Source{Execution: e}, api.RenderPlain).Parts[0].Text; got != "cut\n**bold**\n{'a': 1}\n" {
		t.Errorf("below a text that was changed: %q", got)
	}
}

func TestEndingsAreSaid(t *testing.T) {
	for _, test := range []struct {
		name string
		e    func(*api.Execution)
		want string
	}{
		{"nothing", func(*api.Execution) {}, "(no output)"},
		{"an error in the text", func(e *api.Execution) {
			e.Status, e.Text = api.StatusError, "Traceback\nKeyError: 'x'"
			e.Error = &api.ErrorOutput{Ename: "KeyError", Evalue: "'x'"}
		}, "Traceback\nKeyError: 'x'"},
		{"an error that is not", func(e *api.Execution) {
			e.Status, e.Text = api.StatusDied, "a"
			e.Error = &api.ErrorOutput{Ename: "KernelDied", Evalue: "exit:3"}
		}, "a\nKernelDied: exit:3\n"},
		{"cancelled", func(e *api.Execution) {
			e.Status, e.Reason, e.State = api.StatusCancelled, "reset", api.VariablesLost
		}, "[not run: reset; variables are lost]\n"},
		{"interrupted", func(e *api.Execution) { e.Status, e.Reason = api.StatusInterrupted, "interrupted" }, "[interrupted]\n"},
		{"died", func(e *api.Execution) { e.Status, e.Reason = api.StatusDied, "</pre>" }, "[the kernel died: </pre>]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := finished("")
			test.e(&e)
			plan := render.Render(render.Source{Execution: e}, api.RenderTelegram)
			wantKinds(t, plan, "text")
			if got := shown(t, api.RenderTelegram, plan.Parts[0].Text); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	e := finished("")
	e.Status = api.StatusRunning
	if plan := render.Render(render.Source{Execution: e}, api.RenderTelegram); len(plan.Parts) != 0 {
		t.Errorf("an execution that still runs: %+v", plan.Parts)
	}
}

func artifact(path, mediaType string, size int64) api.Artifact {
	return api.Artifact{Path: path, Change: api.Created, Size: &size, MediaType: mediaType, SHA256: "a1", URL: "/v1/artifacts/a1"}
}

func TestFilesOfTheWorkspaceAreSent(t *testing.T) {
	head := func(string) []byte { return picture(640, 480)[:200] }
	e := finished("")
	e.Artifacts = []api.Artifact{
		artifact("plots/a.png", "image/png", 5000), artifact("../../etc/</pre>@everyone", "text/csv", 10),
		{Path: "gone.txt", Change: api.Deleted}, {Path: "kept not", Change: api.Created, Omitted: true}, artifact("big.bin", "application/zip", 60_000_000),
	}
	plan := render.Render(render.Source{Execution: e, Head: head}, api.RenderTelegram)
	wantKinds(t, plan, "text photo document")
	if got := shown(t, api.RenderTelegram, plan.Parts[0].Text); !strings.Contains(got, "[big.bin is 60.0 MB, which is too large") ||
		!strings.Contains(got, "[1 file not sent: kept not]") || strings.Contains(got, "gone.txt") {
		t.Errorf("the text is %q", got)
	}
	if a := plan.Parts[1].Artifacts[0]; a.FileName != "a.png" || a.URL != "/v1/artifacts/a1" {
		t.Errorf("the photo is %+v", a)
	}
	if name := plan.Parts[2].FileName; name != "pre>@everyone" {
		t.Errorf("the document is named %q", name)
	}
	if plan := render.Render(render.Source{Execution: e}, api.RenderTelegram); kinds(plan) != "text document document" {
		t.Errorf("without its dimensions, an image is in %s", kinds(plan))
	}
	e.Outputs = showing(shownImage("image/png", picture(8, 8))).Outputs
	if plan := render.Render(render.Source{Execution: e, Head: head}, api.RenderTelegram); kinds(plan) != "text photo document document" {
		t.Errorf("beside a chart, an image file is in %s", kinds(plan))
	}
}

func TestManyFilesAreListed(t *testing.T) {
	e := finished("")
	for i := range 1000 {
		e.Artifacts = append(e.Artifacts, artifact(fmt.Sprintf("f%d.txt", i), "text/plain", 5))
	}
	plan := render.Render(render.Source{Execution: e}, api.RenderTelegram)
	wantKinds(t, plan, "text"+strings.Repeat(" document", 11))
	file, ok := plan.File(plan.Parts[11].Artifacts[0].SHA256)
	if !ok || !strings.HasPrefix(string(file.Content), "f10.txt\n") || strings.Count(string(file.Content), "\n") != 990 {
		t.Errorf("the list is %.100q", file.Content)
	}
}

// hostileValues are values of displays that no library sends.
var hostileValues = []string{
	`{}`, `[]`, `null`, `{"schema":{"fields":[{"name":"a"}]}}`, `{"schema":{"fields":[{}]},"data":[{}],"total_rows":-5}`,
	`{"schema":{"fields":[{"name":"a"}]},"data":[null,{"a":{"b":[1]}}]}`,
	`{"schema":{"fields":[{"name":"</pre>\n\u0000` + strings.Repeat("x", 9000) + `","type":"number"}]},"data":[{"a":1e999}]}`,
	`{"schema":{"fields":[{"name":"a"},{"name":"a"}]},"data":[{"a":"` + strings.Repeat("😀\\n", 500) + `"}],"total_rows":9223372036854775807}`,
	`"iVBORw0KGgo="`, `"<b>x</b>"`, `["a","b"]`, `"\u001b[31m</pre>"`,
}

// FuzzDisplays holds that no value of a display, however it claims to be meant, gives a part beyond the limits.
func FuzzDisplays(f *testing.F) {
	for _, value := range hostileValues {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !json.Valid([]byte(value)) {
			value = string(api.Text(strings.ToValidUTF8(value, "\uFFFD")))
		}
		for _, data := range []api.MIMEBundle{
			{"application/vnd.dataresource+json": api.Raw(value)}, {"image/png": api.Raw(value)}, {"image/svg+xml": api.Raw(value)},
			{"text/plain": api.Raw(value)}, {"text/html": api.Raw(value)}, {"application/json": api.Raw(value)}, {"video/mp4": api.Raw(value)}, {},
		} {
			e := showing(data)
			e.Outputs = append(e.Outputs, api.Output{OutputType: "execute_result", Data: data})
			for _, target := range api.RenderTargets {
				checkLimits(t, target, render.Render(render.Source{Execution: e}, target))
			}
		}
	})
}
