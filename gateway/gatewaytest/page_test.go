package gatewaytest

import (
	"strings"
	"testing"
)

func TestPageShowsTheConversationAndEscapesWhatPeopleWrote(t *testing.T) {
	f, _ := startTelegram(t)
	f.Say(7, 7, "<script>alert(1)</script>")
	f.call(t, "sendMessage", map[string]string{"chat_id": "7", "text": "<pre>1 &lt; 2</pre>", "parse_mode": "HTML", "reply_markup": `{"inline_keyboard":[[{"text":"Stop","callback_data":"s"}]]}`})
	f.call(t, "sendPhoto", map[string]string{"chat_id": "7", "photo": "attach://p", "caption": "Cell 1"}, File{ID: "p", Name: "p.png", Data: picture(t, 4, 4)})
	f.Upload(7, 7, File{Name: `"><b>.csv`, Data: []byte("a")}, "")
	var out strings.Builder
	if err := f.WritePage(&out, 7, "Talaria"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"&lt;script&gt;", "<pre>1 &lt; 2</pre>", "<span>Stop</span>", `src="data:image/png;base64,`, "Cell 1", "&lt;b&gt;.csv"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(out.String(), "<script>") || strings.Contains(out.String(), "<b>.csv") {
		t.Error("markup of a person is on the page")
	}
}

func TestSlackPageShowsTheConversationAndEscapesWhatPeopleWrote(t *testing.T) {
	f, _ := startSlack(t)
	f.Message("C1", "U1", "5.0", "<@UBOT> &lt;script&gt;alert(1)&lt;/script&gt;<b>")
	f.call(t, "chat.postMessage", f.BotToken, map[string]string{
		"channel": "C1", "thread_ts": "5.0", "text": "```\n1 &lt; 2 &lt;@U1&gt;\n```", "blocks": `[{"type":"actions","elements":[{"type":"button","value":"s","text":{"type":"plain_text","text":"Stop"}}]}]`,
	})
	f.Upload("C1", "U2", "5.0", "see `a<b`", File{Name: `"><b>.csv`, Data: []byte("a")})
	var out strings.Builder
	if err := f.WritePage(&out, "C1", "5.0", "Talaria", map[string]string{"U1": "Ann <i>"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<span class="mention">@talaria</span> &lt;script&gt;alert(1)&lt;/script&gt;&lt;b&gt;`, "<pre>1 &lt; 2 &lt;@U1&gt;</pre>", `<span class="button">Stop</span>`,
		"Ann &lt;i&gt;", "<code>a&lt;b</code>", "&lt;b&gt;.csv",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %s:\n%s", want, out.String()[strings.Index(out.String(), "<main>"):])
		}
	}
}
