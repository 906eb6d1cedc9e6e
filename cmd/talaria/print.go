package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"talaria/api"
)

// printJSON prints a value as one line of JSON.
func printJSON(w io.Writer, v any) error {
	line, err := api.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

// The styles of text on a terminal.
const (
	bold = "\x1b[1m"
	dim  = "\x1b[2m"
	red  = "\x1b[31m"
)

// styled is text in a style, where a person reads it and has not switched colour off.
func styled(w io.Writer, style, text string) string {
	if text == "" || !colourful(w) {
		return text
	}
	return style + text + "\x1b[0m"
}

// colourful reports whether to use colour: on a terminal, unless NO_COLOR is set (no-color.org).
func colourful(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// table prints rows in columns below a bold head.
type table struct {
	to   io.Writer
	rows [][]string
}

func newTable(w io.Writer, head ...string) *table { return &table{w, [][]string{head}} }

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = quoted(cells[i])
	}
	t.rows = append(t.rows, cells)
}

func (t *table) flush() error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		text := line.String()
		if n == 0 {
			text = styled(t.to, bold, text)
		}
		if _, err := fmt.Fprintln(t.to, text); err != nil {
			return err
		}
	}
	return nil
}

// colourTraceback marks the places and the last line of a traceback.
func colourTraceback(w io.Writer, text string) string {
	if !colourful(w) || strings.Contains(text, "\x1b") {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		switch {
		case i == len(lines)-1:
			lines[i] = styled(w, red+bold, line)
		case strings.HasPrefix(line, "  File "):
			lines[i] = styled(w, dim, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
