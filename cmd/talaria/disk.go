package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"talaria/kernel"
	"talaria/kernel/disk"
	"talaria/store"
)

// imagesForEach is how many images of workspaces are kept ready for each ready kernel: sessions come in bursts, and an
// image that is not used yet takes less than a megabyte of the disk.
const imagesForEach = 2

// maxBallast is the most that the server takes of the state disk for its own needs when that is full.
const maxBallast = 256 << 20

// openStore opens the database, on a full disk with the room that the ballast of an earlier server took.
func openStore(ctx context.Context, c config, log *slog.Logger) (*store.Store, error) {
	db, err := store.Open(ctx, c.StateDir, log)
	if errors.Is(err, store.ErrLocked) { // the ballast belongs to a server that runs
		return nil, err
	}
	if released := disk.ReleaseBallast(sessionsDir(c)); released != nil && err == nil {
		return nil, errors.Join(released, db.Close())
	}
	if err != nil {
		return store.Open(ctx, c.StateDir, log)
	}
	return db, nil
}

// openDisk makes ready what holds workspaces, for a tier of isolation whose sandboxes have mounts of their own or not.
func openDisk(ctx context.Context, c config, mounts bool, log *slog.Logger) (*disk.Store, error) {
	if err := os.MkdirAll(sessionsDir(c), 0o755); err != nil {
		return nil, err
	}
	return disk.Open(ctx, disk.Config{
		Root: sessionsDir(c), Mode: disk.Mode(c.Disk), LimitBytes: c.Limits.DiskBytes, MaxBytes: c.Ceilings.DiskBytes,
		NoMounts: !mounts, Ready: max(1, imagesForEach*c.Pool), MaxBallast: maxBallast, Log: log,
	})
}

// diskFindings tries what holds workspaces where the state directory is or will be, and leaves nothing behind.
func diskFindings(ctx context.Context, c config) (findings []kernel.Finding, ok bool) {
	place, err := existing(sessionsDir(c))
	if err != nil {
		return []kernel.Finding{{Name: "disk limit", Detail: err.Error()}}, false
	}
	return disk.Probe(ctx, place, disk.Mode(c.Disk), c.Ceilings.DiskBytes)
}

// existing returns the directory itself, or the nearest one above it that exists.
func existing(dir string) (string, error) {
	for {
		_, err := os.Stat(dir)
		if err == nil || dir == filepath.Dir(dir) {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		dir = filepath.Dir(dir)
	}
}
