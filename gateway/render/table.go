package render

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"talaria/api"
)

// tableMIME is how the runner sends a data frame: its first rows, with the totals.
const tableMIME = "application/vnd.dataresource+json"

const (
	tableRows = 20 // that a text shows; of a longer table half as many
	cellWidth = 32 // columns of text that one value takes
	spacing   = 2  // between two columns of a table
	maxNames  = 12 // of the columns that are left out
)

// table is a data frame as its display has it.
type table struct {
	Schema struct {
		Fields []field `json:"fields"`
	} `json:"schema"`
	Data         []map[string]any `json:"data"`
	TotalRows    int64            `json:"total_rows"`
	TotalColumns int64            `json:"total_columns"`
	Truncated    bool             `json:"truncated"`
}

type field struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Type  string `json:"type"`
	Index bool   `json:"index"`
}

func (f field) label() string {
	switch {
	case f.Index && f.Name == "index" && f.Title == "":
		return ""
	case f.Title != "":
		return f.Title
	}
	return f.Name
}

// readTable returns the table of a display, nil if it has none.
func readTable(data api.MIMEBundle) *table {
	raw, ok := data[tableMIME]
	if !ok {
		return nil
	}
	t := new(table)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(t); err != nil || len(t.Schema.Fields) == 0 {
		return nil
	}
	return t
}

// text returns the table as monospaced text of that width, and whether it shows all of the table.
func (t *table) text(width int) (text string, complete bool) {
	rows := t.Data
	if len(rows) > tableRows {
		rows = rows[:tableRows/2]
	}
	columns, cut := t.columns(rows, width)
	var b strings.Builder
	for line := range len(rows) + 1 {
		var row strings.Builder
		for i, c := range columns {
			if i > 0 {
				row.WriteString(strings.Repeat(" ", spacing))
			}
			row.WriteString(c.pad(line))
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	complete = !cut
	total := max(t.TotalRows, int64(len(t.Data)))
	if int64(len(rows)) < total {
		fmt.Fprintf(&b, "[%s of %s rows]\n", thousands(int64(len(rows))), thousands(total))
		complete = false
	}
	if left := t.Schema.Fields[len(columns):]; len(left) > 0 {
		fmt.Fprintf(&b, "[%s not shown: %s]\n", plural(int64(len(left)), "column"), names(left))
		complete = false
	}
	return b.String(), complete
}

// column is one column of a table as text; its first line is its label.
type column struct {
	lines []string
	width int
	right bool
}

func (c *column) pad(line int) string {
	blank := strings.Repeat(" ", c.width-displayWidth(c.lines[line]))
	if c.right {
		return blank + c.lines[line]
	}
	return c.lines[line] + blank
}

// columns returns the first columns of the table that fit into a width, at least one, and whether a value was cut.
func (t *table) columns(rows []map[string]any, width int) (columns []column, cut bool) {
	for _, f := range t.Schema.Fields {
		c := column{right: f.Type == "number" || f.Type == "integer"}
		most := min(cellWidth, width)
		add := func(text string) {
			short := shorten(text, most)
			cut = cut || short != text
			c.lines = append(c.lines, short)
			c.width = max(c.width, displayWidth(short))
		}
		add(oneLine(f.label()))
		for _, row := range rows {
			add(oneLine(short(row[f.Name])))
		}
		if len(columns) > 0 {
			width -= spacing
		}
		if width -= c.width; width < 0 {
			return columns, cut
		}
		columns = append(columns, c)
	}
	return columns, cut
}

// csv returns the rows that the display has.
func (t *table) csv() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	record := make([]string, len(t.Schema.Fields))
	for i, f := range t.Schema.Fields {
		record[i] = f.label()
	}
	w.Write(record) // a buffer takes everything
	for _, row := range t.Data {
		for i, f := range t.Schema.Fields {
			record[i] = value(row[f.Name])
		}
		w.Write(record)
	}
	w.Flush()
	return b.Bytes()
}

// value returns a cell in full, as the display has it.
func value(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	encoded, err := json.Marshal(cell)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// short returns a cell for people: of a fraction six digits.
func short(cell any) string {
	n, ok := cell.(json.Number)
	if !ok {
		return value(cell)
	}
	text := n.String()
	if f, err := n.Float64(); err == nil && strings.ContainsAny(text, ".eE") {
		if rounded := strconv.FormatFloat(f, 'g', 6, 64); len(rounded) < len(text) {
			return rounded
		}
	}
	return text
}

func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(visible(text))
}

// shorten cuts a text to a width, and ends it with an ellipsis if something is missing.
func shorten(text string, width int) string {
	var g graphemes
	used, end := 0, 0
	for i, r := range text {
		if g.next(r) && used < width {
			end = i
		}
		if used += runeWidth(r); used > width {
			return text[:end] + "…"
		}
	}
	return text
}

func displayWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

// runeWidth returns how many columns a rune takes in monospaced text, about.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case 0x1100 <= r && r <= 0x115F, 0x2E80 <= r && r <= 0xA4CF, 0xAC00 <= r && r <= 0xD7A3, 0xF900 <= r && r <= 0xFAFF,
		0xFE30 <= r && r <= 0xFE6F, 0xFF00 <= r && r <= 0xFF60, 0xFFE0 <= r && r <= 0xFFE6, 0x1F300 <= r && r <= 0x1FAFF,
		0x20000 <= r && r <= 0x3FFFD:
		return 2
	}
	return 1
}

// names lists the labels of some columns.
func names(fields []field) string {
	var list []string
	for _, f := range fields[:min(len(fields), maxNames)] {
		list = append(list, shorten(oneLine(f.label()), cellWidth))
	}
	if len(fields) > maxNames {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// thousands returns a number with separators.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}
