package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"image/png"
	"io"
	"reflect"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// transport is a way to run a cell: it returns the execution with its outputs, and its events.
type transport func(t *testing.T, code string) (api.Execution, []api.Event)

// overREST runs cells with requests only.
func overREST(c *client.Client, session string) transport {
	return func(t *testing.T, code string) (api.Execution, []api.Event) {
		t.Helper()
		e := run(t, c, session, code)
		return e, collect(t, c.ExecutionEvents(within(t), session, e.ID, 0))
	}
}

// overSocket runs cells through a WebSocket only.
func overSocket(t *testing.T, c *client.Client, session string) transport {
	t.Helper()
	socket, err := c.Attach(within(t), session, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return func(t *testing.T, code string) (api.Execution, []api.Event) {
		t.Helper()
		id, err := socket.Execute(within(t), api.ExecutionRequest{Code: &code})
		if err != nil {
			t.Fatal(err)
		}
		events := until(t, socket.Next, finished(id))
		e := events[len(events)-1].Body.(api.ExecutionFinished).Execution
		var outputs api.Outputs
		for _, event := range events {
			if event.ExecutionID == id {
				outputs.Add(event.Body)
			}
		}
		e.Outputs = outputs.List()
		return e, events
	}
}

const (
	readCell = `import pandas as pd
raw = pd.read_csv("in/people.csv", dtype=str, keep_default_na=False)
print(len(raw))`
	cleanCell = `clean = raw.copy()
amount = clean["amount"].str.replace(" ", "", regex=False).replace({"": None, "n/a": None})
clean["cents"] = (amount.astype(float) * 100).round()
iso = pd.to_datetime(clean["joined"], format="%Y-%m-%d", errors="coerce")
clean["joined"] = iso.fillna(pd.to_datetime(clean["joined"], format="%d/%m/%Y", errors="coerce"))`
	groupCell = `import json
summary = clean.groupby("city").agg(rows=("id", "count"), paid=("cents", "count"), cents=("cents", "sum"))
years = clean["joined"].dt.year.value_counts()
notes = clean["note"]
print(json.dumps({
    "cities": {city: {k: int(v) for k, v in row.items()} for city, row in summary.to_dict("index").items()},
    "years": {str(int(y)): int(n) for y, n in years.items()},
    "undated": int(clean["joined"].isna().sum()),
    "length": int(notes.str.len().sum()),
    "breaks": int(notes.str.contains("\n").sum()),
    "commas": int(notes.str.contains(",").sum()),
    "quotes": int(notes.str.contains('"').sum()),
}))`
	chartCell = `import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(6, 4))
axes.bar(range(len(summary)), summary["cents"] / 100)
axes.set_title("paid")
plt.show()`
	reportCell = `summary.to_csv("out/report.csv")
with open("out/report.md", "w") as f:
    f.write("# Çities\n")`
)

func TestTheDataJourney(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	c := s.Client()
	table := makePeople(42, 100_000)
	t.Run("over a WebSocket", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{})
		journey(t, c, id, table, overSocket(t, c, id))
	})
	t.Run("over REST", func(t *testing.T) {
		id := session(t, c, api.SessionRequest{})
		journey(t, c, id, table, overREST(c, id))
	})
}

