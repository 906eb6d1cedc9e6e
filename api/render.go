package api

import "net/url"

// RenderTarget is the kind of chat that an execution is rendered for.
type RenderTarget string

// The targets.
const (
	RenderTelegram RenderTarget = "telegram"
	RenderSlack    RenderTarget = "slack"
	RenderDiscord  RenderTarget = "discord"
	RenderPlain    RenderTarget = "plain"
)

// RenderTargets lists every target.
var RenderTargets = []RenderTarget{RenderTelegram, RenderSlack, RenderDiscord, RenderPlain}

// Rendering is an execution as messages of a chat: what to send, in this order.
type Rendering struct {
	Parts []RenderPart `json:"parts"`
}

// RenderPartKind says what a part is sent as.
type RenderPartKind string

// The kinds of parts.
const (
	RenderText     RenderPartKind = "text"
	RenderPhoto    RenderPartKind = "photo"
	RenderAlbum    RenderPartKind = "album"
	RenderDocument RenderPartKind = "document"
)

// RenderFormat names the markup of a text. Whoever sends the text passes it on unchanged in this format.
type RenderFormat string

// The formats: Telegram's parse mode HTML, Slack's mrkdwn, Discord's Markdown, and none.
const (
	RenderHTML        RenderFormat = "html"
	RenderMrkdwn      RenderFormat = "mrkdwn"
	RenderMarkdown    RenderFormat = "markdown"
	RenderUnformatted RenderFormat = "plain"
)

// RenderPart is one message. A text has Text and Format; the others have Artifacts: a photo and a document one, an
// album 2 to 10. Caption is plain text that is safe in every format; below one of several texts, it numbers them, like
// "(1/3)". FileName is the name of a document.
type RenderPart struct {
	Kind      RenderPartKind   `json:"kind"`
	Text      string           `json:"text,omitzero"`
	Format    RenderFormat     `json:"format,omitzero"`
	Artifacts []RenderArtifact `json:"artifacts,omitzero"`
	Caption   string           `json:"caption,omitzero"`
	FileName  string           `json:"file_name,omitzero"`
}

// RenderArtifact is a file of a part. URL serves its bytes to every token that may read the execution. Size is absent
// where it is not known.
type RenderArtifact struct {
	SHA256    string `json:"sha256"`
	URL       string `json:"url"`
	MediaType string `json:"media_type"`
	FileName  string `json:"file_name"`
	Size      *int64 `json:"size,omitzero"`
}

// RenderedFileURL is where the bytes of a file are served that only the rendering of an execution has: a display, a
// table as CSV, a long text.
func RenderedFileURL(session, execution, sha256 string) string {
	return "/v1/sessions/" + url.PathEscape(session) + "/executions/" + url.PathEscape(execution) + "/render/" + sha256
}
