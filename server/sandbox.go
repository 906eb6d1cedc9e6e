package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"

	"talaria/api"
)

// frameRules are the policies of the frames that show what a cell produced, in addition to the rules that all have in
// common. %s is the hash of the frame's own script.
//
//   - static: nothing runs except that script.
//   - live: scripts of the output run. It is used only when a person asks for it, since policies do not restrict WebRTC.
//   - data: that script, and the chart library that it loads; the output is data for it.
var frameRules = map[string]string{
	"static": "script-src '%s'",
	"live":   "script-src 'unsafe-inline' 'unsafe-eval' blob: data:; worker-src blob: data:",
	"data":   "script-src '%s' 'strict-dynamic'",
}

// commonRules keep every frame in an origin of its own, also when it is opened by itself, and away from the network.
const commonRules = "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; " +
	"media-src data: blob:; font-src data:; connect-src 'none'; frame-src 'none'; form-action 'none'; base-uri 'none'; " +
	"frame-ancestors 'self'; "

func framePolicy(name string, html []byte) (string, error) {
	rule, ok := frameRules[name]
	if !ok {
		return "", fmt.Errorf("the frame %s has no policy", name)
	}
	if name == "live" { // a hash would disable 'unsafe-inline'
		return commonRules + rule, nil
	}
	_, script, found := bytes.Cut(html, []byte("<script>"))
	script, _, closed := bytes.Cut(script, []byte("</script>"))
	if !found || !closed {
		return "", fmt.Errorf("the frame %s has no script", name)
	}
	sum := sha256.Sum256(script)
	return commonRules + fmt.Sprintf(rule, "sha256-"+base64.StdEncoding.EncodeToString(sum[:])), nil
}

// getFrame is GET /sandbox/{frame}: a shell without any data, for the page's own frames.
func (s *Server) getFrame(c *call) error {
	frame, ok := s.page.frames[c.param("frame")]
	if !ok {
		return api.Errorf(api.CodeNotFound, "there is nothing at this path")
	}
	c.Header("X-Frame-Options", "SAMEORIGIN")
	frame.send(c, http.StatusOK, "no-cache")
	return nil
}
