// Package disk makes the workspaces of sessions, and makes the operating system hold them to their bytes and inodes
// where it can: with a project quota of the file system, or with a separate file system for each workspace in an image
// file. Otherwise a workspace is a plain directory, and package host measures its contents.
//
// An image is never mounted at any path. Each process that uses it has a detached mount of it, open as a descriptor,
// and each sandbox has one at /workspace. When the last of them closes, the file system, its loop device and the lock
// on the image go away with it, however its process ended. So nothing can be left behind, and after a crash or a
// reboot the image is attached again when it is used.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/workspace"
)

// Mode is the operator's choice of what holds workspaces to their limits.
type Mode string

// The modes. Auto uses the best that the machine offers.
const (
	Auto    Mode = "auto"
	Quota   Mode = "quota"
	Image   Mode = "image"
	Watched Mode = "watched"
)

// Modes lists all modes.
var Modes = []Mode{Auto, Quota, Image, Watched}

// ErrCapacity reports that an image can never hold that much.
var ErrCapacity = errors.New("the image of the workspace is too small for that limit")

// errNoMounts is why some tiers have no images.
var errNoMounts = errors.New("an image requires an isolation tier with its own mounts: namespace")

// imageName is the name of a workspace's image in its session's directory, where it replaces the workspace's folder.
const imageName = "workspace.ext4"

// Config says where a store keeps workspaces. Root is required.
type Config struct {
	Root string // the directory of all sessions
	Mode Mode   // default Auto
	// LimitBytes is the limit of sessions that ask for none. The store keeps images of that size ready, as many as
	// Ready says.
	LimitBytes int64
	Ready      int
	// NoMounts says that sandboxes have no mounts of their own, so that they cannot use images.
	NoMounts bool
	// MaxBytes is how far the limit of a workspace can be raised later.
	MaxBytes int64
	// MaxBallast bounds [Store.SetBallast]. 0: no ballast.
	MaxBallast int64
	Log        *slog.Logger
}

// Store makes and opens the workspaces of one server. It is safe for concurrent use.
type Store struct {
	cfg   Config
	hold  kernel.DiskEnforcement // for new workspaces
	ready *ready                 // nil if there are no images

	ballast atomic.Int64 // bytes that it occupies
	wasFull bool         // at the last SpendBallast

	leaving sync.WaitGroup // discarded workspaces that are still mounted
}

// Open finds out by trying what can hold workspaces, and begins to keep images ready if images can. It fails if the
// configured mode is not available, and with the cause if ctx ends. Close ends it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Mode == "" {
		cfg.Mode = Auto
	}
	s := &Store{cfg: cfg}
	if err := os.RemoveAll(s.readyDir()); err != nil { // of an earlier server
		return nil, fmt.Errorf("remove images that were kept ready: %w", err)
	}
	var causes []error
	for _, try := range s.cfg.candidates() {
		err := s.try(ctx, try)
		if err == nil {
			s.hold = try
			break
		}
		if ctx.Err() != nil { // a program that it ran was killed, which says nothing about the machine
			return nil, context.Cause(ctx)
		}
		causes = append(causes, err)
		if cfg.Mode != Auto {
			return nil, fmt.Errorf("disk: %s is not available%s: %w; choose another, or auto", cfg.Mode, asUser(), err)
		}
	}
	if s.hold == kernel.DiskWatched && len(causes) > 0 {
		cfg.Log.Warn("workspaces are only watched; their limits are not enforced exactly", "cause", errors.Join(causes...))
	}
	if s.hold != kernel.DiskImage {
		_ = os.Remove(s.readyDir()) // where the trial left it
	} else {
		s.ready = keepReady(s.readyDir(), cfg)
	}
	return s, nil
}

// candidates lists what to try, the best first.
func (c Config) candidates() []kernel.DiskEnforcement {
	switch {
	case c.Mode == Quota:
		return []kernel.DiskEnforcement{kernel.DiskQuota}
	case c.Mode == Image:
		return []kernel.DiskEnforcement{kernel.DiskImage}
	case c.Mode == Auto && os.Geteuid() == 0:
		return []kernel.DiskEnforcement{kernel.DiskQuota, kernel.DiskImage}
	}
	return nil
}

func (s *Store) try(ctx context.Context, hold kernel.DiskEnforcement) error {
	switch {
	case hold == kernel.DiskQuota:
		return tryQuota(s.cfg.Root)
	case s.cfg.NoMounts:
		return errNoMounts
	}
	return tryImage(ctx, s.readyDir(), s.cfg)
}

// asUser returns the words that blame the lack of root, if this process is not root.
func asUser() string {
	if os.Geteuid() != 0 {
		return ", which requires root"
	}
	return ""
}

func (s *Store) readyDir() string { return filepath.Join(s.cfg.Root, ".images") }

// Hold says what holds new workspaces to their limits.
func (s *Store) Hold() kernel.DiskEnforcement { return s.hold }

// Close lets go of the images that are kept ready, and waits until nothing is left of discarded workspaces. All other
// workspaces stay usable. It is idempotent.
func (s *Store) Close() error {
	s.leaving.Wait()
	if s.ready == nil {
		return nil
	}
	return s.ready.close()
}

