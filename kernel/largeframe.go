package kernel

import (
	"context"
	"os"

	"golang.org/x/sync/semaphore"
)

const (
	// smallFrame is the longest line that is collected in memory.
	smallFrame = 1 << 20
	// largeMemory bounds what longer lines of all kernels take in memory together, each with the record that is made of it:
	// one of the longest at a time, or several that are shorter.
	largeMemory = 2 * maxFrame
)

// newLargeFrames makes the budget of a host for lines longer than smallFrame.
func newLargeFrames() *semaphore.Weighted { return semaphore.NewWeighted(largeMemory) }

// longLine is a line that came in more than one read. Past smallFrame it goes to a file, so that one whose end is long in
// coming takes no memory meanwhile, and it comes back into memory as a whole, when the budget of the host has room.
type longLine struct {
	dir    string // for the file; "" is that of temporary files
	budget *semaphore.Weighted

	size   int
	memory []byte // of takeBuffer; empty once there is a file
	file   *os.File
	held   int64 // of budget
}

// add takes a copy of a part of the line.
func (l *longLine) add(part []byte) error {
	if l.file == nil && l.size+len(part) > smallFrame {
		if err := l.spill(); err != nil {
			return err
		}
	}
	l.size += len(part)
	if l.file != nil {
		_, err := l.file.Write(part)
		return err
	}
	if l.memory == nil {
		l.memory = takeBuffer()
	}
	l.memory = append(l.memory, part...)
	return nil
}

// spill moves the line to a file without a name.
func (l *longLine) spill() error {
	file, err := os.CreateTemp(l.dir, "frame-")
	if err != nil {
		return err
	}
	l.file = file
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	_, err = file.Write(l.memory)
	recycleBuffer(l.memory)
	l.memory = nil
	return err
}

// whole is the line, valid until drop. It waits for the budget.
func (l *longLine) whole() ([]byte, error) {
	if l.file == nil {
		return l.memory, nil
	}
	l.held = int64(2 * l.size)
	if err := l.budget.Acquire(context.Background(), l.held); err != nil { // it waits for CPU and disk only, never for a sandbox
		return nil, err
	}
	line := make([]byte, l.size)
	_, err := l.file.ReadAt(line, 0)
	return line, err
}

// drop forgets the line.
func (l *longLine) drop() {
	recycleBuffer(l.memory)
	if l.file != nil {
		_ = l.file.Close()
	}
	if l.held > 0 {
		l.budget.Release(l.held)
	}
	*l = longLine{dir: l.dir, budget: l.budget}
}
