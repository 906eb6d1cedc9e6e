package gatewaytest

import (
	"encoding/base64"
	"html/template"
	"io"
	"path"
	"strings"
)

// WritePage renders the record of one chat as a standalone HTML page in Telegram's look, for the
// pictures of the documentation. It shows the latest state of each message.
func (f *Telegram) WritePage(w io.Writer, chat int64, title string) error {
	var bubbles []bubble
	for _, m := range f.Messages(chat) {
		b := bubble{Bot: m.FromBot, Time: m.At.UTC().Format("15:04"), Edited: len(m.Edits) > 0, Buttons: m.Buttons}
		b.HTML = template.HTML(template.HTMLEscapeString(m.Text)) // #nosec G203: escaped here
		if strings.EqualFold(m.Mode, "html") {
			b.HTML = template.HTML(m.Source) // #nosec G203: parseTelegramHTML allowed its tags
		}
		switch m.Kind {
		case "photo":
			b.Photo = template.URL("data:" + m.File.Type + ";base64," + base64.StdEncoding.EncodeToString(m.File.Data)) // #nosec G203: base64
		case "document":
			b.Document, b.Type = m.File.Name, kindOf(m.File.Name)
		}
		bubbles = append(bubbles, b)
	}
	return page.Execute(w, map[string]any{"Title": title, "Bubbles": bubbles})
}

// kindOf returns the extension of a file's name as a label.
func kindOf(name string) string {
	kind := strings.ToUpper(strings.TrimPrefix(path.Ext(name), "."))
	if len(kind) > 5 || kind == "" {
		return "FILE"
	}
	return kind
}

type bubble struct {
	Bot, Edited bool
	HTML        template.HTML
	Photo       template.URL
	Document    string
	Type        string // of the document
	Time        string
	Buttons     [][]Button
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>
body { margin: 0; background: #cfdcc0; font: 15px/1.4 system-ui, sans-serif; color: #000 }
h1 { margin: 0; padding: 10px 16px; background: #fff; font-size: 16px }
main { display: flex; flex-direction: column; gap: 6px; max-width: 560px; margin: 0 auto; padding: 12px }
article { max-width: 85%; align-self: flex-end; padding: 6px 10px; border-radius: 12px 12px 2px 12px; background: #effdde; overflow-wrap: anywhere; white-space: pre-wrap }
article.bot { align-self: flex-start; border-radius: 12px 12px 12px 2px; background: #fff }
article img { display: block; max-width: 100%; border-radius: 8px }
pre { margin: 4px 0; padding: 6px 8px; border-left: 3px solid #3f9ae0; background: #eef5fb; overflow-x: auto; font: 13px/1.35 ui-monospace, monospace }
time { float: right; margin-left: 12px; color: #7a8a6a; font-size: 11px }
.kind { margin-right: 8px; padding: 6px 5px; border-radius: 50%; background: #4fae4e; color: #fff; font-size: 10px; font-weight: 700 }
.row { display: flex; gap: 4px; margin-top: 4px }
.row span { flex: 1; padding: 5px; border-radius: 8px; background: #dce8f2; text-align: center }
</style>
<h1>{{.Title}}</h1>
<main>
{{range .Bubbles}}<article{{if .Bot}} class="bot"{{end}}>{{if .Photo}}<img alt="" src="{{.Photo}}">{{end}}{{if .Document}}<div><span class="kind">{{.Type}}</span>{{.Document}}</div>{{end}}{{.HTML}}{{range .Buttons}}<div class="row">{{range .}}<span>{{.Text}}</span>{{end}}</div>{{end}}<time>{{if .Edited}}edited {{end}}{{.Time}}</time></article>
{{end}}</main>
</html>
`))
