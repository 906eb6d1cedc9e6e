package files

import (
	"context"
	"errors"
	"io"

	"talaria/kernel/workspace"
)

// room reads what is to be written to a file of the workspace, up to limits.disk_bytes, which all that clients write at
// the same time share. It measures the workspace when it begins, and again when that seems to be full: what others
// write during a measurement counts twice until then.
type room struct {
	io.Reader
	cfg      *Config
	ctx      context.Context
	replaced int64 // bytes of the file that is replaced, which become free at its end
	written  int64 // to this file
	next     int64 // bytes that have been read, and are being written to it

	// As of the last measurement:
	quota    int64 // limits.disk_bytes
	used     int64 // of them
	own      int64 // of them for this file
	inodes   int64 // in use
	uploaded int64 // by clients before it
}

func (r *room) measure() (err error) {
	r.uploaded, r.own = r.cfg.Dir.Uploaded.Load(), r.written
	r.quota = r.cfg.Limit()
	r.used, r.inodes, err = r.cfg.Dir.Usage(r.ctx)
	if errors.Is(err, workspace.ErrTruncated) {
		return nil
	}
	return err
}

// takes reports whether n more bytes fit, and reserves them until the call of wrote.
func (r *room) takes(n int64) bool {
	if r.cfg.Dir.Uploading.Add(n)-r.uploaded > max(0, r.quota-r.used+min(r.used, r.replaced)) {
		r.cfg.Dir.Uploading.Add(-n)
		return false
	}
	r.next = n
	return true
}

// wrote notes that what was read last is in the file.
func (r *room) wrote() {
	r.cfg.Dir.Uploaded.Add(r.next)
	r.written += r.next
	r.next = 0
}

func (r *room) Read(p []byte) (int, error) {
	r.wrote()
	if err := r.cfg.Spare(); err != nil { // the upload may have begun long ago
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if n == 0 || r.takes(int64(n)) {
		return n, err
	}
	if err := r.measure(); err != nil {
		return 0, err
	}
	if !r.takes(int64(n)) {
		return 0, workspace.ErrLimit
	}
	return n, err
}

// usedByOthers returns how many bytes were in use, without this file.
func (r *room) usedByOthers() int64 { return max(0, r.used-r.own) }
