package session

import (
	"context"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"talaria/api"
	"talaria/artifacts"
	"talaria/kernel/record"
	"talaria/store"
)

const (
	// maxDisplay is the largest display that the log takes; a larger one becomes an artifact.
	maxDisplay = 16 << 20
	// maxMetadata is the largest metadata of a display.
	maxDisplayMetadata = 1 << 20
)

// displays counts what an execution shows: displays, their updates, and clears. Within limits.display_bytes all of it
// goes to the log. Beyond that a display keeps its text/plain, until these take another limits.output_bytes; the rest
// is dropped. Sizes are those of the events as JSON, each at least eventCost.
type displays struct {
	Used    int64 `json:"used,omitzero"`    // of limits.display_bytes
	Text    int64 `json:"text,omitzero"`    // of limits.output_bytes, once display_bytes are used up
	Over    bool  `json:"over,omitzero"`    // they are
	Dropped int64 `json:"dropped,omitzero"` // displays
	Lacking int64 `json:"lacking,omitzero"` // bytes that the log does not have
}

// fits takes n bytes of limits.display_bytes, if that many are left.
func (d *displays) fits(n, limit int64) bool {
	n = max(n, eventCost)
	if d.Over || d.Used+n > limit {
		d.Over = true
		return false
	}
	d.Used += n
	return true
}

// fitsText takes n of the bytes that are left for text once limits.display_bytes are used up.
func (d *displays) fitsText(n, limit int64) bool {
	n = max(n, eventCost)
	if d.Text+n > limit {
		return false
	}
	d.Text += n
	return true
}

func (d *displays) drop(n int64) {
	d.Dropped++
	d.Lacking += n
}

// show takes an event that shows something, and returns the part that goes to the log.
func (o *output) show(d draft, plain func() draft) ([]draft, error) {
	if err := d.encode(); err != nil {
		return nil, err
	}
	size := int64(len(d.encoded))
	was := o.shown.Over
	if o.shown.fits(size, o.displayLimit) {
		return []draft{d}, nil
	}
	var drafts []draft
	if !was {
		drafts = o.notice(fmt.Sprintf(
			"\n[the displays of this cell reached limits.display_bytes (%d): from here on, each display keeps only its text/plain]\n",
			o.displayLimit))
	}
	short := plain()
	if short.body == nil {
		o.shown.drop(size)
		return drafts, nil
	}
	if err := short.encode(); err != nil {
		return drafts, err
	}
	kept := int64(len(short.encoded))
	if !o.shown.fitsText(kept, o.limit) {
		o.shown.drop(size)
		return drafts, nil
	}
	o.shown.Lacking += max(0, size-kept)
	return append(drafts, short), nil
}

// notice tells the cell's user something, as if the cell had printed it.
func (o *output) notice(text string) []draft { return o.add("stderr", text) }

// leftOut tells at the end how many displays were dropped, where some were.
func (o *output) leftOut() []draft {
	if o.shown.Dropped == 0 {
		return nil
	}
	return o.notice(fmt.Sprintf("\n[%d displays and clears were dropped: their text alone exceeds limits.output_bytes (%d)]\n",
		o.shown.Dropped, o.limit))
}

// showDisplay logs a display of the running execution, within its limits.
func (t *translation) showDisplay(running *execution, b record.Display) {
	if running.out.shown.Over || rawSize(b.Data, b.Metadata) > running.out.displayLimit { // a large one makes no artifact then
		t.show(running, draft{executionID: running.row.ID, body: rawDisplay(b)}, b)
		return
	}
	t.show(running, t.s.out.display(t.ctx, running.row.ID, b, t.hold), b)
}

func (t *translation) show(running *execution, d draft, b record.Display) {
	drafts, err := running.out.show(d, func() draft { return plainDisplay(running.row.ID, b) })
	if err != nil {
		t.s.log.Error("encode a display", "error", err)
	}
	t.c.drafts = append(t.c.drafts, drafts...)
}

// showClear logs a clear_output of the running execution, within its limits.
func (t *translation) showClear(running *execution, b record.Clear) {
	d := draft{executionID: running.row.ID, body: api.ClearOutput{Wait: b.Wait}}
	drafts, err := running.out.show(d, func() draft { return d })
	if err != nil {
		t.s.log.Error("encode a clear_output", "error", err)
	}
	t.c.drafts = append(t.c.drafts, drafts...)
}

