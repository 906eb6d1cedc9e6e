package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
)

const (
	defaultReadBytes = 50_000
	maxReadBytes     = 1 << 20
)

type listFilesInput struct {
	Path      string `json:"path,omitzero" jsonschema:"A folder of the workspace; omit it for the workspace itself."`
	SessionID string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
}

type readFileInput struct {
	Path      string `json:"path" jsonschema:"A file of the workspace."`
	SessionID string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
	Offset    int64  `json:"offset,omitzero" jsonschema:"Start at this byte (default 0)."`
	MaxBytes  int64  `json:"max_bytes,omitzero" jsonschema:"Read at most this many bytes (default 50000, at most 1048576)."`
}

type writeFileInput struct {
	Path      string  `json:"path" jsonschema:"The file to write in the workspace; missing folders are created."`
	Text      *string `json:"text,omitzero" jsonschema:"The content as text; pass either this or base64."`
	Base64    *string `json:"base64,omitzero" jsonschema:"The content as base64."`
	SessionID string  `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
}

type fileInfo struct {
	Path      string `json:"path"`
	Kind      string `json:"kind"`
	Size      int64  `json:"size"`
	MediaType string `json:"media_type,omitzero"`
}

type fileList struct {
	SessionID string     `json:"session_id"`
	Files     []fileInfo `json:"files"`
	Truncated bool       `json:"truncated"`
}

type fileContent struct {
	SessionID  string  `json:"session_id"`
	Path       string  `json:"path"`
	Size       int64   `json:"size"`
	MediaType  string  `json:"media_type,omitzero"`
	Text       *string `json:"text,omitzero"`
	Base64     *string `json:"base64,omitzero"`
	NextOffset *int64  `json:"next_offset,omitzero"`
}

type fileWritten struct {
	SessionID string `json:"session_id"`
	Path      string `json:"path"`
	Size      int64  `json:"size"`
	Created   bool   `json:"created"`
}

func fileOf(f api.File) fileInfo { return fileInfo{f.Path, f.Kind, f.Size, f.MediaType} }

func (h *Handler) listFiles(_ context.Context, q *request, _ *sdk.CallToolRequest, in listFilesInput) (*sdk.CallToolResult, fileList, error) {
	sess, err := q.session(in.SessionID, api.RightRead)
	if err != nil {
		return nil, fileList{}, err
	}
	defer sess.Release()
	files, truncated, err := sess.Files().List(q.ctx, in.Path)
	if err != nil {
		return nil, fileList{}, err
	}
	list := fileList{SessionID: q.nameOf(in.SessionID), Files: []fileInfo{}, Truncated: truncated}
	var text strings.Builder
	for _, f := range files {
		list.Files = append(list.Files, fileOf(f))
		fmt.Fprintf(&text, "%s  %s  %d bytes\n", f.Path, f.Kind, f.Size)
	}
	if text.Len() == 0 {
		text.WriteString("The folder is empty.")
	}
	return said(text.String()), list, nil
}

func (h *Handler) readFile(_ context.Context, q *request, _ *sdk.CallToolRequest, in readFileInput) (*sdk.CallToolResult, fileContent, error) {
	most := in.MaxBytes
	switch {
	case most == 0:
		most = defaultReadBytes
	case most < 0 || most > maxReadBytes:
		return nil, fileContent{}, api.Errorf(api.CodeInvalidRequest, "max_bytes must be between 1 and %d", maxReadBytes)
	}
	if in.Offset < 0 {
		return nil, fileContent{}, api.Errorf(api.CodeInvalidRequest, "offset must be 0 or more")
	}
	sess, err := q.session(in.SessionID, api.RightRead)
	if err != nil {
		return nil, fileContent{}, err
	}
	defer sess.Release()
	f, info, err := sess.Files().Open(q.ctx, in.Path)
	if err != nil {
		return nil, fileContent{}, err
	}
	defer f.Close()
	found := fileContent{SessionID: q.nameOf(in.SessionID), Path: info.Path, Size: info.Size, MediaType: info.MediaType}
	link := &sdk.ResourceLink{URI: fileURI(found.SessionID, info.Path), Name: info.Path, MIMEType: info.MediaType, Size: &info.Size}
	if isPicture(info.MediaType) && in.Offset == 0 && in.MaxBytes == 0 {
		if data, err := readAtMost(f, maxImageBytes); err == nil {
			if small, media, err := Thumbnail(data); err == nil {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: small, MIMEType: media}, link}}, found, nil
			}
		}
	}
	data, err := io.ReadAll(io.NewSectionReader(f, in.Offset, most))
	if err != nil {
		return nil, fileContent{}, err
	}
	more := in.Offset+int64(len(data)) < info.Size
	text, isText := asText(data, more)
	if isText {
		data = data[:len(text)]
		found.Text = &text
	} else {
		encoded := base64.StdEncoding.EncodeToString(data)
		found.Base64, text = &encoded, encoded
	}
	r := said(text)
	if more {
		next := in.Offset + int64(len(data))
		found.NextOffset = &next
		r.Content = append(r.Content, &sdk.TextContent{Text: fmt.Sprintf("[%d of %d bytes; continue with offset %d]", len(data), info.Size, next)}, link)
	}
	return r, found, nil
}

// asText returns data as text, if it is. Where more follows, the last character may be cut off: it is left for the next piece.
func asText(data []byte, more bool) (string, bool) {
	for cut := 0; cut < utf8.UTFMax && cut <= len(data); cut++ {
		if head := data[:len(data)-cut]; utf8.Valid(head) && (len(head) > 0 || len(data) == 0) && !bytes.ContainsRune(head, 0) {
			return string(head), true
		}
		if !more {
			break
		}
	}
	return "", false
}

func (h *Handler) writeFile(_ context.Context, q *request, _ *sdk.CallToolRequest, in writeFileInput) (*sdk.CallToolResult, fileWritten, error) {
	var content io.Reader
	switch {
	case in.Text != nil && in.Base64 == nil:
		content = strings.NewReader(*in.Text)
	case in.Base64 != nil && in.Text == nil:
		data, err := base64.StdEncoding.DecodeString(*in.Base64)
		if err != nil {
			return nil, fileWritten{}, api.Errorf(api.CodeInvalidRequest, "base64 is not valid: %v", err)
		}
		content = bytes.NewReader(data)
	default:
		return nil, fileWritten{}, api.Errorf(api.CodeInvalidRequest, "give either text or base64")
	}
	sess, err := q.session(in.SessionID, api.RightWrite)
	if err != nil {
		return nil, fileWritten{}, err
	}
	defer sess.Release()
	created, f, err := sess.Files().Put(q.command(), in.Path, content)
	if err != nil {
		return nil, fileWritten{}, err
	}
	return said(fmt.Sprintf("Wrote %d bytes to %s.", f.Size, f.Path)),
		fileWritten{SessionID: q.nameOf(in.SessionID), Path: f.Path, Size: f.Size, Created: created}, nil
}
