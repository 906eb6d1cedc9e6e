package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
)

// errNotHeld reports that an image took more than its limit.
var errNotHeld = errors.New("an image took more than its limit")

// tryQuota makes a folder a project with a quota, and removes it.
func tryQuota(root string) (err error) {
	dir, err := os.MkdirTemp(root, ".quota-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	if err := onFolder(dir, enforced); err != nil {
		return err
	}
	p, err := newProject(dir, blockBytes)
	if err != nil {
		return err
	}
	if used, err := p.used(); err != nil || !used {
		return errors.Join(errNotEnforced, err, p.setLimit(0))
	}
	return p.setLimit(0)
}

// tryImage makes an image, fills it, and removes it.
func tryImage(ctx context.Context, dir string, cfg Config) (err error) {
	const limit = 1 << 20
	i, err := newImage(ctx, dir, limit, max(cfg.MaxBytes, limit))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.discard()) }()
	fd, err := unix.Openat(int(i.first.Fd()), "fill", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write to an image: %w", err)
	}
	defer unix.Close(fd)
	written := 0
	for chunk := make([]byte, limit/4); written <= limit; {
		n, err := unix.Write(fd, chunk)
		written += max(n, 0)
		if errors.Is(err, unix.ENOSPC) {
			break
		}
		if err != nil {
			return fmt.Errorf("write to an image: %w", err)
		}
	}
	if written > limit {
		return errNotHeld
	}
	return nil
}

// Probe reports what could hold workspaces below dir, and what will in that mode. It leaves nothing behind.
func Probe(ctx context.Context, dir string, mode Mode, most int64) (findings []kernel.Finding, ok bool) {
	if os.Geteuid() != 0 {
		f := kernel.Finding{Name: "disk limit", OK: mode == Auto || mode == Watched,
			Detail: "watched: a workspace may briefly exceed its limit; exact limits require root"}
		if !f.OK {
			f.Detail, f.Remedy = "disk is "+string(mode)+", which requires root", "run the server as root, or configure disk: auto"
		}
		return []kernel.Finding{f}, f.OK
	}
	cfg := Config{Root: dir, MaxBytes: most}
	quota := kernel.Finding{Name: "project quota", OK: true, Detail: "the file system of " + dir + " enforces project quotas"}
	if err := tryQuota(dir); err != nil {
		quota.OK, quota.Detail, quota.Remedy = false, err.Error(), quotaRemedy(err)
	}
	begin := time.Now()
	image := kernel.Finding{Name: "images for workspaces", OK: true}
	if err := probeImage(ctx, cfg); err != nil {
		image.OK, image.Detail, image.Remedy = false, err.Error(), imageRemedy(err)
	} else {
		image.Detail = fmt.Sprintf("created, attached, filled and removed in %d ms", time.Since(begin).Milliseconds())
	}
	force := kernel.Finding{Name: "disk limit", OK: true}
	switch {
	case mode == Watched:
		force.Detail = "watched, as configured: a workspace may briefly exceed its limit"
	case quota.OK && mode != Image:
		force.Detail = "enforced by project quotas"
		image.OK, image.Remedy = true, "" // not needed
	case image.OK && mode != Quota:
		force.Detail = "enforced by images, since there is no project quota"
		quota.OK, quota.Remedy = true, ""
	case mode == Auto:
		force.OK, force.Detail = false, "watched: a workspace may briefly exceed its limit"
		force.Remedy = "make project quotas or images work, as advised above"
	default:
		force.OK, force.Detail = false, "disk is "+string(mode)+", which is not available here"
		force.Remedy = "follow the advice above, or configure disk: auto"
		return []kernel.Finding{quota, image, force}, false
	}
	return []kernel.Finding{quota, image, force}, true
}

func probeImage(ctx context.Context, cfg Config) (err error) {
	dir, err := os.MkdirTemp(cfg.Root, ".image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	return tryImage(ctx, dir, cfg)
}

func quotaRemedy(err error) string {
	switch {
	case errors.Is(err, errNoQuota):
		return "put the state directory on ext4 with tune2fs -O quota,project -Q prjquota and mount option prjquota, or on xfs " +
			"with mount option prjquota; the kernel needs CONFIG_QUOTA and CONFIG_QFMT_V2, or CONFIG_XFS_QUOTA"
	case errors.Is(err, errNotEnforced):
		return "mount the file system with option prjquota"
	case errors.Is(err, unix.EPERM):
		return "run the server with CAP_SYS_ADMIN, and quotactl_fd allowed by the container's seccomp profile"
	}
	return ""
}

func imageRemedy(err error) string {
	var path *fs.PathError
	switch {
	case errors.Is(err, errNoFormatter):
		return "install e2fsprogs (Debian: apt-get install e2fsprogs)"
	case errors.As(err, &path) && path.Path == loopControl && errors.Is(err, fs.ErrNotExist):
		return "load the module loop, or give the container /dev/loop-control and /dev"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "run the server with CAP_SYS_ADMIN, and with loop devices allowed to the container"
	case errors.Is(err, unix.EROFS):
		return "give the container a writable /sys"
	}
	return ""
}
