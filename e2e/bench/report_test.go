package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func twoColumns() *report {
	r := newReport([]row{{id: "a", metrics: []metric{
		{what: "time", unit: "ms", p50: 5, p95: 12},
		{what: "rate", unit: "MB/s", rate: true, p50: 500},
		{what: "lost", unit: "lines", exact: true},
	}}})
	r.Drivers = []column{{talariaName, "this"}, {jupyterName, "that"}}
	return r
}

func TestTheTableHasEveryDriversFiguresAndTheirRatio(t *testing.T) {
	r := twoColumns()
	r.add(talariaName, "a", [][]float64{{4, 5, 11}, {400, 400}, {0, 0}})
	r.add(jupyterName, "a", [][]float64{{1000, 1100}, {50}, {94, 208}})
	r.add(jupyterName, "unknown", [][]float64{{1}})
	table := r.markdown()
	for _, want := range []string{
		"| what | unit | goal | Talaria: n | min | p50 | p95 | Jupyter Server: n | min | p50 | p95 | ratio |\n",
		"| time | ms | 5 / 12 | 3 | 4 | 5 | 11 | 2 | 1000 | 1050 | 1100 | 210× |\n",
		"| rate | MB/s | 500 (not reached) | 2 | 400 | 400 | 400 | 1 |  | 50 |  | 8× |\n",
		"| lost | lines | 0 | 2 | 0 | 0 | 0 | 2 | 94 | 151 | 208 |  |\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s", want, table)
		}
	}
}

func TestOneLostLineMissesTheGoal(t *testing.T) {
	r := twoColumns()
	r.add(talariaName, "a", [][]float64{{4}, {500}, {0, 0, 1}})
	for i, want := range []bool{true, true, false} {
		if got := r.Rows[i].Reached; got == nil || *got != want {
			t.Errorf("%s: reached is %v, want %v", r.Rows[i].What, got, want)
		}
	}
}

func TestADriverWithoutFiguresHasEmptyCells(t *testing.T) {
	r := twoColumns()
	r.add(talariaName, "a", [][]float64{{4, 4}})
	if want := "| time | ms | 5 / 12 | 2 | 4 | 4 | 4 |  |  |  |  |  |\n"; !strings.Contains(r.markdown(), want) {
		t.Errorf("%q is missing in\n%s", want, r.markdown())
	}
}

func TestANoteStandsBesideItsMetric(t *testing.T) {
	r := twoColumns()
	r.add(talariaName, "a", [][]float64{{4, 4}})
	r.note("a", map[int]string{1: skipped + "no room"})
	for _, want := range []string{"| time | ms |", "| rate (skipped: no room) | MB/s | 500 |  |", "| lost | lines |"} {
		if !strings.Contains(r.markdown(), want) {
			t.Errorf("%q is missing in\n%s", want, r.markdown())
		}
	}
}

func TestADocumentWithoutMarksIsLeftAsItIs(t *testing.T) {
	for _, text := range []string{"", "text", blockBegin, blockEnd + blockBegin} {
		path := filepath.Join(t.TempDir(), "doc.md")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := twoColumns().writeBlock(path); err == nil {
			t.Errorf("a table went into %q", text)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q became %q (%v)", text, got, err)
		}
	}
}
