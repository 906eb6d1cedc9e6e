package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func measured(commit string, values map[string][][]float64) *report {
	r := newReport([]row{
		{id: "a", metrics: []metric{{what: "time", unit: "ms"}, {what: "rate", unit: "MB/s", rate: true}}},
		{id: "new", metrics: []metric{{what: "a new number", unit: "ms"}}},
	})
	r.Commit = commit
	for id, samples := range values {
		r.add(talariaName, id, samples)
	}
	return r
}

func TestAComparisonMarksWhatIsWorseByATenth(t *testing.T) {
	for name, c := range map[string]struct {
		now   [][]float64
		want  string // in the table
		worse string // in the error; "" wants none
	}{
		"the same":     {[][]float64{{10, 10, 10}, {50}}, "| time | ms | 4 | 10 | 10 | 3 | 10 | 10 | 1× |", ""},
		"a bit slower": {[][]float64{{10.9}, {50}}, "| 1 | 10.9 | 10.9 | 1.09× |", ""},
		"slower":       {[][]float64{{11.1}, {50}}, "| 1 | 11.1 | 11.1 | 1.11× worse |", "time: 11.1 ms, was 10"},
		"less":         {[][]float64{{10}, {45}}, "| rate | MB/s | 2 | 50 | 50 | 1 | 45 | 45 | 0.90× worse |", "rate: 45 MB/s, was 50"},
		"faster":       {[][]float64{{1}, {500}}, "| 0.10× |", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[string][][]float64{"a": {{10, 10}, {50}}}
			var table strings.Builder
			err := compareReports([]*report{measured("x", before), measured("x", before)},
				[]*report{measured("y", map[string][][]float64{"a": c.now, "new": {{3}}})}, &table)
			if !strings.Contains(table.String(), c.want) || !strings.Contains(table.String(), "| a new number | ms |  |  |  | 1 | 3 | 3 |  |") {
				t.Errorf("%q is missing in\n%s", c.want, &table)
			}
			if c.worse == "" && err != nil || c.worse != "" && (err == nil || !strings.Contains(err.Error(), c.worse)) {
				t.Errorf("the error is %v, want %q", err, c.worse)
			}
		})
	}
}

func TestTheCommitToCompareWithMayComeFromAReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.json")
	if err := measured("0123456789ab-dirty", nil).writeJSON(path); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[string]string{path: "0123456789ab", "v0.1.0": "v0.1.0"} {
		if got, err := commitOf(before); err != nil || got != want {
			t.Errorf("%s stands for %q (%v), want %q", before, got, err, want)
		}
	}
	if err := os.WriteFile(path, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := commitOf(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not a report: %v", err)
	}
}
