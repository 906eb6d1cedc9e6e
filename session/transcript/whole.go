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
