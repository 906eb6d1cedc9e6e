package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	maxPage  = 32 << 20  // bytes of one
	maxPages = 128 << 20 // of all that are kept
)

// file is one that a page links to.
type file struct {
	name           string
	at             string // where the index has it
	sha256         string // lower case hex; "" where the index does not say
	size           int64  // 0 where the index does not say
	requiresPython string
	yanked         *string // the reason, which may be ""; nil: it is not
	metadata       bool    // it has a file of its own with its metadata (PEP 658)
	metadataSHA256 string
}

// page lists the files of a project. It is not changed once made.
type page struct {
	files  []file
	byName map[string]*file
	bytes  int
	since  time.Time // when it was asked for
}

// pages keeps those that were read last. An installation sees none that is older than itself.
type pages struct {
	mu     sync.Mutex
	kept   map[string]*page
	oldest []string
	bytes  int
}

func (p *pages) get(project string, since time.Time) *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kept := p.kept[project]; kept != nil && !kept.since.Before(since) {
		return kept
	}
	return nil
}

func (p *pages) put(project string, fresh *page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]*page{}
	}
	if old := p.kept[project]; old != nil {
		p.bytes -= old.bytes
	} else {
		p.oldest = append(p.oldest, project)
	}
	p.kept[project] = fresh
	for p.bytes += fresh.bytes; p.bytes > maxPages && len(p.oldest) > 1; p.oldest = p.oldest[1:] {
		p.bytes -= p.kept[p.oldest[0]].bytes
		delete(p.kept, p.oldest[0])
	}
}

// page returns the page of a project, as the index has it now or had it since the installation began.
func (ix *Index) page(ctx context.Context, project string, since time.Time) (*page, error) {
	if kept := ix.pages.get(project, since); kept != nil {
		return kept, nil
	}
	select {
	case ix.room <- struct{}{}:
		defer func() { <-ix.room }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 4*ix.cfg.Timeout, errSilent)
	defer cancel()
	asked := time.Now()
	resp, err := ix.up.get(ctx, ix.base.JoinPath(project, "/").String(), acceptPages)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxPage {
		return nil, errors.New("it is longer than 32 MiB")
	}
	base := resp.Request.URL // after redirects
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var files []file
	switch kind {
	case jsonType:
		files, err = readJSON(content, base)
	case htmlType, "text/html", "application/xhtml+xml":
		files, err = readHTML(content, base)
	default:
		err = fmt.Errorf("%.100q is not a media type of a simple index", kind)
	}
	if err != nil {
		return nil, err
	}
	p := &page{byName: make(map[string]*file, len(files)), bytes: len(content) + 512, since: asked}
	for _, f := range files {
		if p.byName[f.name] == nil && (base.Scheme != "https" || f.sha256 != "" || strings.HasPrefix(f.at, "https:")) {
			p.files = append(p.files, f)
			p.byName[f.name] = &f
		}
	}
	ix.pages.put(project, p)
	return p, nil
}

// endings are those of files that can be installed.
var endings = []string{".whl", ".tar.gz", ".zip", ".tgz", ".tar.bz2", ".tar.xz"}

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// digest is a SHA-256 in lower case hex, or "" where it is none.
func digest(text string) string {
	if text = strings.ToLower(text); digestPattern.MatchString(text) {
		return text
	}
	return ""
}

// link reads where a file lies. It reports whether that is a file that can be installed, at an address that can be asked.
func link(base *url.URL, reference string) (f file, fragment string, ok bool) {
	at, err := base.Parse(strings.TrimSpace(reference))
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return f, "", false
	}
	fragment = at.Fragment
	at.Fragment, at.RawFragment, at.User = "", "", nil
	f.name, f.at = path.Base(at.Path), at.String()
	for _, ending := range endings {
		if strings.HasSuffix(f.name, ending) && len(f.name) <= 255 && !strings.ContainsFunc(f.name, unicode.IsControl) {
			return f, fragment, true
		}
	}
	return f, fragment, false
}

// metadataAt is where the file with a file's metadata lies. Source: PEP 658.
func metadataAt(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return at
	}
	if u.RawPath != "" {
		u.RawPath += ".metadata"
	}
	u.Path += ".metadata"
	return u.String()
}
