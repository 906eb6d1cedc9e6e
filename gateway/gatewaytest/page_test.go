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