// Create makes the directory of a session with its workspace, which belongs to uid and is limited to bytes. ctx bounds
// it. In mode Auto, a workspace whose image or quota cannot be made becomes a plain directory. After an error nothing
// is left.
func (s *Store) Create(ctx context.Context, name string, uid int, bytes int64) (*Workspace, error) {
	dir, err := workspace.Create(s.cfg.Root, name, uid)
	if err != nil {
		return nil, err
	}
	if s.hold == kernel.DiskWatched {
		return &Workspace{Dir: dir}, nil
	}
	w, err := s.holdTo(ctx, dir, name, uid, bytes)
	if err == nil {
		return w, nil
	}
	err = fmt.Errorf("hold the workspace of session %s: %w", name, err)
	if s.cfg.Mode != Auto || ctx.Err() != nil {
		return nil, errors.Join(err, dir.Close(), workspace.Delete(context.WithoutCancel(ctx), s.cfg.Root, name))
	}
	s.cfg.Log.Warn("a workspace is only watched; its limit is not enforced exactly", "error", err)
	return &Workspace{Dir: dir}, nil
}

// holdTo takes ownership of dir, unless it returns an error.
func (s *Store) holdTo(ctx context.Context, dir *workspace.Dir, name string, uid int, bytes int64) (*Workspace, error) {
	if s.hold == kernel.DiskQuota {
		project, err := newProject(s.workspace(name), bytes)
		if err != nil {
			return nil, err
		}
		return &Workspace{Dir: dir, hold: kernel.DiskQuota, project: project}, nil
	}
	made, err := s.ready.take(ctx, bytes)
	if err != nil {
		return nil, err
	}
	if err := made.moveTo(s.image(name), uid); err != nil {
		return nil, errors.Join(err, made.discard())
	}
	// A folder that does not exist cannot be mistaken for the workspace.
	if err := os.Remove(s.workspace(name)); err != nil {
		return nil, errors.Join(err, made.discard())
	}
	_ = dir.Close() // it does not exist any more
	return s.imageWorkspace(made), nil
}

// Load returns the existing workspace of a session. It uses nothing of the machine until it is first used.
func (s *Store) Load(name string, uid int, bytes int64) (*Workspace, error) {
	info, err := os.Lstat(s.image(name))
	if err == nil && info.Mode().IsRegular() {
		return s.imageWorkspace(&image{path: s.image(name), uid: uid, limit: bytes}), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	dir, err := workspace.Open(s.workspace(name))
	if err != nil {
		return nil, err
	}
	w := &Workspace{Dir: dir}
	if project, err := projectOf(s.workspace(name)); err == nil && project != nil {
		w.hold, w.project = kernel.DiskQuota, project
	}
	return w, nil
}

// Delete removes the directory of a session with everything in it. Its workspace must have been discarded. ctx bounds
// it.
func (s *Store) Delete(ctx context.Context, name string) error {
	return workspace.Delete(ctx, s.cfg.Root, name)
}

func (s *Store) workspace(name string) string {
	return filepath.Join(s.cfg.Root, name, workspace.WorkspaceFolder)
}

func (s *Store) image(name string) string { return filepath.Join(s.cfg.Root, name, imageName) }

// Workspace is the workspace of one session, with whatever holds it to its limit. It is safe for concurrent use.
type Workspace struct {
	*workspace.Dir
	store   *Store // of an image
	hold    kernel.DiskEnforcement
	image   *image
	project *project

	// Uploading counts the bytes that clients write to files here, and Uploaded those of them that have been written, whether or not
	// they stay.
	Uploading, Uploaded atomic.Int64
}

func (s *Store) imageWorkspace(i *image) *Workspace {
	return &Workspace{store: s, Dir: workspace.Lazy(i.path, i.open), hold: kernel.DiskImage, image: i}
}

// Held says what holds the workspace to its limit.
func (w *Workspace) Held() kernel.DiskEnforcement { return w.hold }

// SetLimit changes at once how much the workspace may use. If it already uses more, nothing can be added. It returns
// ErrCapacity if the limit is more than an image can ever hold.
func (w *Workspace) SetLimit(bytes int64) error {
	switch w.hold {
	case kernel.DiskImage:
		return w.image.setLimit(bytes)
	case kernel.DiskQuota:
		return w.project.setLimit(bytes)
	}
	return nil
}

// Usage returns what the workspace uses. If the operating system enforces the limit, these are its figures, which
// include deleted files that are still open.
func (w *Workspace) Usage(ctx context.Context) (bytes, inodes int64, err error) {
	if w.hold == kernel.DiskWatched {
		return w.Dir.Usage(ctx)
	}
	space, err := w.Dir.Space()
	if err != nil {
		return 0, 0, err
	}
	bytes, inodes = kernel.EnforcedUsage(w.hold, space)
	return bytes, inodes, nil
}

// Close releases the workspace. It is idempotent.
func (w *Workspace) Close() error {
	err := w.Dir.Close()
	if w.image != nil {
		err = errors.Join(err, w.image.close())
	}
	return err
}

// Discard is Close for a workspace that is about to be deleted. No process may be using it any more.
func (w *Workspace) Discard() error {
	if w.image != nil {
		w.discardImage()
		return nil
	}
	err := w.Close()
	if w.project != nil {
		err = errors.Join(err, w.project.setLimit(0))
	}
	return err
}

// discardImage unmounts in the background, since that takes some ten milliseconds; data not yet written to the disk
// never will be.
func (w *Workspace) discardImage() {
	var root *os.File
	var release func()
	var err error
	if w.Dir.IsOpen() {
		root, release, err = w.Dir.Hold()
	}
	err = errors.Join(err, w.Dir.Close()) // with release, if it is held
	w.store.leaving.Go(func() {
		if root != nil {
			err = errors.Join(err, shutDown(root))
			release()
		}
		if err := errors.Join(err, w.image.close()); err != nil {
			w.store.cfg.Log.Warn("unmount a deleted workspace", "error", err)
		}
	})
}

// lock waits for the lock of a file that an image's loop device holds as long as it exists.
func lock(fd int, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
