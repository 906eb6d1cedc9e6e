package namespace

import (
	"context"

	"talaria/kernel"
)

// SweepHandles is the part of Sweep that goes by handles.
func SweepHandles(ctx context.Context, b *Backend, handles []kernel.Handle) error {
	return b.sweepHandles(ctx, handles)
}
