package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// abortTime bounds how long it takes to end a kernel whose start was given up.
const abortTime = 30 * time.Second

// joinBytes is how many bytes of waiting records are decoded together.
const joinBytes = 1 << 20

// remoteKernel is a kernel as its client sees it: behind a connection, behind one that is being re-established, in the
// spool of a dead host, or given up.
type remoteKernel struct {
	c      *Client
	key    record.Key
	host   *remote       // nil if it was dead from the start
	handle kernel.Handle // guarded by the client's mu

	began chan struct{} // closed when the start or attachment has succeeded or failed

	mu      sync.Mutex  // guards the fields below
	call    *caller     // nil unless connected
	left    *deadKernel // set once its host is dead
	err     error       // set once it is given up
	changed chan struct{}

	lease   uint64
	asked   bool     // records were asked for on this connection
	inbox   [][]byte // encoded records
	held    []largeFrame
	after   uint64 // the number of the last record that Next returned
	taken   uint64 // bytes that Next took and the host has not been told of
	running string // the execution that is running after that record
	died    uint64 // the number of the Died record, once Next returned it
	stopped bool   // the host has reported that nothing of it is left
	acked   uint64
	stops   int  // how many calls of Stop wait for that report
	over    bool // nothing more will come; the last Stop ends its goroutines here
}

func (c *Client) newKernel(key record.Key, host *remote) *remoteKernel {
	return &remoteKernel{c: c, key: key, host: host, began: make(chan struct{}), changed: make(chan struct{})}
}

// start starts the kernel on its host. After an error nothing of it remains there.
func (k *remoteKernel) start(
	ctx context.Context, env kernel.Environment, spec kernel.Spec,
) (info command.KernelInfo, err error) {
	made, _, err := k.c.dial(ctx, k.host.path)
	if err != nil {
		return info, err
	}
	call := newCaller(made, k.receive)
	if !k.c.begin(func() { k.run(call) }) {
		k.c.hangUp(made)
		return info, command.ErrHostClosed
	}
	defer close(k.began)
	in := startBody{
		Protocol: k.host.protocol, Key: k.key, Env: env, Spec: spec,
		Workspace: spec.Workspace != nil, Packages: spec.Packages != nil,
	}
	in.Spec.Workspace, in.Spec.Packages = nil, nil
	files := slices.DeleteFunc([]*os.File{spec.Workspace, spec.Packages}, func(f *os.File) bool { return f == nil })
	var out startReply
	if err = call.call(ctx, opStart, in, &out, files...); err != nil {
		if errors.Is(err, command.ErrUnresponsive) && k.c.begin(func() { k.abort(call) }) {
			return info, err
		}
		if ctx.Err() != nil { // whatever its outcome, nothing remains
			abort, cancel := context.WithTimeout(k.c.ctx, abortTime)
			defer cancel()
			_ = call.call(abort, opAbort, nil, nil)
		}
		_ = call.Close()
		return info, err
	}
	k.c.mu.Lock()
	k.handle = out.Info.Handle
	k.c.mu.Unlock()
	if lives, _ := k.connected(call, out.Lease); !lives {
		_ = call.Close()
	}
	return out.Info, nil
}

// abort gives up a start; a host that does not respond finds the request when it continues.
func (k *remoteKernel) abort(call *caller) {
	_ = call.call(k.c.ctx, opAbort, nil, nil)
	_ = call.Close()
}

// attach makes a connection to the kernel.
func (k *remoteKernel) attach(ctx context.Context) (*caller, attachReply, error) {
	var out attachReply
	made, _, err := k.c.dial(ctx, k.host.path)
	if err != nil {
		return nil, out, err
	}
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	call := newCaller(made, k.receive)
	err = call.open(ctx, opAttach, attachBody{Protocol: k.host.protocol, Key: k.key, Lease: k.lease}, &out)
	if err != nil {
		k.c.hangUp(made)
	}
	return call, out, err
}

// connected takes a connection into use, unless the kernel was given up meanwhile. Acknowledgements already sent may
// have been lost with the previous connection.
func (k *remoteKernel) connected(call *caller, lease uint64) (lives bool, acked uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.call, k.lease, k.asked, k.taken = call, lease, false, 0
		k.dropInbox()
		k.notify()
	}
	return k.err == nil, k.acked
}

