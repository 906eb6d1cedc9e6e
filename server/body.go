package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"talaria/api"
)

// readJSON decodes the body into v. With optional, an empty body, of any type, means the empty object.
func readJSON(c *call, v any, optional bool) error {
	data, release, err := readBody(c, optional, "application/json")
	defer release()
	if err != nil || len(data) == 0 {
		return err
	}
	return decodeObject(data, v, "the body")
}

// readBody returns the whole body, which must have one of the types. It may be empty only if that is allowed. release
// must be called, in any case, when the body is no longer needed.
func readBody(c *call, optional bool, types ...string) (data []byte, release func(), err error) {
	r := c.Request
	typed := r.Header.Get("Content-Type") != ""
	if typed && r.ContentLength != 0 && !mediaTypeIs(r, types...) {
		return nil, func() {}, errMediaType(types[0])
	}
	data, release, err = c.wholeBody()
	switch {
	case err != nil:
	case len(data) == 0 && optional:
	case !typed:
		err = errMediaType(types[0])
	case len(data) == 0:
		err = api.Errorf(api.CodeInvalidRequest, "the body is empty")
	}
	return data, release, err
}

func errMediaType(want string) *api.Error {
	return api.Errorf(api.CodeUnsupportedMedia, "the body must have Content-Type: %s", want)
}

// intake reads r to its end, within the bounds on what the caller may have in memory. release must be called, in any case.
func (c *call) intake(r io.Reader) (data []byte, release func(), err error) {
	from := c.caller.intake
	if c.keepsBody {
		from = from.alone()
	}
	data, release, err = from.read(c.ctx(), r)
	if err != nil {
		err = bodyError(err)
	}
	return data, release, err
}

// wholeBody is intake for the request's body, up to [api.MaxBody].
func (c *call) wholeBody() (data []byte, release func(), err error) {
	data, release, err = c.intake(http.MaxBytesReader(c.Writer, c.Request.Body, api.MaxBody))
	if refused := new(api.Error); errors.As(err, &refused) && refused.Code == api.CodePayloadTooLarge {
		discardBody(c.Request)
	}
	return data, release, err
}

// bodyError says why a body could not be read to its end.
func bodyError(err error) error {
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return errTooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return api.Errorf(api.CodeInvalidRequest, "the body stopped arriving")
	}
	return api.Errorf(api.CodeInvalidRequest, "the body was cut off")
}

func mediaTypeIs(r *http.Request, types ...string) bool {
	got, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	for _, want := range types {
		if got == want {
			return true
		}
	}
	return false
}

// decodeObject decodes strictly, and refuses what is not an object.
func decodeObject(data []byte, v any, what string) error {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == 'n' {
		return api.Errorf(api.CodeInvalidRequest, "%s must be an object, not null", what)
	}
	return api.Unmarshal(data, v)
}

func missing(field string) *api.Error {
	return api.Errorf(api.CodeInvalidRequest, "field %q is missing", field)
}
