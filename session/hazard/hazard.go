// Package hazard recognises code and commands that destroy what they can reach. What it finds is advice: it reads what is
// written plainly, runs nothing, and code that means to hide can.
//
// All of it takes time in proportion to the text, whatever the text is.
package hazard

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxText is how much of a text is examined. A longer one is a pattern of its own.
	maxText = 256 << 10
	// maxDepth is how deep scripts inside of scripts are examined.
	maxDepth = 6
	// maxPatterns is how many patterns are named.
	maxPatterns = 16
)

// Names of patterns that stand for what could not be examined.
const (
	tooLong    = "text that is too long to examine"
	tooDeep    = "code that is nested too deep to examine"
	unbalanced = "unbalanced quotes"
	computed   = "a computed command"
)

// Found is what was recognised.
type Found struct {
	Patterns []string // names of the patterns, each once, in the order of the text
	Never    bool     // one of them is among those that nobody may approve
}

// Cell examines a cell: Python with lines and magics for the shell. outside lists the folders that are worth protecting, as
// absolute paths; files elsewhere may be written freely.
func Cell(code string, outside []string) Found {
	e := &examiner{outside: outside}
	e.cell(e.bounded(code), 0)
	return e.found
}

// Shell examines a command for the shell. outside is as for [Cell].
func Shell(command string, outside []string) Found {
	e := &examiner{outside: outside}
	e.shell(e.bounded(command), 0)
	return e.found
}

// examiner collects what one text has.
type examiner struct {
	outside []string
	found   Found
}

func (e *examiner) ask(pattern string) {
	if len(e.found.Patterns) < maxPatterns && !slices.Contains(e.found.Patterns, pattern) {
		e.found.Patterns = append(e.found.Patterns, pattern)
	}
}

func (e *examiner) never(pattern string) {
	e.ask(pattern)
	e.found.Never = true
}

// bounded is the text that is examined, in its normal form.
func (e *examiner) bounded(text string) string {
	if len(text) > maxText {
		e.ask(tooLong)
		text = text[:maxText]
	}
	return normal(text)
}

// escapes are terminal sequences, as ECMA-48 has them.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])`)

// normal is a text without what makes the same characters look different: escape sequences, NULs, carriage returns,
// invisible characters and compatibility forms such as full-width letters.
func normal(text string) string {
	if strings.IndexByte(text, 0x1b) >= 0 {
		text = escapes.ReplaceAllString(text, "")
	}
	text = norm.NFKC.String(strings.ToValidUTF8(text, " "))
	return strings.Map(func(r rune) rune {
		switch {
		case r == 0, r == '\r', r == '\u00ad', r >= '\u200b' && r <= '\u200f', r >= '\u202a' && r <= '\u202e',
			r >= '\u2060' && r <= '\u2069', r == '\ufeff':
			return -1
		}
		return r
	}, text)
}