// notify wakes the goroutines that wait for a change. The caller holds mu.
func (k *remoteKernel) notify() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// giveUp ends everything that this client does with the kernel.
func (k *remoteKernel) giveUp(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return
	}
	k.err = err
	if k.call != nil {
		_ = k.call.Close()
		k.call = nil
	}
	if k.left != nil {
		k.left.close(false)
	}
	k.dropInbox()
	k.notify()
}

// dropInbox drops what Next has not returned, and stops waiting for acknowledgements of large frames. The caller holds
// mu.
func (k *remoteKernel) dropInbox() {
	for _, encoded := range k.inbox {
		if large(encoded) {
			k.c.room.leave(len(encoded))
		}
	}
	for _, frame := range k.held {
		k.c.room.leave(frame.size)
	}
	k.inbox, k.held = nil, nil
}

// run reads the kernel's connection, and re-establishes it when it breaks.
func (k *remoteKernel) run(call *caller) {
	for call != nil {
		_ = call.run()
		k.c.hangUp(call.conn)
		<-k.began
		k.mu.Lock()
		lives := k.call == call
		if lives {
			k.call = nil
			k.dropInbox()
			k.notify()
		}
		k.mu.Unlock()
		if !lives || k.c.ctx.Err() != nil {
			return
		}
		call = k.again()
	}
}

// again reconnects to the kernel. It returns nil if the kernel's host is dead, or the kernel was given up.
func (k *remoteKernel) again() *caller {
	pause := tryPause
	for range tries {
		call, out, err := k.attach(k.c.ctx)
		switch {
		case err == nil:
			lives, acked := k.connected(call, out.Lease)
			if acked > 0 {
				_ = call.writeNumber(frameAck, acked)
			}
			if !lives {
				k.c.hangUp(call.conn)
				return nil
			}
			return call
		case errors.Is(err, ErrTakenOver), errors.Is(err, command.ErrNoKernel):
			k.giveUp(err)
			return nil
		}
		k.c.log.Debug("connect again to a kernel", "session", k.key.Session, "error", err)
		if k.host.waitDead(k.c.ctx, pause) {
			break
		}
		pause *= 2
	}
	var left *deadHost
	switch {
	case k.host.waitDead(k.c.ctx, judgeTime):
		left = k.host.left
	case k.c.ctx.Err() != nil:
		return nil
	default:
		k.c.log.Error("a running host does not return a kernel; the kernel is treated as dead", "host", k.host.id,
			"session", k.key.Session)
		left = &deadHost{c: k.c, id: k.host.id, path: k.host.path, held: true}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.left = left.open(k.key)
		k.left.running = k.running
		k.notify()
	}
	return nil
}

// receive takes records from the connection.
func (k *remoteKernel) receive(encoded []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inbox = append(k.inbox, encoded)
	if k.err != nil {
		k.dropInbox()
	}
	k.notify()
}

// Next waits for records of the kernel, as [host.Host.Next] does. It returns ErrTakenOver if another server has
// attached to the kernel.
func (c *Client) Next(ctx context.Context, key record.Key, after uint64) ([]record.Record, error) {
	k := c.known(key)
	if k == nil {
		return nil, command.ErrNoKernel
	}
	for {
		records, changed, err := k.next(after)
		if err != nil || len(records) > 0 {
			return records, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-c.ctx.Done():
			return nil, command.ErrHostClosed
		}
	}
}

// next returns the records that are there, or what to wait for.
func (k *remoteKernel) next(after uint64) ([]record.Record, <-chan struct{}, error) {
	k.mu.Lock()
	call, changed := k.call, k.changed
	switch {
	case k.died != 0 && after >= k.died:
		k.mu.Unlock()
		return nil, nil, io.EOF
	case k.err != nil:
		err := k.err
		k.mu.Unlock()
		return nil, nil, err
	case k.left != nil:
		left := k.left
		k.mu.Unlock()
		records, err := left.next(after)
		return records, nil, err
	case call == nil:
		k.mu.Unlock()
	case !k.asked:
		k.asked, k.after = true, after
		k.mu.Unlock()
		_ = call.writeNumber(frameRead, after) // if it fails, the connection is re-established
	case k.after != after:
		k.mu.Unlock()
		_ = call.Close() // the next connection begins there
	case len(k.inbox) == 0:
		k.mu.Unlock()
	default:
		encoded, taken := k.take()
		k.mu.Unlock()
		if taken > 0 {
			_ = call.writeNumber(frameTaken, taken)
		}
		records, err := k.decode(encoded)
		return records, nil, err
	}
	return nil, changed, nil
}

