package link

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
)

// commandTime is the usual ClientConfig.reply.
const commandTime = 30 * time.Second

// errNoReply is what clients of the server see when a host that responds takes longer than that.
var errNoReply error = api.Errorf(api.CodeKernelBusy,
	"the process that runs this kernel (talaria host) did not reply within %v, perhaps because the machine is overloaded; "+
		"it may still do what was asked: look at the session before you try again", commandTime)

// Stop kills the kernel, as [host.Host.Stop] does, also one that was not attached to. A kernel of a dead host is
// already gone.
func (c *Client) Stop(ctx context.Context, key record.Key, reason string) error {
	if c.known(key) == nil {
		if _, err := c.Attach(ctx, key); err != nil && !errors.Is(err, command.ErrNoKernel) {
			return err
		}
	}
	k := c.known(key)
	if k == nil {
		return nil
	}
	if k.host != nil {
		bounded, done, err := k.host.whileResponsive(ctx)
		if err != nil {
			return err
		}
		defer done()
		ctx = bounded
	}
	k.mu.Lock()
	k.stops++
	k.mu.Unlock()
	_, err := k.command(ctx, opStop, reasonBody{reason}, nil, false)
	k.mu.Lock()
	k.stopped = k.stopped || err == nil
	k.stops--
	over := k.over && k.stops == 0
	k.mu.Unlock()
	if over {
		c.end(k)
	}
	if errors.Is(err, command.ErrNoKernel) {
		return nil
	}
	return err
}

// Do implements [command.Doer]. If the connection breaks and is re-established, the command is sent again, unless it
// must not be carried out twice. The error is ErrTooOld if the version of the kernel's host lacks the command, and
// ErrUnresponsive while the host does not respond, unless the command waits.
func (c *Client) Do(ctx context.Context, key record.Key, cmd command.Command) (reply any, err error) {
	spec := cmd.Spec()
	k := c.known(key)
	if k == nil {
		return nil, command.ErrNoKernel
	}
	if k.host != nil && k.host.protocol < spec.Since {
		return nil, command.ErrTooOld
	}
	if !spec.Waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.reply, errNoReply)
		defer cancel()
	}
	if !spec.Waits && k.host != nil {
		var done context.CancelFunc
		if ctx, done, err = k.host.whileResponsive(ctx); err != nil {
			return nil, err
		}
		defer done()
	}
	var encoded json.RawMessage
	again, err := k.command(ctx, spec.Name, cmd, &encoded, spec.Once)
	if again && spec.Repeated != nil && errors.Is(err, spec.Repeated) { // it got through before the connection broke
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return command.DecodeReply(spec.Name, encoded)
}

// command sends a request to the kernel. If the connection breaks and is re-established, the request is sent again,
// unless once, and then again is true: it may have been carried out already. The error is ErrNoKernel if the kernel is
// gone.
func (k *remoteKernel) command(ctx context.Context, op string, in, out any, once bool) (again bool, err error) {
	for range tries {
		call, err := k.connection(ctx)
		if err != nil {
			return again, err
		}
		if err = call.call(ctx, op, in, out); once || !errors.Is(err, errBroken) {
			return again, err
		}
		again = true
		_ = call.Close() // so that its reader notices too
		select {
		case <-call.broken:
		case <-ctx.Done():
			return again, context.Cause(ctx)
		}
	}
	return again, command.ErrNoKernel
}

// connection waits while the connection is re-established. It returns ErrNoKernel if that will not happen.
func (k *remoteKernel) connection(ctx context.Context) (*caller, error) {
	for {
		k.mu.Lock()
		call, changed := k.call, k.changed
		over := k.err != nil || k.left != nil
		k.mu.Unlock()
		switch {
		case over:
			return nil, command.ErrNoKernel
		case call != nil && !isClosed(call.broken):
			return call, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-k.c.ctx.Done():
			return nil, command.ErrHostClosed
		}
	}
}
