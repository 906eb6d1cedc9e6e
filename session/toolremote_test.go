package session

import (
	"context"
	"testing"
	"time"

	"talaria/api"
	"talaria/session/remote"
)

// A call may be cancelled before it has begun. The calls of MCP servers have no deadline of their own, so one that missed its
// cancellation would never end if the server does not answer.
func TestACallThatIsCancelledAtOnceEnds(t *testing.T) {
	ts := &Tools{}
	ts.ctx, ts.cancel = context.WithCancel(t.Context())
	defer ts.close()
	for range 100 {
		ended := make(chan error, 1)
		c := newRemoteClient(ts, func(ctx context.Context, _ remote.Call) (remote.Result, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return remote.Result{}, remote.Failuref(remote.CodeCancelled, "the cell no longer waits for the call")
		})
		c.Request(api.ToolRequest{CallID: "call"})
		c.Cancel(api.ToolCancel{CallID: "call"})
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the call goes on although nobody waits for it")
		}
	}
}
