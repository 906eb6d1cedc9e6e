package server

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"talaria/api"
)

// body is the body of an answer that is written while it is generated. Until its first byte is written the handler may
// still answer with an error.
type body struct {
	c     *call
	kind  string
	begun bool
}

// Write implements [io.Writer].
func (b *body) Write(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		b.c.Header("Content-Type", b.kind)
		b.c.Status(http.StatusOK)
	}
	return b.c.Writer.Write(p)
}

// ended returns a handler's result after err: once the body has begun it can only be broken off, so that a client can
// tell.
func (b *body) ended(err error) error {
	if err != nil && b.begun {
		panic(http.ErrAbortHandler)
	}
	return err
}

// pageWriter writes a page of a list, item by item, so that no page is ever in memory as a whole.
type pageWriter struct {
	body body
	out  *bufio.Writer
	size int
}

func newPageWriter(c *call) *pageWriter {
	l := &pageWriter{body: body{c: c, kind: "application/json"}}
	l.out = bufio.NewWriterSize(&l.body, 64<<10)
	return l
}

// add writes an item. It reports false, and writes nothing, if the page has no room for it.
func (l *pageWriter) add(item any) (bool, error) {
	encoded, err := api.Marshal(item)
	if err != nil {
		return false, err
	}
	before := `{"items":[`
	if l.size > 0 {
		before = ","
		if l.size+len(encoded) > api.MaxAnswer { // a single item may be as large
			return false, nil
		}
	}
	l.size += len(before) + len(encoded)
	_, err = l.out.WriteString(before)
	if err == nil {
		_, err = l.out.Write(encoded)
	}
	return true, err
}

// end ends the page, with the cursor of the next one or "".
func (l *pageWriter) end(next string, err error) error {
	rest := ""
	if next != "" {
		rest = `,"next_cursor":` + string(api.Text(next))
	}
	return l.close(rest, err)
}

// close ends the page with further members.
func (l *pageWriter) close(rest string, err error) error {
	if err != nil {
		return l.body.ended(err)
	}
	before := "]"
	if l.size == 0 {
		before = `{"items":[]`
	}
	_, err = io.WriteString(l.out, before+rest+"}")
	return l.body.ended(errors.Join(err, l.out.Flush()))
}
