package server

import (
	"net/http"
	"os"

	"talaria/api"
	"talaria/session"
)

func (s *Server) getFiles(c *call, sess *session.Session) error {
	dir, _, err := c.value("path")
	if err != nil {
		return err
	}
	items, truncated, err := sess.Files().List(c.ctx(), dir)
	if err != nil {
		return err
	}
	list := wholeList[api.File]{items: items, key: func(one api.File) string { return one.Name }}
	next, to, asked, err := list.bounds(c)
	if err != nil {
		return err
	}
	l := newPageWriter(c)
	for fits := true; next < to; next++ {
		if fits, err = l.add(items[next]); err != nil || !fits {
			break
		}
	}
	switch {
	case err == nil && asked && next < len(items):
		return l.end(list.cursor(next), nil)
	case truncated || next < len(items):
		return l.close(`,"truncated":true`, err)
	}
	return l.end("", err)
}

// fileList lists a folder, or the files that an upload stored.
type fileList struct {
	Items      []api.File `json:"items"`
	NextCursor string     `json:"next_cursor,omitzero"`
	Truncated  bool       `json:"truncated,omitzero"` // there are more files than a list can hold
}

func (s *Server) getFile(c *call, sess *session.Session) error {
	file, entry, err := sess.Files().Open(c.ctx(), c.filePath())
	if err != nil {
		return err
	}
	defer file.Close()
	return sendFile(c, file, entry, false)
}

// sendFile answers with a file of a workspace. A browser saves it instead of showing it if attached is set.
func sendFile(c *call, file *os.File, as api.File, attached bool) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	download{
		file:     file,
		name:     as.Name,
		media:    as.MediaType,
		attached: attached,
		tag:      fileTag(info),
		modified: info.ModTime(),
		cache:    "private, no-cache",
	}.send(c)
	return nil
}

func (s *Server) deleteFile(c *call, sess *session.Session) error {
	if err := sess.Files().Delete(c.command(), c.filePath()); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	return nil
}

func (s *Server) renameFile(c *call, sess *session.Session) error {
	var req renameRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	if req.Path == nil {
		return missing("path")
	}
	file, err := sess.Files().Rename(c.command(), c.filePath(), *req.Path)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, file)
}

type renameRequest struct {
	Path *string `json:"path"`
}

func (s *Server) listArtifacts(c *call, sess *session.Session) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	list, err := sess.Executions().Artifacts(c.ctx(), page)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

func (s *Server) openArtifact(c *call, digest string) (*os.File, string, error) {
	if c.visit == nil {
		return s.sessions.OpenArtifact(c.ctx(), c.owner, digest)
	}
	sess, err := s.sessions.Get(c.owner, c.visit.Session)
	if err != nil {
		return nil, "", err
	}
	defer sess.Release()
	return sess.OpenArtifact(c.ctx(), digest)
}

func (s *Server) getArtifact(c *call) error {
	digest := c.param("sha256")
	file, media, err := s.openArtifact(c, digest)
	if err != nil {
		return err
	}
	defer file.Close()
	download{
		file:  file,
		media: media,
		tag:   `"` + digest + `"`,
		cache: "private, max-age=31536000, immutable",
	}.send(c)
	return nil
}
