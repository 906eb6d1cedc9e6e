package index

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"talaria/kernel/network"
)

// ServeHTTP answers an installation: /TOKEN/simple/PROJECT/, /TOKEN/files/PROJECT/FILE, the same with .metadata, and
// /TOKEN/reasons, a JSON list of sentences about what it could not have.
func (ix *Index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	a := ix.admission(token)
	if a == nil || !ix.begin() {
		http.NotFound(w, r)
		return
	}
	defer ix.work.Done()
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "this index is read-only", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(a.ctx, func() {
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now()) // nobody may read any more
	})
	defer stop()
	if !a.enter(ctx) {
		panic(http.ErrAbortHandler)
	}
	defer a.leave()
	w.Header().Set("Cache-Control", "no-store")
	kind, rest, _ := strings.Cut(path, "/")
	switch kind {
	case "simple":
		ix.servePage(ctx, w, r, a, token, strings.TrimSuffix(rest, "/"))
	case "files":
		project, name, _ := strings.Cut(rest, "/")
		ix.serveFile(ctx, w, a, project, name)
	case "reasons":
		reasons := append([]string{}, a.told()...)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reasons)
	default:
		http.NotFound(w, r)
	}
}

// project is the page of a project that the lists do not refuse. Where it is not to be had it is nil, and w answered.
func (ix *Index) project(ctx context.Context, w http.ResponseWriter, a *admission, name string) *page {
	project := Normalise(name)
	if project == "" {
		http.Error(w, "there is no project with this name", http.StatusNotFound)
		return nil
	}
	if why := ix.lists.refuses(project); why != "" {
		a.tell(why)
		http.Error(w, why, http.StatusForbidden)
		return nil
	}
	p, err := ix.page(ctx, project, a.since)
	var status statusError
	if errors.As(err, &status) && status == http.StatusNotFound {
		a.tell("the package index has no project " + project)
		http.Error(w, "the package index has no project "+project, http.StatusNotFound)
		return nil
	}
	if err != nil {
		ix.fail(ctx, w, a, project, err)
		return nil
	}
	return p
}

func (ix *Index) servePage(ctx context.Context, w http.ResponseWriter, r *http.Request, a *admission, token, name string) {
	p := ix.project(ctx, w, a, name)
	if p == nil {
		return
	}
	project := Normalise(name)
	prefix := "/" + token + "/files/" + project + "/"
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), jsonType) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(p.html(project, prefix))
		return
	}
	content, err := p.json(project, prefix)
	if err != nil {
		ix.fail(ctx, w, a, project, err)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(content)
}

