package workspace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Place makes a new file in a workspace that is of no use after a crash: unlike Write it does not wait for the disk.
// It makes folders on the way. It returns [fs.ErrExist] if there is something of that name.
func (d *Dir) Place(path string, data []byte) error {
	if err := d.place(path, data); err != nil {
		return explain("place", path, err)
	}
	return nil
}

func (d *Dir) place(path string, data []byte) error {
	folder, name, err := split(path)
	if err != nil {
		return err
	}
	parent, err := d.makeFolder(folder)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	fd, err := openBeneath(parent, name, asNew, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return d.giveAway(fd, fileMode)
}
