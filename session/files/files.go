// Package files gives clients the files of a session's workspace: it lists, reads, writes, moves and watches them.
package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"mime"
	"os"
	"path"

	"github.com/gabriel-vasile/mimetype"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/disk"
	"talaria/kernel/workspace"
)

// Config is what the files of a session need of it. Its functions are safe for concurrent use.
type Config struct {
	Dir *disk.Workspace
	// Owner and Session are whom watches count for, and Watches counts those of all sessions.
	Owner, Session string
	Watches        *Watches
	// Spare reports why nothing can be written to the server's disk, or nil.
	Spare func() error
	// Limit returns limits.disk_bytes.
	Limit func() int64
	// Changed notes that a client has changed files.
	Changed func(context.Context) error
	// Deleted is closed when the session is deleted, and ErrDeleted is what watches end with then.
	Deleted    <-chan struct{}
	ErrDeleted error
}

// Files are the files of a session's workspace. A path is relative to the workspace, and "" is the workspace itself. Files is
// safe for concurrent use. Its errors are for clients.
type Files struct{ cfg Config }

// New returns the files of a session.
func New(cfg Config) *Files { return &Files{cfg} }

// List lists a folder of the workspace, one level, by name. "" is the workspace itself. truncated reports that
// there are more files than can be listed.
func (w *Files) List(_ context.Context, folder string) (list []api.File, truncated bool, err error) {
	entries, err := w.cfg.Dir.List(folder)
	truncated = errors.Is(err, workspace.ErrTruncated)
	if err != nil && !truncated {
		return nil, false, fileError(err, folder)
	}
	files := make([]api.File, len(entries))
	for i, e := range entries {
		files[i] = file(e, nil)
	}
	return files, truncated, nil
}

// file describes an entry. f is its content, or nil if that is not examined.
func file(e workspace.Entry, f io.ReaderAt) api.File {
	out := api.File{Name: path.Base(e.Path), Path: e.Path, Kind: string(e.Kind), Size: e.Size, ModifiedAt: api.At(e.ModTime)}
	if e.Kind != workspace.File {
		out.Size = 0
		return out
	}
	out.MediaType = MediaType(e.Path, f)
	return out
}

// emptyReader stands for a file whose content is not examined.
type emptyReader struct{}

func (emptyReader) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// Open opens a file of the workspace; the caller closes it.
func (w *Files) Open(_ context.Context, name string) (*os.File, api.File, error) {
	f, e, err := w.cfg.Dir.Open(name)
	if err != nil {
		return nil, api.File{}, fileError(err, name)
	}
	return f, file(e, f), nil
}

// Put writes a file of the workspace atomically; if the reader fails, the old file stays. It counts as use.
func (w *Files) Put(ctx context.Context, name string, r io.Reader) (created bool, f api.File, err error) {
	if err := w.cfg.Spare(); err != nil {
		return false, f, err
	}
	to := &room{Reader: r, cfg: &w.cfg, ctx: ctx}
	if err := to.measure(); err != nil {
		return false, f, err
	}
	if old, err := w.cfg.Dir.Stat(name); err == nil && old.Kind == workspace.File {
		if w.cfg.Dir.Held() == kernel.DiskWatched {
			to.replaced = old.Size
		} // otherwise both have to fit until the new one is complete
	} else if most := (kernel.Limits{DiskBytes: to.quota}).Inodes(); to.inodes >= most {
		return false, f, api.Errorf(api.CodeDiskLimit,
			"the workspace has %d files, and its limits.disk_bytes allows %d; delete files or raise the limit", to.inodes, most)
	}
	created, e, err := w.cfg.Dir.Write(ctx, name, to, math.MaxInt64)
	to.wrote()
	if errors.Is(err, workspace.ErrLimit) || errors.Is(err, workspace.ErrNoSpace) {
		return false, f, api.Errorf(api.CodeDiskLimit,
			"%.200q does not fit: %d of the %d bytes in limits.disk_bytes are used; delete files or raise the limit", name, to.usedByOthers(), to.quota)
	}
	if err != nil {
		return false, f, fileError(err, name)
	}
	return created, file(e, nil), w.cfg.Changed(ctx)
}