func (ix *Index) serveFile(ctx context.Context, w http.ResponseWriter, a *admission, project, name string) {
	p := ix.project(ctx, w, a, project)
	if p == nil {
		return
	}
	f, metadata := p.byName[name], false
	if f == nil {
		f = p.byName[strings.TrimSuffix(name, ".metadata")]
		metadata = f != nil && f.metadata
	}
	if f == nil || f.name != name && !metadata {
		http.Error(w, "the index does not link to such a file", http.StatusNotFound)
		return
	}
	at, sum, limit := f.at, f.sha256, ix.cfg.FileBytes
	if metadata {
		at, sum, limit = metadataAt(f.at), f.metadataSHA256, min(limit, maxPage)
	} else if f.size > limit {
		ix.fail(ctx, w, a, name, errTooBig)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	var err error
	if sum == "" {
		err = ix.pass(ctx, w, at, limit)
	} else {
		err = ix.sendKept(ctx, w, sum, at, limit)
	}
	if err != nil {
		ix.fail(ctx, w, a, name, err)
	}
}

// sendKept answers with a file from the cache, where it comes if it is not there.
func (ix *Index) sendKept(ctx context.Context, w http.ResponseWriter, sum, at string, limit int64) error {
	f, size, err := ix.cache.open(sum)
	if err == nil {
		defer f.Close()
		if size > limit {
			return errTooBig
		}
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		if _, err = io.Copy(w, f); err != nil {
			return errGone
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d, err := ix.join(sum, at, limit)
	if err != nil {
		return err
	}
	defer d.leave()
	if size, err = d.begun(ctx); err != nil {
		return err
	}
	if size >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	if err := http.NewResponseController(w).Flush(); err != nil { // so that it is seen how much is to come
		return errGone
	}
	return sent(d.copyTo(ctx, toClient{w}))
}

// pass answers with a file of which the index does not say the hash: it is for this one only.
func (ix *Index) pass(ctx context.Context, w http.ResponseWriter, at string, limit int64) error {
	resp, err := ix.up.get(ctx, at, acceptFiles)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.ContentLength > limit {
		return errTooBig
	}
	if resp.ContentLength >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	n, err := io.Copy(toClient{w}, io.LimitReader(resp.Body, limit))
	if err == nil && n == limit {
		if more, _ := resp.Body.Read(make([]byte, 1)); more > 0 {
			err = errTooBig
		}
	}
	return sent(err)
}

// errGone is that nobody takes the answer any more.
var errGone = errors.New("the client disconnected")

// toClient makes errors of writing errGone.
type toClient struct{ to io.Writer }

func (t toClient) Write(p []byte) (int, error) {
	n, err := t.to.Write(p)
	if err != nil {
		err = errGone
	}
	return n, err
}

// partly is an error after the answer began.
type partly struct{ error }

func (p partly) Unwrap() error { return p.error }

func sent(err error) error {
	if err != nil {
		return partly{err}
	}
	return nil
}

// fail answers that something is not to be had, tells the installation why, and the log more of it.
func (ix *Index) fail(ctx context.Context, w http.ResponseWriter, a *admission, what string, err error) {
	if ctx.Err() == nil && !errors.Is(err, errGone) {
		why, status := ix.explain(what, err)
		a.tell(why)
		ix.log.Warn("package index", "what", what, "error", err)
		if !errors.As(err, &partly{}) {
			w.Header().Del("Content-Length")
			http.Error(w, why, status)
			return
		}
	}
	panic(http.ErrAbortHandler) // the connection ends in the middle of the answer
}

// explain is what the user is told: not where the index is.
func (ix *Index) explain(what string, err error) (why string, status int) {
	var answer statusError
	switch {
	case errors.As(err, &answer) && (answer == http.StatusUnauthorized || answer == http.StatusForbidden):
		return fmt.Sprintf("%s: the package index answers %v; the server's operator should check packages.username and packages.password_file",
			what, answer), http.StatusForbidden
	case errors.As(err, &answer) && answer == http.StatusNotFound:
		return what + ": the package index has no such file", http.StatusNotFound
	case errors.As(err, &answer) && (answer >= 500 || answer == http.StatusTooManyRequests):
		return fmt.Sprintf("%s: the package index answers %v; try again later", what, answer), http.StatusServiceUnavailable
	case errors.As(err, &answer):
		return fmt.Sprintf("%s: the package index answers %v", what, answer), http.StatusBadGateway
	case errors.Is(err, errTooBig):
		return fmt.Sprintf("%s is larger than %.1f MB, the limit for a file here", what, float64(ix.cfg.FileBytes)/1e6), http.StatusForbidden
	case errors.Is(err, errWrongHash):
		return what + " does not match the package index: its SHA-256 differs; it was not installed", http.StatusForbidden
	case errors.Is(err, network.ErrNotPublic):
		return what + " is on a host that is not part of the public network; the operator can list it in packages.hosts",
			http.StatusForbidden
	case errors.Is(err, errNoRoom):
		return fmt.Sprintf("%s: there is no room for it in the server's package cache of %.1f MB; try again later",
			what, float64(ix.cfg.CacheBytes)/1e6), http.StatusServiceUnavailable
	case errors.Is(err, errDowngrade):
		return what + ": the package index redirects from https to http", http.StatusBadGateway
	case errors.Is(err, errSilent):
		return fmt.Sprintf("%s: the package index did not answer within %v; try again later", what, ix.cfg.Timeout),
			http.StatusServiceUnavailable
	}
	if unreachable := (*url.Error)(nil); errors.As(err, &unreachable) {
		return what + ": no package index was reachable; an operator can set one with packages.index (the server's log has the cause)",
			http.StatusServiceUnavailable
	}
	return what + ": the package index sent an answer that cannot be read; the server's log has the details", http.StatusServiceUnavailable
}
