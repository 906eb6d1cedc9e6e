package render

import (
	"slices"
	"strings"
	"unicode/utf8"

	"talaria/api"
)

// insert is a text that an output shows and that Execution.Text does not have.
type insert struct {
	output int // its place in Outputs
	text   string
}

// compose returns the text of an execution with the inserts where they were shown.
func compose(text string, outputs []api.Output, inserts []insert) string {
	if len(inserts) == 0 {
		return text
	}
	places := locate(text, outputs)
	var b strings.Builder
	done := 0
	for _, in := range inserts {
		place := places[in.output]
		b.WriteString(text[done:place])
		done = place
		startLine(&b)
		b.WriteString(in.text)
		startLine(&b)
	}
	b.WriteString(text[done:])
	return b.String()
}

func startLine(b *strings.Builder) {
	if s := b.String(); s != "" && s[len(s)-1] != '\n' {
		b.WriteByte('\n')
	}
}

// locate returns where in the text each output ends: as far as the text is what the outputs printed, and from there on
// at the end of the text.
func locate(text string, outputs []api.Output) []int {
	places := make([]int, len(outputs))
	at := 0
	for i, o := range outputs {
		printed := o.Text
		switch o.OutputType {
		case "execute_result":
			printed = plainText(o.Data)
			if at > 0 && text[at-1:at] != "\n" {
				printed = "\n" + printed
			}
		case "error":
			at = len(text)
			printed = ""
		}
		if strings.HasPrefix(text[at:], printed) {
			at += len(printed)
		} else {
			at = len(text)
		}
		places[i] = at
	}
	return places
}

// note says how an execution ended that did not end by itself, or "" if its error says so.
func note(e api.Execution) string {
	if e.Error != nil {
		return ""
	}
	var what string
	switch e.Status {
	case api.StatusTimeout:
		what = "timed out"
	case api.StatusInterrupted:
		what = "interrupted"
	case api.StatusDied:
		what = "the kernel died"
	case api.StatusCancelled:
		what = "not run"
	default:
		return ""
	}
	if e.Reason != "" && e.Reason != string(e.Status) {
		what += ": " + e.Reason
	}
	if e.State == api.VariablesLost {
		what += "; variables are lost"
	}
	return "[" + what + "]\n"
}

// failure returns the error of an execution whose text does not name it, or "".
func failure(e api.Execution) string {
	if e.Error == nil || strings.Contains(e.Text, e.Error.Ename) {
		return ""
	}
	return e.Error.Ename + ": " + e.Error.Evalue + "\n"
}

// texts returns the pieces of a text if they are no more than maxTexts, and no platform refuses one as blank.
func texts(t Target, text string) (pieces []string, ok bool) {
	for rest := text; rest != ""; {
		if strings.TrimSpace(rest) == "" && len(pieces) > 0 {
			break // nobody misses empty lines at the end
		}
		var piece string
		piece, rest = cut(t, rest, room(t))
		if pieces = append(pieces, piece); len(pieces) > maxTexts || isBlank(piece) {
			return nil, false
		}
	}
	return pieces, true
}

// excerpt returns the message that stands for a text too long to send: its beginning and its end.
func excerpt(t Target, text string) string {
	around, _ := fence(t)
	const space = 200 // for the note, and the lines between the blocks
	each := (LimitsOf(t).Text-space)/2 - around
	head, rest := cut(t, text, each)
	end := tail(t, rest, each)
	parts := []string{"… " + leftOut(rest[:len(rest)-len(end)]) + "all of the output is in " + wholeName + " …"}
	if !isBlank(head) {
		parts = slices.Insert(parts, 0, Code(t, strings.TrimSuffix(head, "\n")))
	}
	if !isBlank(end) {
		parts = append(parts, Code(t, end))
	}
	return strings.Join(parts, "\n")
}

// leftOut says how much text is missing in an excerpt.
func leftOut(text string) string {
	switch lines := strings.Count(text, "\n"); {
	case text == "":
		return ""
	case lines == 0:
		return plural(int64(utf8.RuneCountInString(text)), "character") + " left out here, "
	default:
		return plural(int64(lines), "line") + " left out here, "
	}
}