// Stat describes a file or folder of the workspace; "" is the workspace itself.
func (w *Files) Stat(_ context.Context, name string) (api.File, error) {
	e, err := w.cfg.Dir.Stat(name)
	if err != nil {
		return api.File{}, fileError(err, name)
	}
	if name == "" {
		e.Path = ""
	}
	return file(e, nil), nil
}

// MakeFolder makes a folder of the workspace, and those on the way. created is false if it exists already.
func (w *Files) MakeFolder(ctx context.Context, name string) (f api.File, created bool, err error) {
	if err := w.cfg.Spare(); err != nil {
		return f, false, err
	}
	err = w.cfg.Dir.Mkdir(name)
	if errors.Is(err, os.ErrExist) || name == "" {
		f, err = w.Stat(ctx, name)
		return f, false, err
	}
	if err != nil {
		return f, false, fileError(err, name)
	}
	if f, err = w.Stat(ctx, name); err != nil {
		return f, true, err
	}
	return f, true, w.cfg.Changed(ctx)
}

// Delete removes a file, a link itself, or a folder with everything in it.
func (w *Files) Delete(ctx context.Context, name string) error {
	if err := w.cfg.Dir.Remove(ctx, name); err != nil {
		return fileError(err, name)
	}
	return w.cfg.Changed(ctx)
}

// Rename moves a file or folder to another path, which must not exist yet.
func (w *Files) Rename(ctx context.Context, from, to string) (api.File, error) {
	return w.rename(ctx, from, to, w.cfg.Dir.Rename)
}

// Replace is Rename, but a file replaces a file that has the new path, in one step.
func (w *Files) Replace(ctx context.Context, from, to string) (api.File, error) {
	return w.rename(ctx, from, to, w.cfg.Dir.Replace)
}

func (w *Files) rename(ctx context.Context, from, to string, rename func(from, to string) (workspace.Entry, error)) (api.File, error) {
	e, err := rename(from, to)
	if err != nil {
		if errors.Is(err, os.ErrExist) {
			return api.File{}, fileError(err, to)
		}
		return api.File{}, fileError(err, from)
	}
	return file(e, nil), w.cfg.Changed(ctx)
}

// fileError returns an error of the workspace as clients see it.
func fileError(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, workspace.ErrOutside), errors.Is(err, fs.ErrInvalid):
		return api.Errorf(api.CodePathOutside,
			"path %.200q is invalid, outside the workspace, or passes through a link; give a relative path such as data/a.csv", name)
	case errors.Is(err, fs.ErrPermission):
		return api.Errorf(api.CodeForbidden,
			"%.200q cannot be opened: its mode forbids it, or code in the session holds a lease on it; change that in a cell",
			name)
	case errors.Is(err, fs.ErrNotExist):
		return api.Errorf(api.CodeFileNotFound, "the workspace has no file or folder %.200q", name)
	case errors.Is(err, workspace.ErrNotAFile):
		return api.Errorf(api.CodeNotAFile, "%.200q is not a file", name)
	case errors.Is(err, workspace.ErrNotAFolder):
		return api.Errorf(api.CodeNotAFile, "%.200q passes through something that is not a folder", name)
	case errors.Is(err, fs.ErrExist):
		return api.Errorf(api.CodeNotAFile, "%.200q already exists", name)
	}
	return err
}

// MediaType returns the type of a file by its name, or else by its first bytes. With a nil f, the name alone decides.
func MediaType(name string, f io.ReaderAt) string {
	switch path.Ext(name) { // types on which systems disagree, or which they do not know
	case ".csv":
		return "text/csv; charset=utf-8"
	case ".md":
		return "text/markdown; charset=utf-8"
	case ".ipynb":
		return "application/x-ipynb+json"
	case ".parquet":
		return "application/vnd.apache.parquet"
	case ".py":
		return "text/x-python; charset=utf-8"
	case ".txt", ".log":
		return "text/plain; charset=utf-8"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	if f == nil {
		f = emptyReader{}
	}
	head := make([]byte, 3072)
	n, _ := f.ReadAt(head, 0)
	return mimetype.Detect(head[:n]).String()
}
