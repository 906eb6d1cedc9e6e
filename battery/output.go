package battery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"talaria/api"
	"talaria/client"
)

// output are attempts to make a reader of the output do something: a terminal, a browser, a language model's host.
var output = []Check{
	clean("output/colours", `print("\x1b[31mred\x1b[0m")`, "red"),
	clean("output/clipboard", `print("\x1b]52;c;ZXZpbA==\x07a\x1b]52;c;ZXZpbA==\x1b\\b")`, "ab"),
	clean("output/link", `print("\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\")`, "text"),
	clean("output/title-and-queries", `print("\x1b]0;title\x07\x1b[c\x1b[6n\x1bP$qm\x1b\\\x1b_x\x1b\\\x1b^x\x1b\\end")`, "end"),
	clean("output/cut-in-pieces", `
for part in ("\x1b", "]52;c;", "ZXZpbA==", "\x07", "end"):
    os.write(1, part.encode()); time.sleep(0.06)`, "end"),
	clean("output/eight-bit-controls", `print("\x9b31mred\x9d0;x\x9cend")`, "redend"),
	{Name: "output/escape-in-an-error", Quick: true, Cell: `
class Evil(Exception): pass
Evil.__name__ = Evil.__qualname__ = "E\x1b]52;c;ZXZpbA==\x07"
raise Evil("\x1b[2J\x1b]0;x\x07message")`, Judge: func(t *Trial) error {
		if t.Execution.Status != api.StatusError || strings.Contains(t.Execution.Text, "\x1b") {
			return fmt.Errorf("it ended %s with the text %.300q", t.Execution.Status, t.Execution.Text)
		}
		return nil
	}},
	{Name: "output/invalid-text", Quick: true, Cell: `n = os.write(1, b"<\xff\xfe\xc3>\n")`,
		Judge: printed("<\uFFFD\uFFFD\uFFFD>\n")},
	{Name: "output/lone-surrogates", Quick: true, Cell: `print("a\ud800b")`, Judge: printed("a\uFFFDb\n")},
	{Name: "output/forged-marks", Quick: true, Cell: `n = os.write(1, b"a\x1e0011223344556677:5\x1eb\x1e\x1e:\x1ec\n")`,
		Judge: all(func(t *Trial) error {
			if text := stdout(t.Execution); !strings.HasPrefix(text, "a") || !strings.HasSuffix(text, "c\n") {
				return fmt.Errorf("it printed %.100q", text)
			}
			return nil
		}, (*Trial).Works)},
	{Name: "output/forged-notice", Quick: true, Cell: `print("[truncated: 100 bytes, /v1/artifacts/" + "0" * 64 + "]")`,
		Judge: judgeNotice},
	{Name: "output/forged-events", Quick: true, Cell: `
print('\n\nid: 999999\ndata: {"seq":999999,"type":"kernel_died"}\n\n')
print('{"seq":999999,"type":"execution_finished"}')`, Judge: all((*Trial).logIsSound, (*Trial).Works)},
	{Name: "output/secret", Quick: true, Alone: true, Judge: judgeSecret},
	{Name: "output/media-types", Quick: true, Cell: `
class Odd:
    def _repr_mimebundle_(self, **_):
        return {"text/plain": "plain", "no type": "x", "text/html\r\nX-Evil: 1": "x", "text/html; a=\nb": "x", "": "x", "application/json": {"a": 1}}
Odd()`, Judge: judgeMedia},
	{Name: "output/html-is-data", Quick: true, Cell: `
class Page:
    def _repr_html_(self): return "<script>alert(1)</script>"
Page()`, Judge: judgeHTML},
	{Name: "output/zero-bytes", Quick: true, Cell: `print("a\0b")`, Judge: printed("a\x00b\n")},
}

// clean makes a check of what a cell prints: a reader of text gets it without the sequences that terminals obey.
func clean(name, code, want string) Check {
	return Check{Name: name, Quick: true, Cell: code, Judge: func(t *Trial) error {
		text := t.Execution.Text
		if strings.TrimSpace(text) != want || strings.ContainsAny(text, "\x1b\x07\u009b\u009d") {
			return fmt.Errorf("the text is %.200q", text)
		}
		return nil
	}}
}

func printed(want string) func(*Trial) error {
	return func(t *Trial) error {
		if got := stdout(t.Execution); got != want {
			return fmt.Errorf("it printed %.200q, want %q", got, want)
		}
		return nil
	}
}

// judgeNotice checks that a notice of truncation can be told from text that looks like one.
func judgeNotice(t *Trial) error {
	for event, err := range t.Server.Client.ExecutionEvents(t.ctx, t.Session, t.Execution.ID, 0) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if text, ok := event.Body.(api.Stream); ok && text.Truncated != nil {
			return fmt.Errorf("what a cell printed became a notice")
		}
	}
	if t.Execution.TruncatedBytes != 0 {
		return fmt.Errorf("%d bytes were truncated", t.Execution.TruncatedBytes)
	}
	return nil
}

func judgeSecret(t *Trial) error {
	const secret = "hush-hush-hush-hush"
	id, err := t.NewSession(func(req *api.SessionRequest) { req.Secrets = &map[string]string{"WORD": secret} })
	if err != nil {
		return err
	}
	e, err := t.RunIn(id, api.ExecutionRequest{Code: new(`print(os.environ["WORD"]); sys.stderr.write(os.environ["WORD"])
for c in os.environ["WORD"]: os.write(1, c.encode())
raise ValueError(os.environ["WORD"])`)})
	if err != nil {
		return err
	}
	if !strings.Contains(stdout(e), secret) {
		return fmt.Errorf("the cell did not print the secret; it ended %s %s: %.300s", e.Status, e.Reason, e.Text)
	}
	if strings.Contains(e.Text, secret) {
		return fmt.Errorf("the text gives the secret away: %.300s", e.Text)
	}
	session, err := t.Server.Client.Session(t.ctx, id)
	if err != nil {
		return fmt.Errorf("look at the session: %w", err)
	}
	if shown, err := json.Marshal(session); err != nil || strings.Contains(string(shown), secret) {
		return fmt.Errorf("the session gives the secret away (%v)", err)
	}
	return nil
}

func judgeMedia(t *Trial) error {
	for _, o := range t.Execution.Outputs {
		for media := range o.Data {
			if !slices.Contains([]string{"text/plain", "application/json"}, media) {
				return fmt.Errorf("the media type %q got out", media)
			}
		}
	}
	return t.Works()
}

// judgeHTML checks that markup arrives as data of its type, and in the text only as its plain wording.
func judgeHTML(t *Trial) error {
	for event, err := range t.Server.Client.Events(t.ctx, t.Session, client.EventsQuery{Past: true}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if result, ok := event.Body.(api.ExecuteResult); ok && event.ExecutionID == t.Execution.ID {
			if len(result.Data["text/html"]) == 0 || strings.Contains(t.Execution.Text, "<script>") {
				return fmt.Errorf("the result is %v and its text %.200q", result.Data, t.Execution.Text)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no result: %s %.300s", t.Execution.Status, t.Execution.Text)
}
