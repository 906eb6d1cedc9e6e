package server

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"talaria/api"
	"talaria/session"
)

// getDocument returns the arrangement of the notebook page; its ETag is the revision.
func (s *Server) getDocument(c *call, sess *session.Session) error {
	doc, err := sess.Notebook().Document(c.ctx())
	if err != nil {
		return err
	}
	return answerDocument(c, http.StatusOK, doc)
}

// getView answers with what a page shows of the session. It is written execution by execution, since all of them may not fit into memory.
func (s *Server) getView(c *call, sess *session.Session) error {
	to := &body{c: c, kind: "application/json"}
	out := bufio.NewWriterSize(to, 64<<10)
	write := func(before string, value any, after string) error {
		encoded, err := api.Marshal(value)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s%s%s", before, encoded, after)
		}
		return err
	}
	info := sess.Info(c.ctx())
	comma := ""
	err := sess.Notebook().View(c.ctx(), info.LastSeq, func(doc api.Document) error {
		return write(fmt.Sprintf(`{"log_id":%s,"seq":%d,"document":`, api.Text(info.LogID), info.LastSeq), doc, `,"executions":[`)
	}, func(e api.Execution) error {
		before := comma
		comma = ","
		return write(before, e, "")
	})
	if err == nil {
		_, _ = out.WriteString("]}") // Flush fails, too
		err = out.Flush()
	}
	return to.ended(err)
}

func answerDocument(c *call, status int, doc api.Document) error {
	c.Header("ETag", revisionTag(doc.Revision))
	return c.answer(status, doc)
}

func revisionTag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// putDocument saves the document in place of the revision that If-Match names. Without If-Match, and without a
// revision in the body, it only replaces a document that was never saved.
func (s *Server) putDocument(c *call, sess *session.Session) error {
	var req api.DocumentRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	revision, err := s.wantedRevision(c, sess, req)
	if err != nil {
		return err
	}
	doc, err := sess.Notebook().PutDocument(c.command(), revision, req)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeRevisionConflict {
		now, readErr := sess.Notebook().Document(c.ctx())
		if readErr != nil {
			return readErr
		}
		c.Header("ETag", revisionTag(now.Revision))
		conflict := *refused
		conflict.Document = &now
		return &conflict
	}
	if err != nil {
		return err
	}
	return answerDocument(c, http.StatusOK, doc)
}

func (s *Server) wantedRevision(c *call, sess *session.Session, req api.DocumentRequest) (int64, error) {
	match := strings.TrimSpace(c.GetHeader("If-Match"))
	switch {
	case match == "*":
		now, err := sess.Notebook().Document(c.ctx())
		return now.Revision, err
	case match != "":
		revision, ok := parseSeq(strings.Trim(strings.TrimPrefix(match, "W/"), `"`))
		if !ok {
			return -1, nil // it belongs to something else: it cannot be the current one
		}
		return revision, nil
	case req.Revision != nil:
		return *req.Revision, nil
	}
	return 0, nil
}
