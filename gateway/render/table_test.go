package render_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"talaria/api"
	"talaria/gateway/render"
)

// frame returns the display of a data frame.
func frame(rows, columns int) api.MIMEBundle {
	type field struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Index bool   `json:"index"`
	}
	fields := []field{{"index", "integer", true}}
	for i := range columns {
		fields = append(fields, field{fmt.Sprintf("column%d", i), "number", false})
	}
	var data []map[string]any
	for i := range rows {
		row := map[string]any{"index": i}
		for _, f := range fields[1:] {
			row[f.Name] = 1.5
		}
		data = append(data, row)
	}
	encoded, err := json.Marshal(map[string]any{
		"schema": map[string]any{"fields": fields}, "data": data, "total_rows": rows, "total_columns": columns,
	})
	if err != nil {
		panic(err)
	}
	return api.MIMEBundle{"application/vnd.dataresource+json": encoded, "text/plain": api.Text("its text")}
}

func TestAWideTableLosesColumnsAndComesAsCSV(t *testing.T) {
	for _, target := range []render.Target{api.RenderTelegram, api.RenderSlack, api.RenderDiscord} {
		plan := render.Render(render.Source{Execution: showing(frame(30, 20))}, target)
		checkLimits(t, target, plan)
		wantKinds(t, plan, "text document")
		text := shown(t, target, plan.Parts[0].Text)
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "[") && utf8.RuneCountInString(line) > render.LimitsOf(target).Width+1 {
				t.Errorf("%s: a line of %d: %q", target, utf8.RuneCountInString(line), line)
			}
		}
		if !strings.Contains(text, "   column0  column1") || !strings.Contains(text, "9      1.5      1.5") ||
			!strings.Contains(text, "[10 of 30 rows]") || !regexp.MustCompile(`\[\d+ columns not shown: column\d`).MatchString(text) {
			t.Errorf("%s: the table is\n%s", target, text)
		}
		file, _ := plan.File(plan.Parts[1].Artifacts[0].SHA256)
		if rows := bytes.Count(file.Content, []byte("\n")); rows != 31 || !bytes.HasPrefix(file.Content, []byte(",column0,")) {
			t.Errorf("%s: the CSV has %d lines: %.60q", target, rows, file.Content)
		}
	}
}

func TestATableThatFitsNeedsNoCSV(t *testing.T) {
	plan := render.Render(render.Source{Execution: showing(frame(2, 2))}, api.RenderTelegram)
	wantKinds(t, plan, "text")
	if want := "<pre>   column0  column1\n0      1.5      1.5\n1      1.5      1.5\n</pre>"; plan.Parts[0].Text != want {
		t.Errorf("%q, want %q", plan.Parts[0].Text, want)
	}
}

func TestTheValueOfACellKeepsItsTextWhereThatFits(t *testing.T) {
	narrow := "   column0\n0      1.5"
	wide := strings.Repeat("column ", 12) + "\n" + strings.Repeat("1.5    ", 12)
	for _, test := range []struct{ plain, target, want, text string }{
		{narrow, "telegram", "text", "before\n" + narrow},
		{wide, "plain", "text", "before\n" + wide},
		{wide, "telegram", "text document document", "before\n   column0  column1  column2  column3  column4\n0"},
	} {
		e := finished("before\n" + test.plain)
		columns := 1
		if test.plain == wide {
			columns = 12
		}
		data := frame(1, columns)
		data["text/plain"] = api.Text(test.plain)
		e.Outputs = []api.Output{{OutputType: "stream", Name: "stdout", Text: "before\n"}, {OutputType: "execute_result", Data: data}}
		plan := render.Render(render.Source{Execution: e}, render.Target(test.target))
		wantKinds(t, plan, test.want)
		if got := shown(t, render.Target(test.target), plan.Parts[0].Text); !strings.HasPrefix(got, test.text) {
			t.Errorf("%s: %q, want %q", test.target, got, test.text)
		}
		if len(plan.Parts) > 1 {
			if file, _ := plan.File(plan.Parts[1].Artifacts[0].SHA256); string(file.Content) != e.Text {
				t.Errorf("%s: output.txt is %q", test.target, file.Content)
			}
		}
	}
}
