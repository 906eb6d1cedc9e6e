package link

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// ReasonHostCrash is the reason of kernels whose host died before it could report theirs.
const ReasonHostCrash = "host_crash"

// deadHost is what a dead host left. It is safe for concurrent use.
type deadHost struct {
	c        *Client
	id, path string
	instance string
	handles  []kernel.Handle // as far as they are known
	held     bool            // something still holds its lock, so nothing of it may be removed

	mu    sync.Mutex // guards the fields below
	keys  map[record.Key]struct{}
	swept bool // nothing of it is left on the machine except records
}

// adoptDead adopts what a dead host left; r is nil if it was already dead when it was found.
func (c *Client) adoptDead(f found, r *remote) *deadHost {
	d := &deadHost{c: c, id: f.id, path: f.path, keys: map[record.Key]struct{}{}}
	info := readInfo(f.path)
	if d.instance = info.Instance; d.instance == "" {
		d.instance = f.id
	}
	d.swept = info.Ended
	dead, err := isDead(f.path)
	d.held = err != nil || !dead
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) { // it ended cleanly and left nothing
		d.swept = true
	}
	keys, err := spool.Keys(d.spool())
	if err != nil {
		c.log.Error("look for remains of a dead host", "host", d.id, "error", err)
	}
	for _, key := range keys {
		d.keys[key] = struct{}{}
	}
	c.mu.Lock()
	for _, k := range c.kernels {
		if r != nil && k.host == r {
			d.handles = append(d.handles, k.handle)
		}
	}
	c.dead[d.id] = d
	delete(c.incompatible, d.id)
	c.mu.Unlock()
	if d.swept {
		c.log.Info("a host has ended", "host", d.id, "kernels_unread", len(keys))
	} else {
		c.log.Error("a host has died", "host", d.id, "kernels", len(keys), "its_log_ends", logEnd(d.path))
	}
	d.tidy()
	return d
}

// logEnd returns the end of a host's stderr.
func logEnd(path string) string {
	const size = 2 << 10
	f, err := os.Open(filepath.Join(path, logName))
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(end-size, 0), io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, size))
	return string(b)
}

func (d *deadHost) spool() string { return filepath.Join(d.path, spoolName) }

func (d *deadHost) list() []record.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.keys))
}

func (d *deadHost) has(key record.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.keys[key]
	return ok
}

func (d *deadHost) isSwept() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.swept || d.held
}

func (d *deadHost) setSwept() {
	d.mu.Lock()
	d.swept = true
	d.mu.Unlock()
	d.tidy()
}

// forget removes what is left of a key.
func (d *deadHost) forget(key record.Key) {
	d.mu.Lock()
	delete(d.keys, key)
	d.mu.Unlock()
	if d.held {
		return
	}
	if err := spool.Remove(d.spool(), key); err != nil {
		d.c.log.Error("remove the records of a dead host", "host", d.id, "error", err)
	}
	d.tidy()
}

// tidy removes the folder once nobody needs it.
func (d *deadHost) tidy() {
	d.mu.Lock()
	done := len(d.keys) == 0 && d.swept && !d.held
	d.mu.Unlock()
	if !done {
		return
	}
	if err := remove(d.path); err != nil {
		d.c.log.Error("remove the folder of a dead host", "host", d.id, "error", err)
	}
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	if d.c.dead[d.id] == d {
		delete(d.c.dead, d.id)
	}
}

// deadKernel is what a dead host left of a kernel: its last records, and a Died record, which is made up if the host
// did not get to write it. It is safe for concurrent use.
type deadKernel struct {
	host  *deadHost
	key   record.Key
	spool *spool.Dead // nil if there is none

	mu      sync.Mutex // guards the fields below
	running string     // the execution that was running after the records given so far
	died    uint64     // the number of the last record, once known
	closed  bool
}

func (d *deadHost) open(key record.Key) *deadKernel {
	r := &deadKernel{host: d, key: key}
	spool, err := spool.OpenDead(d.spool(), key)
	switch {
	case err == nil:
		r.spool = spool
		if spool.Ended() {
			r.died = spool.Last()
		}
	case !errors.Is(err, fs.ErrNotExist):
		d.c.log.Error("read the records of a dead host", "host", d.id, "session", key.Session, "error", err)
	}
	return r
}

func (r *deadKernel) attachment() command.Attachment {
	if r.spool == nil {
		return command.Attachment{}
	}
	return command.Attachment{Last: r.spool.Last(), Given: r.spool.Given()}
}

// next is Next for a key that can produce nothing new.
func (r *deadKernel) next(after uint64) ([]record.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, command.ErrNoKernel
	}
	if r.died != 0 && after >= r.died {
		return nil, io.EOF
	}
	last := after
	if r.spool != nil {
		records, err := r.spool.Next(after)
		if len(records) > 0 {
			r.running = runsAfter(r.running, records)
			return records, nil
		}
		if !errors.Is(err, io.EOF) {
			r.host.c.log.Error("records of a dead host are lost", "host", r.host.id, "session", r.key.Session, "error", err)
		}
		last = max(last, r.spool.Last())
	}
	r.died = last + 1
	return []record.Record{{
		Key: r.key, KSeq: r.died, Time: time.Now(), ExecutionID: r.running,
		Body: record.Died{Reason: ReasonHostCrash, Exit: kernel.Exit{Lost: true}},
	}}, nil
}

// ack reports whether nothing is left to read.
func (r *deadKernel) ack(kseq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.died
	switch {
	case last != 0:
	case r.spool != nil:
		last = r.spool.Last() + 1
	default:
		last = math.MaxUint64
	}
	return kseq >= last
}

// close ends the reading; with forget nothing remains.
func (r *deadKernel) close(forget bool) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if r.spool != nil {
		r.spool.Close()
	}
	if forget {
		r.host.forget(r.key)
	}
}

// runsAfter returns the execution that is running after the records, if running was the one before them.
func runsAfter(running string, records []record.Record) string {
	for _, r := range records {
		switch r.Body.(type) {
		case record.Started:
			running = r.ExecutionID
		case record.Finished, record.Died:
			running = ""
		}
	}
	return running
}