func journey(t *testing.T, c *client.Client, session string, table people, cell transport) {
	ok := func(code string) (api.Execution, []api.Event) {
		t.Helper()
		e, events := cell(t, code)
		wantEnd(t, e, api.StatusOK, "", api.VariablesKept)
		return e, events
	}
	if _, created, err := c.PutFile(within(t), session, "in/people.csv", bytes.NewReader(table.csv)); err != nil || !created {
		t.Fatalf("upload: created %v, %v", created, err)
	}
	if e, _ := ok(readCell); printed(e) != "100000\n" {
		t.Errorf("read %q rows", printed(e))
	}
	ok(cleanCell)
	e, _ := ok(groupCell)
	checkAggregates(t, table, printed(e))

	e, _ = ok("summary")
	result := e.Outputs[len(e.Outputs)-1]
	if html := text(t, result.Data, "text/html"); result.OutputType != "execute_result" || !strings.Contains(html, "<table") {
		t.Errorf("the table came as %s: %.100s", result.OutputType, html)
	}
	if plain := text(t, result.Data, "text/plain"); !strings.Contains(plain, "Århus") {
		t.Errorf("the table as text lacks a city:\n%s", plain)
	}
	e, _ = ok(chartCell)
	checkChart(t, e)

	ok("import os; os.mkdir('out')")
	_, events := ok(reportCell)
	made := checkArtifacts(t, c, session, events, map[string]api.Change{
		"out/report.csv": api.Created, "out/report.md": api.Created})
	_, events = ok(`open("out/report.csv", "w").write("second\n")`)
	checkArtifacts(t, c, session, events, map[string]api.Change{"out/report.csv": api.Modified})
	if old := made["out/report.csv"]; !bytes.Equal(download(t, c.GetArtifact, old.SHA256), old.Data) {
		t.Error("the old digest does not give the old bytes any more")
	}
	_, events = ok(`os.remove("out/report.md")`)
	checkArtifacts(t, c, session, events, map[string]api.Change{"out/report.md": api.Deleted})

	checkNotebook(t, c, session)
	checkResets(t, c, session, cell)
}

func checkAggregates(t *testing.T, table people, printed string) {
	t.Helper()
	type aggregates struct {
		Cities                                  map[string]*cityTotals
		Years                                   map[string]int
		Undated, Length, Breaks, Commas, Quotes int
	}
	got := decode[aggregates](t, printed)
	want := aggregates{table.cities, table.years, table.undated, table.noteLength, table.breaks, table.commas, table.quotes}
	if !reflect.DeepEqual(got, want) {
		wanted, err := json.Marshal(want)
		t.Errorf("the aggregates are\n%s\nwant\n%s%v", printed, wanted, err)
	}
}

func checkChart(t *testing.T, e api.Execution) {
	t.Helper()
	for _, o := range e.Outputs {
		if o.OutputType != "display_data" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(text(t, o.Data, "image/png"))
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		size, colours := picture.Bounds().Size(), map[any]bool{}
		for x := range size.X {
			for y := range size.Y {
				colours[picture.At(x, y)] = true
			}
		}
		if size.X < 300 || size.Y < 200 || len(colours) < 10 {
			t.Errorf("the chart has %v pixels in %d colours", size, len(colours))
		}
		return
	}
	t.Error("no chart came")
}

// checkArtifacts checks the artifact events of one execution, and returns them by path.
func checkArtifacts(t *testing.T, c *client.Client, session string, events []api.Event,
	want map[string]api.Change) map[string]api.ArtifactEvent {
	t.Helper()
	found := map[string]api.ArtifactEvent{}
	changes := map[string]api.Change{}
	for _, a := range of[api.ArtifactEvent](events) {
		found[a.Path], changes[a.Path] = a, a.Change
		if a.Change == api.Deleted {
			if a.SHA256 != "" || a.URL != "" || a.Size != nil || a.Data != nil {
				t.Errorf("a deleted artifact has more than path and change: %+v", a)
			}
			_, err := c.GetFile(within(t), session, a.Path)
			wantCode(t, err, api.CodeFileNotFound)
			continue
		}
		sum := sha256.Sum256(a.Data)
		if a.SHA256 != hex.EncodeToString(sum[:]) || a.Size == nil || *a.Size != int64(len(a.Data)) || len(a.Data) == 0 {
			t.Errorf("%s: digest %s and size %v do not fit its %d bytes", a.Path, a.SHA256, a.Size, len(a.Data))
		}
		if a.URL != api.ArtifactURL(a.SHA256) || !bytes.Equal(download(t, c.GetArtifact, a.SHA256), a.Data) {
			t.Errorf("%s: the url %s gives other bytes", a.Path, a.URL)
		}
		get := func(ctx context.Context, path string) (*client.Download, error) { return c.GetFile(ctx, session, path) }
		if !bytes.Equal(download(t, get, a.Path), a.Data) {
			t.Errorf("%s: the file gives other bytes", a.Path)
		}
	}
	if !reflect.DeepEqual(changes, want) {
		t.Errorf("artifacts %v, want %v", changes, want)
	}
	return found
}

