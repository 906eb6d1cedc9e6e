package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"talaria/api"
)

// show renders a display. Nothing of it is in Execution.Text.
func (b *builder) show(output int, data api.MIMEBundle) {
	plain := b.clean(plainText(data))
	if b.rich(output, data) {
		return
	}
	if html := stringOf(data["text/html"]); html != "" && isPlaceholder(plain) {
		b.file("display", "text/html", []byte(b.clean(html)))
		return
	}
	if source := b.clean(sourceOf(data)); source != "" && isPlaceholder(plain) {
		plain = source
	}
	b.insert(output, plain)
}

// result renders the value of a cell, whose text/plain is in Execution.Text.
func (b *builder) result(output int, data api.MIMEBundle) {
	plain := plainText(data)
	if t := readTable(data); t != nil {
		b.resultTable(t, plain)
		return
	}
	if b.rich(output, data) || !isPlaceholder(plain) {
		return
	}
	if html := stringOf(data["text/html"]); html != "" {
		b.file("display", "text/html", []byte(b.clean(html)))
		return
	}
	b.insert(output, b.clean(sourceOf(data)))
}

// rich renders what is a picture, a table or a recording, and reports whether it was one.
func (b *builder) rich(output int, data api.MIMEBundle) bool {
	if picture, ok := pictureOf(data); ok {
		b.picture(picture)
		return true
	}
	if t := readTable(data); t != nil {
		text, complete := t.text(b.limits.Width)
		b.insert(output, b.clean(text))
		b.csv(t, complete)
		return true
	}
	if recording, ok := recordingOf(data); ok {
		b.file("display", recording.mediaType, recording.content)
		return true
	}
	return false
}

// resultTable renders a table whose text/plain is in Execution.Text. One that is too wide for the target is replaced
// there.
func (b *builder) resultTable(t *table, plain string) {
	rows, width := 0, 0
	for line := range strings.Lines(plain) {
		rows++
		width = max(width, displayWidth(strings.TrimRight(line, "\n")))
	}
	total := max(t.TotalRows, int64(len(t.Data)))
	complete := int64(rows) > total && !t.Truncated && !strings.Contains(plain, "...")
	if width > b.limits.Width && strings.Contains(b.src.Text, plain) {
		var text string
		text, complete = t.text(b.limits.Width)
		if b.narrow == nil {
			b.narrow = map[string]string{}
		}
		b.narrow[plain] = b.clean(text)
	}
	b.csv(t, complete)
}

// narrowed returns the text with tables that fit the target.
func (b *builder) narrowed(text string) string {
	for wide, narrow := range b.narrow { // one at most: a cell has one result
		if at := strings.LastIndex(text, wide); at >= 0 {
			text = text[:at] + narrow + strings.TrimPrefix(text[at+len(wide):], "\n")
		}
	}
	return text
}

// csv adds a table as a document, unless the text shows all of it.
func (b *builder) csv(t *table, complete bool) {
	b.tables++
	if complete {
		return
	}
	name := "table.csv"
	if b.tables > 1 {
		name = fmt.Sprintf("table-%d.csv", b.tables)
	}
	b.document(b.keep(name, "text/csv", []byte(b.clean(string(t.csv())))))
}

func (b *builder) insert(output int, text string) {
	if text != "" {
		b.inserts = append(b.inserts, insert{output, text})
	}
}

// picture adds an image of a display.
func (b *builder) picture(m media) {
	if !isPhoto(b.target, m.mediaType, int64(len(m.content)), m.content) {
		b.file("chart", m.mediaType, m.content)
		return
	}
	b.photos = append(b.photos, b.keep(fmt.Sprintf("chart-%d%s", len(b.photos)+1, extensions[m.mediaType]), m.mediaType, m.content))
}

// file adds a display as a document.
func (b *builder) file(name, mediaType string, content []byte) {
	b.shown++
	extension := extensions[mediaType]
	if extension == "" {
		extension = ".bin"
	}
	b.document(b.keep(fmt.Sprintf("%s-%d%s", name, b.shown, extension), mediaType, content))
}

// keep makes an artifact of bytes that only the plan has.
func (b *builder) keep(name, mediaType string, content []byte) Artifact {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	size := int64(len(content))
	a := Artifact{
		SHA256: digest, URL: api.RenderedFileURL(b.src.SessionID, b.src.ID, digest), MediaType: mediaType, FileName: name, Size: &size,
	}
	if _, known := b.files[digest]; !known {
		b.files[digest] = File{a, content}
	}
	return a
}

// document adds a document, or a line that names it if it is too large for the target.
func (b *builder) document(a Artifact) {
	if a.Size != nil && *a.Size > b.limits.FileBytes {
		b.tooLarge(a.FileName, *a.Size)
		return
	}
	b.documents = append(b.documents, Part{Kind: api.RenderDocument, Artifacts: []Artifact{a}, FileName: a.FileName})
}

