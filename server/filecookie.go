package server

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"

	"talaria/server/jupyter"
)

const (
	filePassCookie = "talaria_jupyter_files"
	maxFilePasses  = 4096
)

// filePasses are cookies for pages that have a token in their scripts, as JupyterLab's has: they load pictures and download files by
// addresses without it. A Jupyter Server sets the cookie of a login for that. A pass stands for one token and opens files/PATH only;
// it ends with the token, with the server, or when there are too many newer ones. It is safe for concurrent use.
type filePasses struct {
	key []byte

	mu     sync.Mutex        // guards all below
	tokens map[string]string // by pass
	oldest []string          // passes, in the order of their first use
}

func newFilePasses() *filePasses {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &filePasses{key: key, tokens: map[string]string{}}
}

// of returns the pass of a token.
func (p *filePasses) of(token string) string {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(token))
	pass := string(mac.Sum(nil))
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.tokens[pass]; known {
		return pass
	}
	if len(p.oldest) == maxFilePasses {
		delete(p.tokens, p.oldest[0])
		p.oldest = p.oldest[1:]
	}
	p.tokens[pass] = token
	p.oldest = append(p.oldest, pass)
	return pass
}

// token returns the token of a pass, "" for an unknown one.
func (p *filePasses) token(pass string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens[pass]
}

// opensFiles reports whether a pass is enough for the request.
func opensFiles(r *http.Request) bool {
	return safeMethod(r.Method) && beneath(r.URL.Path, jupyter.Prefix+"/files")
}

// giveFilePass sets the cookie with the answer to a page that lists files.
func (s *Server) giveFilePass(c *call) {
	if !safeMethod(c.Request.Method) || !beneath(c.Request.URL.Path, jupyter.Prefix+"/api/contents") {
		return
	}
	pass := s.filePasses.of(cmp.Or(c.cred.token, c.cred.share))
	if fromCookie(c.Request, filePassCookie) != pass {
		s.setJupyterCookie(c, filePassCookie, base64.RawURLEncoding.EncodeToString([]byte(pass)))
	}
}
