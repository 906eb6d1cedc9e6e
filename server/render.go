package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"talaria/api"
	"talaria/gateway/render"
	"talaria/session"
)

// imageHead is how much of an image file is read to learn its dimensions; they may stand behind the notes of a camera.
const imageHead = 256 << 10

// getRendering answers with an execution as messages of a chat.
func (s *Server) getRendering(c *call, sess *session.Session) error {
	target, err := renderTarget(c)
	if err != nil {
		return err
	}
	source, err := renderSource(c, sess)
	if err != nil {
		return err
	}
	source.Head = func(sha256 string) []byte { return s.artifactHead(c, sha256) }
	return c.answer(http.StatusOK, api.Rendering{Parts: render.Render(source, target).Parts})
}

// getRenderedFile answers with a file that only the rendering of an execution has. It is rendered again: nothing is
// stored for it.
func (s *Server) getRenderedFile(c *call, sess *session.Session) error {
	source, err := renderSource(c, sess)
	if err != nil {
		return err
	}
	digest := c.param("sha256")
	for _, target := range api.RenderTargets {
		plan := render.Render(source, target)
		file, ok := plan.File(digest)
		if !ok {
			continue
		}
		download{
			file: bytes.NewReader(file.Content), name: file.FileName, media: file.MediaType, modified: time.Time{},
			tag: `"` + digest + `"`, cache: "private, max-age=31536000, immutable",
		}.send(c)
		return nil
	}
	return api.Errorf(api.CodeArtifactNotFound, "the rendering of execution %.140q has no file %.80q; render it again to get its current files", source.ID, digest)
}

func renderTarget(c *call) (api.RenderTarget, error) {
	text, _, err := c.value("target")
	if err != nil {
		return "", err
	}
	target := api.RenderTarget(text)
	if !slices.Contains(api.RenderTargets, target) {
		var names []string
		for _, t := range api.RenderTargets {
			names = append(names, string(t))
		}
		return "", badQuery("target", fmt.Sprintf("%.40q; it must be one of %s", text, strings.Join(names, ", ")))
	}
	return target, nil
}

// renderSource reads the execution of a request, in full.
func renderSource(c *call, sess *session.Session) (render.Source, error) {
	e, err := sess.Executions().Get(c.ctx(), c.param("eid"))
	if err != nil {
		return render.Source{}, err
	}
	source := render.Source{Execution: e, Clean: sess.Clean}
	whole, streams, err := sess.Executions().WholeText(c.ctx(), e)
	if err != nil {
		return render.Source{}, err
	}
	source.Whole = whole
	for _, st := range streams {
		source.Streams = append(source.Streams, render.Artifact{
			SHA256: st.SHA256, URL: st.URL, MediaType: "text/plain; charset=utf-8", FileName: st.Name + ".txt", Size: &st.Size,
		})
	}
	return source, nil
}

// artifactHead returns the first bytes of an artifact, nil if it cannot be read.
func (s *Server) artifactHead(c *call, sha256 string) []byte {
	file, _, err := s.openArtifact(c, sha256)
	if err != nil {
		return nil
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, imageHead))
	if err != nil {
		return nil
	}
	return head
}
