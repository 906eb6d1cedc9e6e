package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	firstPause = time.Second // after an image that could not be made, and
	lastPause  = time.Minute // the longest it grows to

	// takenPause leaves the machine to the session that took an image, before the next one is made, unless it took the last one.
	takenPause = 100 * time.Millisecond
)

// ready keeps images with the usual limit ready, since making one takes about ten milliseconds.
type ready struct {
	dir    string
	cfg    Config
	log    *slog.Logger
	cancel context.CancelFunc
	ended  chan struct{}
	taken  chan struct{} // has room for one

	mu     sync.Mutex // guards the fields below
	images []*image
}

func keepReady(dir string, cfg Config) *ready {
	ctx, cancel := context.WithCancel(context.Background())
	r := &ready{dir: dir, cfg: cfg, log: cfg.Log, cancel: cancel, ended: make(chan struct{}), taken: make(chan struct{}, 1)}
	go r.tend(ctx)
	return r
}

// take returns an image with that limit. It makes one if none is ready.
func (r *ready) take(ctx context.Context, bytes int64) (*image, error) {
	if bytes == r.cfg.LimitBytes {
		r.mu.Lock()
		var i *image
		if n := len(r.images); n > 0 {
			i, r.images = r.images[n-1], r.images[:n-1]
		}
		r.mu.Unlock()
		if i != nil {
			select {
			case r.taken <- struct{}{}:
			default:
			}
			if i.healthy() {
				return i, nil
			}
			r.log.Warn("take an image for a workspace", "error", errors.Join(errReadOnly, i.discard()))
		}
	}
	return newImage(ctx, r.dir, bytes, r.cfg.MaxBytes)
}

func newImage(ctx context.Context, dir string, bytes, most int64) (*image, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return makeImage(ctx, filepath.Join(dir, rand.Text()+".ext4"), bytes, most)
}

// tend keeps the number of ready images up until ctx ends.
func (r *ready) tend(ctx context.Context) {
	defer close(r.ended)
	pause := firstPause
	for ctx.Err() == nil {
		if !r.missing() {
			select {
			case <-r.taken:
				if r.left() > 0 {
					sleep(ctx, takenPause)
				}
			case <-ctx.Done():
			}
			continue
		}
		i, err := newImage(ctx, r.dir, r.cfg.LimitBytes, r.cfg.MaxBytes)
		if err == nil {
			r.put(i)
			pause = firstPause
			continue
		}
		if ctx.Err() == nil {
			r.log.Error("make an image for a workspace", "error", err, "next_try_in", pause)
		}
		sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// sleep returns after that time, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (r *ready) missing() bool { return r.left() < r.cfg.Ready }

func (r *ready) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.images)
}

func (r *ready) put(i *image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.images = append(r.images, i)
}

func (r *ready) close() error {
	r.cancel()
	<-r.ended
	r.mu.Lock()
	images := r.images
	r.images = nil
	r.mu.Unlock()
	var errs []error
	for _, i := range images {
		errs = append(errs, i.discard())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}
