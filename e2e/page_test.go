package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// notebookPage is the page, open at a session.
type notebookPage struct {
	*browser
	cells int // run so far
}

// cell is a CSS selector of a cell of the page.
type cell string

// js is an expression for the cell's element, or for the first one in it that a selector finds.
func (c cell) js(inside ...string) string {
	return "document.querySelector(" + strconv.Quote(strings.Join(append([]string{string(c)}, inside...), " ")) + ")"
}

// newNotebook signs in and makes a session with the page's own form.
func newNotebook(b *browser, s *Server, name string) *notebookPage {
	b.Helper()
	b.load(chromedp.Navigate(s.URL + "/"))
	b.signIn(s.Token, 200)
	b.do(chromedp.WaitVisible(chromedp.CSS("#new-session")))
	b.do(chromedp.SendKeys(chromedp.CSS("#new-name"), name), chromedp.Click(chromedp.CSS("#new-session button")))
	b.wait(`document.querySelector("#composer:not([hidden])") && document.querySelector("#state").textContent === "idle"`)
	return &notebookPage{browser: b}
}

// signIn fills in the form, which must be answered with a status.
func (b *browser) signIn(token string, want int64) {
	b.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), token))
	if status := b.load(chromedp.Click(chromedp.CSS("form button"))); status != want {
		b.Errorf("signing in gave %d, want %d", status, want)
	}
}

// begin runs a cell and does not wait for its end.
func (p *notebookPage) begin(code string) cell {
	p.Helper()
	p.do(chromedp.Focus(chromedp.CSS("#composer-code")), paste(code), shiftEnter())
	p.cells++
	return cell(fmt.Sprintf("#cells > article:nth-of-type(%d)", p.cells))
}

// run runs a cell to its end, which must be of that status.
func (p *notebookPage) run(code, status string) cell {
	p.Helper()
	c := p.begin(code)
	p.wait(c.js() + `.dataset.status === ` + strconv.Quote(status))
	return c
}

// text is what a cell printed and raised.
func (p *notebookPage) text(c cell) string {
	p.Helper()
	return eval[string](p.browser, c.js(".outputs")+".innerText")
}

func (p *notebookPage) wantText(c cell, want string) {
	p.Helper()
	if got := p.text(c); !strings.Contains(got, want) {
		p.Errorf("a cell shows %q, which lacks %q", got, want)
	}
}

// wantFrame checks that the frame of a cell may do nothing at all, and returns what is in it.
func (p *notebookPage) wantFrame(c cell, inside string) string {
	p.Helper()
	if allowed := eval[string](p.browser, c.js("iframe")+`.getAttribute("sandbox") ?? "everything"`); allowed != "" {
		p.Errorf("the frame of a cell may do: %s", allowed)
	}
	if open := eval[bool](p.browser, c.js("iframe")+".contentDocument !== null"); open {
		p.Error("the frame of a cell has the page's origin")
	}
	return p.framed(string(c)+" iframe", inside)
}

func TestThePageAsksForAToken(t *testing.T) {
	s := start(t, options{})
	b := openBrowser(t)
	const signedIn = `document.getElementById("new-session") !== null`
	if status := b.load(chromedp.Navigate(s.URL + "/")); status != 200 || eval[bool](b, signedIn) {
		t.Errorf("who is unknown gets %d, and the page: %v", status, eval[bool](b, signedIn))
	}
	b.wantQuiet()
	b.signIn("wrong", 401)
	b.do(chromedp.WaitVisible(chromedp.CSS("#token")))
	if eval[bool](b, signedIn) {
		t.Error("a wrong token opened the page")
	}
	for _, problem := range b.problems() {
		if !strings.Contains(problem, "401") { // of which the browser itself tells
			t.Errorf("the page's console: %s", problem)
		}
	}

	b.signIn(s.Token, 200)
	b.do(chromedp.WaitVisible(chromedp.CSS("#new-session")))
	if seen := eval[string](b, "document.cookie + location.href"); seen != s.URL+"/" {
		t.Errorf("the cookie and the address are %q", seen)
	}
	b.do(chromedp.Navigate(s.URL+"/?token="+s.Token), chromedp.WaitVisible(chromedp.CSS("#new-session")))
	if here := eval[string](b, "location.href"); here != s.URL+"/" {
		t.Errorf("the printed URL leads to %s", here)
	}
	b.wantQuiet()
}

