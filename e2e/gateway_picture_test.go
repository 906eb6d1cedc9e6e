package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// picturesVariable names a folder for the pages of the conversations that docs/gateways.md shows.
const picturesVariable = "TALARIA_GATEWAY_PAGES"

func TestATelegramConversationIsDrawn(t *testing.T) {
	t.Parallel()
	b := startBot(t, start(t, options{}), "--users", "1")
	last := b.last(1)
	b.telegram.Upload(1, 1, gatewaytest.File{Name: "sales.csv", Data: []byte("city,2025,2026\nRome,30,42\nOslo,40,37\nLima,21,35\n")}, "")
	b.awaits(t, 1, last, "the CSV", func(m gatewaytest.Message) bool { return strings.Contains(m.Text, "Saved as sales.csv") })
	b.says(t, 1, 1, "import pandas as pd\nd = pd.read_csv('sales.csv', index_col='city')\nd['growth'] = (d['2026'] / d['2025'] - 1).round(2)\nd", "growth")
	last = b.last(1)
	b.telegram.Say(1, 1, "d[['2025', '2026']].plot.bar(rot=0, figsize=(5, 3), title='Sales')\nNone")
	b.awaits(t, 1, last, "the chart", func(m gatewaytest.Message) bool { return m.Kind == "photo" })
	b.says(t, 1, 1, "print('best:', d['growth'].idxmax())", "best: Lima")
	var page bytes.Buffer
	if err := b.telegram.WritePage(&page, 1, "Talaria"); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Saved as", "<pre>", "data:image/png;base64,", "best: Lima"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	keepPage(t, "telegram.html", page.Bytes())
}

func TestASlackConversationIsDrawn(t *testing.T) {
	t.Parallel()
	c := startSlack(t, start(t, options{}), "--users", "U1,U2").in("C1", "")
	payload := c.slack.Upload("C1", "U1", "", "<@UBOT>", gatewaytest.File{Name: "sales.csv", Data: []byte("city,2025,2026\nRome,30,42\nOslo,40,37\nLima,21,35\n")})
	c.send(t, "events_api", payload)
	m := c.awaits(t, "", "the CSV", func(m gatewaytest.SlackMessage) bool { return strings.Contains(m.Text, "Saved as `sales.csv`") })
	c.thread = m.Thread
	c.says(t, "```import pandas as pd\nd = pd.read_csv('sales.csv', index_col='city')\nd['growth'] = (d['2026'] / d['2025'] - 1).round(2)\nd```", "growth")
	after := c.say(t, "```d[['2025', '2026']].plot.bar(rot=0, figsize=(5, 3), title='Sales')\nNone```")
	c.awaits(t, after, "the chart", func(m gatewaytest.SlackMessage) bool { return len(m.Files) == 1 })
	c.user = "U2"
	c.says(t, "print('best:', d['growth'].idxmax())", "best: Lima")
	var page bytes.Buffer
	if err := c.slack.WritePage(&page, "C1", c.thread, "Thread in #sales", map[string]string{"U1": "Ann", "U2": "Bo"}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Saved as <code>sales.csv</code>", "<pre>", "data:image/png;base64,", "best: Lima", "@talaria"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	keepPage(t, "slack.html", page.Bytes())
}

// keepPage writes a page where make screenshots looks for it.
func keepPage(t *testing.T, name string, page []byte) {
	t.Helper()
	if dir := os.Getenv(picturesVariable); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name), page, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
