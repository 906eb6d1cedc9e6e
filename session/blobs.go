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

// removeUnused removes the blobs that no session refers to.
func (b *blobs) removeUnused(ctx context.Context, digests []string) {
	ctx = context.WithoutCancel(ctx)
	for _, d := range digests {
		err := b.artifacts.DeleteUnless(d, func() (bool, error) { return b.store.Referenced(ctx, d) })
		if err != nil {
			b.log.Warn("remove an unreferenced artifact", "error", err)
		}
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
	for all := true; ; {
		if all {
			if err := b.sweepOnce(ctx); err != nil && ctx.Err() == nil {
				b.log.Error("sweep artifacts", "error", err)
			}
		}
		select {
		case <-tick.C:
			all = true
		case digests := <-b.unused:
			all = false
			for ; len(digests) > 0 && ctx.Err() == nil; digests = digests[1:] {
				b.removeUnused(ctx, digests[:1])
			}
		case <-ctx.Done():
			return
		}
	}
}

func (b *blobs) sweepOnce(ctx context.Context) error {
	before := time.Now().Add(-time.Hour) // by then a commit has recorded everything that was put
	known, err := b.digests(ctx)
	if err != nil {
		return err
	}
	_, err = b.artifacts.Sweep(ctx, before, func(d string) bool { return known[d] })
	return err
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
