package link

import (
	"context"
	"errors"

	"talaria/kernel"
)

// Execute gives the kernel a cell, as [kernel.Host.Execute] does.
func (c *Client) Execute(key kernel.Key, e kernel.Execution) error {
	again, err := c.command(c.ctx, key, opExecute, e, nil)
	if again && errors.Is(err, kernel.ErrRepeated) { // it came through when the connection broke
		return nil
	}
	return err
}

// Interrupt raises KeyboardInterrupt in that execution, as [kernel.Host.Interrupt] does.
func (c *Client) Interrupt(key kernel.Key, executionID string) error {
	_, err := c.command(c.ctx, key, opInterrupt, idBody{executionID}, nil)
	return err
}

// Input answers the open question of that id, as [kernel.Host.Input] does.
func (c *Client) Input(key kernel.Key, requestID, value string) error {
	again, err := c.command(c.ctx, key, opInput, inputBody{requestID, value}, nil)
	if again && errors.Is(err, kernel.ErrNoInputPending) {
		return nil
	}
	return err
}

// RefuseInput tells the cell that nobody can answer, as [kernel.Host.RefuseInput] does.
func (c *Client) RefuseInput(key kernel.Key, requestID string) error {
	_, err := c.command(c.ctx, key, opRefuse, idBody{requestID}, nil)
	return err
}

// Stop kills the kernel, as [kernel.Host.Stop] does, also one that was not attached to. That of a dead host is gone.
func (c *Client) Stop(ctx context.Context, key kernel.Key, reason string) error {
	if c.known(key) == nil {
		if _, err := c.Attach(ctx, key); err != nil && !errors.Is(err, kernel.ErrNoKernel) {
			return err
		}
	}
	k := c.known(key)
	if k == nil {
		return nil
	}
	k.mu.Lock()
	k.stops++
	k.mu.Unlock()
	_, err := c.command(ctx, key, opStop, reasonBody{reason}, nil)
	k.mu.Lock()
	k.stopped = k.stopped || err == nil
	k.stops--
	over := k.over && k.stops == 0
	k.mu.Unlock()
	if over {
		c.end(k)
	}
	if errors.Is(err, kernel.ErrNoKernel) {
		return nil
	}
	return err
}

// Usage is what the kernel's sandbox takes now.
func (c *Client) Usage(ctx context.Context, key kernel.Key) (usage kernel.Usage, err error) {
	_, err = c.command(ctx, key, opUsage, nil, &usage)
	return usage, err
}

// ChangeLimits changes the limits of a living kernel, as [kernel.Host.ChangeLimits] does.
func (c *Client) ChangeLimits(ctx context.Context, key kernel.Key, limits kernel.Limits) (layers []string, err error) {
	_, err = c.command(ctx, key, opChangeLimits, limits, &layers)
	return layers, err
}

// ChangeNetwork changes what a living kernel may reach, as [kernel.Host.ChangeNetwork] does.
func (c *Client) ChangeNetwork(ctx context.Context, key kernel.Key, n kernel.Network) (layers []string, err error) {
	_, err = c.command(ctx, key, opChangeNet, n, &layers)
	return layers, err
}

// Ask asks the kernel about its names, as [kernel.Host.Ask] does. It is ErrTooOld where the host cannot do that.
func (c *Client) Ask(ctx context.Context, key kernel.Key, q kernel.Query) (answer kernel.Answer, err error) {
	if err := c.younger(key, withQueries); err != nil {
		return answer, err
	}
	_, err = c.command(ctx, key, opAsk, q, &answer)
	return answer, err
}

// InstallOutput shows what an installer printed, as [kernel.Host.InstallOutput] does. Where the connection to the host
// breaks meanwhile it may be shown twice.
func (c *Client) InstallOutput(key kernel.Key, requestID, text string) error {
	if err := c.younger(key, withInstalls); err != nil {
		return err
	}
	_, err := c.command(c.ctx, key, opInstallOutput, inputBody{requestID, text}, nil)
	return err
}

// Installed answers a request for a change of packages, as [kernel.Host.Installed] does.
func (c *Client) Installed(key kernel.Key, requestID string, r kernel.InstallResult) error {
	if err := c.younger(key, withInstalls); err != nil {
		return err
	}
	again, err := c.command(c.ctx, key, opInstalled, installedBody{requestID, r}, nil)
	if again && errors.Is(err, kernel.ErrNoInstallPending) {
		return nil
	}
	return err
}

// younger is ErrTooOld where the kernel's host speaks no version that has what is asked of it.
func (c *Client) younger(key kernel.Key, version int) error {
	if k := c.known(key); k != nil && k.host != nil && k.host.protocol < version {
		return kernel.ErrTooOld
	}
	return nil
}

// command sends a request to the kernel. Where the connection breaks and is made again it is sent again, and again is
// true: it may have been obeyed already. It is ErrNoKernel where the kernel is gone, or not known here.
func (c *Client) command(ctx context.Context, key kernel.Key, op string, in, out any) (again bool, err error) {
	k := c.known(key)
	if k == nil {
		return false, kernel.ErrNoKernel
	}
	for range tries {
		call, err := k.connection(ctx)
		if err != nil {
			return again, err
		}
		if err = call.call(ctx, op, in, out); !errors.Is(err, errBroken) {
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
	return again, kernel.ErrNoKernel
}

// once sends a request that must not be obeyed twice. Where the connection breaks, it is an error, and the request may
// have been obeyed.
func (c *Client) once(ctx context.Context, key kernel.Key, op string, in, out any) error {
	k := c.known(key)
	if k == nil {
		return kernel.ErrNoKernel
	}
	call, err := k.connection(ctx)
	if err != nil {
		return err
	}
	return call.call(ctx, op, in, out)
}

// connection waits while the connection is made again. It is ErrNoKernel when that will not be.
func (k *farKernel) connection(ctx context.Context) (*caller, error) {
	for {
		k.mu.Lock()
		call, changed := k.call, k.changed
		over := k.err != nil || k.left != nil
		k.mu.Unlock()
		switch {
		case over:
			return nil, kernel.ErrNoKernel
		case call != nil && !isClosed(call.broken):
			return call, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-k.c.ctx.Done():
			return nil, kernel.ErrHostClosed
		}
	}
}