func TestThePageRunsCellsAndShowsThemAgain(t *testing.T) {
	s := start(t, options{})
	p := newNotebook(openBrowser(t), s, "Ärger & <b>Co</b>")
	if name := eval[string](p.browser, `document.getElementById("session-name").innerText`); name != "Ärger & <b>Co</b>" {
		t.Errorf("the session is called %q", name)
	}

	printed := p.run("print('one')\nprint('two <i>2</i>')\nx = 41", "ok")
	if got := p.text(printed); strings.TrimSpace(got) != "one\ntwo <i>2</i>" {
		t.Errorf("a cell that prints shows %q", got)
	}

	raised := p.run("1/0", "error")
	p.wantText(raised, `File "<cell 2>", line 1`)
	p.wantText(raised, "ZeroDivisionError: division by zero")

	table := p.run("import pandas as pd\npd.DataFrame({'city': ['Lund', 'Århus'], 'n': [8, 4]})", "ok")
	wantTable := func() {
		t.Helper()
		html := p.wantFrame(table, "table")
		if got := regexp.MustCompile(`<td>(\S+)</td>`).FindAllStringSubmatch(html, -1); len(got) != 4 || got[2][1] != "Århus" {
			t.Errorf("the table is %s", html)
		}
	}
	wantTable()

	chart := p.run("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()", "ok")
	size := eval[[]int](p.browser, chart.js("img")+`.decode().then(() => {
		const image = `+chart.js("img")+`; return [image.naturalWidth, image.naturalHeight, image.clientWidth]; })`)
	if size[0] < 100 || size[1] < 100 || size[2] < 100 || size[2] > size[0]/2+1 {
		t.Errorf("the chart is %d by %d, and shown %d wide, not with two dots for each pixel", size[0], size[1], size[2])
	}

	asked := p.begin("name = input('Who? ')\nprint('Hi', name)")
	p.wait(`!document.getElementById("question").hidden`)
	if prompt := eval[string](p.browser, `document.getElementById("prompt").textContent`); prompt != "Who? " {
		t.Errorf("the question is %q", prompt)
	}
	p.do(chromedp.SendKeys(chromedp.CSS("#answer"), "Ada"+kb.Enter))
	p.wait(asked.js() + `.dataset.status === "ok" && document.getElementById("question").hidden`)
	p.wantText(asked, "Hi Ada")

	long := p.begin("import time\nprint('waiting')\ntime.sleep(600)")
	p.wait(long.js(".outputs") + `.innerText.includes("waiting") && document.getElementById("state").textContent === "busy"`)
	p.do(chromedp.Click(chromedp.CSS("#interrupt")))
	p.wait(long.js() + `.dataset.status === "interrupted"`)
	p.wantText(long, "KeyboardInterrupt")
	p.wantText(p.run("x + 1", "ok"), "42")

	made := p.run("_ = open('report.csv', 'w').write('a,b\\n')", "ok")
	p.wait(made.js(".artifacts a[download]") + `.innerText === "report.csv"`)
	p.wait(`document.getElementById("files").innerText.includes("report.csv")`)

	const shown = `document.getElementById("cells").innerHTML`
	before := eval[string](p.browser, shown)
	p.do(chromedp.Reload())
	p.wait(fmt.Sprintf(`document.querySelectorAll("#cells > article").length === %d && %s.dataset.status === "ok"`, p.cells, made.js()))
	if after := eval[string](p.browser, shown); after != before {
		t.Errorf("after a reload the page shows\n%.4000s\nand before\n%.4000s", after, before)
	}
	wantTable()
	p.wantText(p.run("name", "ok"), "'Ada'")
	p.wantQuiet()
}

