package server

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"talaria/api"
	"talaria/session"
)

func (s *Server) putFile(c *call, sess *session.Session) error {
	if c.Request.Header.Get("Content-Range") != "" {
		return api.Errorf(api.CodeInvalidRequest, "partial uploads are not supported; send the whole file")
	}
	body := &upload{from: c.Request.Body}
	created, file, err := sess.PutFile(c.command(), c.filePath(), body)
	if err != nil {
		return body.blame(err)
	}
	if created {
		return c.answer(http.StatusCreated, file)
	}
	return c.answer(http.StatusOK, file)
}

// postFiles stores the files of a form, each under its file name, which may contain folders.
func (s *Server) postFiles(c *call, sess *session.Session) error {
	form, err := c.Request.MultipartReader()
	if err != nil {
		return errMediaType("multipart/form-data")
	}
	stored := fileList{Items: []api.File{}}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return api.Errorf(api.CodeInvalidRequest, "the form is malformed or was cut off")
		}
		file, err := putPart(c, sess, part)
		if err != nil {
			return err
		}
		stored.Items = append(stored.Items, file)
	}
	if len(stored.Items) == 0 {
		return api.Errorf(api.CodeInvalidRequest, "the form contains no file")
	}
	return c.answer(http.StatusCreated, stored)
}

func putPart(c *call, sess *session.Session, part *multipart.Part) (api.File, error) {
	// Part.FileName would drop the folders.
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	name, ok := params["filename"]
	if err != nil || !ok {
		return api.File{}, api.Errorf(api.CodeInvalidRequest, "field %.80q is not a file", part.FormName())
	}
	body := &upload{from: part}
	_, file, err := sess.PutFile(c.command(), name, body)
	return file, body.blame(err)
}

// upload remembers that reading failed, which is the client's fault and not the server's.
type upload struct {
	from   io.Reader
	failed error
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		u.failed = err
	}
	return n, err
}

// blame returns err, attributed to the client if its body broke off.
func (u *upload) blame(err error) error {
	if err != nil && u.failed != nil {
		return bodyError(u.failed)
	}
	return err
}
