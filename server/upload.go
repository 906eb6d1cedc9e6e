package server

import (
	"errors"
	"io"
	"mime/multipart"
	"net/http"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

func (s *Server) putFile(c *call, sess *session.Session) error {
	if c.Request.Header.Get("Content-Range") != "" {
		return api.Errorf(api.CodeInvalidRequest, "partial uploads are not supported; send the whole file")
	}
	body := &transfer.Upload{From: c.Request.Body}
	created, file, err := sess.Files().Put(c.command(), c.filePath(), body)
	if err != nil {
		return blame(body, err)
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
	name, isFile, err := transfer.FileName(part)
	if err != nil || !isFile {
		return api.File{}, api.Errorf(api.CodeInvalidRequest, "field %.80q is not a file", part.FormName())
	}
	body := &transfer.Upload{From: part}
	_, file, err := sess.Files().Put(c.command(), name, body)
	return file, blame(body, err)
}

// blame returns err, attributed to the client if its body broke off.
func blame(u *transfer.Upload, err error) error {
	if err != nil && u.Failed != nil {
		return bodyError(u.Failed)
	}
	return err
}
