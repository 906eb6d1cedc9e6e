package gatewaytest

import (
	"encoding/base64"
	"html"
	"html/template"
	"io"
	"regexp"
	"strings"
)

// WritePage renders the record of one thread, or of a direct conversation if thread is "", as a standalone HTML page in Slack's
// look, for the pictures of the documentation. people are the names of users by id.
func (f *Slack) WritePage(w io.Writer, channel, thread, title string, people map[string]string) error {
	var posts []post
	for _, m := range f.Messages(channel, thread) {
		p := post{Name: people[m.User], Time: m.At.UTC().Format("15:04"), HTML: slackHTML(m.Text), Edited: len(m.Edits) > 0}
		if m.User == "" {
			p.Name, p.Bot = "Talaria", true
		}
		if p.Name == "" {
			p.Name = m.User
		}
		p.Initial = p.Name[:1]
		for _, file := range m.Files {
			shown := attachment{Name: file.Name, Kind: kindOf(file.Name)}
			if strings.HasPrefix(file.Type, "image/") {
				shown.Image = template.URL("data:" + file.Type + ";base64," + base64.StdEncoding.EncodeToString(file.Data)) // #nosec G203: base64
			}
			p.Files = append(p.Files, shown)
		}
		for _, b := range m.Blocks {
			for _, e := range b.Elements {
				p.Buttons = append(p.Buttons, labelOf(e.Text))
			}
		}
		posts = append(posts, p)
	}
	return slackPage.Execute(w, map[string]any{"Title": title, "Posts": posts})
}

type post struct {
	Name, Initial, Time string
	Bot, Edited         bool
	HTML                template.HTML
	Files               []attachment
	Buttons             []string
}

type attachment struct {
	Name, Kind string
	Image      template.URL
}

var (
	slackBlock   = regexp.MustCompile("(?s)```\n?(.*?)\n?```\n?")
	slackInline  = regexp.MustCompile("`([^`\n]+)`")
	slackMention = regexp.MustCompile(`&lt;@U[A-Z0-9]+&gt;`)
)

// slackHTML shows a text as Slack does: code blocks, code within a line, and mentions of the bot.
func slackHTML(text string) template.HTML {
	mentions := regexp.MustCompile(`<@U[A-Z0-9]+>`).MatchString(text) // as markup, before entities are decoded
	shown := html.EscapeString(html.UnescapeString(text))
	var b strings.Builder
	done := 0
	line := func(text string) {
		text = slackInline.ReplaceAllString(text, "<code>$1</code>")
		if mentions {
			text = slackMention.ReplaceAllString(text, `<span class="mention">@talaria</span>`)
		}
		b.WriteString(text)
	}
	for _, at := range slackBlock.FindAllStringSubmatchIndex(shown, -1) {
		line(shown[done:at[0]])
		b.WriteString("<pre>" + shown[at[2]:at[3]] + "</pre>")
		done = at[1]
	}
	line(shown[done:])
	return template.HTML(b.String()) // #nosec G203: escaped above
}

var slackPage = template.Must(template.New("slack").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>
body { margin: 0; background: #fff; font: 15px/1.46 Lato, system-ui, sans-serif; color: #1d1c1d }
h1 { margin: 0; padding: 12px 20px; border-bottom: 1px solid #ddd; font-size: 17px }
main { padding: 8px 0 }
article { display: grid; grid-template-columns: 36px 1fr; gap: 0 10px; padding: 8px 20px }
.face { width: 36px; height: 36px; border-radius: 8px; background: #2f7d6d; color: #fff; font-weight: 700; line-height: 36px; text-align: center }
.bot .face { background: #4a154b }
header { line-height: 1.3 }
header b { font-weight: 900 }
.app { margin-left: 4px; padding: 0 3px; border-radius: 2px; background: #e8e8e8; color: #616061; font-size: 10px; font-weight: 700 }
time, .edited { margin-left: 6px; color: #616061; font-size: 12px }
.text { overflow-wrap: anywhere; white-space: pre-wrap }
pre { margin: 4px 0; padding: 8px; border: 1px solid #ddd; border-radius: 4px; background: #f8f8f8; overflow-x: auto; font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap }
code { padding: 2px 3px; border: 1px solid #ddd; border-radius: 3px; background: #f8f8f8; color: #c01343; font: 12px ui-monospace, monospace }
.mention { padding: 0 2px; border-radius: 3px; background: #e8f0fb; color: #1264a3 }
.name { color: #616061; font-size: 13px }
img { display: block; max-width: 360px; margin-top: 4px; border: 1px solid #ddd; border-radius: 8px }
.file { display: inline-block; margin-top: 4px; padding: 8px 12px; border: 1px solid #ddd; border-radius: 8px; font-weight: 700 }
.kind { margin-right: 8px; padding: 3px 5px; border-radius: 4px; background: #1264a3; color: #fff; font-size: 10px; vertical-align: 1px }
.button { display: inline-block; margin: 6px 6px 0 0; padding: 4px 12px; border: 1px solid #bbb; border-radius: 4px; font-size: 13px; font-weight: 700 }
</style>
<h1>{{.Title}}</h1>
<main>
{{range .Posts}}<article{{if .Bot}} class="bot"{{end}}><div class="face">{{.Initial}}</div><div><header><b>{{.Name}}</b>{{if .Bot}}<span class="app">APP</span>{{end}}<time>{{.Time}}</time></header><div class="text">{{.HTML}}{{if .Edited}}<span class="edited">(edited)</span>{{end}}</div>{{range .Files}}{{if .Image}}<span class="name">{{.Name}}</span><img alt="" src="{{.Image}}">{{else}}<div class="file"><span class="kind">{{.Kind}}</span>{{.Name}}</div>{{end}}{{end}}{{range .Buttons}}<span class="button">{{.}}</span>{{end}}</div></article>
{{end}}</main>
</html>
`))
