package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"talaria/api"
)

const (
	chartType = "application/vnd.talaria.chart+json"
	tableType = "application/vnd.dataresource+json"
)

// shownIn returns the bundles that an execution showed, its result included.
func shownIn(e api.Execution) []api.Output {
	var list []api.Output
	for _, o := range e.Outputs {
		if o.OutputType == "display_data" || o.OutputType == "execute_result" {
			list = append(list, o)
		}
	}
	return list
}

func TestFramesComeAsHTMLAndAsData(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	e := run(t, c, id, "import pandas as pd, numpy as np\n"+
		"pd.DataFrame({'city': ['Lund', 'Oslo'], 'rain': [1.5, np.nan], 'day': pd.to_datetime(['2024-05-01', None])})")
	list := shownIn(e)
	if len(list) != 1 {
		t.Fatalf("%d outputs: %.500s", len(list), e.Text)
	}
	if html := text(t, list[0].Data, "text/html"); !strings.Contains(html, "<table") {
		t.Errorf("the HTML is %.200q", html)
	}
	if !strings.Contains(e.Text, "city  rain        day") {
		t.Errorf("a model reads %q", e.Text)
	}
	type table struct {
		Data      []map[string]any
		TotalRows int `json:"total_rows"`
		Truncated bool
	}
	got := decode[table](t, string(list[0].Data[tableType]))
	want := map[string]any{"index": 1.0, "city": "Oslo", "rain": nil, "day": nil}
	if len(got.Data) != 2 || fmt.Sprint(got.Data[1]) != fmt.Sprint(want) || got.Data[0]["day"] != "2024-05-01" {
		t.Errorf("the rows are %v", got.Data)
	}

	long := run(t, c, id, "pd.DataFrame({'i': np.arange(10_000_000)})")
	got = decode[table](t, string(shownIn(long)[0].Data[tableType]))
	if len(got.Data) != 1000 || got.TotalRows != 10_000_000 || !got.Truncated {
		t.Errorf("of a long frame came %d rows of %d, truncated %v", len(got.Data), got.TotalRows, got.Truncated)
	}
	if size := len(shownIn(long)[0].Data[tableType]); size > 600<<10 {
		t.Errorf("a long frame costs %d bytes", size)
	}
}

func TestEveryKindOfChartComesWithItsData(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/charts.md")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, options{})
	c := s.Client()
	id := session(t, c, api.SessionRequest{})
	runOK(t, c, id, "import matplotlib.pyplot as plt, numpy as np, pandas as pd")
	found := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```\n").FindAllStringSubmatch(string(document), -1) {
		e := run(t, c, id, m[1])
		var charts []api.Output
		for _, o := range shownIn(e) {
			if o.Data[chartType] != nil {
				charts = append(charts, o)
			}
		}
		if e.Status != api.StatusOK || len(charts) != 1 {
			t.Errorf("%s\ngave %d charts and %s\n%s", m[1], len(charts), e.Status, e.Text)
			continue
		}
		type chart struct {
			Version int
			Axes    []struct {
				Series []struct{ Type string }
			}
		}
		for _, axes := range decode[chart](t, string(charts[0].Data[chartType])).Axes {
			for _, series := range axes.Series {
				found[series.Type] = true
			}
		}
		wantSharp(t, charts[0])
	}
	for _, kind := range []string{"line", "scatter", "bar", "histogram", "pie", "box", "heatmap", "area"} {
		if !found[kind] {
			t.Errorf("no %s among %v", kind, found)
		}
	}

	svg := run(t, c, id, "from IPython.display import set_matplotlib_formats\nset_matplotlib_formats('svg')\nplt.plot([1, 2]);")
	list := shownIn(svg)
	if len(list) != 1 || list[0].Data["image/png"] != nil || !strings.Contains(text(t, list[0].Data, "image/svg+xml"), "<svg") {
		t.Errorf("as SVG came %d outputs", len(list))
	}
}

// wantSharp checks that a picture declares half of its dots as its size in CSS pixels.
func wantSharp(t *testing.T, o api.Output) {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text(t, o.Data, "image/png"))
	if err != nil || len(data) < 24 {
		t.Fatalf("the picture has %d bytes: %v", len(data), err)
	}
	dots := int(data[18])<<8 | int(data[19])
	var size struct{ Width, Height int }
	if err := json.Unmarshal(o.Metadata["image/png"], &size); err != nil {
		t.Fatal(err)
	}
	if size.Width < dots/2-1 || size.Width > dots/2+1 {
		t.Errorf("a picture %d dots wide says that it is %d pixels wide", dots, size.Width)
	}
}
