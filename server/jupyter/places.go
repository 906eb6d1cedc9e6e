package jupyter

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// maxMarks is how many clients' places the file holds; after that the one used longest ago is reused.
const maxMarks = 4096

// A slot of the file is the SHA-256 of the client's name, the position in the log, and when the slot was last written, in
// seconds since 1970; the integers are little-endian. Slots that were never used are zero.
const (
	slotName = 0
	slotSeq  = 32
	slotTime = 40
	slotSize = 48
)

// Places keeps up to where clients have read the log, so that a server that starts later can take them up there, also when the one
// before was killed. It is safe for concurrent use.
type Places struct {
	log  *slog.Logger
	file *os.File

	mu    sync.Mutex // guards all below; not held while the file is read or written
	slots map[[sha256.Size]byte]int
	used  []int64 // by slot
}

// OpenPlaces opens the file, or creates it. A file that was cut off loses its last slot only.
func OpenPlaces(path string, log *slog.Logger) (*Places, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the places of Jupyter clients: %w", err)
	}
	data := make([]byte, maxMarks*slotSize)
	n, err := io.ReadFull(file, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(fmt.Errorf("read the places of Jupyter clients: %w", err), file.Close())
	}
	p := &Places{log: log, file: file, slots: map[[sha256.Size]byte]int{}}
	for i := range n / slotSize {
		slot := data[i*slotSize:]
		p.slots[[sha256.Size]byte(slot[slotName:])] = i
		p.used = append(p.used, int64(binary.LittleEndian.Uint64(slot[slotTime:])))
	}
	return p, nil
}

// Close closes the file. Positions are no longer kept then.
func (p *Places) Close() error {
	if p == nil {
		return nil
	}
	return p.file.Close()
}

// Mark is one client's place in the file. The zero value is a place that is not kept.
type Mark struct {
	places *Places
	slot   int
	name   [sha256.Size]byte
}

// find returns a client's place, and the position that it holds; -1 if none is known.
func (p *Places) find(owner, session, logID, client string) (Mark, int64) {
	if p == nil {
		return Mark{}, -1
	}
	name := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", owner, session, logID, client))
	now := time.Now().Unix()
	p.mu.Lock()
	slot, known := p.slots[name]
	if !known {
		slot = p.assign(name)
	}
	p.used[slot] = now
	p.mu.Unlock()
	m := Mark{p, slot, name}
	if !known {
		if err := p.begin(m, now); err != nil {
			p.log.Warn("the place of a Jupyter client is not kept", "error", err)
			return Mark{}, -1
		}
		return m, -1
	}
	var seq [8]byte
	if _, err := p.file.ReadAt(seq[:], int64(slot)*slotSize+slotSeq); err != nil {
		return m, -1
	}
	return m, int64(binary.LittleEndian.Uint64(seq[:]))
}

// assign returns a slot for a client that has none. The caller holds mu.
func (p *Places) assign(name [sha256.Size]byte) int {
	slot := len(p.used)
	if slot < maxMarks {
		p.used = append(p.used, 0)
	} else {
		slot = 0
		for i, at := range p.used {
			if at < p.used[slot] {
				slot = i
			}
		}
		for old, at := range p.slots {
			if at == slot {
				delete(p.slots, old)
			}
		}
	}
	p.slots[name] = slot
	return slot
}

func (p *Places) begin(m Mark, now int64) error {
	slot := make([]byte, slotSize)
	copy(slot, m.name[:])
	binary.LittleEndian.PutUint64(slot[slotTime:], uint64(now))
	_, err := p.file.WriteAt(slot, int64(m.slot)*slotSize)
	return err
}

// set writes the position, unless the slot went to another client.
func (m Mark) set(seq int64) {
	p := m.places
	if p == nil {
		return
	}
	now := time.Now().Unix()
	p.mu.Lock()
	slot, mine := p.slots[m.name]
	mine = mine && slot == m.slot
	if mine {
		p.used[slot] = now
	}
	p.mu.Unlock()
	if !mine {
		return
	}
	var b [slotSize - slotSeq]byte
	binary.LittleEndian.PutUint64(b[:], uint64(seq))
	binary.LittleEndian.PutUint64(b[slotTime-slotSeq:], uint64(now))
	if _, err := p.file.WriteAt(b[:], int64(slot)*slotSize+slotSeq); err != nil && !errors.Is(err, os.ErrClosed) {
		p.log.Warn("write the place of a Jupyter client", "error", err)
	}
}
