package server

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"talaria/session"
)

// getText answers with all of an execution's text so far, as models read it: also with what its field text leaves out.
func (s *Server) getText(c *call, sess *session.Session) error {
	e, err := sess.Executions().Get(c.ctx(), c.param("eid"))
	if err != nil {
		return err
	}
	text, _, err := sess.Executions().WholeText(c.ctx(), e)
	if err != nil {
		return err
	}
	if text == "" { // nothing is left out, or the log no longer has it
		text = e.Text
	}
	sum := sha256.Sum256([]byte(text))
	download{
		file: strings.NewReader(text), name: "output.txt", media: "text/plain; charset=utf-8",
		tag: `"` + hex.EncodeToString(sum[:]) + `"`, cache: "private, no-cache",
	}.send(c)
	return nil
}
