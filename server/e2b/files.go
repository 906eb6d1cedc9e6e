package e2b

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"talaria/api"
	"talaria/server/transfer"
	"talaria/session"
)

func (h *Handler) envd() map[string]func(*request) error {
	return map[string]func(*request) error{
		"GET /health":  h.getHealth,
		"GET /envs":    h.getEnvs,
		"POST /init":   h.init,
		"GET /metrics": h.getUsage,
		"GET /files":   h.getFile,
		"POST /files":  h.postFiles,
	}
}

// getHealth answers for envd and for the code interpreter: their clients look only at the status.
func (h *Handler) getHealth(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	if stateOf(s.Info(q.Context())) == statePaused { // E2B's proxy finds none
		return api.Errorf(api.CodeSessionNotFound, "the sandbox is paused; connect to it")
	}
	return q.nothing()
}

// getEnvs answers with no variables: a session does not give away what it was created with.
func (h *Handler) getEnvs(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	s.Release()
	return q.answer(http.StatusOK, map[string]string{})
}

// init is how E2B's orchestrator sets a sandbox up. There is nothing left to set up.
func (h *Handler) init(q *request) error {
	s, err := h.sandbox(q, api.RightRun)
	if err != nil {
		return err
	}
	s.Release()
	return q.nothing()
}

func (h *Handler) getUsage(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	info := s.Info(q.Context())
	return q.answer(http.StatusOK, object{
		"ts": info.LastActiveAt.Unix(), "cpu_count": max(1, info.Limits.CPUs), "cpu_used_pct": 0, "mem_total_mib": info.Limits.MemoryBytes >> 20,
		"mem_used_mib": info.Usage.MemoryBytes >> 20, "mem_total": info.Limits.MemoryBytes, "mem_used": info.Usage.MemoryBytes,
		"disk_used": info.Usage.DiskBytes, "disk_total": info.Limits.DiskBytes,
	})
}

// getFile sends a file of the workspace.
func (h *Handler) getFile(q *request) error {
	s, err := h.sandbox(q, api.RightRead)
	if err != nil {
		return err
	}
	defer s.Release()
	name, err := relative(q.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	if name == "" {
		return api.Errorf(api.CodeInvalidRequest, "path %q is a folder; name a file in it", home)
	}
	file, entry, err := s.Files().Open(q.Context(), name)
	if err != nil {
		return err
	}
	defer file.Close()
	transfer.SendFile(q.w, q.Request, file, entry)
	return nil
}

// writeInfo is a file that was written.
type writeInfo struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// postFiles writes files of the workspace: the fields of a form, or the whole body. It streams both.
func (h *Handler) postFiles(q *request) error {
	s, err := h.sandbox(q, api.RightWrite)
	if err != nil {
		return err
	}
	defer s.Release()
	var body io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(q.Body)
		if err != nil {
			return api.Errorf(api.CodeInvalidRequest, "the body is not compressed with gzip")
		}
		defer unzipped.Close()
		body = unzipped
	}
	media, params, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	switch {
	case err == nil && media == "application/octet-stream":
		written, err := h.write(q, s, q.URL.Query().Get("path"), body)
		if err != nil {
			return err
		}
		return q.answer(http.StatusOK, []writeInfo{written})
	case err == nil && media == "multipart/form-data" && params["boundary"] != "":
		return h.writeForm(q, s, multipart.NewReader(body, params["boundary"]))
	}
	return api.Errorf(api.CodeInvalidRequest, "Content-Type must be multipart/form-data or application/octet-stream")
}

// writeForm writes the fields "file", each to the path in the query, or else to the one that is its file name.
func (h *Handler) writeForm(q *request, s *session.Session, form *multipart.Reader) error {
	to := q.URL.Query().Get("path")
	written := []writeInfo{}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return api.Errorf(api.CodeInvalidRequest, "the form is malformed or was cut off")
		}
		if part.FormName() != "file" {
			continue
		}
		name, _, err := transfer.FileName(part)
		if err != nil {
			return api.Errorf(api.CodeInvalidRequest, "the form is malformed")
		}
		if to != "" {
			if name = to; len(written) > 0 {
				return api.Errorf(api.CodeInvalidRequest, "the query names one path, but the form has several files")
			}
		}
		one, err := h.write(q, s, name, part)
		if err != nil {
			return err
		}
		written = append(written, one)
	}
	if len(written) == 0 {
		return api.Errorf(api.CodeInvalidRequest, "the form has no field \"file\"")
	}
	return q.answer(http.StatusOK, written)
}

// write writes one file; if its body breaks off, the old one stays.
func (h *Handler) write(q *request, s *session.Session, name string, body io.Reader) (writeInfo, error) {
	to, err := relative(name)
	if err != nil {
		return writeInfo{}, err
	}
	if to == "" || strings.HasSuffix(name, "/") {
		return writeInfo{}, api.Errorf(api.CodeInvalidRequest, "path %.200q does not name a file", name)
	}
	from := &transfer.Upload{From: body}
	_, _, err = s.Files().Put(q.command(), to, from)
	if err != nil && from.Failed != nil {
		err = api.Errorf(api.CodeInvalidRequest, "the body was cut off or is malformed")
	}
	return writeInfo{Path: absolute(to), Name: path.Base(to), Type: "file"}, err
}
