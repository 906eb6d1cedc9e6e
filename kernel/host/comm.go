package host

import (
	"fmt"
	"maps"
	"slices"

	"talaria/kernel/command"
	"talaria/kernel/frame"
	"talaria/kernel/record"
)

const (
	// maxComms is how many comms of one kernel may be open.
	maxComms = 1 << 15
	commFull = "[this kernel has %d comms open, which is the limit; close some: no more widgets are shown]"
)

// comms are the open comms of a kernel, and the front ends' messages that it has not handled. It is guarded by the lock
// of its interpreter.
type comms struct {
	open    map[string]string // targets, by id
	waiting []string          // ids of messages, as records have them, the oldest first
	full    bool              // somebody was told that no more can be opened
}

func (c *comms) opened(id, target string) {
	if c.open == nil {
		c.open = map[string]string{}
	}
	c.open[id] = target
}

// commMessage passes a front end's message on to the runner.
func (k *interpreter) commMessage(c command.CommMessage) error {
	line, err := frame.Encode(frame.ForComm(c))
	if err != nil {
		return err
	}
	id := record.CommMessageID(c.ID)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.phase != serving || k.cause != nil:
		return command.ErrNoKernel
	case k.given.has(id):
		return command.ErrRepeated
	case len(k.comms.waiting) >= command.MaxCommMessages:
		return command.ErrKernelBusy
	}
	if err := k.frames.Push(line); err != nil {
		return fmt.Errorf("%w: %w", command.ErrKernelBusy, err)
	}
	k.given.add(id)
	k.comms.waiting = append(k.comms.waiting, id)
	switch c.Action {
	case record.CommOpen:
		if len(k.comms.open) < maxComms {
			k.comms.opened(c.Comm, c.Target)
		}
	case record.CommClose:
		delete(k.comms.open, c.Comm)
	}
	return nil
}

// commSent records a message from inside. The caller holds mu.
func (k *interpreter) commSent(f frame.Comm) error {
	switch f.Body.Action {
	case record.CommOpen:
		if len(k.comms.open) >= maxComms {
			if !k.comms.full {
				k.comms.full = true
				k.tellLocked(fmt.Sprintf(commFull, maxComms))
			}
			return errUnexpected
		}
		k.comms.opened(f.Body.ID, f.Body.Target)
	case record.CommClose:
		delete(k.comms.open, f.Body.ID)
		k.comms.full = false
	}
	k.atMark(f.Mark, func() { k.records.Add(k.owner(f.ID), f.Body) })
	return nil
}

// commHandled records that the runner has handled a front end's message. It handles them in order: those before it that it
// has not named were lost. The caller holds mu.
func (k *interpreter) commHandled(f frame.CommEnd) error {
	n := slices.Index(k.comms.waiting, f.ID) + 1
	if n == 0 {
		return errUnexpected
	}
	handled := k.comms.waiting[:n]
	k.comms.waiting = k.comms.waiting[n:]
	k.settle((*tap).flush)
	for _, id := range handled {
		k.records.Add(id, record.CommHandled{})
	}
	return nil
}

// interruptComm interrupts the code that handles a front end's message, if some does. The caller holds mu.
func (k *interpreter) interruptComm() {
	if len(k.comms.waiting) == 0 {
		return
	}
	if err := k.frames.Send(frame.Interrupt{Type: "interrupt", ID: k.comms.waiting[0]}); err != nil {
		k.log.Debug("send interrupt", "error", err)
	}
}

func (k *interpreter) openComms() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	open := maps.Clone(k.comms.open)
	if open == nil {
		open = map[string]string{}
	}
	return open
}
