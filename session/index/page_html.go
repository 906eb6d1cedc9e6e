package index

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func readHTML(content []byte, base *url.URL) ([]file, error) {
	var files []file
	z := html.NewTokenizer(bytes.NewReader(content))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("read its HTML: %w", err)
			}
			return files, nil
		case html.StartTagToken, html.SelfClosingTagToken:
		default:
			continue
		}
		token := z.Token()
		switch token.DataAtom {
		case atom.Base:
			if href, ok := attribute(token, "href"); ok {
				if at, err := base.Parse(href); err == nil {
					base = at
				}
			}
		case atom.Meta:
			if name, _ := attribute(token, "name"); name == "pypi:repository-version" {
				version, _ := attribute(token, "content")
				if err := checkVersion(version); err != nil {
					return nil, err
				}
			}
		case atom.A:
			if f, ok := anchor(token, base); ok {
				files = append(files, f)
			}
		}
	}
}

// anchor reads one link. Source: PEP 503, 592, 658 and 714.
func anchor(token html.Token, base *url.URL) (f file, ok bool) {
	href, _ := attribute(token, "href")
	f, fragment, ok := link(base, href)
	if !ok {
		return f, false
	}
	f.sha256 = hashOf(fragment)
	f.requiresPython, _ = attribute(token, "data-requires-python")
	if reason, yanked := attribute(token, "data-yanked"); yanked {
		f.yanked = &reason
	}
	for _, name := range []string{"data-core-metadata", "data-dist-info-metadata"} {
		if value, has := attribute(token, name); has && value != "false" {
			f.metadata = true
			f.metadataSHA256 = hashOf(value)
			break
		}
	}
	return f, true
}

// hashOf finds the SHA-256 in sha256=…, which may stand between others and &.
func hashOf(text string) string {
	for part := range strings.SplitSeq(text, "&") {
		if sum, ok := strings.CutPrefix(part, "sha256="); ok {
			return digest(sum)
		}
	}
	return ""
}

func attribute(token html.Token, name string) (value string, ok bool) {
	for _, a := range token.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func (p *page) html(project, prefix string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><head><meta name=\"pypi:repository-version\" content=\"%s\"><title>%s</title></head><body>\n",
		apiVersion, html.EscapeString(project))
	for _, f := range p.files {
		href := prefix + url.PathEscape(f.name)
		if f.sha256 != "" {
			href += "#sha256=" + f.sha256
		}
		fmt.Fprintf(&b, `<a href="%s"`, html.EscapeString(href))
		if f.requiresPython != "" {
			fmt.Fprintf(&b, ` data-requires-python="%s"`, html.EscapeString(f.requiresPython))
		}
		if f.yanked != nil {
			fmt.Fprintf(&b, ` data-yanked="%s"`, html.EscapeString(*f.yanked))
		}
		if f.metadata {
			value := "true"
			if f.metadataSHA256 != "" {
				value = "sha256=" + f.metadataSHA256
			}
			fmt.Fprintf(&b, ` data-core-metadata="%s" data-dist-info-metadata="%s"`, value, value)
		}
		fmt.Fprintf(&b, ">%s</a><br>\n", html.EscapeString(f.name))
	}
	b.WriteString("</body></html>\n")
	return b.Bytes()
}
