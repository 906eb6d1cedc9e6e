package transcript

import "strings"

// Text returns a whole text without its secrets.
func (r *Redactor) Text(text string) string {
	if r.none() {
		return text
	}
	var clean strings.Builder
	d := r.begin()
	write := func(piece string) { clean.WriteString(piece) }
	d.write(text, write)
	d.finish(write)
	return clean.String()
}

// Clean returns a whole text without its escape sequences and secrets.
func (r *Redactor) Clean(text string) string {
	t := NewWhole(r, 2*len(text)+1) // secrets and bad characters may be shorter than what replaces them
	t.Line(text)
	return t.String()
}