func (b *builder) tooLarge(name string, size int64) {
	fmt.Fprintf(&b.notes, "[%s is %.1f MB, which is too large to send here: download it from the session]\n", oneLine(name), float64(size)/1e6)
}

// wholeText adds all of the text as documents: one, unless it is too large for the target.
func (b *builder) wholeText(text string) {
	for number := 1; text != ""; number++ {
		var piece string
		piece, text = firstBytes(text, b.limits.FileBytes)
		name := wholeName
		if number > 1 {
			name = fmt.Sprintf("output-%d.txt", number)
		}
		a := b.keep(name, "text/plain; charset=utf-8", []byte(piece))
		b.whole = append(b.whole, Part{Kind: api.RenderDocument, Artifacts: []Artifact{a}, FileName: name})
	}
}

// firstBytes cuts a text that is longer than limit, at the end of a line unless that is too far back.
func firstBytes(text string, limit int64) (piece, rest string) {
	if int64(len(text)) <= limit {
		return text, ""
	}
	end := int(limit)
	if line := strings.LastIndexByte(text[:end], '\n') + 1; line > end/2 {
		end = line
	}
	for end > 1 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], text[end:]
}

// workspaceFiles adds the files that the execution created or changed. An image among them is a photo if nothing else
// was shown; after a chart, the file is a copy for keeping.
func (b *builder) workspaceFiles() {
	sent := 0
	showImages := len(b.photos) == 0
	var unsent []string
	for _, a := range b.src.Artifacts {
		switch {
		case a.Change == api.Deleted:
			continue
		case a.URL == "" || a.SHA256 == "" || sent >= maxFiles:
			unsent = append(unsent, a.Path)
			continue
		}
		sent++
		made := Artifact{SHA256: a.SHA256, URL: a.URL, MediaType: a.MediaType, FileName: fileName(a.Path), Size: a.Size}
		if showImages && b.isPhotoFile(a) {
			b.photos = append(b.photos, made)
		} else {
			b.document(made)
		}
	}
	if len(unsent) > 0 {
		fmt.Fprintf(&b.notes, "[%s not sent: %s]\n", plural(int64(len(unsent)), "file"), listed(unsent))
		if len(unsent) > maxNames {
			b.document(b.keep("files.txt", "text/plain; charset=utf-8", []byte(strings.Join(unsent, "\n")+"\n")))
		}
	}
}

func (b *builder) isPhotoFile(a api.Artifact) bool {
	if a.Size == nil || b.src.Head == nil || !strings.HasPrefix(a.MediaType, "image/") {
		return false
	}
	return isPhoto(b.target, a.MediaType, *a.Size, b.src.Head(a.SHA256))
}

// gallery returns the photos: several that can be shown together as albums.
func (b *builder) gallery() (parts []Part) {
	for rest := b.photos; len(rest) > 0; {
		n := b.together(rest)
		part := Part{Kind: api.RenderPhoto, Artifacts: rest[:n:n]}
		if n > 1 {
			part.Kind = api.RenderAlbum
		}
		if len(parts) == 0 {
			part.Caption = caption(b.src.Execution)
		}
		parts, rest = append(parts, part), rest[n:]
	}
	return parts
}

// together returns how many of the photos, at least one, fit into one message.
func (b *builder) together(photos []Artifact) int {
	var bytes int64
	for n, photo := range photos[:min(len(photos), b.limits.Album)] {
		if bytes += *photo.Size; n > 0 && bytes > b.limits.AlbumBytes {
			return n
		}
	}
	return min(len(photos), b.limits.Album)
}

// caption names the cell that made the photos, and the time that it took.
func caption(e api.Execution) string {
	took := fmt.Sprintf("%.1f s", float64(e.Usage.DurationMS)/1000)
	if e.ExecutionCount == nil {
		return took
	}
	return fmt.Sprintf("Cell %d · %s", *e.ExecutionCount, took)
}

func (b *builder) clean(text string) string {
	if b.src.Clean == nil || text == "" {
		return text
	}
	return b.src.Clean(text)
}

// fileName returns the name under which a file of the workspace is sent.
func fileName(name string) string {
	name = oneLine(path.Base(strings.ReplaceAll(name, `\`, "/")))
	if name == "" || name == "." || name == ".." || name == "/" {
		return "file"
	}
	return shorten(name, 120)
}

// listed names some paths.
func listed(paths []string) string {
	var list []string
	for _, p := range paths[:min(len(paths), maxNames)] {
		list = append(list, shorten(oneLine(p), 60))
	}
	if len(paths) > maxNames {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}
