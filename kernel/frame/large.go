package frame

import (
	"context"
	"os"

	"golang.org/x/sync/semaphore"

	"talaria/kernel/record"
)

const (
	// smallFrame is the length of the longest line that is collected in memory.
	smallFrame = 1 << 20
	// largeMemory bounds what longer lines of all kernels use in memory together, each with the record that is made
	// from it: one of the longest at a time, or several shorter ones.
	largeMemory = 2 * maxFrame
)

// NewLargeBudget makes the budget of a host for lines longer than smallFrame.
func NewLargeBudget() *semaphore.Weighted { return semaphore.NewWeighted(largeMemory) }

// LongLine is a line that took more than one read. Past smallFrame it goes to a file, so that a line whose end is slow
// to arrive uses no memory meanwhile. It comes back into memory as a whole when the budget of the host has room.
type LongLine struct {
	Dir    string // for the file; "" is the directory of temporary files
	Budget *semaphore.Weighted

	size   int
	memory []byte // of record.TakeBuffer; empty once there is a file
	file   *os.File
	held   int64 // of budget
}

// add takes a copy of a part of the line.
func (l *LongLine) add(part []byte) error {
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
		l.memory = record.TakeBuffer()
	}
	l.memory = append(l.memory, part...)
	return nil
}

// spill moves the line to a file without a name.
func (l *LongLine) spill() error {
	file, err := os.CreateTemp(l.Dir, "frame-")
	if err != nil {
		return err
	}
	l.file = file
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	_, err = file.Write(l.memory)
	record.RecycleBuffer(l.memory)
	l.memory = nil
	return err
}

// whole returns the line, which is valid until drop. It waits for the budget.
func (l *LongLine) whole() ([]byte, error) {
	if l.file == nil {
		return l.memory, nil
	}
	l.held = int64(2 * l.size)
	if err := l.Budget.Acquire(context.Background(), l.held); err != nil { // it waits for CPU and disk only, never for a sandbox
		return nil, err
	}
	line := make([]byte, l.size)
	_, err := l.file.ReadAt(line, 0)
	return line, err
}

// drop forgets the line.
func (l *LongLine) drop() {
	record.RecycleBuffer(l.memory)
	if l.file != nil {
		_ = l.file.Close()
	}
	if l.held > 0 {
		l.Budget.Release(l.held)
	}
	*l = LongLine{Dir: l.Dir, Budget: l.Budget}
}
