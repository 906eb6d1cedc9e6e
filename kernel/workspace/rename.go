package workspace

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Rename moves a file or folder to an unused path, making the folders on the way. It returns [fs.ErrExist] if the new
// path exists, [fs.ErrInvalid] for a folder moved into itself, [ErrOutside] for a link, and [ErrNotAFile] for a pipe,
// socket or device.
func (d *Dir) Rename(from, to string) (Entry, error) { return d.rename(from, to, renameNoReplace) }

// Replace is Rename, but a file replaces a file that has the new path, in one step.
func (d *Dir) Replace(from, to string) (Entry, error) { return d.rename(from, to, renameToFile) }

func (d *Dir) rename(from, to string, rename func(fromParent int, from string, toParent int, to string) error) (Entry, error) {
	fromFolder, fromName, err := split(from)
	if err != nil {
		return Entry{}, explain("rename", from, err)
	}
	toFolder, toName, err := split(to)
	if err == nil && strings.HasPrefix(to, from+"/") {
		err = fs.ErrInvalid
	}
	if err != nil {
		return Entry{}, explain("rename to", to, err)
	}
	root, err := d.hold() // both folders must be on one mount
	if err != nil {
		return Entry{}, explain("rename", from, err)
	}
	defer d.release(root)
	fromParent := -1
	err = d.use(func(root int) error {
		fromParent, err = openBeneath(root, fromFolder, asPath, 0)
		return err
	})
	if err != nil {
		return Entry{}, explain("rename", from, err)
	}
	defer unix.Close(fromParent)
	var st unix.Stat_t
	if err := unix.Fstatat(fromParent, fromName, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Entry{}, explain("rename", from, err)
	}
	switch kindOf(st.Mode) {
	case Symlink:
		return Entry{}, explain("rename", from, ErrOutside)
	case Other:
		return Entry{}, explain("rename", from, ErrNotAFile)
	}
	toParent, err := d.makeFolder(toFolder)
	if err != nil {
		return Entry{}, explain("rename to", to, err)
	}
	defer unix.Close(toParent)
	if err := rename(fromParent, fromName, toParent, toName); err != nil {
		return Entry{}, explain("rename to", to, err)
	}
	return entryOf(to, &st), nil
}

// Mkdir makes a folder, and those on the way. It returns [fs.ErrExist] if the path exists.
func (d *Dir) Mkdir(path string) error {
	folder, name, err := split(path)
	if err != nil {
		return explain("make folder", path, err)
	}
	parent, err := d.makeFolder(folder)
	if err != nil {
		return explain("make folder", path, err)
	}
	defer unix.Close(parent)
	fd, err := d.makeIn(parent, name)
	if err != nil {
		return explain("make folder", path, err)
	}
	return unix.Close(fd)
}

// renameToFile renames, and replaces a file that has the new name. What else has it is [fs.ErrExist]: rename(2) itself refuses to
// replace a folder by a file and the other way round, and an empty folder and a link are looked for.
func renameToFile(fromParent int, from string, toParent int, to string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(toParent, to, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && kindOf(st.Mode) != File {
		return fs.ErrExist
	}
	err := unix.Renameat(fromParent, from, toParent, to)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) {
		return fs.ErrExist
	}
	return err
}

// renameNoReplace renames if the new name does not exist. On file systems that cannot do it in one step, it looks
// first.
func renameNoReplace(fromParent int, from string, toParent int, to string) error {
	err := unix.Renameat2(fromParent, from, toParent, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(toParent, to, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		return fs.ErrExist
	}
	return unix.Renameat(fromParent, from, toParent, to)
}
