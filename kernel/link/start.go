package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/kernel/spool"
)

// Start starts a kernel on the host for new kernels. If that host dies or ends meanwhile, it tries once more, on
// another one; no code of the session has run by then.
func (c *Client) Start(
	ctx context.Context, key record.Key, env kernel.Environment, spec kernel.Spec,
) (command.KernelInfo, error) {
	for try := 0; ; try++ {
		info, err := c.startOnce(ctx, key, env, spec)
		again := errors.Is(err, errBroken) || errors.Is(err, errRetired) || errors.Is(err, command.ErrHostClosed)
		if err == nil {
			return info, nil
		}
		if !again || try > 0 || ctx.Err() != nil || c.ctx.Err() != nil {
			return command.KernelInfo{}, fmt.Errorf("start kernel: %w", err)
		}
		c.log.Warn("a host could not start a kernel; trying another", "session", key.Session, "error", err)
	}
}

func (c *Client) startOnce(
	ctx context.Context, key record.Key, env kernel.Environment, spec kernel.Spec,
) (info command.KernelInfo, err error) {
	r, err := c.placeFor(ctx, spec)
	if err != nil {
		return info, err
	}
	ctx, done, err := r.whileResponsive(ctx)
	if err != nil {
		return info, err
	}
	defer done()
	k := c.newKernel(key, r)
	c.mu.Lock()
	if c.kernels[key] != nil {
		c.mu.Unlock()
		return info, command.ErrKernelExists
	}
	c.kernels[key] = k
	c.mu.Unlock()
	info, err = k.start(ctx, env, spec)
	if err == nil {
		return info, nil
	}
	c.lose(k)
	switch {
	case errors.Is(err, errRetired), errors.Is(err, command.ErrHostClosed):
		r.retired.Store(true)
	case errors.Is(err, errBroken) && r.waitDead(ctx, judgeTime):
		r.left.forget(key)
	}
	return info, err
}

// placeFor returns the host for a new kernel: the one with the kernel whose sandbox it shares, or the one for all others.
func (c *Client) placeFor(ctx context.Context, spec kernel.Spec) (*remote, error) {
	if spec.Beside == "" {
		return c.place(ctx)
	}
	c.mu.Lock()
	var r *remote
	newest := int64(-1)
	for key, k := range c.kernels {
		if key.Session == spec.Beside && key.Generation > newest {
			r, newest = k.host, key.Generation
		}
	}
	c.mu.Unlock()
	switch {
	case r == nil:
		return nil, command.ErrNoKernel
	case r.protocol < sinceBeside:
		return nil, command.ErrTooOld
	}
	return r, nil
}

// lose forgets a kernel, unless another one has its key.
func (c *Client) lose(k *remoteKernel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kernels[k.key] == k {
		delete(c.kernels, k.key)
	}
}

// Attach adopts a kernel that an earlier server started, wherever it is. If its host speaks no common protocol, the
// error says what to do.
func (c *Client) Attach(ctx context.Context, key record.Key) (command.Attachment, error) {
	for _, r := range c.living() {
		a, err := c.attachOn(ctx, r, key)
		switch {
		case err == nil:
			return a, nil
		case errors.Is(err, command.ErrNoKernel):
		case errors.Is(err, errBroken) && r.waitDead(ctx, judgeTime):
		default:
			return command.Attachment{}, fmt.Errorf("attach to a kernel of host %s: %w", r.id, err)
		}
	}
	for _, d := range c.deadHosts() {
		if d.has(key) {
			k := c.newKernel(key, nil)
			k.left = d.open(key)
			c.replace(k)
			return k.left.attachment(), nil
		}
	}
	return command.Attachment{}, c.unreachable(key)
}

// unreachable says why a key is not known.
func (c *Client) unreachable(key record.Key) error {
	c.mu.Lock()
	incompatible := maps.Clone(c.incompatible)
	c.mu.Unlock()
	for id, err := range incompatible {
		path := (&Folder{Path: c.folder(id)}).Spool()
		if keys, _ := spool.Keys(path); slices.Contains(keys, key) {
			return err
		}
	}
	return command.ErrNoKernel
}

func (c *Client) attachOn(ctx context.Context, r *remote, key record.Key) (command.Attachment, error) {
	k := c.newKernel(key, r)
	close(k.began)
	call, out, err := k.attach(ctx)
	if err != nil {
		return command.Attachment{}, err
	}
	c.mu.Lock()
	k.handle = out.Attachment.Info.Handle
	c.mu.Unlock()
	k.connected(call, out.Lease)
	if !c.begin(func() { k.run(call) }) {
		c.hangUp(call.conn)
		return command.Attachment{}, command.ErrHostClosed
	}
	c.replace(k)
	return out.Attachment, nil
}

// replace makes k the kernel of its key.
func (c *Client) replace(k *remoteKernel) {
	c.mu.Lock()
	old := c.kernels[k.key]
	c.kernels[k.key] = k
	c.mu.Unlock()
	if old != nil {
		old.giveUp(ErrTakenOver)
	}
}

func (c *Client) known(key record.Key) *remoteKernel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kernels[key]
}
