package artifacts

import (
	"context"
	"errors"
	"hash"
	"io"
	"os"
	"syscall"
)

// The whence values of lseek(2) for files with holes; Linux has them, and Go has no names for them.
const (
	seekData = 3
	seekHole = 4
)

// copySparse copies a file up to its present size. Its holes stay holes, and are hashed as the zeros that they read
// as. On a file system without holes, a file is one piece of data. spare ends the copy with its error, and may be nil.
func copySparse(ctx context.Context, to *os.File, h hash.Hash, from *os.File, spare func() error) (int64, error) {
	ended := func() error {
		if err := context.Cause(ctx); err != nil || spare == nil {
			return err
		}
		return spare()
	}
	info, err := from.Stat()
	if err != nil {
		return 0, withoutPath(err)
	}
	end := info.Size()
	buf := make([]byte, copySize)
	zeros := make([]byte, copySize)
	var at int64
	for at < end {
		data, hole, err := nextData(from, at, end)
		if err != nil {
			return at, err
		}
		for ; at < data; at += min(data-at, copySize) {
			if err := ended(); err != nil {
				return at, err
			}
			h.Write(zeros[:min(data-at, copySize)])
		}
		for at < hole {
			if err := ended(); err != nil {
				return at, err
			}
			n, err := from.ReadAt(buf[:min(hole-at, copySize)], at)
			if n > 0 {
				if _, err := to.WriteAt(buf[:n], at); err != nil {
					return at, withoutPath(err)
				}
				h.Write(buf[:n])
				at += int64(n)
			}
			if err == io.EOF && n == 0 { // it was shortened meanwhile
				return at, withoutPath(to.Truncate(at))
			}
			if err != nil && err != io.EOF {
				return at, withoutPath(err)
			}
		}
	}
	return at, withoutPath(to.Truncate(at))
}

// nextData returns the next piece of data of a file at or after a position: where it begins, and where it ends. Both
// are end if only a hole is left.
func nextData(f *os.File, at, end int64) (data, hole int64, err error) {
	data, err = f.Seek(at, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return end, end, nil
	case errors.Is(err, syscall.EINVAL):
		return at, end, nil
	case err != nil:
		return at, at, withoutPath(err)
	}
	if hole, err = f.Seek(data, seekHole); err != nil {
		return at, at, withoutPath(err)
	}
	return min(data, end), min(hole, end), nil
}
