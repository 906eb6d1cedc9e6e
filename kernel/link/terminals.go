package link

import (
	"context"

	"talaria/kernel"
)

// terminalBody is what requests about one terminal carry.
type terminalBody struct {
	ID    string              `json:"id"`
	After int64               `json:"after,omitzero"`
	Data  []byte              `json:"data,omitempty"`
	Size  kernel.TerminalSize `json:"size,omitzero"`
}

// OpenTerminal starts a shell, as [kernel.Host.OpenTerminal] does. Like all requests about terminals it is ErrTooOld
// where the host cannot do that.
func (c *Client) OpenTerminal(ctx context.Context, key kernel.Key, size kernel.TerminalSize) (id string, err error) {
	if err := c.younger(key, withQueries); err != nil {
		return "", err
	}
	err = c.once(ctx, key, opOpenTerminal, terminalBody{Size: size}, &id)
	return id, err
}

// Terminals are the ids of a kernel's terminals.
func (c *Client) Terminals(ctx context.Context, key kernel.Key) (ids []string, err error) {
	err = c.terminal(ctx, key, opTerminals, terminalBody{}, &ids)
	return ids, err
}

// ReadTerminal waits for output, as [kernel.Host.ReadTerminal] does.
func (c *Client) ReadTerminal(
	ctx context.Context, key kernel.Key, id string, after int64,
) (out kernel.TerminalOutput, err error) {
	err = c.terminal(ctx, key, opReadTerminal, terminalBody{ID: id, After: after}, &out)
	return out, err
}

// WriteTerminal types, as [kernel.Host.WriteTerminal] does. Nothing is typed twice: where the connection to the host
// breaks meanwhile, it is an error.
func (c *Client) WriteTerminal(ctx context.Context, key kernel.Key, id string, data []byte) (n int, err error) {
	if err := c.younger(key, withQueries); err != nil {
		return 0, err
	}
	err = c.once(ctx, key, opWriteTerminal, terminalBody{ID: id, Data: data}, &n)
	return n, err
}

// ResizeTerminal changes the size, as [kernel.Host.ResizeTerminal] does.
func (c *Client) ResizeTerminal(ctx context.Context, key kernel.Key, id string, size kernel.TerminalSize) error {
	return c.terminal(ctx, key, opResizeTerminal, terminalBody{ID: id, Size: size}, nil)
}

// CloseTerminal ends a shell, as [kernel.Host.CloseTerminal] does.
func (c *Client) CloseTerminal(ctx context.Context, key kernel.Key, id string) error {
	return c.terminal(ctx, key, opCloseTerminal, terminalBody{ID: id}, nil)
}

// terminal sends a request that may be obeyed twice.
func (c *Client) terminal(ctx context.Context, key kernel.Key, op string, in terminalBody, out any) error {
	if err := c.younger(key, withQueries); err != nil {
		return err
	}
	_, err := c.command(ctx, key, op, in, out)
	return err
}

// terminals obeys a request about terminals.
func (k *kernelConn) terminals(ctx context.Context, r request) (out any, err error) {
	var in terminalBody
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	host := k.s.host
	switch r.Op {
	case opOpenTerminal:
		return host.OpenTerminal(ctx, k.key, in.Size)
	case opTerminals:
		return host.Terminals(ctx, k.key)
	case opReadTerminal:
		return host.ReadTerminal(ctx, k.key, in.ID, in.After)
	case opWriteTerminal:
		return host.WriteTerminal(ctx, k.key, in.ID, in.Data)
	case opResizeTerminal:
		return nil, host.ResizeTerminal(ctx, k.key, in.ID, in.Size)
	default:
		return nil, host.CloseTerminal(ctx, k.key, in.ID)
	}
}
