package e2e

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"talaria/gateway/gatewaytest"
)

// pictureVariable names a file for the page of the conversation that docs/gateways.md shows.
const pictureVariable = "TALARIA_GATEWAY_PAGE"

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
	if path := os.Getenv(pictureVariable); path != "" {
		if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
