package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"talaria/api"
	"talaria/artifacts"
	"talaria/store"
)

// blobs are the bytes that the rows of sessions refer to by their digests: artifacts, the bodies of big events, and what
// checkpoints keep. It is immutable and safe for concurrent use.
type blobs struct {
	artifacts *artifacts.Store
	store     *store.Store
	log       *slog.Logger
	unused    chan []string // what sweep removes next, unless a session refers to it
}

// maxUnused is how many lists of blobs may wait for their removal. Those that find no room wait for the next round of sweep.
const maxUnused = 256

// removePause is how long they wait, so that the database is flushed once for many.
const removePause = time.Second

// open opens the bytes of a reference that was looked up; err is the look-up's.
func (b *blobs) open(mediaType, sha256 string, err error) (*os.File, string, error) {
	missing := api.Errorf(api.CodeArtifactNotFound, "none of your sessions refers to the artifact %.80q", sha256)
	if errors.Is(err, store.ErrNotFound) {
		return nil, "", missing
	}
	if err != nil {
		return nil, "", err
	}
	f, _, err := b.artifacts.Get(sha256)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", missing
	}
	return f, mediaType, err
}

// read reads a blob of that size.
func (b *blobs) read(sha256 string, size int64) ([]byte, error) {
	f, n, err := b.artifacts.Get(sha256)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if n != size {
		return nil, fmt.Errorf("artifact %s has %d bytes, not %d", sha256, n, size)
	}
	data := make([]byte, n)
	_, err = io.ReadFull(f, data)
	return data, err
}

// flushed reports that no power failure takes back what was committed, such as the end of a reference: then its blob may go. Otherwise
// the blobs are left to sweep.
func (b *blobs) flushed() bool {
	if err := b.store.Sync(); err != nil {
		b.log.Warn("unreferenced artifacts stay for another hour: the database cannot be flushed", "error", err)
		return false
	}
	return true
}

func (b *blobs) remove(ctx context.Context, digest string) {
	ctx = context.WithoutCancel(ctx)
	if err := b.artifacts.DeleteUnless(digest, func() (bool, error) { return b.store.Referenced(ctx, digest) }); err != nil {
		b.log.Warn("remove an unreferenced artifact", "error", err)
	}
}

// removeSoon has sweep remove those of the blobs that no session refers to.
func (b *blobs) removeSoon(digests []string) {
	if len(digests) == 0 {
		return
	}
	select {
	case b.unused <- digests:
	default:
	}
}

// onlyIn returns the blobs that one of these checkpoints needs and no other one. What it does not find in time is left to sweep.
func (b *blobs) onlyIn(ctx context.Context, checkpoints []store.Checkpoint) (digests []string) {
	for _, c := range checkpoints {
		list, err := b.store.DigestsOnlyIn(ctx, c.N)
		if err != nil && ctx.Err() == nil {
			b.log.Warn("look for the blobs of a checkpoint", "checkpoint", c.ID, "error", err)
		}
		digests = append(digests, list...)
	}
	return digests
}

// sweep removes blobs that no session refers to, at start and then every hour until ctx ends, and in between those that removeSoon names.
func (b *blobs) sweep(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	var unused []string
	var soon <-chan time.Time
	b.sweepAll(ctx)
	for {
		select {
		case <-tick.C:
			b.sweepAll(ctx)
		case more := <-b.unused:
			if unused = append(unused, more...); soon == nil {
				soon = time.After(removePause)
			}
		case <-soon:
			for flushed := b.flushed(); flushed && len(unused) > 0 && ctx.Err() == nil; unused = unused[1:] {
				b.remove(ctx, unused[0])
			}
			unused, soon = nil, nil
		case <-ctx.Done():
			return
		}
	}
}

func (b *blobs) sweepAll(ctx context.Context) {
	before := time.Now().Add(-time.Hour) // by then a commit has recorded everything that was put
	known, err := b.digests(ctx)
	if err == nil {
		_, err = b.artifacts.Sweep(ctx, before, func(d string) bool { return known[d] })
	}
	if err != nil && ctx.Err() == nil {
		b.log.Error("sweep artifacts", "error", err)
	}
}

// digests returns what sessions refer to: in their logs, and in their checkpoints.
func (b *blobs) digests(ctx context.Context) (map[string]bool, error) {
	list, err := b.store.AllDigests(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool, len(list))
	for _, d := range list {
		known[d] = true
	}
	return known, nil
}
