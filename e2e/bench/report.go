package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is all that one run came to.
type report struct {
	Date     string   `json:"date"`
	Commit   string   `json:"commit"`
	Command  string   `json:"command"`
	Machine  machine  `json:"machine"`
	Drivers  []column `json:"drivers"`
	Rows     []line   `json:"rows"`
	Failures []string `json:"failures"`
}

// column is what was measured.
type column struct {
	Name  string `json:"name"`
	About string `json:"about"` // version and surroundings, or why there are no figures
}

// line is one metric, with the figures of each driver by its name.
type line struct {
	ID      string             `json:"id"`
	What    string             `json:"what"`
	Note    string             `json:"note,omitempty"` // such as why there are no figures
	Unit    string             `json:"unit"`
	Rate    bool               `json:"more_is_better"`
	Goal    string             `json:"goal,omitempty"`
	Reached *bool              `json:"goal_reached,omitempty"`
	Figures map[string]figures `json:"figures"`

	metric metric
}

type figures struct {
	summary
	Samples []float64 `json:"samples"`
}

// newReport has a line for each metric of the rows, without figures.
func newReport(rows []row) *report {
	r := &report{Failures: []string{}}
	for _, row := range rows {
		for _, m := range row.metrics {
			r.Rows = append(r.Rows, line{ID: row.id, What: m.what, Unit: m.unit, Rate: m.rate, Goal: m.goal(),
				Figures: map[string]figures{}, metric: m})
		}
	}
	return r
}

// goal is what is to be reached, in words.
func (m metric) goal() string {
	switch {
	case m.exact:
		return figure(m.p50)
	case m.p95 != 0:
		return figure(m.p50) + " / " + figure(m.p95)
	case m.p50 != 0:
		return figure(m.p50)
	}
	return ""
}

// reached reports whether samples are as good as is set.
func (m metric) reached(samples []float64) bool {
	s := summarize(samples)
	switch {
	case m.exact:
		return !slices.ContainsFunc(samples, func(v float64) bool { return v != m.p50 })
	case m.rate:
		return s.P50 >= m.p50
	}
	return s.P50 <= m.p50 && (m.p95 == 0 || s.P95 <= m.p95)
}

// add takes the samples of a row of a driver, a list for each metric.
func (r *report) add(driver, id string, samples [][]float64) {
	metric := 0
	for i := range r.Rows {
		l := &r.Rows[i]
		if l.ID != id {
			continue
		}
		if metric < len(samples) && len(samples[metric]) > 0 {
			l.Figures[driver] = figures{summarize(samples[metric]), samples[metric]}
			if driver == talariaName && l.Goal != "" {
				reached := l.metric.reached(samples[metric])
				l.Reached = &reached
			}
		}
		metric++
	}
}

// skipped begins a note that says why there are no figures.
const skipped = "skipped: "

// note puts notes beside the metrics of a row.
func (r *report) note(id string, notes map[int]string) {
	metric := 0
	for i := range r.Rows {
		l := &r.Rows[i]
		if l.ID != id {
			continue
		}
		if text, ok := notes[metric]; ok {
			l.Note = text
		}
		metric++
	}
}

// ratio is how many times better the first driver's median is than the second's; "" where that has no meaning.
func (l line) ratio(first, second string) string {
	a, b := l.Figures[first].P50, l.Figures[second].P50
	if a == 0 || b == 0 || l.metric.exact {
		return ""
	}
	if l.Rate {
		a, b = b, a
	}
	return figure(b/a) + "×"
}

// markdown is the report as a block of a document.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s at commit `%s` with `%s`\n\n", r.Date, r.Commit, r.Command)
	m := r.Machine
	fmt.Fprintf(&b, "- Machine: %s, %d cores, %d MiB, %s, Linux %s, %s; load before %s\n", m.CPU, m.Cores,
		m.MemoryBytes/mib, m.System, m.Kernel, m.Go, m.Load)
	for _, d := range r.Drivers {
		fmt.Fprintf(&b, "- %s: %s\n", d.Name, d.About)
	}
	b.WriteString("\n| what | unit | goal |")
	rule := "\n|---|---|--:|"
	for _, d := range r.Drivers {
		fmt.Fprintf(&b, " %s: n | min | p50 | p95 |", d.Name)
		rule += "--:|--:|--:|--:|"
	}
	if len(r.Drivers) == 2 {
		b.WriteString(" ratio |")
		rule += "--:|"
	}
	b.WriteString(rule + "\n")
	for _, l := range r.Rows {
		b.WriteString(l.markdown(r.Drivers) + "\n")
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\nFailed: %s\n", f)
	}
	return b.String()
}

func (l line) markdown(drivers []column) string {
	goal := l.Goal
	if l.Reached != nil && !*l.Reached {
		goal += " (not reached)"
	}
	what := l.What
	if l.Note != "" {
		what += " (" + l.Note + ")"
	}
	cells := []string{what, l.Unit, goal}
	for _, d := range drivers {
		f, ok := l.Figures[d.Name]
		switch {
		case !ok:
			cells = append(cells, "", "", "", "")
		case f.N == 1:
			cells = append(cells, "1", "", figure(f.P50), "")
		default:
			cells = append(cells, fmt.Sprint(f.N), figure(f.Min), figure(f.P50), figure(f.P95))
		}
	}
	if len(drivers) == 2 {
		cells = append(cells, l.ratio(drivers[0].Name, drivers[1].Name))
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// writeJSON writes the report with all samples.
func (r *report) writeJSON(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, append(b, '\n'))
}

// The marks between which a document has the block that a run writes.
const (
	blockBegin = "<!-- bench:begin -->\n"
	blockEnd   = "<!-- bench:end -->"
)

// writeBlock puts the report between the marks of a document.
func (r *report) writeBlock(path string) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(document, []byte(blockBegin))
	_, after, ends := bytes.Cut(rest, []byte(blockEnd))
	if !begins || !ends {
		return fmt.Errorf("%s has no line %q with a %q after it; put both where the table belongs", path,
			strings.TrimSpace(blockBegin), blockEnd)
	}
	return replace(path, slices.Concat(before, []byte(blockBegin+"\n"+r.markdown()+"\n"+blockEnd), after))
}

// replace writes a file in one step.
func replace(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".bench-")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if _, err := temp.Write(content); err != nil {
		temp.Close()
		return err
	}
	if err := temp.Chmod(0o644); err != nil {
		temp.Close()
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