func download(t *testing.T, get func(context.Context, string) (*client.Download, error), name string) []byte {
	t.Helper()
	d, err := get(within(t), name)
	if err != nil {
		t.Fatalf("download %s: %v", name, err)
	}
	defer d.Close()
	data, err := io.ReadAll(d)
	if err != nil || d.Size != int64(len(data)) {
		t.Fatalf("download %s: %d bytes of %d: %v", name, len(data), d.Size, err)
	}
	return data
}

type notebook struct {
	NBFormat int `json:"nbformat"`
	Cells    []struct {
		CellType string       `json:"cell_type"`
		Source   any          `json:"source"`
		Outputs  []api.Output `json:"outputs"`
	} `json:"cells"`
}

// sources returns the cells' sources, each as one string.
func (n notebook) sources() []string {
	var list []string
	for _, c := range n.Cells {
		var all strings.Builder
		switch source := c.Source.(type) {
		case string:
			all.WriteString(source)
		case []any:
			for _, line := range source {
				all.WriteString(line.(string))
			}
		}
		list = append(list, all.String())
	}
	return list
}

func exported(t *testing.T, c *client.Client, session string) ([]byte, notebook) {
	t.Helper()
	file, err := c.Notebook(within(t), session)
	if err != nil {
		t.Fatal(err)
	}
	return file, decode[notebook](t, string(file))
}

func checkNotebook(t *testing.T, c *client.Client, from string) {
	t.Helper()
	file, first := exported(t, c, from)
	sources := first.sources()
	if first.NBFormat != 4 || len(sources) != 9 || sources[0] != readCell || sources[4] != chartCell {
		t.Fatalf("the notebook has format %d and the cells %q", first.NBFormat, sources)
	}
	if out := first.Cells[4].Outputs; len(out) != 1 || out[0].Data["image/png"] == nil {
		t.Errorf("the chart's cell has the outputs %v", out)
	}
	second := session(t, c, api.SessionRequest{})
	if err := c.ImportNotebook(within(t), second, file); err != nil {
		t.Fatalf("import: %v", err)
	}
	if _, again := exported(t, c, second); !reflect.DeepEqual(again.sources(), sources) ||
		!reflect.DeepEqual(again.Cells[4].Outputs, first.Cells[4].Outputs) {
		t.Errorf("imported and exported again, the notebook has the cells %q", again.sources())
	}
	if e := run(t, c, second, "raw"); e.Error == nil || e.Error.Ename != "NameError" {
		t.Errorf("importing ran cells: %s", e.Text)
	}
	if err := c.DeleteSession(within(t), second); err != nil {
		t.Error(err)
	}
}

func checkResets(t *testing.T, c *client.Client, session string, cell transport) {
	t.Helper()
	if _, err := c.ResetSession(within(t), session, api.ResetRequest{}); err != nil {
		t.Fatal(err)
	}
	e, _ := cell(t, "raw")
	wantEnd(t, e, api.StatusError, "", api.VariablesKept)
	if e.Error == nil || e.Error.Ename != "NameError" || e.Generation != 2 || *e.ExecutionCount != 1 {
		t.Errorf("after a reset: %+v, generation %d, count %d", e.Error, e.Generation, *e.ExecutionCount)
	}
	e, _ = cell(t, `print(open("out/report.csv").read(), end="")`)
	if printed(e) != "second\n" {
		t.Errorf("after a reset the file has %q", e.Text)
	}
	if _, err := c.ResetSession(within(t), session, api.ResetRequest{KeepFiles: new(false)}); err != nil {
		t.Fatal(err)
	}
	if e, _ = cell(t, `import os; print(os.listdir("."))`); printed(e) != "[]\n" {
		t.Errorf("after a reset without files there are %q", e.Text)
	}
}
