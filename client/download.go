package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// ErrFileChanged ends a download of a file that was changed while the connection was lost.
var ErrFileChanged = errors.New("the file was changed during its download; download it again")

// Download is the body of a file or an artifact; the caller closes it. Where its connection is lost, it continues with the
// rest of the file, for as long as the client's Outage. It is not safe for concurrent use.
type Download struct {
	Size      int64 // -1 where the server did not say
	ETag      string
	MediaType string

	client *Client
	ctx    context.Context
	path   string
	body   io.ReadCloser
	done   int64 // bytes that were read
	retry  backoff
}

// download requests a file. ctx bounds the request and all reading.
func (c *Client) download(ctx context.Context, path string) (*Download, error) {
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	return &Download{
		Size: resp.ContentLength, ETag: resp.Header.Get("ETag"), MediaType: resp.Header.Get("Content-Type"),
		client: c, ctx: ctx, path: path, body: resp.Body, retry: backoff{outage: c.Outage},
	}, nil
}

// Read implements [io.Reader].
func (d *Download) Read(p []byte) (int, error) {
	for {
		n, err := d.body.Read(p)
		if n > 0 {
			d.done += int64(n)
			d.retry.reset()
		}
		if n > 0 && err != io.EOF {
			return n, nil // a lost connection shows again
		}
		if err == nil || err == io.EOF || d.ETag == "" || d.ctx.Err() != nil {
			return n, err
		}
		if err := d.reopen(err); err != nil {
			return 0, err
		}
	}
}

// Close implements [io.Closer].
func (d *Download) Close() error { return d.body.Close() }

// reopen requests what is missing, after cause ended the connection.
func (d *Download) reopen(cause error) error {
	for {
		if err := d.retry.wait(d.ctx, cause); err != nil {
			return fmt.Errorf("download: %w", err)
		}
		resp, err := d.client.send(d.ctx, request{method: http.MethodGet, path: d.path, header: http.Header{
			"Range": {"bytes=" + strconv.FormatInt(d.done, 10) + "-"}, "If-Range": {d.ETag},
		}})
		switch {
		case err != nil && isRefusal(err):
			return fmt.Errorf("download: %w", err)
		case err != nil:
			cause = err
			continue
		case resp.StatusCode != http.StatusPartialContent && d.done > 0:
			resp.Body.Close()
			return ErrFileChanged
		}
		d.body.Close()
		d.body = resp.Body
		return nil
	}
}
