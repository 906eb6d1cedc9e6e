package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"talaria/api"
	"talaria/client"
)

// TestJupyterLabsLibraryWorksWithTheTokenOfASession runs JupyterLab's own library with tokens for one session: notebooks get that
// session's kernel.
func TestJupyterLabsLibraryWorksWithTheTokenOfASession(t *testing.T) {
	t.Parallel()
	s := start(t, options{args: []string{"--engine", "stdlib"}})
	id, other := s.kernel(t), s.kernel(t)
	run(t, s.Client(), id, `x = 41; open("t.txt", "w").write("text")`)
	for _, path := range []string{"elsewhere.ipynb", id + "/owned.ipynb"} {
		body := fmt.Sprintf(`{"path":%q,"type":"notebook","kernel":{"id":%q}}`, path, id)
		s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: body}, http.StatusCreated, "")
	}
	token := func(rights ...api.Right) string {
		t.Helper()
		made, err := s.Client().CreateToken(within(t), id, api.SessionTokenRequest{Rights: rights})
		if err != nil {
			t.Fatal(err)
		}
		return made.Token
	}
	t.Run("with the right to run", func(t *testing.T) {
		wantReported(t, labClient(t, "visitor.mjs", s.URL+"/jupyter", token(api.RightRun), other), map[string]string{
			"kernels":                   fmt.Sprintf(`["%s","%[1]s"]`, id),
			"runs":                      `"42\n"`,
			"again":                     `true`,
			"listed":                    `["b.ipynb","notes/renamed.ipynb","owned.ipynb"]`,
			"kernel of another session": fmt.Sprintf(`"404 Kernel does not exist: %s"`, other),
			"outside":                   `"403 path \"../c.ipynb\" leaves the workspace of the token's session; give one such as notes/a.ipynb"`,
			"file":                      `false`,
			"saving":                    `"403 this needs the right \"write\", which the session token does not have; create one that does"`,
			"after a shutdown":          `[["b.ipynb","owned.ipynb"],"42\n"]`,
			"after another kernel":      fmt.Sprintf(`["%s","False\n"]`, id),
		})
	})
	t.Run("without it", func(t *testing.T) {
		wantReported(t, labClient(t, "visitor.mjs", s.URL+"/jupyter", token(), "read"), map[string]string{
			"opening": `"403 this needs the right \"run\", which the session token does not have; create one that does"`,
			"listed":  `["b.ipynb","owned.ipynb"]`,
		})
	})
	t.Run("the owner sees its notebooks, and no further sessions", func(t *testing.T) {
		var paths []string
		for _, n := range decode[[]struct{ Path string }](t, string(s.want(t, call{method: "GET", path: "/jupyter/api/sessions"}, http.StatusOK, "").body)) {
			paths = append(paths, n.Path)
		}
		wantWords(t, paths, "elsewhere.ipynb", id+"/owned.ipynb", id+"/b.ipynb")
		page, err := s.Client().Sessions(within(t), client.SessionFilter{})
		if err != nil || len(page.Items) != 2 {
			t.Errorf("the sessions are %+v (%v)", page.Items, err)
		}
	})
	t.Run("others change nothing", func(t *testing.T) {
		list := decode[[]struct{ ID, Path string }](t, string(s.want(t, call{method: "GET", path: "/jupyter/api/sessions"}, http.StatusOK, "").body))
		for _, n := range list {
			path := "/jupyter/api/sessions/" + n.ID
			for method, status := range map[string]int{"PATCH": http.StatusForbidden, "DELETE": http.StatusForbidden} {
				if n.Path == "elsewhere.ipynb" { // the token does not reach it
					status = http.StatusNotFound
				}
				s.want(t, call{method: method, path: path, body: `{}`, token: token()}, status, "")
				s.want(t, call{method: method, path: path, body: `{}`, token: s.owner(t, "other")}, http.StatusNotFound, "")
			}
		}
		link := decode[api.Share](t, string(s.want(t, call{method: "POST", path: "/v1/sessions/" + id + "/shares"}, http.StatusCreated, "").body))
		s.want(t, call{method: "POST", path: "/jupyter/api/sessions", body: `{"path":"x.ipynb","type":"notebook"}`, token: strings.TrimPrefix(link.URL, "/?token=")}, http.StatusForbidden, "")
	})
}
