// Package render turns an execution into messages of a chat: texts, photos, albums and documents within the limits of
// the chat's platform, with nothing lost. It does no I/O.
//
// Output is hostile. Each target has one format of texts, chosen because it can be escaped safely, and what was printed
// is always inside a code block of it, where it can contain neither markup nor mentions.
package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"talaria/api"
)

const (
	maxTexts  = 3            // messages that a long text takes before it becomes a document
	maxFiles  = 10           // files of the workspace that are sent; more are listed in a document
	wholeName = "output.txt" // the document that holds a long text
)

// The wire types, under the names that they have here.
type (
	Target   = api.RenderTarget
	Part     = api.RenderPart
	Artifact = api.RenderArtifact
)

// Source is what [Render] reads: an execution, with its outputs, and what it does not contain itself.
//
// Gateways that talk to a server ask it for the rendering (client.Render), since only the server can fill in the
// fields beside the execution.
type Source struct {
	api.Execution
	// Whole is all of the text where Execution.Text lacks a part of it, or "".
	Whole string
	// Streams are the artifacts that hold all of a stream that was too long for the log.
	Streams []Artifact
	// Clean removes secrets and terminal sequences from a text that a display shows. Nil leaves it as it is.
	Clean func(string) string
	// Head returns the first bytes of an artifact, some 64 KiB, so that the dimensions of an image can be read, or nil.
	// A nil Head, or an image without dimensions, makes the image a document.
	Head func(sha256 string) []byte
}

// Plan is what to send, in order.
type Plan struct {
	Parts []Part
	files map[string]File
}

// File is an artifact that only a plan has, such as a display or a long text.
type File struct {
	Artifact
	Content []byte
}

// File returns such a file. The other artifacts of a plan are the server's.
func (p *Plan) File(sha256 string) (f File, ok bool) {
	f, ok = p.files[sha256]
	return f, ok
}

// Render makes the plan of an execution for one of [api.RenderTargets]. The same source gives the same plan. An
// execution that has ended always has a part; one that still runs has what it has shown so far.
func Render(src Source, t Target) Plan {
	b := &builder{src: src, target: t, limits: LimitsOf(t), files: map[string]File{}}
	for i, o := range src.Outputs {
		switch o.OutputType {
		case "display_data":
			b.show(i, o.Data)
		case "execute_result":
			b.result(i, o.Data)
		}
	}
	for _, a := range src.Streams {
		b.document(a)
	}
	b.workspaceFiles()
	b.write()
	parts := slices.Concat(b.texts, b.gallery(), b.whole, b.documents)
	if len(parts) == 0 && src.Status.Final() {
		parts = []Part{{Kind: api.RenderText, Text: "(no output)", Format: FormatOf(t)}}
	}
	return Plan{parts, b.files}
}

// builder collects the parts of one plan.
type builder struct {
	src       Source
	target    Target
	limits    Limits
	inserts   []insert
	notes     strings.Builder   // lines below the text
	narrow    map[string]string // wide tables of the text, and what is sent instead
	texts     []Part
	photos    []Artifact // each has a size
	whole     []Part
	documents []Part
	tables    int
	shown     int // displays that became documents
	files     map[string]File
}

// write makes the texts, and the document of one that does not fit.
func (b *builder) write() {
	e := b.src.Execution
	below := b.notes.String() + failure(e) + note(e)
	whole := b.withNotes(compose(cmp.Or(b.src.Whole, e.Text), e.Outputs, b.inserts), below)
	sent := b.withNotes(compose(b.narrowed(e.Text), e.Outputs, b.inserts), below)
	if strings.TrimSpace(sent) == "" {
		return
	}
	sent = visible(sent)
	pieces, fits := texts(b.target, sent)
	for i, piece := range pieces {
		part := Part{Kind: api.RenderText, Text: Code(b.target, piece), Format: FormatOf(b.target)}
		if len(pieces) > 1 {
			part.Caption = fmt.Sprintf("(%d/%d)", i+1, len(pieces))
		}
		b.texts = append(b.texts, part)
	}
	if !fits {
		b.texts = []Part{{Kind: api.RenderText, Text: excerpt(b.target, sent), Format: FormatOf(b.target)}}
	}
	if !fits || b.src.Whole != "" || len(b.narrow) > 0 {
		b.wholeText(whole)
	}
}

func (*builder) withNotes(text, notes string) string {
	if text != "" && notes != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + notes
}
