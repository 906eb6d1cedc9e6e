package e2e

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"talaria/client"
	"talaria/gateway/gatewaytest"
)

// The rows of the acceptance table of gateways, on one bot that two people and a group may use.
func TestATelegramBot(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	b := startBot(t, s, "--users", "1,2,-100", "--log-level", "debug", "--public-url", s.URL)
	refused := 0 // calls that the test has Telegram refuse

	t.Run("G01 hostile output is no markup, and a refused format is sent as plain text once", func(t *testing.T) {
		const hostile = `<b>bold</b> &amp; <script> *_[x](y)_* ` + "```" + ` <!channel> @everyone </pre>`
		m := b.says(t, 1, 1, "print('''"+hostile+"''')", "<b>bold</b>")
		if m.Text != hostile || m.Mode != "HTML" {
			t.Errorf("%q in mode %q", m.Text, m.Mode)
		}
		b.telegram.Script("sendMessage", gatewaytest.Fault{Code: 400, Description: "Bad Request: can't parse entities: Unsupported start tag"})
		refused++
		if m := b.says(t, 1, 1, "/status", "network "); m.Mode != "" || strings.Contains(m.Text, "<pre>") {
			t.Errorf("after a refused format, the mode is %q: %q", m.Mode, m.Text)
		}
		b.telegram.Script("sendMessage", gatewaytest.Fault{Code: 400, Description: "Bad Request: something new"})
		refused++
		b.says(t, 1, 1, "/status", "A message is missing here: Telegram rejected it.")
		b.telegram.Script("sendMessage", gatewaytest.Fault{Code: 429, RetryAfter: 1})
		refused++
		if m := b.says(t, 1, 1, "/status", "network "); m.Mode != "HTML" {
			t.Errorf("after a 429, the mode is %q", m.Mode)
		}
	})

	t.Run("G10 a photo that is refused is a document", func(t *testing.T) {
		b.telegram.Script("sendPhoto", gatewaytest.Fault{Code: 400, Description: "Bad Request: PHOTO_INVALID_DIMENSIONS"})
		refused++
		last := b.last(1)
		b.telegram.Say(1, 1, "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()")
		m := b.awaits(t, 1, last, "the document", func(m gatewaytest.Message) bool { return m.Kind == "document" })
		for _, one := range b.telegram.Messages(1) {
			if one.ID > last && one.FromBot && one.Kind == "text" {
				t.Errorf("beside a chart, the bot says %q", one.Text)
			}
		}
		if _, err := png.Decode(bytes.NewReader(m.File.Data)); err != nil {
			t.Errorf("the document is no picture: %v", err)
		}
	})

	t.Run("G10 a message whose answer was lost is there once, also if the person writes meanwhile", func(t *testing.T) {
		for _, step := range []struct{ method, code, kind, text string }{
			{"sendMessage", "'ans' + 'wer'", "text", "answer"},
			{"sendMediaGroup", "import matplotlib.pyplot as plt\nfor i in range(12):\n    plt.figure(); plt.plot([i, 2]); plt.show()", "photo", "Cell"},
			{"sendMessage", "'after the ' + 'album'", "text", "after the album"},
		} {
			last := b.last(1)
			b.telegram.Script(step.method, gatewaytest.Fault{Lost: true})
			refused++ // an edit that changes nothing, by which the bot finds it
			b.telegram.Say(1, 1, step.code)
			b.awaits(t, 1, last, step.text, func(m gatewaytest.Message) bool { return m.Kind == step.kind && strings.Contains(m.Text, step.text) })
			b.telegram.Say(1, 1, "/status")
			b.awaits(t, 1, last, "/status", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "network ") })
			found, photos := 0, 0
			for _, m := range b.telegram.Messages(1) {
				if m.ID > last && m.FromBot && m.Kind == step.kind {
					found += oneIf(strings.Contains(m.Text, step.text))
					photos += oneIf(m.Kind == "photo")
				}
			}
			if found != 1 || photos != 0 && photos != 12 {
				t.Errorf("%s: %d messages and %d photos", step.text, found, photos)
			}
		}
	})

	t.Run("G10 a file that is too large to send comes as a link, which expires", func(t *testing.T) {
		for _, step := range [][2]string{
			{"open('large.bin', 'wb').truncate(50_000_001)\nNone", "large.bin is 47.7 MiB, which is too large for Telegram. Download it within a day: "},
			{"/get large.bin", "large.bin is 47.7 MiB, which is too large for Telegram. Download it within a day: "},
		} {
			m := b.says(t, 1, 1, step[0], step[1])
			link := strings.TrimPrefix(m.Text, step[1])
			res, err := http.Get(link)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, res.Body)
			if res.Body.Close(); n != 50_000_001 || err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s: %s with %d bytes, %v", link, res.Status, n, err)
			}
			if strings.Contains(m.Text, s.StateDir) {
				t.Errorf("a path of the host is in the chat: %q", m.Text)
			}
		}
	})

	t.Run("G11 an upload is tried three times, and its loss is said", func(t *testing.T) {
		fault := gatewaytest.Fault{Code: 502, Description: "Bad Gateway"}
		b.telegram.Script("sendDocument", fault, fault, fault)
		refused += 3
		m := b.says(t, 1, 1, "open('result.bin', 'wb').write(b'abc')", "could not be uploaded")
		if !strings.Contains(m.Text, "result.bin") {
			t.Errorf("%q", m.Text)
		}
		last := b.last(1)
		b.telegram.Say(1, 1, "/get result.bin")
		if m := b.awaits(t, 1, last, "/get", func(m gatewaytest.Message) bool { return m.Kind == "document" }); string(m.File.Data) != "abc" || m.File.Name != "result.bin" {
			t.Errorf("%+v", m.File)
		}
	})

	t.Run("G12 files of people", func(t *testing.T) {
		upload := func(name string, data []byte, declared int64, caption, want string) {
			t.Helper()
			last := b.last(2)
			b.telegram.Upload(2, 2, gatewaytest.File{Name: name, Data: data, Declared: declared}, caption)
			b.awaits(t, 2, last, name, func(m gatewaytest.Message) bool { return strings.Contains(m.Text, want) })
		}
		upload("/etc/../../evil\n.txt", []byte("1"), 0, "", "Saved as evil_.txt")
		upload("evil_.txt", []byte("22"), 0, "", "Saved as evil_-2.txt")
		upload("<b>.csv", []byte("a,b\n1,2\n"), 0, "", "1 row, 2 columns: a, b.")
		upload("big.bin", []byte("x"), 21<<20, "", "at most 20.0 MiB")
		fault := gatewaytest.Fault{Code: 502, Description: "Bad Gateway"}
		b.telegram.Script("getFile", fault)
		upload("second-try.txt", []byte("x"), 0, "", "Saved as second-try.txt")
		b.telegram.Script("getFile", fault, fault, fault)
		upload("no-try.txt", []byte("x"), 0, "", "no-try.txt could not be downloaded from Telegram. Send it again.")
		refused += 4
		upload("data.txt", []byte("5\n"), 0, "print(int(open('data.txt').read()) + 1)", "6")
	})

	t.Run("G13 topics are chats of their own", func(t *testing.T) {
		b.telegram.Post(gatewaytest.Message{Chat: -100, From: 1, Thread: 7, Kind: "text", Text: "/py@talaria_bot x = 7; print('seven')"})
		m := b.awaits(t, -100, 0, "a topic", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "seven") })
		if m.Thread != 7 {
			t.Errorf("the answer is in topic %d", m.Thread)
		}
		b.says(t, -100, 1, "@talaria_bot print('x' in dir())", "False")
	})

	t.Run("G14 who may talk", func(t *testing.T) {
		b.telegram.Say(-200, 1, "/py@talaria_bot print('in another group')") // 1 may, wherever
		b.awaits(t, -200, 0, "an allowed person in a group", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "in another group") })
		silent := []int{
			b.telegram.Say(-200, 3, "/py@talaria_bot print('a stranger')"),
			b.telegram.Say(-200, 1, "print('not addressed')"),
			b.telegram.Post(gatewaytest.Message{Chat: -200, From: 77, FromBot: true, Kind: "text", Text: "/py@talaria_bot print('a bot')"}),
		}
		id := b.telegram.Say(1, 1, "print('once', globals().setdefault('n', 0)); n += 1")
		b.awaits(t, 1, 0, "a cell", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "once 0") })
		b.telegram.Redeliver(id)
		for _, id := range silent {
			b.telegram.Redeliver(id)
		}
		b.says(t, 1, 1, "print('n is', n)", "n is 1")
		b.says(t, -200, 1, "@talaria_bot print('done')", "done")
		for _, m := range b.telegram.Messages(-200) {
			if m.FromBot && m.From == 0 && (strings.Contains(m.Text, "stranger") || strings.Contains(m.Text, "addressed") || strings.Contains(m.Text, "a bot")) {
				t.Errorf("the bot said %q", m.Text)
			}
		}
	})

	t.Run("G15 commands", func(t *testing.T) {
		for _, step := range [][2]string{
			{"/start", "This bot runs Python"},
			{"/nonsense <b>", "There is no command /nonsense"},
			{"/py", "There is no code to run"},
			{"/stop", "Nothing is running"},
			{"/py value = 'seen in vars'", "(no output)"},
			{"/vars", "seen in vars"},
			{"/status", "memory"},
			{"/files", "evil_.txt"},
			{"/get", "Name a file"},
			{"/get nowhere.txt", "nowhere.txt"},
			{"/install --index-url=http://x", "is not the name of a package"},
			{"/install", "Name one or more packages"},
			{"/reset now", "/reset all"},
			{"/reset all", "files and packages are gone"},
			{"/files", "There are no files yet"},
			{"/pair X", "You may already use this bot"},
		} {
			b.says(t, 2, 2, step[0], step[1])
		}
		last := b.last(2)
		b.telegram.Say(2, 2, "/export")
		m := b.awaits(t, 2, last, "/export", func(m gatewaytest.Message) bool { return m.Kind == "document" })
		if !strings.HasSuffix(m.File.Name, ".ipynb") || !bytes.Contains(m.File.Data, []byte("seen in vars")) {
			t.Errorf("%s: %.300s", m.File.Name, m.File.Data)
		}
		menu := false
		for _, call := range b.telegram.Calls() {
			menu = menu || call.Method == "setMyCommands" && call.Code == 200
		}
		if !menu {
			t.Error("the commands are not in the menu")
		}
	})

	t.Run("G16 G18 a message while a cell runs", func(t *testing.T) {
		last := b.last(2)
		b.telegram.Say(2, 2, "import time\nprint('first', flush=True)\ntime.sleep(600)")
		progress := b.awaits(t, 2, last, "progress", func(m gatewaytest.Message) bool {
			return strings.Contains(m.Text, "first") && strings.Contains(m.Text, "Running")
		})
		b.says(t, 2, 2, "print('second')", "is waiting for the running one")
		b.telegram.Say(2, 2, "/stop")
		b.becomes(t, progress, "KeyboardInterrupt")
		b.awaits(t, 2, last, "the second cell", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "[not run: interrupted]") })
		typed := false
		for _, call := range b.telegram.Calls() {
			typed = typed || call.Method == "sendChatAction" && call.Chat == 2
		}
		if !typed {
			t.Error("nobody saw that the bot was at work")
		}
	})

	t.Run("a person who blocks the bot does not stop it", func(t *testing.T) {
		b.telegram.Block(2, true)
		refused += 100
		b.telegram.Say(2, 2, "1 + 1")
		b.says(t, 1, 1, "print('others')", "others")
		b.telegram.Block(2, false)
		b.says(t, 2, 2, "print('again')", "again")
	})

	t.Run("G19 the end of the bot is told, and its token is in no log", func(t *testing.T) {
		last := b.last(1)
		b.telegram.Say(1, 1, "import time\nfor i in range(6000): print('turn', i, flush=True); time.sleep(.1)")
		m := b.awaits(t, 1, last, "progress", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "Running") })
		if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := b.cmd.Wait(); err != nil {
			t.Errorf("the bot ended with %v", err)
		}
		for _, one := range b.telegram.Messages(1) {
			if one.ID == m.ID && !strings.Contains(one.Text, "The bot is restarting") {
				t.Errorf("after SIGTERM the message is %q", one.Text)
			}
		}
		if secret := strings.Split(b.telegram.Token, ":")[1]; bytes.Contains(b.log.Bytes(), []byte(secret)) {
			t.Errorf("the token is in the log:\n%s", b.log)
		}
		b.start(t)
		b.becomes(t, m, "Running")
		b.telegram.Say(1, 1, "/stop")
		b.becomes(t, m, "KeyboardInterrupt")
	})

	for _, call := range b.telegram.Calls() {
		if call.Early {
			t.Errorf("%+v", call)
		}
		if call.Code != 200 {
			refused--
		}
	}
	if refused < 0 {
		t.Errorf("%d calls more were refused than the test has scripted", -refused)
	}
}

