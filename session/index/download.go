package index

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

var (
	errTooBig    = errors.New("the file is too large")
	errWrongHash = errors.New("the file does not have the hash that the index lists")
	errCutOff    = errors.New("the download ended early")
)

// download is a file on its way into the cache. Many may read it meanwhile.
type download struct {
	ix      *Index
	digest  string
	cancel  context.CancelFunc
	readers int // guarded by the index's mutex

	mu      sync.Mutex
	changed chan struct{} // closed with each change of what follows
	file    *os.File      // nil until it begins
	size    int64         // that the sender says; -1 where it does not
	written int64
	done    bool
	err     error // of what is done
}

// join reads a file that is being downloaded, or begins to download it. leave must follow.
func (ix *Index) join(digest, at string, limit int64) (*download, error) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.closed {
		return nil, context.Canceled
	}
	d := ix.downloads[digest]
	if d == nil {
		d = &download{ix: ix, digest: digest, changed: make(chan struct{}), size: -1}
		var ctx context.Context
		ctx, d.cancel = context.WithCancel(ix.ctx)
		ix.downloads[digest] = d
		ix.work.Go(func() {
			defer d.cancel()
			d.finish(d.run(ctx, at, limit))
		})
	}
	d.readers++
	return d, nil
}

// leave ends a download that nobody waits for.
func (d *download) leave() {
	d.ix.mu.Lock()
	defer d.ix.mu.Unlock()
	if d.readers--; d.readers > 0 {
		return
	}
	d.cancel()
	d.forget()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done && d.file != nil {
		_ = d.file.Close()
		d.file = nil
	}
}

// forget lets the next caller that wants the file start over. The index's mutex is held.
func (d *download) forget() {
	if d.ix.downloads[d.digest] == d {
		delete(d.ix.downloads, d.digest)
	}
}

func (d *download) run(ctx context.Context, at string, limit int64) error {
	resp, err := d.ix.up.get(ctx, at, acceptFiles)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.ContentLength > limit {
		return errTooBig
	}
	if resp.ContentLength > d.ix.cache.limit {
		return errNoRoom
	}
	f, err := d.ix.cache.create()
	if err != nil {
		return err
	}
	kept, grown := false, int64(0)
	defer func() {
		if !kept {
			_ = os.Remove(f.Name())
			d.ix.cache.shrink(grown)
		}
	}()
	d.change(func() { d.file, d.size = f, resp.ContentLength })
	hash, buffer, written := sha256.New(), make([]byte, 256<<10), int64(0)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			if written += int64(n); written > limit {
				return errTooBig
			}
			grown = written
			if err := d.ix.cache.grow(int64(n)); err != nil {
				return err
			}
			hash.Write(buffer[:n])
			if _, err := f.Write(buffer[:n]); err != nil {
				return fmt.Errorf("package cache: %w", err)
			}
			d.change(func() { d.written = written })
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if resp.ContentLength >= 0 && written != resp.ContentLength {
		return errCutOff
	}
	if hex.EncodeToString(hash.Sum(nil)) != d.digest {
		return errWrongHash
	}
	if err := d.ix.cache.commit(f, d.digest, written); err != nil {
		return err
	}
	kept = true
	return nil
}

// finish tells the readers how it ended.
func (d *download) finish(err error) {
	d.ix.mu.Lock()
	defer d.ix.mu.Unlock()
	d.forget()
	d.change(func() {
		d.done, d.err = true, err
		if d.readers == 0 && d.file != nil {
			_ = d.file.Close()
			d.file = nil
		}
	})
}

func (d *download) change(what func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what()
	close(d.changed)
	d.changed = make(chan struct{})
}

// begun waits until the size is known, as far as it will be, and is -1 where it is not.
func (d *download) begun(ctx context.Context) (size int64, err error) {
	for {
		d.mu.Lock()
		file, size, done, err, changed := d.file, d.size, d.done, d.err, d.changed
		d.mu.Unlock()
		if done && err != nil || file != nil {
			return size, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// copyTo writes the file as it comes, after begun. Its last byte is written when the hash was found to be right, so that
// nobody takes a wrong file for a whole one.
func (d *download) copyTo(ctx context.Context, w io.Writer) error {
	for at := int64(0); ; {
		d.mu.Lock()
		file, end, done, err, changed := d.file, d.written, d.done, d.err, d.changed
		d.mu.Unlock()
		if done && err != nil {
			return err
		}
		if !done {
			end--
		}
		if end > at {
			n, err := io.Copy(w, io.NewSectionReader(file, at, end-at))
			if err != nil {
				return err
			}
			at += n
		}
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
