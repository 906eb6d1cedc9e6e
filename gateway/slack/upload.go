package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slack-go/slack"

	"talaria/gateway"
	"talaria/gateway/render"
)

// upload sends the files of a message together.
func (p *Platform) upload(ctx context.Context, to gateway.Chat, m gateway.Message) error {
	params := slack.CompleteUploadExternalParameters{Channel: to.ID, ThreadTimestamp: to.Thread, InitialComment: m.Text}
	for _, f := range m.Files {
		id, err := p.uploadFile(ctx, f)
		if err != nil {
			return err
		}
		params.Files = append(params.Files, slack.FileSummary{ID: id, Title: f.Name})
	}
	_, err := p.api.CompleteUploadExternalContext(ctx, params)
	return p.failure(err)
}

// uploadFile uploads the bytes of a file, which Slack does not show yet.
func (p *Platform) uploadFile(ctx context.Context, f gateway.File) (id string, err error) {
	opened, err := f.Open(ctx)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	in, size := io.Reader(opened), f.Size
	if size < 0 { // Slack wants to know it first
		spool, err := spooled(opened)
		if err != nil {
			return "", err
		}
		defer spool.Close()
		if in, size = spool, spool.size; size > render.LimitsOf(p.Target()).FileBytes {
			return "", gateway.ErrTooLarge
		}
	}
	target, err := p.api.GetUploadURLExternalContext(ctx, slack.GetUploadURLExternalParameters{FileName: f.Name, FileSize: int(size)})
	if err != nil {
		return "", p.failure(err)
	}
	if err := p.files.UploadToURL(ctx, slack.UploadToURLParameters{UploadURL: target.UploadURL, Reader: in, Filename: f.Name}); err != nil {
		return "", p.failure(err)
	}
	return target.FileID, nil
}

// spool is a temporary file, which Close removes.
type spool struct {
	*os.File
	size int64
}

// spooled copies up to one byte more than a file may have.
func spooled(in io.Reader) (s *spool, err error) {
	f, err := os.CreateTemp("", "talaria-upload-")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file: %w", err)
	}
	s = &spool{File: f}
	if err = os.Remove(f.Name()); err == nil { // the descriptor keeps it
		s.size, err = io.Copy(f, io.LimitReader(in, maxUpload+1))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}
