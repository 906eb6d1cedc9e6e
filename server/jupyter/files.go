package jupyter

import (
	"strings"

	"talaria/api"
)

// getFile is GET files/PATH: the content of the file that api/contents/PATH describes. JupyterLab's page downloads files from
// there, and shows the pictures of Markdown.
func (h *Handler) getFile(q *request) error {
	name := strings.Trim(q.PathValue("path"), "/")
	l, err := h.locate(q, name, api.RightRead)
	if err != nil {
		return err
	}
	defer l.release()
	if l.sess == nil || l.inside == "" {
		return api.Errorf(api.CodeNotAFile, "%.200q is a folder; list it with GET api/contents/PATH, and ask for one of its files", name)
	}
	file, entry, err := l.sess.Files().Open(q.Context(), l.inside)
	if err != nil {
		return err
	}
	defer file.Close()
	return q.caller.Send(file, entry, q.URL.Query().Get("download") != "")
}