// rawSize returns about what a bundle takes as JSON.
func rawSize(bundles ...map[string]json.RawMessage) (n int64) {
	for _, bundle := range bundles {
		for name, value := range bundle {
			n += int64(len(name)+len(value)) + 4
		}
	}
	return n
}

// rawDisplay returns the event of a display, whatever its size.
func rawDisplay(b record.Display) api.EventBody {
	data := make(api.MIMEBundle, len(b.Data))
	for mime, v := range b.Data {
		data[mime] = api.Raw(v)
	}
	return displayBody(b, data, metadata(b.Metadata))
}

func displayBody(b record.Display, data api.MIMEBundle, meta map[string]api.Raw) api.EventBody {
	if b.Update {
		return api.UpdateDisplayData{Data: data, Metadata: meta, DisplayID: b.DisplayID}
	}
	return api.DisplayData{Data: data, Metadata: meta, DisplayID: b.DisplayID}
}

// plainDisplay returns a display with only its text/plain, and how an item of a map ended, or an empty draft if the display has
// none.
func plainDisplay(executionID string, b record.Display) draft {
	plain, ok := b.Data["text/plain"]
	if !ok {
		return draft{}
	}
	data := api.MIMEBundle{"text/plain": api.Raw(plain)}
	if isMapItem(b.Data) {
		data[api.MediaMapItem] = api.Raw(b.Data[api.MediaMapItem])
	}
	return draft{executionID: executionID, body: displayBody(b, data, map[string]api.Raw{})}
}

// display makes the event of a display that is within the limits.
func (o *outputHome) display(ctx context.Context, executionID string, b record.Display, hold *artifacts.Hold) draft {
	data, meta, refs := o.bundle(ctx, b.Data, b.Metadata, hold)
	return draft{executionID: executionID, refs: refs, body: displayBody(b, data, meta)}
}

func metadata(m map[string]json.RawMessage) map[string]api.Raw {
	out := make(map[string]api.Raw, len(m))
	for k, v := range m {
		out[k] = api.Raw(v)
	}
	return out
}

// bundle returns the data and metadata for an event. Values that are too large together become artifacts, the largest
// first, and a notice in text/plain names them. hold protects the artifacts.
func (o *outputHome) bundle(ctx context.Context, data, meta map[string]json.RawMessage, hold *artifacts.Hold) (
	out api.MIMEBundle, about map[string]api.Raw, refs []ref) {
	out = make(api.MIMEBundle, len(data))
	for mime, v := range data {
		out[mime] = api.Raw(v)
	}
	about = metadata(meta)
	if size := rawSize(meta); size > maxDisplayMetadata {
		about = map[string]api.Raw{}
		out["text/plain"] = withNotice(out["text/plain"], fmt.Sprintf("[the metadata was left out: it has %d bytes; the limit is %d]",
			size, maxDisplayMetadata))
	}
	size := rawSize(data)
	for size > maxDisplay && len(out) > 0 {
		mime := largest(out)
		value := out[mime]
		size -= int64(len(value))
		delete(out, mime)
		out["text/plain"] = withNotice(out["text/plain"], o.keepLarge(ctx, mime, value, hold, &refs))
	}
	return out, about, refs
}

// keepLarge makes an artifact of a value that is too large to show, and returns the notice that replaces it.
func (o *outputHome) keepLarge(ctx context.Context, mime string, value api.Raw, hold *artifacts.Hold, refs *[]ref) string {
	content := decoded(mime, value)
	blob, err := artifacts.Blob{}, o.spare()
	if err == nil {
		err = o.makeRoom(ctx, int64(len(content)))
	}
	if err == nil {
		blob, err = hold.PutBytes(ctx, content)
	}
	if err != nil {
		o.log.Warn("a large display is not kept", "bytes", len(content), "error", err)
		return fmt.Sprintf("[%s of %d bytes is too large to show and was not kept: limits.artifact_bytes leaves no room for it]",
			mime, len(content))
	}
	*refs = append(*refs, ref{blob.SHA256, store.RefPublic, mime, o.artifacts.Space(blob.SHA256)})
	return fmt.Sprintf("[%s of %d bytes is too large to show; it is the artifact %s]", mime, blob.Size, api.ArtifactURL(blob.SHA256))
}

// withNotice returns a text/plain with a notice below it.
func withNotice(plain api.Raw, notice string) api.Raw {
	var text string
	if plain != nil && jsonv2.Unmarshal(plain, &text) == nil && text != "" {
		text += "\n"
	}
	return api.Text(text + notice)
}
