// Package transfer has what our own API and the fronts of other protocols share about bodies: uploads that may break off, files of
// forms, answers, streams of events, and cells; also about lists in the metadata of a session.
package transfer

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"

	"talaria/api"
)

// Upload is a body on its way into a workspace. It remembers that reading failed, which is the client's fault and not the server's.
type Upload struct {
	From   io.Reader
	Failed error // nil until then
}

// Read implements [io.Reader].
func (u *Upload) Read(p []byte) (int, error) {
	n, err := u.From.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		u.Failed = err
	}
	return n, err
}

// FileName returns the name of the file that a part of a form is, with its folders, which [multipart.Part.FileName] would drop.
// isFile is false for other fields.
func FileName(part *multipart.Part) (name string, isFile bool, err error) {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	name, isFile = params["filename"]
	return name, isFile, err
}

// SendFile answers with a file, or the part of it that the request's headers ask for, as a download: a browser must not run what
// it finds.
func SendFile(w http.ResponseWriter, r *http.Request, file *os.File, as api.File) {
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": as.Name}))
	header.Set("Cache-Control", "no-store")
	http.ServeContent(w, r, "", as.ModifiedAt.Time, file)
}

// WriteJSON answers with v, which always encodes: it is made of strings, numbers, and their lists and maps.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	text, err := api.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}