// take takes waiting records, and returns what to report as taken. It keeps hold of a large frame and reports it when
// its records are acknowledged. The caller holds mu.
func (k *remoteKernel) take() (encoded []byte, taken uint64) {
	encoded, n := k.inbox[0], 1
	for n < len(k.inbox) && len(encoded)+len(k.inbox[n]) <= joinBytes {
		encoded = append(encoded, k.inbox[n]...)
		n++
	}
	if k.inbox = k.inbox[n:]; len(k.inbox) == 0 {
		k.inbox = nil
	}
	if large(encoded) {
		k.held = append(k.held, largeFrame{record.NumberOf(encoded), len(encoded)})
		return encoded, 0
	}
	if k.taken += uint64(len(encoded)); k.taken >= window/4 {
		taken, k.taken = k.taken, 0
	}
	return encoded, taken
}

// decode decodes what Next returns.
func (k *remoteKernel) decode(encoded []byte) ([]record.Record, error) {
	records, err := record.Decode(k.key, encoded)
	if err != nil {
		err = fmt.Errorf("read what the host sent: %w", err)
		k.giveUp(err)
	}
	if len(records) == 0 {
		return nil, err
	}
	newest := records[len(records)-1]
	k.mu.Lock()
	defer k.mu.Unlock()
	k.after, k.running = newest.KSeq, runsAfter(k.running, records)
	if _, ok := newest.Body.(record.Died); ok {
		k.died = newest.KSeq
	}
	return records, nil
}

// Ack tells the kernel's host that the records up to kseq are no longer needed. With the Died record nothing of the
// kernel remains. It does not wait for a host that does not respond.
func (c *Client) Ack(key record.Key, kseq uint64) {
	k := c.known(key)
	if k == nil {
		return
	}
	if !k.writing() || !c.begin(func() { c.ack(k, kseq) }) {
		c.ack(k, kseq)
	}
}

// writing reports whether something is being written to the host, which blocks for as long as a stopped host does not
// read.
func (k *remoteKernel) writing() bool {
	k.mu.Lock()
	call := k.call
	k.mu.Unlock()
	if call == nil || !call.writing.TryLock() {
		return call != nil
	}
	call.writing.Unlock()
	return false
}

func (c *Client) ack(k *remoteKernel, kseq uint64) {
	left, over := k.ack(kseq)
	if !over {
		return
	}
	if left != nil {
		c.end(k)
		left.close(true)
		return
	}
	// If closing the sandbox takes time, a death is reported before that, and Stop waits on the connection for the
	// closing.
	k.mu.Lock()
	k.over = true
	waited := k.stops > 0
	k.mu.Unlock()
	if !waited {
		c.end(k)
	}
	k.host.isOver(k.key)
}

// end forgets a kernel from which nothing more will come.
func (c *Client) end(k *remoteKernel) {
	c.lose(k)
	k.giveUp(command.ErrNoKernel)
}

// ack reports whether nothing more will come from the kernel.
func (k *remoteKernel) ack(kseq uint64) (left *deadKernel, over bool) {
	k.mu.Lock()
	call, left := k.call, k.left
	gone := k.err != nil
	k.acked = max(k.acked, min(kseq, k.after))
	taken := k.release(kseq)
	over = k.died != 0 && kseq >= k.died || k.stopped && kseq == math.MaxUint64
	k.mu.Unlock()
	switch {
	case gone:
		return nil, false
	case left != nil:
		return left, left.ack(kseq)
	case call != nil:
		_ = call.writeNumber(frameAck, kseq)
		if taken > 0 {
			_ = call.writeNumber(frameTaken, taken)
		}
	}
	return nil, over
}

// release gives back the room of large frames whose records are acknowledged, and returns their total size. The caller
// holds mu.
func (k *remoteKernel) release(kseq uint64) (taken uint64) {
	k.held = slices.DeleteFunc(k.held, func(frame largeFrame) bool {
		if frame.last > kseq {
			return false
		}
		k.c.room.leave(frame.size)
		taken += uint64(frame.size)
		return true
	})
	return taken
}
