package mcp

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session"
)

// maxResource bounds what is read as one resource: the whole of it is in one answer.
const maxResource = 16 << 20

func fileURI(id, path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return sessionURI(id) + "/files/" + strings.Join(segments, "/")
}

func (h *Handler) addResources(server *sdk.Server) {
	const base = "talaria://sessions/{session_id}"
	for _, t := range []*sdk.ResourceTemplate{
		{Name: "file", URITemplate: base + "/files/{+path}", Description: "A file of the workspace."},
		{Name: "artifact", URITemplate: base + "/artifacts/{sha256}", Description: "A file as an execution left it."},
		{Name: "output", URITemplate: base + "/executions/{execution_id}/output", MIMEType: "text/plain", Description: "Everything that an execution printed."},
		{Name: "picture", URITemplate: base + "/executions/{execution_id}/images/{n}", Description: "A picture that an execution drew."},
		{Name: "notebook", URITemplate: base + "/notebook.ipynb", MIMEType: "application/x-ipynb+json", Description: "The session as a Jupyter notebook."},
	} {
		server.AddResourceTemplate(t, h.readResource)
	}
}

func (h *Handler) readResource(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	q := requestOf(ctx)
	id, kind, rest, ok := parseURI(req.Params.URI)
	if !ok {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	sess, err := q.session(id, api.RightRead)
	if err != nil {
		return nil, h.resourceError(q, req.Params.URI, err)
	}
	defer sess.Release()
	data, media, err := readFrom(q, sess, kind, rest)
	if err != nil {
		return nil, h.resourceError(q, req.Params.URI, err)
	}
	c := &sdk.ResourceContents{URI: req.Params.URI, MIMEType: media}
	if isText(media, data) {
		c.Text = string(data)
	} else {
		c.Blob = data
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

// resourceError is an error of reading, as the protocol has it: what is not there, or not the caller's, is not found.
func (h *Handler) resourceError(q *request, uri string, err error) error {
	problem := h.Problem(q.ctx, err, "resources/read")
	switch problem.Code {
	case api.CodeSessionNotFound, api.CodeExecutionNotFound, api.CodeFileNotFound, api.CodeArtifactNotFound, api.CodeNotFound:
		return sdk.ResourceNotFoundError(uri)
	}
	return errors.New(problem.Detail)
}

// parseURI takes talaria://sessions/ID/KIND/REST apart; REST is decoded.
func parseURI(uri string) (id, kind, rest string, ok bool) {
	path, ok := strings.CutPrefix(uri, "talaria://sessions/")
	if !ok {
		return "", "", "", false
	}
	rawID, path, _ := strings.Cut(path, "/")
	kind, rawRest, _ := strings.Cut(path, "/")
	id, err := url.PathUnescape(rawID)
	if err != nil || id == "" {
		return "", "", "", false
	}
	rest, err = url.PathUnescape(rawRest)
	return id, kind, rest, err == nil
}

// readFrom reads what a resource names, and its media type.
func readFrom(q *request, sess *session.Session, kind, rest string) ([]byte, string, error) {
	missing := api.Errorf(api.CodeNotFound, "the session has no resource %.180q; resources/templates/list describes the existing kinds", kind+"/"+rest)
	switch kind {
	case "files":
		f, info, err := sess.Files().Open(q.ctx, rest)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		data, err := readAtMost(f, maxResource)
		return data, info.MediaType, err
	case "artifacts":
		f, media, err := sess.OpenArtifact(q.ctx, rest)
		if err != nil {
			return nil, "", err
		}
		defer f.Close()
		data, err := readAtMost(f, maxResource)
		return data, media, err
	case "notebook.ipynb":
		var b bytes.Buffer
		err := sess.Notebook().Export(q.ctx, &b)
		if err == nil && b.Len() > maxResource {
			_, err = readAtMost(&b, maxResource)
		}
		return b.Bytes(), "application/x-ipynb+json", err
	case "executions":
		execution, part, _ := strings.Cut(rest, "/")
		e, err := sess.Executions().Get(q.ctx, execution)
		if err != nil {
			return nil, "", err
		}
		if part == "output" {
			text, err := wholeText(q.ctx, sess, e)
			return []byte(text), "text/plain", err
		}
		list := images(e.Outputs)
		number, isImage := strings.CutPrefix(part, "images/")
		n, err := strconv.Atoi(number)
		if !isImage || err != nil || n < 0 || n >= len(list) {
			return nil, "", missing
		}
		return list[n], mediaOf(list[n]), nil
	}
	return nil, "", missing
}

// isText reports whether data is sent as text: not for pictures and the like, and only if it is UTF-8.
func isText(media string, data []byte) bool {
	for _, binary := range []string{"image/p", "image/j", "image/g", "image/w", "audio/", "video/", "application/octet-stream", "application/zip"} {
		if strings.HasPrefix(media, binary) {
			return false
		}
	}
	return utf8.Valid(data) && !bytes.ContainsRune(data, 0)
}
