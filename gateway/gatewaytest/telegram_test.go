package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

type answer struct {
	OK          bool
	Result      json.RawMessage
	Description string
	Code        int `json:"error_code"`
	Parameters  struct {
		RetryAfter int `json:"retry_after"`
	}
}

func (f *Telegram) call(t *testing.T, method string, fields map[string]string, files ...File) answer {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		if err := form.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		w, err := form.CreateFormFile(file.ID, file.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(file.Data); err != nil {
			t.Fatal(err)
		}
	}
	form.Close()
	r, err := http.Post(f.URL+"/bot"+f.Token+"/"+method, form.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var a answer
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	if a.OK != (r.StatusCode == 200) || !a.OK && a.Code != r.StatusCode {
		t.Fatalf("status %d with %+v", r.StatusCode, a)
	}
	return a
}

func picture(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func startTelegram(t *testing.T) (*Telegram, *clock) {
	t.Helper()
	c := &clock{time.Unix(1_800_000_000, 0)}
	f := NewTelegram(c.now)
	t.Cleanup(f.Close)
	f.Say(7, 7, "hello")
	return f, c
}

func TestTelegramRefusesWhatTheBotAPIRefuses(t *testing.T) {
	album := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"type":"photo","media":"attach://p"},`, n), ",") + "]"
	}
	cases := []struct {
		name, method string
		fields       map[string]string
		file         []byte
		want         string // part of the description; empty when accepted
	}{
		{"4096 units", "sendMessage", map[string]string{"text": strings.Repeat("😀", 2048)}, nil, ""},
		{"4097 units", "sendMessage", map[string]string{"text": strings.Repeat("😀", 2048) + "a"}, nil, "message is too long"},
		{"markup is not counted", "sendMessage", map[string]string{"text": "<b>" + strings.Repeat("&lt;", 4096) + "</b>", "parse_mode": "HTML"}, nil, ""},
		{"unknown tag", "sendMessage", map[string]string{"text": "<table>", "parse_mode": "HTML"}, nil, "can't parse entities: Unsupported start tag"},
		{"open tag", "sendMessage", map[string]string{"text": "<pre>x", "parse_mode": "HTML"}, nil, "can't parse entities: Can't find end tag"},
		{"crossed tags", "sendMessage", map[string]string{"text": "<b><i>x</b></i>", "parse_mode": "HTML"}, nil, "can't parse entities: Unmatched end tag"},
		{"bare angle", "sendMessage", map[string]string{"text": "1 < 2", "parse_mode": "HTML"}, nil, "can't parse entities"},
		{"blank", "sendMessage", map[string]string{"text": " \n"}, nil, "message text is empty"},
		{"stranger", "sendMessage", map[string]string{"text": "x", "chat_id": "99"}, nil, "chat not found"},
		{"button data", "sendMessage", map[string]string{"text": "x", "reply_markup": `{"inline_keyboard":[[{"text":"a","callback_data":"` + strings.Repeat("x", 65) + `"}]]}`}, nil, "BUTTON_DATA_INVALID"},
		{"General topic", "sendMessage", map[string]string{"text": "x", "message_thread_id": "1"}, nil, "message thread not found"},
		{"edit of nothing", "editMessageText", map[string]string{"text": "x", "message_id": "500"}, nil, "message to edit not found"},
		{"edit of a person's", "editMessageText", map[string]string{"text": "x", "message_id": "1"}, nil, "message can't be edited"},
		{"photo", "sendPhoto", map[string]string{"photo": "attach://p", "caption": "Cell 1"}, picture(t, 40, 30), ""},
		{"caption", "sendPhoto", map[string]string{"photo": "attach://p", "caption": strings.Repeat("x", 1025)}, picture(t, 40, 30), "caption is too long"},
		{"narrow photo", "sendPhoto", map[string]string{"photo": "attach://p"}, picture(t, 2100, 100), "PHOTO_INVALID_DIMENSIONS"},
		{"huge photo", "sendPhoto", map[string]string{"photo": "attach://p"}, picture(t, 6000, 4001), "PHOTO_INVALID_DIMENSIONS"},
		{"not an image", "sendPhoto", map[string]string{"photo": "attach://p"}, []byte("text"), "IMAGE_PROCESS_FAILED"},
		{"heavy photo", "sendPhoto", map[string]string{"photo": "attach://p"}, append(picture(t, 4, 4), make([]byte, 10<<20)...), "too big for a photo"},
		{"document", "sendDocument", map[string]string{"document": "attach://p"}, []byte("text"), ""},
		{"heavy document", "sendDocument", map[string]string{"document": "attach://p"}, make([]byte, 50<<20+1), "Request Entity Too Large"},
		{"album of one", "sendMediaGroup", map[string]string{"media": album(1)}, picture(t, 4, 4), "2-10 items"},
		{"album of ten", "sendMediaGroup", map[string]string{"media": album(10)}, picture(t, 4, 4), ""},
		{"album of eleven", "sendMediaGroup", map[string]string{"media": album(11)}, picture(t, 4, 4), "2-10 items"},
	}
	f, c := startTelegram(t)
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			c.at = c.at.Add(time.Minute)
			if x.fields["chat_id"] == "" {
				x.fields["chat_id"] = "7"
			}
			var files []File
			if x.file != nil {
				files = []File{{ID: "p", Name: "p.png", Data: x.file}}
			}
			a := f.call(t, x.method, x.fields, files...)
			if a.OK != (x.want == "") || !strings.Contains(a.Description, x.want) {
				t.Fatalf("got %v %q, want %q", a.OK, a.Description, x.want)
			}
		})
	}
}

func TestTelegramEdits(t *testing.T) {
	f, c := startTelegram(t)
	var sent struct {
		ID int `json:"message_id"`
	}
	a := f.call(t, "sendMessage", map[string]string{"chat_id": "7", "text": "one"})
	if err := json.Unmarshal(a.Result, &sent); err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(sent.ID)
	edit := func(text string) answer {
		c.at = c.at.Add(2 * time.Second)
		return f.call(t, "editMessageText", map[string]string{"chat_id": "7", "message_id": string(raw), "text": text})
	}
	if a := edit("one"); !strings.Contains(a.Description, "message is not modified") {
		t.Fatalf("the same text: %+v", a)
	}
	if a := edit("two"); !a.OK {
		t.Fatalf("another text: %+v", a)
	}
	m, err := f.Wait(t.Context(), func(m Message) bool { return m.Text == "two" })
	if err != nil || len(m.Edits) != 1 || m.Edits[0] != "one" {
		t.Fatalf("%+v, %v", m, err)
	}
	f.call(t, "deleteMessage", map[string]string{"chat_id": "7", "message_id": string(raw)})
	if a := edit("three"); !strings.Contains(a.Description, "message to edit not found") {
		t.Fatalf("a deleted message: %+v", a)
	}
}

func TestTelegramRates(t *testing.T) {
	f, c := startTelegram(t)
	send := func(chat string) answer {
		return f.call(t, "sendMessage", map[string]string{"chat_id": chat, "text": "x"})
	}
	for range 4 {
		if a := send("7"); !a.OK {
			t.Fatalf("a burst of four: %+v", a)
		}
	}
	if a := send("7"); a.Code != 429 || a.Parameters.RetryAfter != 1 {
		t.Fatalf("the fifth: %+v", a)
	}
	c.at = c.at.Add(500 * time.Millisecond)
	if a := send("7"); a.Code != 429 {
		t.Fatalf("before retry_after: %+v", a)
	}
	calls := f.Calls()
	if last := calls[len(calls)-1]; !last.Early {
		t.Fatalf("not recorded as early: %+v", last)
	}
	c.at = c.at.Add(time.Second)
	if a := send("7"); !a.OK {
		t.Fatalf("after retry_after: %+v", a)
	}

	f.Say(-5, 7, "hello")
	for range 20 {
		c.at = c.at.Add(time.Second)
		if a := send("-5"); !a.OK {
			t.Fatalf("20 a minute in a group: %+v", a)
		}
	}
	c.at = c.at.Add(time.Second)
	if a := send("-5"); a.Code != 429 || a.Parameters.RetryAfter != 40 {
		t.Fatalf("the 21st in a group: %+v", a)
	}

	c.at = c.at.Add(time.Hour)
	for chat := range int64(31) {
		f.Say(100+chat, 7, "hello")
		raw, _ := json.Marshal(100 + chat)
		if a := send(string(raw)); a.OK != (chat < 30) {
			t.Fatalf("message %d of one second: %+v", chat+1, a)
		}
	}
}

func TestTelegramScriptedFaults(t *testing.T) {
	f, c := startTelegram(t)
	f.Script("sendMessage", Fault{Code: 429, RetryAfter: 30}, Fault{Code: 502, Description: "Bad Gateway"}, Fault{Lost: true})
	fields := map[string]string{"chat_id": "7", "text": "x"}
	if a := f.call(t, "sendMessage", fields); a.Parameters.RetryAfter != 30 {
		t.Fatalf("%+v", a)
	}
	c.at = c.at.Add(30 * time.Second)
	if a := f.call(t, "sendMessage", fields); a.Code != 502 {
		t.Fatalf("%+v", a)
	}
	r, err := http.PostForm(f.URL+"/bot"+f.Token+"/sendMessage", map[string][]string{"chat_id": {"7"}, "text": {"x"}})
	if err == nil {
		r.Body.Close()
		t.Fatal("the lost answer arrived")
	}
	if all := f.Messages(7); len(all) != 2 {
		t.Fatalf("the record has %d messages, want the user's and the one with the lost answer", len(all))
	}
}

func TestTelegramUpdatesArriveUntilTheyAreConfirmed(t *testing.T) {
	f, _ := startTelegram(t)
	poll := func(offset string) string {
		return string(f.call(t, "getUpdates", map[string]string{"offset": offset, "timeout": "0"}).Result)
	}
	if got := poll("0"); !strings.Contains(got, `"update_id":1000`) || poll("0") != got {
		t.Fatalf("unconfirmed updates come again: %s", got)
	}
	if got := poll("1001"); got != "[]" {
		t.Fatalf("after the confirmation: %s", got)
	}
	if got := poll("0"); got != "[]" {
		t.Fatalf("a lower offset brings confirmed updates back: %s", got)
	}
	f.Redeliver(1000)
	if got := poll("1001"); !strings.Contains(got, `"update_id":1000`) {
		t.Fatalf("a redelivered update: %s", got)
	}
}

func TestTelegramButtons(t *testing.T) {
	f, _ := startTelegram(t)
	f.call(t, "sendMessage", map[string]string{"chat_id": "7", "text": "Run it?", "reply_markup": `{"inline_keyboard":[[{"text":"Once","callback_data":"a1"}]]}`})
	m, err := f.Wait(t.Context(), func(m Message) bool { return len(m.Buttons) == 1 })
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Press(m, 8, "Never"); ok {
		t.Fatal("a button that is not there was pressed")
	}
	p, ok := f.Press(m, 8, "Once")
	if !ok {
		t.Fatal("the button is not there")
	}
	got := f.call(t, "getUpdates", map[string]string{"offset": "1001", "timeout": "0"})
	if !strings.Contains(string(got.Result), `"data":"a1"`) {
		t.Fatalf("%s", got.Result)
	}
	answer := map[string]string{"callback_query_id": p.ID, "text": "Not yours"}
	if a := f.call(t, "answerCallbackQuery", answer); !a.OK || p.Toast != "Not yours" {
		t.Fatalf("%+v %+v", a, p)
	}
	if a := f.call(t, "answerCallbackQuery", answer); a.OK {
		t.Fatal("one press was answered twice")
	}
}

func TestTelegramFiles(t *testing.T) {
	f, _ := startTelegram(t)
	f.Upload(7, 7, File{Name: "../../etc/passwd", Data: []byte("a,b\n1,2\n")}, "")
	m := f.Messages(7)[1]
	var got struct {
		Path string `json:"file_path"`
	}
	if err := json.Unmarshal(f.call(t, "getFile", map[string]string{"file_id": m.File.ID}).Result, &got); err != nil {
		t.Fatal(err)
	}
	r, err := http.Get(f.URL + "/file/bot" + f.Token + "/" + got.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if data, _ := io.ReadAll(r.Body); string(data) != "a,b\n1,2\n" {
		t.Fatalf("downloaded %q", data)
	}
	f.Upload(7, 7, File{Name: "large.bin", Declared: 20<<20 + 1}, "")
	m = f.Messages(7)[2]
	if a := f.call(t, "getFile", map[string]string{"file_id": m.File.ID}); !strings.Contains(a.Description, "file is too big") {
		t.Fatalf("%+v", a)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	f, _ := startTelegram(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Wait(ctx, func(Message) bool { return true }); err == nil {
		t.Fatal("a person's message counted as the bot's")
	}
}
