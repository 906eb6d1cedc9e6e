package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ballastName is the name of the ballast in the directory of all sessions: a file that occupies disk space until the
// server needs it. Another program may fill the disk to its last byte before the server can act; the ballast then
// makes room for what images have yet to write back and for the database.
const ballastName = ".ballast"

const (
	// diskIsFull is how much may be left on a disk that counts as full. With more left, the program that fills the
	// disk would not fail, and would take the ballast too.
	diskIsFull = 1 << 20
	// ballastStep is how much of the ballast is given back at a time, on top of what is needed.
	ballastStep = 16 << 20
)

// SetBallast reserves this many bytes of the disk, or Config.MaxBallast if that is less. After an error nothing is
// reserved.
func (s *Store) SetBallast(bytes int64) error {
	bytes = min(bytes, s.cfg.MaxBallast)
	if bytes <= 0 {
		return nil
	}
	f, err := os.OpenFile(s.ballastPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make the ballast: %w", err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil { // not every file system supports it
		s.ballast.Store(0)
		return errors.Join(fmt.Errorf("make the ballast: %w", err), ReleaseBallast(s.cfg.Root))
	}
	s.ballast.Store(bytes)
	return nil
}

// SpendBallast gives part of the ballast back to the disk if the disk is full and was full at the last call: need
// bytes, and some more. It is not safe for concurrent use.
func (s *Store) SpendBallast(need int64) error {
	ballast := s.ballast.Load()
	if ballast == 0 {
		return nil
	}
	free, _, err := s.Room()
	wasFull := s.wasFull
	s.wasFull = err == nil && free-ballast <= diskIsFull
	if !s.wasFull || !wasFull { // the program that is filling the disk may not have failed yet
		return err
	}
	ballast = max(0, ballast-need-ballastStep)
	if err := os.Truncate(s.ballastPath(), ballast); err != nil {
		return fmt.Errorf("spend the ballast: %w", err)
	}
	s.ballast.Store(ballast)
	return nil
}

// ReleaseBallast gives the ballast of an earlier server back to the disk that root is on. No server may be running
// there.
func ReleaseBallast(root string) error {
	if err := os.Remove(filepath.Join(root, ballastName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the ballast: %w", err)
	}
	return nil
}

func (s *Store) ballastPath() string { return filepath.Join(s.cfg.Root, ballastName) }
