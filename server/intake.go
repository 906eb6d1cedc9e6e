package server

import (
	"context"
	"io"
)

// Frames and bodies are kept in memory until they are carried out. Small ones are bounded by the number of requests
// and sockets; larger ones wait for a slot before more of them is read.
const (
	smallBody  = 32 << 10
	mediumBody = 1 << 20

	ownerMediumBodies  = 64
	ownerLargeBodies   = 4
	visitorLargeBodies = 2  // of all shares of an owner
	largeBodies        = 16 // of all callers
)

// intake bounds the memory for frames and bodies of one caller. It is safe for concurrent use.
type intake struct {
	medium slots
	large  []slots // of the caller, then those that it shares with others, the last one with all callers
}

func newIntake(medium, large int, shared ...slots) intake {
	return intake{newSlots(medium), append([]slots{newSlots(large)}, shared...)}
}

// alone is the intake without what all callers share, for bodies that are kept for longer than it takes to carry them out.
func (i intake) alone() intake { return intake{i.medium, i.large[:len(i.large)-1]} }

// read reads r to its end. release must be called, in any case, when the bytes are no longer needed. ctx bounds the
// wait for a slot.
func (i intake) read(ctx context.Context, r io.Reader) (data []byte, release func(), err error) {
	var held []func()
	data = make([]byte, 0, 512)
	release = func() {
		for _, one := range held {
			one()
		}
	}
	for _, stage := range []struct {
		size  int
		slots []slots
	}{{smallBody, nil}, {mediumBody, []slots{i.medium}}, {-1, i.large}} {
		for _, s := range stage.slots {
			one, err := s.take(ctx)
			if err != nil {
				return nil, release, err
			}
			held = append(held, one)
		}
		more := false
		if data, more, err = readUpTo(data, r, stage.size); err != nil || !more {
			break
		}
	}
	return data, release, err
}

// readUpTo appends to data until it has size bytes, or r ends; -1 means no bound. more reports whether r may have
// more.
func readUpTo(data []byte, r io.Reader, size int) (all []byte, more bool, err error) {
	for size < 0 || len(data) < size {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		room := data[len(data):cap(data)]
		if size >= 0 {
			room = room[:min(len(room), size-len(data))]
		}
		n, err := r.Read(room)
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, false, nil
		}
		if err != nil {
			return data, false, err
		}
	}
	return data, true, nil
}
