package gateway

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"talaria/api"
	"talaria/gateway/render"
)

const (
	linkTime = 24 * time.Hour // that a link to a file is valid
	maxLinks = 10             // for the files of one cell
)

// link returns the address of a download of the session, with a token that may only read it and expires after linkTime. It is "" if
// the server has no public address.
func (c *chat) link(ctx context.Context, path string) (string, error) {
	if c.bot.PublicURL == "" {
		return "", nil
	}
	expires := linkTime.Seconds()
	t, err := c.bot.Client.CreateToken(ctx, c.session, api.SessionTokenRequest{Rights: []api.Right{api.RightRead}, ExpiresS: &expires})
	if err != nil {
		return "", err
	}
	return strings.TrimRight(c.bot.PublicURL, "/") + path + "?token=" + url.QueryEscape(t.Token), nil
}

// linked is a message with a link to a file that is too large for the platform.
func (c *chat) linked(name string, bytes int64, link string) saying {
	return plain("%s is %s, which is too large for %s. Download it within a day: %s", name, size(bytes), c.bot.title(), link)
}

// largeFiles are the messages about files of a cell that are too large for the platform. The rendering only names these files.
func (c *chat) largeFiles(ctx context.Context, e api.Execution) (all []saying, err error) {
	limit := render.LimitsOf(c.bot.Platform.Target()).FileBytes
	for _, a := range e.Artifacts {
		if a.Size == nil || *a.Size <= limit || a.URL == "" || len(all) == maxLinks {
			continue
		}
		link, err := c.link(ctx, a.URL)
		if refusal(err) != nil { // the result must not wait for it
			c.log.WarnContext(ctx, "a link to a file cannot be made", "error", err)
			return all, nil
		}
		if err != nil || link == "" {
			return nil, err
		}
		all = append(all, c.linked(base(a.Path), *a.Size, link))
	}
	return all, nil
}

// largeFile is the answer to /get for such a file.
func (c *chat) largeFile(ctx context.Context, path string, bytes int64) (saying, error) {
	link, err := c.link(ctx, "/v1/sessions/"+url.PathEscape(c.session)+"/files/"+escaped(path))
	if err != nil || link != "" {
		return c.linked(base(path), bytes, link), err
	}
	target := c.bot.Platform.Target()
	return saying{Message: Message{
		Text: render.Inline(target, path) + fmt.Sprintf(" is %s, and %s accepts files of at most %s. Split or compress it in a cell.",
			size(bytes), c.bot.title(), size(render.LimitsOf(target).FileBytes)),
		Format: render.FormatOf(target),
	}}, nil
}

// escaped escapes the parts of a path for a URL.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}