// G17: approvals are buttons, for the person who ran the cell and for admins.
func TestATelegramBotAsksForApprovals(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: "gateways:\n  telegram:\n    approvals: all\n    limits: [memory_bytes=256MiB]\n"})
	b := startBot(t, s, "--users", "1,2", "--admins", "9")
	ask := func(code string) gatewaytest.Message {
		t.Helper()
		last := b.last(-5)
		b.telegram.Say(-5, 1, "/py@talaria_bot "+code)
		return b.awaits(t, -5, last, "the question", func(m gatewaytest.Message) bool {
			return strings.Contains(m.Text, "Approval needed") && len(m.Buttons) > 0
		})
	}
	outcome := func(m gatewaytest.Message, text string) {
		t.Helper()
		if m := b.becomes(t, m, text); len(m.Buttons) > 0 {
			t.Errorf("%q still has buttons", m.Text)
		}
	}
	m := ask("print('approved', 1)")
	foreign, _ := b.telegram.Press(m, 2, "Allow once")
	stranger, _ := b.telegram.Press(m, 3, "Allow once")
	if _, ok := b.telegram.Press(m, 1, "Allow once"); !ok {
		t.Fatalf("%+v", m.Buttons)
	}
	b.awaits(t, -5, m.ID, "the cell", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "approved 1") })
	outcome(m, "Allowed once (by User 1 on Telegram).")
	if err := b.telegram.WaitCalls(within(t), "answerCallbackQuery", 3); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(foreign.Toast, "Only the person who ran the cell") || !strings.Contains(stranger.Toast, "You may not use this bot") {
		t.Errorf("another person was shown %q, and a stranger %q", foreign.Toast, stranger.Toast)
	}
	if late, ok := b.telegram.Press(m, 1, "Deny"); ok {
		t.Errorf("after the decision there is still a button: %+v", late)
	}
	m = ask("print('approved', 2)")
	if _, ok := b.telegram.Press(m, 9, "Deny"); !ok {
		t.Fatalf("%+v", m.Buttons)
	}
	outcome(m, "Denied (by User 9 on Telegram).")
	m = ask("print('approved', 3)")
	b.telegram.Press(m, 1, "Allow for this session")
	outcome(m, "Allowed for this session")
	last := b.last(-5)
	b.telegram.Say(-5, 2, "/py@talaria_bot print('not asked')")
	b.awaits(t, -5, last, "a cell without a question", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "not asked") })

	page, err := s.Client().Sessions(t.Context(), client.SessionFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 0 {
		t.Errorf("the first owner has the sessions of the bot: %+v", page.Items)
	}
}

