package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"talaria/kernel/command"
	"talaria/kernel/host"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// readPause is the time between two attempts to read records that the disk fails to deliver.
const readPause = time.Second

// kernelConn is the host's side of the connection of one kernel. Its reader obeys commands in order; anything slow,
// and the flow of records, has a goroutine of its own.
type kernelConn struct {
	*conn
	s      *server
	key    record.Key
	ctx    context.Context // ends when the connection ends or another one takes over
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing that came on it will be obeyed any more
	others sync.WaitGroup

	ended atomic.Bool // the kernel has died

	reading bool   // the flow has begun; only the reader uses it
	acked   uint64 // only the reader uses it

	start struct { // of a kernel that this connection starts
		cancel context.CancelFunc
		done   chan struct{}
		ok     bool // it lives; valid once done is closed, as is told
		told   bool // the server was told that it lives
	}

	mu     sync.Mutex // guards the fields below
	taken  uint64
	credit chan struct{} // has room for one value: taken has grown
}

func (s *server) newKernelConn(c *conn, key record.Key) *kernelConn {
	k := &kernelConn{conn: c, s: s, key: key, done: make(chan struct{}), credit: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(s.ctx)
	return k
}

// cut ends the connection in favour of another one: it accepts nothing more, obeys what has arrived, and after that
// nothing of it is obeyed.
func (k *kernelConn) cut() {
	k.cancel()
	_ = k.unix.SetWriteDeadline(time.Unix(1, 0)) // nobody waits for its answers
	_ = k.unix.CloseRead()
	<-k.done
}

// finish completes the work that came on the connection.
func (k *kernelConn) finish() {
	k.cancel()
	k.others.Wait()
	close(k.done)
}

// serve reads the connection to its end.
func (k *kernelConn) serve() {
	var err error
	for err == nil {
		err = k.next()
	}
	if err != nil && !errors.Is(err, io.EOF) && k.ctx.Err() == nil {
		k.s.log.Debug("the connection of a kernel broke", "session", k.key.Session, "error", err)
	}
	k.cancel()
	if k.start.done != nil {
		if <-k.start.done; k.start.ok && !k.start.told {
			k.forget()
		}
	}
	k.finish()
	if k.ended.Load() {
		// Its server left after the last record. Nothing of the kernel remains once Stop has returned.
		_ = k.s.host.Stop(k.s.ctx, k.key, host.ReasonShutdown)
		k.s.host.Ack(k.key, k.acked)
		gone, cancel := context.WithCancel(k.s.ctx)
		cancel()
		if _, err := k.s.host.Attach(gone, k.key); errors.Is(err, command.ErrNoKernel) {
			k.s.drop(k)
		}
	}
}

// forget ends the kernel and drops all its records.
func (k *kernelConn) forget() {
	if err := k.s.host.Stop(k.s.ctx, k.key, "start"); err != nil {
		k.s.log.Error("stop a kernel whose start was abandoned", "session", k.key.Session, "error", err)
	}
	k.s.host.Ack(k.key, math.MaxUint64)
	k.s.drop(k)
}

// next obeys one message.
func (k *kernelConn) next() error {
	t, payload, err := k.read()
	if err != nil {
		return err
	}
	if t == frameRequest {
		r, err := parseRequest(t, payload)
		if err != nil {
			return err
		}
		return k.obey(r)
	}
	n, err := number(payload)
	if err != nil {
		return err
	}
	switch t {
	case frameAck:
		k.acked = max(k.acked, n)
		k.s.host.Ack(k.key, n)
	case frameTaken:
		k.mu.Lock()
		k.taken += n
		k.mu.Unlock()
		select {
		case k.credit <- struct{}{}:
		default:
		}
	case frameRead:
		if k.reading {
			return errors.New("records were asked for twice")
		}
		k.reading = true
		k.others.Go(func() { k.push(n) })
	default:
		return fmt.Errorf("a message of type %d where a request was due", t)
	}
	return nil
}

// push sends the records above after until there are no more, or the connection ends.
func (k *kernelConn) push(after uint64) {
	var sent uint64
	for k.waitCredit(sent, window) {
		batch, err := k.s.host.ReadBatch(k.ctx, k.key, after)
		if errors.Is(err, io.EOF) || errors.Is(err, command.ErrNoKernel) {
			k.ended.Store(true)
			return
		}
		if err != nil {
			k.giveUp(err)
			return
		}
		// One large frame at a time: a server that waits for room for a second one reads no reply meanwhile, and what is to
		// acknowledge the first may wait for a reply. Of small frames it leaves less than a quarter of the window unreported.
		if batch.Len() > maxFirst && !k.waitCredit(sent, window/4) {
			_ = batch.Close()
			return
		}
		if err := k.send(batch); err != nil {
			if unread := (*fs.PathError)(nil); errors.As(err, &unread) {
				k.giveUp(err)
			}
			k.cancel()
			return
		}
		after, sent = batch.Last(), sent+uint64(batch.Len())
	}
}

// send sends records; it streams large ones from the disk piece by piece.
func (k *kernelConn) send(batch spool.Batch) error {
	defer batch.Close()
	if b := batch.Bytes(); b != nil {
		return k.write(frameRecords, b)
	}
	return k.writeFrom(frameRecords, batch.Len(), batch.Reader())
}

// giveUp closes the connection because the kernel's records cannot be read. The server tries again soon enough.
func (k *kernelConn) giveUp(err error) {
	if k.ctx.Err() != nil {
		return
	}
	k.s.log.Error("read records", "session", k.key.Session, "error", err)
	pause := time.NewTimer(readPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-k.ctx.Done():
	}
	_ = k.Close()
}

// waitCredit waits until there is less than most of what was sent that the server has not taken.
func (k *kernelConn) waitCredit(sent, most uint64) bool {
	for {
		k.mu.Lock()
		ok := sent-min(k.taken, sent) < most
		k.mu.Unlock()
		if ok {
			return k.ctx.Err() == nil
		}
		select {
		case <-k.credit:
		case <-k.ctx.Done():
			return false
		}
	}
}

// obey carries out a request. Inline commands are carried out here, in order; the others, and requests about the
// kernel itself, may take long and are answered later.
func (k *kernelConn) obey(r request) error {
	switch r.Op {
	case opStop, opAbort:
		k.others.Go(func() { _ = k.answer(r.N, nil, k.end(r)) })
		return nil
	}
	command, err := command.Decode(r.Op, r.Body)
	if err != nil {
		return k.answer(r.N, nil, err)
	}
	if command.Spec().Inline {
		reply, err := k.s.host.Do(k.ctx, k.key, command)
		return k.answer(r.N, reply, err)
	}
	k.others.Go(func() {
		ctx, cancel := r.context(k.ctx)
		defer cancel()
		reply, err := k.s.host.Do(ctx, k.key, command)
		_ = k.answer(r.N, reply, err)
	})
	return nil
}

// end stops the kernel, or aborts its start.
func (k *kernelConn) end(r request) error {
	ctx, cancel := r.context(k.ctx)
	defer cancel()
	if r.Op == opStop {
		var in reasonBody
		if err := r.decode(&in); err != nil {
			return err
		}
		if err := k.s.host.Stop(ctx, k.key, in.Reason); err != nil {
			return err
		}
		k.ended.Store(true)
		return nil
	}
	if k.start.done == nil {
		return errors.New("this connection started no kernel")
	}
	k.start.cancel()
	<-k.start.done
	if k.start.ok {
		k.forget()
	}
	return nil
}
