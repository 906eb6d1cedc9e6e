package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A file of cells/ is a table of rows. A row has a head and one or more cells, each followed by its expectations:
//
//	=== int.await must needs numpy fresh
//	print("begun"); await asyncio.sleep(600)
//	> interrupt on stream
//	> interrupted
//	1 + 1
//	> ok
//	> result = "2"
//
// The head has the row's name, its level (must, should or nice), after needs what the environment must have, and fresh
// if the row wants a kernel of its own. A line that begins with "> " is not Python, so it belongs to the cell above
// it. Lines before the first row are remarks. The rows of a file share a session and run in order.
type row struct {
	name, level string
	needs       []string
	fresh       bool
	steps       []step
	where       string // file and line
}

// step is one cell, how it is run, and its expected outcome.
type step struct {
	code        string
	answers     []string // to its questions
	interruptOn string   // started, stream or input; "": it is not interrupted
	silent      bool
	withoutIn   bool // nobody may be asked
	expect      []expectation
}

// expectation is one line after "> ": its words, with the last one unquoted if it is quoted.
type expectation struct {
	line  string
	words []string
	text  string // the text after =, ~ and !~
	op    string // =, ~, !~ or ""
	only  string // the engine that it is about; "" means all
}

const (
	rowMark    = "=== "
	expectMark = "> "
)

var levels = []string{"must", "should", "nice"}

// readTable reads a file of rows.
func readTable(path string) ([]row, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	var code []string
	inCell := false
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		where := fmt.Sprintf("%s:%d", filepath.Base(path), i+1)
		head, isHead := strings.CutPrefix(line, rowMark)
		wanted, isWanted := strings.CutPrefix(line, expectMark)
		switch {
		case isHead:
			if inCell {
				return nil, fmt.Errorf("%s: the cell above has no expectation", where)
			}
			r, err := readHead(head)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			r.where = where
			rows = append(rows, r)
			code = nil
		case len(rows) == 0:
		case isWanted:
			r := &rows[len(rows)-1]
			if inCell {
				r.steps = append(r.steps, step{code: strings.Trim(strings.Join(code, "\n"), "\n")})
				code, inCell = nil, false
			}
			if len(r.steps) == 0 {
				return nil, fmt.Errorf("%s: an expectation without a cell", where)
			}
			if err := r.steps[len(r.steps)-1].read(wanted); err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
		default:
			code = append(code, line)
			inCell = inCell || strings.TrimSpace(line) != ""
		}
	}
	if inCell {
		return nil, fmt.Errorf("%s: the last cell has no expectation", filepath.Base(path))
	}
	return rows, nil
}

func readHead(head string) (row, error) {
	words := strings.Fields(head)
	if len(words) < 2 || !slices.Contains(levels, words[1]) {
		return row{}, fmt.Errorf("a row needs a name and a level of %v, not %q", levels, head)
	}
	r := row{name: words[0], level: words[1]}
	for i := 2; i < len(words); i++ {
		switch {
		case words[i] == "fresh":
			r.fresh = true
		case words[i] == "needs" && i+1 < len(words):
			i++
			r.needs = append(r.needs, words[i])
		default:
			return row{}, fmt.Errorf("%s: %q says nothing", r.name, words[i])
		}
	}
	return r, nil
}

// read parses one line: an instruction for running the cell, or an expectation.
func (s *step) read(line string) error {
	if words, isAnswers := strings.CutPrefix(line, "answers "); isAnswers {
		var err error
		s.answers, err = quotedWords(words)
		return err
	}
	switch words := strings.Fields(line); {
	case line == "silent":
		s.silent = true
	case line == "without stdin":
		s.withoutIn = true
	case len(words) == 3 && words[0] == "interrupt" && words[1] == "on":
		s.interruptOn = words[2]
	case len(words) == 2 && words[0] == "repeated":
		return s.repeat(words[1])
	default:
		e, err := readExpectation(line)
		s.expect = append(s.expect, e)
		return err
	}
	return nil
}

// repeat repeats the lines that contain {n}, with {n} replaced by numbers from 0.
func (s *step) repeat(times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.SplitSeq(s.code, "\n") {
		if !strings.Contains(line, "{n}") {
			lines = append(lines, line)
			continue
		}
		for i := range n {
			lines = append(lines, strings.ReplaceAll(line, "{n}", strconv.Itoa(i)))
		}
	}
	s.code = strings.Join(lines, "\n")
	return nil
}

func readExpectation(line string) (expectation, error) {
	e := expectation{line: line}
	rest := line
	for _, engine := range engines {
		if after, ok := strings.CutPrefix(rest, engine+": "); ok {
			e.only, rest = engine, after
		}
	}
	for rest != "" {
		var word string
		word, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		switch word {
		case "=":
			var err error
			e.op = word
			if e.text, err = strconv.Unquote(rest); err != nil {
				return e, fmt.Errorf("what stands behind = in %q must be quoted", line)
			}
			return e, nil
		case "~", "!~":
			e.op, e.text = word, rest
			return e, nil
		case "streams", "inputs":
			words, err := quotedWords(rest)
			e.words = append([]string{word}, words...)
			return e, err
		default:
			e.words = append(e.words, word)
		}
	}
	if len(e.words) == 0 {
		return e, fmt.Errorf("an empty expectation")
	}
	return e, nil
}

// quotedWords splits a line into words, and unquotes those in quotes.
func quotedWords(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " ") {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			words, line = append(words, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		word, _ := strconv.Unquote(quoted) // a quoted prefix has the form
		words, line = append(words, word), line[len(quoted):]
	}
	return words, nil
}