// Somebody deletes the session of a chat, for example on the page. The next message gets a new one.
func TestATelegramChatWhoseSessionWasDeleted(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	b := startBot(t, s, "--users", "42")
	b.says(t, 42, 42, "n = 20 + 22\nn", "42")
	token, err := os.ReadFile(filepath.Join(s.StateDir, "gateways", "telegram.token"))
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(s.URL, strings.TrimSpace(string(token)))
	page, err := c.Sessions(t.Context(), client.SessionFilter{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%+v, %v", page.Items, err)
	}
	if err := c.DeleteSession(t.Context(), page.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	last := b.last(42)
	b.says(t, 42, 42, "n", "NameError")
	b.says(t, 42, 42, "6 * 7", "42")
	for _, m := range b.telegram.Messages(42) {
		if m.ID > last && (strings.Contains(m.Text, "deleted") || strings.Contains(m.Text, "cannot be reached")) {
			t.Errorf("the bot says %q", m.Text)
		}
	}
}

// The same bot inside the server, by the configuration, with a webhook.
func TestATelegramBotInsideTheServer(t *testing.T) {
	t.Parallel()
	fake := gatewaytest.NewTelegram(nil)
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"token": fake.Token, "secret": "a-secret-of-telegram"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{config: fmt.Sprintf(`gateways:
  telegram:
    token_file: %[1]s/token
    users: [5]
    api_url: %[2]s
    webhook_url: http://127.0.0.1:%[3]d/
    listen: 127.0.0.1:%[3]d
    secret_file: %[1]s/secret
`, dir, fake.URL, port)})
	b := &chatBot{server: s, telegram: fake}
	b.awaitCall(t, "setWebhook")
	b.says(t, 5, 5, "6 * 7", "42")
	post := func(secret string, want int) {
		t.Helper()
		body := `{"update_id":5000,"message":{"message_id":900,"date":1,"from":{"id":5,"first_name":"Ann"},"chat":{"id":5,"type":"private"},
			"text":"n = globals().get('n', 0) + 1; print('ran', n)"}}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", port), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("with the secret %q, the status is %s", secret, res.Status)
		}
	}
	post("", http.StatusUnauthorized)
	post("a-guess", http.StatusUnauthorized)
	for range 3 { // a replay is confirmed, and changes nothing
		post("a-secret-of-telegram", http.StatusOK)
	}
	b.says(t, 5, 5, "print('n is', n)", "n is 1")
}