// hostile is HTML that would mark the page in every way in which it could run there.
const hostile = `<p id="shown">shown</p>
<script>top.pwned = parent.pwned = window.pwned = top.document.title = "script"</script>
<img src="data:image/png;base64,AAAA" onerror="top.pwned = parent.pwned = 'onerror'">
<svg onload="top.pwned = parent.pwned = 'svg'"></svg>
<iframe srcdoc="<script>top.pwned = 'nested'</script>"></iframe>
<form id="f" action="/healthz" target="_top"><button id="send" style="position: fixed; inset: 0">send</button></form>
<script>f.submit()</script>
<meta http-equiv="refresh" content="0; url=javascript:top.pwned='refresh'">
</style></div></body></html><script>top.pwned = 'after'</script>`

func TestWhatACellShowsDoesNotRunInThePage(t *testing.T) {
	s := start(t, options{})
	p := newNotebook(openBrowser(t), s, `<img src=x onerror="window.pwned='name'">`)
	title := eval[string](p.browser, "document.title")

	html := p.run("EVIL = '''"+hostile+"'''\nclass Evil:\n    def _repr_html_(self):\n        return EVIL\nEvil()", "ok")
	if got := p.wantFrame(html, "#shown"); !strings.Contains(got, "shown") {
		t.Errorf("the frame shows %s", got)
	}
	// The frame is one big button now, which sends a form to the top.
	p.do(chromedp.Click(chromedp.CSS(string(html) + " iframe")))

	drawn := p.run("class Drawing:\n    def _repr_svg_(self):\n        return '''<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\""+
		" height=\"9\" onload=\"top.pwned='svg'\"><script>top.pwned='svg'</script></svg>'''\nDrawing()", "ok")
	if width := eval[int](p.browser, drawn.js("img")+".decode().then(() => "+drawn.js("img")+".naturalWidth)"); width != 9 {
		t.Errorf("the drawing is %d wide", width)
	}

	text := p.run(`print('<img src=x onerror="window.pwned=1">')`+"\nopen('<img src=x onerror=window.pwned=2>', 'w').close()\n"+
		`raise Exception('<img src=x onerror="window.pwned=3">')`, "error")
	p.wantText(text, `<img src=x onerror="window.pwned=1">`)
	p.wantText(text, `Exception: <img src=x onerror="window.pwned=3">`)
	p.wait(text.js(".artifacts") + `.innerText.includes("onerror=window.pwned=2")`)
	p.wait(`document.getElementById("files").innerText.includes("onerror=window.pwned=2")`)

	asked := p.begin(`input('<img src=x onerror="window.pwned=4">')`)
	p.wait(`!document.getElementById("question").hidden`)
	p.do(chromedp.SendKeys(chromedp.CSS("#answer"), kb.Enter))
	p.wait(asked.js() + `.dataset.status === "ok"`)

	for expression, want := range map[string]string{
		"String(window.pwned)": "undefined",
		"location.pathname":    "/",
		"document.title":       title,
		`String(document.querySelectorAll("[onerror], [onload], main script, main svg").length)`: "0",
	} {
		if got := eval[string](p.browser, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	// The browser tells what it refused to the frame, so all of that was tried; it tells of nothing else.
	tried := map[string]bool{"Blocked script execution": false, "Blocked form submission": false, "Refused to refresh": false}
	for _, problem := range p.problems() {
		what := strings.Join(strings.Fields(problem)[:3], " ")
		if _, ok := tried[what]; !ok || !strings.Contains(problem, "about:srcdoc") {
			t.Errorf("the page's console: %s", problem)
		}
		tried[what] = true
	}
	for what, told := range tried {
		if !told {
			t.Errorf("the browser did not tell of this: %s", what)
		}
	}
}
