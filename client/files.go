package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"talaria/api"
)

// Files lists one folder of the workspace, by name; "" is the workspace itself.
func (c *Client) Files(ctx context.Context, session, folder string) ([]api.File, error) {
	q := url.Values{}
	if folder != "" {
		q.Set("path", folder)
	}
	var all []api.File
	for {
		page, err := get[api.Page[api.File]](ctx, c, path("sessions", session, "files"), q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			return all, nil
		}
		q.Set("cursor", page.NextCursor)
	}
}

// GetFile downloads a file.
func (c *Client) GetFile(ctx context.Context, session, file string) (*Download, error) {
	return c.download(ctx, filePath(session, file))
}

// PutFile uploads a file, making it and its folders or replacing it in one step, and tells whether it is new.
func (c *Client) PutFile(ctx context.Context, session, file string, r io.Reader) (api.File, bool, error) {
	resp, err := c.send(ctx, request{
		method: http.MethodPut, path: filePath(session, file), accept: typeJSON, body: r,
		kind: "application/octet-stream",
	})
	if err != nil {
		return api.File{}, false, err
	}
	defer resp.Body.Close()
	var f api.File
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil && err != io.EOF { // an answer without it is fine
		return f, false, fmt.Errorf("read the answer to the upload: %w", err)
	}
	return f, resp.StatusCode == http.StatusCreated, nil
}

// DeleteFile deletes a file, a link itself, or a folder with all that is in it.
func (c *Client) DeleteFile(ctx context.Context, session, file string) error {
	_, err := c.call(ctx, http.MethodDelete, filePath(session, file), nil, nil, nil)
	return err
}

// RenameFile moves a file or folder within the workspace.
func (c *Client) RenameFile(ctx context.Context, session, from, to string) (api.File, error) {
	var f api.File
	_, err := c.call(ctx, http.MethodPatch, filePath(session, from), nil, map[string]string{"path": to}, &f)
	return f, err
}

// Artifacts lists what executions made, newest first.
func (c *Client) Artifacts(ctx context.Context, session string, p api.PageQuery) (api.Page[api.SessionArtifact], error) {
	return get[api.Page[api.SessionArtifact]](ctx, c, path("sessions", session, "artifacts"), pageQuery(p))
}

// GetArtifact downloads the bytes of a digest.
func (c *Client) GetArtifact(ctx context.Context, sha256 string) (*Download, error) {
	return c.download(ctx, path("artifacts", sha256))
}

// Notebook is the session as an .ipynb file.
func (c *Client) Notebook(ctx context.Context, session string) ([]byte, error) {
	d, err := c.download(ctx, path("sessions", session, "notebook"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b, err := io.ReadAll(d)
	if err != nil {
		return nil, fmt.Errorf("read the notebook: %w", err)
	}
	return b, nil
}

// ImportNotebook replaces the cells that the session shows by those of an .ipynb file, and runs none.
func (c *Client) ImportNotebook(ctx context.Context, session string, notebook []byte) error {
	_, err := c.call(ctx, http.MethodPost, path("sessions", session, "notebook"), nil, api.Raw(notebook), nil)
	return err
}

// filePath escapes each segment of a file's path by itself; what is wrong with it is the server's to say.
func filePath(session, file string) string {
	p := path("sessions", session, "files")
	for segment := range strings.SplitSeq(file, "/") {
		p += "/" + url.PathEscape(segment)
	}
	return p
}
