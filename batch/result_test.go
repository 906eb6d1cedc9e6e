package batch

import (
	"strings"
	"testing"
	"unicode/utf8"

	"talaria/api"
)

func TestALargeBatchFitsIntoAnAnswer(t *testing.T) {
	size := int64(1)
	e := api.Execution{
		ID: strings.Repeat("i", 42), SessionID: strings.Repeat("s", 128), Status: api.StatusError, State: api.VariablesKept, Reason: "interrupted",
		Text:  strings.Repeat("\x01", 60_000),
		Error: &api.ErrorOutput{Ename: strings.Repeat("\x02", 10_000), Evalue: strings.Repeat("\x03", 10_000)},
	}
	for range 1000 {
		e.Artifacts = append(e.Artifacts, api.Artifact{Path: "a", Change: api.Created, Size: &size, MediaType: "text/plain", SHA256: strings.Repeat("a", 64)})
	}
	now := api.Now()
	e.StartedAt, e.FinishedAt = &now, &now
	result, complete := sharesOf(api.MaxBatchItems).summarize(e)
	if complete || !result.ArtifactsOmitted {
		t.Errorf("what was shortened counts as complete: %v", result.ArtifactsOmitted)
	}
	line, err := api.Marshal(api.BatchItem{Index: 9999, Status: e.Status, SessionID: e.SessionID, ExecutionID: e.ID, Execution: result})
	if err != nil || len(line)*api.MaxBatchItems > api.MaxAnswer {
		t.Errorf("an item has %d bytes (%v), and %d may not have more than %d", len(line), err, api.MaxBatchItems, api.MaxAnswer)
	}
}

func TestTextIsShortenedInItsMiddle(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("line of text\n", 10_000), strings.Repeat("é\x01", 20_000)} {
		for _, room := range []int{100, 838, 5000} {
			got := shorten(text, room)
			if encoded(got) > room || !utf8.ValidString(got) {
				t.Errorf("%.10q in %d bytes has %d: %.80q", text, room, encoded(got), got)
			}
			if room >= 838 && text != "short" && (!strings.HasPrefix(got, text[:3]) || !strings.HasSuffix(got, text[len(text)-3:]) || !strings.Contains(got, api.TextCutMark)) {
				t.Errorf("%.10q in %d bytes is %q", text, room, got)
			}
		}
	}
}

func TestAResultIsCompleteIfItIsAllThatCameOfTheCell(t *testing.T) {
	s := sharesOf(1)
	for name, test := range map[string]struct {
		e    api.Execution
		want bool
	}{
		"text":           {api.Execution{Text: "1\n", Outputs: []api.Output{{OutputType: "stream", Text: "1\n"}}}, true},
		"a value":        {api.Execution{Text: "1", Outputs: []api.Output{{OutputType: "execute_result", Data: api.MIMEBundle{"text/plain": api.Text("1")}}}}, true},
		"a picture":      {api.Execution{Outputs: []api.Output{{OutputType: "display_data", Data: api.MIMEBundle{"image/png": api.Text("")}}}}, false},
		"a shown text":   {api.Execution{Outputs: []api.Output{{OutputType: "display_data", Data: api.MIMEBundle{"text/plain": api.Text("1")}}}}, false},
		"a file":         {api.Execution{Artifacts: []api.Artifact{{Path: "a", Change: api.Created}}}, false},
		"a file gone":    {api.Execution{Artifacts: []api.Artifact{{Path: "a", Change: api.Deleted}}}, true},
		"cut before":     {api.Execution{Text: "[1 of 2" + api.TextCutMark}, false},
		"lost output":    {api.Execution{TruncatedBytes: 1}, false},
		"omitted ones":   {api.Execution{OutputsOmitted: true}, false},
		"nothing at all": {api.Execution{}, true},
	} {
		if _, got := s.summarize(test.e); got != test.want {
			t.Errorf("%s: complete is %v", name, got)
		}
	}
}
