package server

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

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

// wholeList is a list that is read as a whole. key names an item by what the list is sorted by.
type wholeList[T any] struct {
	items []T
	key   func(T) string
	down  bool // the keys descend: the newest first
}

// answer answers with all of the list or, if the query asks for it, with a page.
func (l wholeList[T]) answer(c *call) error {
	from, to, _, err := l.bounds(c)
	if err != nil {
		return err
	}
	page := api.Page[T]{Items: l.items[from:to]}
	if to < len(l.items) {
		page.NextCursor = l.cursor(to)
	}
	return c.answer(http.StatusOK, page)
}

// bounds returns the first item of the page that the query asks for, and the one after the last. asked is false if it asks for none.
func (l wholeList[T]) bounds(c *call) (from, to int, asked bool, err error) {
	q, err := c.page()
	if err != nil || q == (api.PageQuery{}) {
		return 0, len(l.items), false, err
	}
	if q.Cursor != "" {
		if from, err = l.after(q.Cursor); err != nil {
			return 0, 0, true, err
		}
	}
	return from, min(from+cmp.Or(q.Limit, api.DefaultPage), len(l.items)), true, nil
}

// cursor returns the cursor of the page that begins at an item. It has the place and the key of the item before.
func (l wholeList[T]) cursor(from int) string {
	return strconv.Itoa(from) + "." + base64.RawURLEncoding.EncodeToString([]byte(l.key(l.items[from-1])))
}

// after returns where the page of a cursor begins, also if items were added or removed since.
func (l wholeList[T]) after(cursor string) (int, error) {
	place, encoded, ok := strings.Cut(cursor, ".")
	from, wrong := strconv.Atoi(place)
	last, malformed := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || wrong != nil || malformed != nil || from < 1 {
		return 0, badQuery("cursor", "not one that this server has issued; use next_cursor of the previous page")
	}
	if from <= len(l.items) && l.key(l.items[from-1]) == string(last) {
		return from, nil
	}
	for i, item := range l.items {
		if order := cmp.Compare(l.key(item), string(last)); order > 0 && !l.down || order < 0 && l.down {
			return i, nil
		}
	}
	return len(l.items), nil
}
