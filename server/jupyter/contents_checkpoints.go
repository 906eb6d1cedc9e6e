package jupyter

import (
	"errors"
	"io"
	"net/http"
	"path"
	"strings"

	"talaria/api"
)

// A file has one checkpoint: a copy in a folder beside it, as a Jupyter Server keeps it.
const (
	checkpointFolder = ".ipynb_checkpoints"
	checkpointID     = "checkpoint"
)

// checkpoint is a checkpoint as the contents API shows it.
type checkpoint struct {
	ID           string `json:"id"`
	LastModified string `json:"last_modified"`
}

// checkpointOf returns where a file's checkpoint is.
func checkpointOf(file string) string {
	folder, name := path.Split(file)
	ext := path.Ext(name)
	return folder + checkpointFolder + "/" + strings.TrimSuffix(name, ext) + "-checkpoint" + ext
}

// cutCheckpoints splits FILE/checkpoints and FILE/checkpoints/ID. Below a folder these are names like any others.
func (h *Handler) cutCheckpoints(q *request, name string) (file, id string, ok bool) {
	if file, ok = strings.CutSuffix(name, "/checkpoints"); !ok {
		file, id = path.Split(name)
		if file, ok = strings.CutSuffix(file, "/checkpoints/"); !ok {
			return "", "", false
		}
	}
	l, err := h.locate(q, file, api.RightRead)
	defer l.release()
	if err != nil || l.sess == nil || l.inside == "" {
		return "", "", false
	}
	f, err := l.sess.Files().Stat(q.Context(), l.inside)
	return file, id, err == nil && f.Kind == "file"
}

func (h *Handler) serveCheckpoints(q *request, file, id string) error {
	right := api.RightWrite
	if q.Method == http.MethodGet {
		right = api.RightRead
	}
	l, err := h.locate(q, file, right)
	if err != nil {
		return err
	}
	defer l.release()
	at := checkpointOf(l.inside)
	if id != "" && id != checkpointID {
		return api.Errorf(api.CodeFileNotFound, "Checkpoint does not exist: %.200s@%.100s", file, id)
	}
	switch {
	case q.Method == http.MethodGet && id == "":
		list := []checkpoint{}
		opened, entry, err := l.sess.Files().Open(q.Context(), at)
		if err == nil {
			_ = opened.Close()
			list = append(list, checkpoint{checkpointID, date(entry.ModifiedAt.Time)})
		} else if known := new(api.Error); !errors.As(err, &known) || known.Code != api.CodeFileNotFound {
			return err
		}
		return q.answer(http.StatusOK, list)
	case q.Method == http.MethodPost && id == "":
		made, err := l.copy(q, l.inside, at)
		if err != nil {
			return err
		}
		q.w.Header().Set("Location", Prefix+q.URL.EscapedPath()+"/"+checkpointID)
		return q.answer(http.StatusCreated, checkpoint{checkpointID, date(made.ModifiedAt.Time)})
	case q.Method == http.MethodPost:
		_, err = l.copy(q, at, l.inside)
	case q.Method == http.MethodDelete && id != "":
		err = l.sess.Files().Delete(q.command(), at)
	default:
		return api.Errorf(api.CodeMethodNotAllowed, "checkpoints do not support %s", q.Method)
	}
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// copy copies a file of the workspace, over another one if there is one.
func (l location) copy(q *request, from, to string) (api.File, error) {
	file, entry, err := l.sess.Files().Open(q.Context(), from)
	if err != nil {
		return api.File{}, err
	}
	defer file.Close()
	_, made, err := l.sess.Files().Put(q.command(), to, io.LimitReader(file, entry.Size))
	return made, err
}
