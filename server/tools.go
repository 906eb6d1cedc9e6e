package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"talaria/api"
	"talaria/session"
)

// toolOutbox holds the frames for a socket that provides tools until the socket sends them. It implements
// [session.ToolClient]. A call that is cancelled before its frame was sent leaves nothing, so that a client which reads
// slowly has no more frames here than a session has calls at once, and a small one for each that it was asked for.
type toolOutbox struct {
	ready chan struct{} // holds a token while there are frames

	mu     sync.Mutex // guards frames
	frames []toolFrame
}

type toolFrame struct {
	call  string // the call_id
	frame any    // an [api.ToolRequest] or [api.ToolCancel]
}

func newToolOutbox() *toolOutbox { return &toolOutbox{ready: make(chan struct{}, 1)} }

// Request implements [session.ToolClient].
func (b *toolOutbox) Request(r api.ToolRequest) { b.add(toolFrame{r.CallID, r}) }

// Cancel implements [session.ToolClient].
func (b *toolOutbox) Cancel(c api.ToolCancel) {
	b.mu.Lock()
	before := len(b.frames)
	b.frames = slices.DeleteFunc(b.frames, func(f toolFrame) bool { return f.call == c.CallID })
	unsent := len(b.frames) < before
	b.mu.Unlock()
	if !unsent {
		b.add(toolFrame{c.CallID, c})
	}
}

func (b *toolOutbox) add(f toolFrame) {
	b.mu.Lock()
	b.frames = append(b.frames, f)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// take returns the frames that are there.
func (b *toolOutbox) take() []toolFrame {
	b.mu.Lock()
	defer b.mu.Unlock()
	frames := b.frames
	b.frames = nil
	return frames
}

// sendTools sends the frames for a client that provides tools.
func (k *socket) sendTools() error {
	for _, f := range k.tools.take() {
		if err := k.sendJSON(f.frame); err != nil {
			return err
		}
	}
	return nil
}

// provideTools carries out the frame tools.
func provideTools(k *socket, _ context.Context, req api.ToolsRequest) (api.ToolsReply, error) {
	if req.Tools == nil {
		return api.ToolsReply{}, missing("tools")
	}
	return k.sess.Tools().Provide(k.tools, req)
}

// answerTool carries out the frame tool_result.
func answerTool(k *socket, _ context.Context, r api.ToolResult) (struct{}, error) {
	if r.CallID == "" {
		return struct{}{}, missing("call_id")
	}
	return struct{}{}, k.sess.Tools().Answer(k.tools, r)
}

// tellProgress carries out the frame tool_progress.
func tellProgress(k *socket, ctx context.Context, p api.ToolProgress) (struct{}, error) {
	return struct{}{}, k.sess.Tools().TellProgress(ctx, k.tools, p)
}

// ofSocket is question for a function of the socket itself.
func ofSocket[F, R any](run func(*socket, context.Context, F) (R, error)) runFrame {
	return func(ctx context.Context, k *socket, data []byte) (any, error) {
		var f struct {
			Type   string  `json:"type"`
			ID     api.Raw `json:"id,omitzero"`
			Fields F       `json:",embed"`
		}
		if err := api.Unmarshal(data, &f); err != nil {
			return nil, err
		}
		return run(k, ctx, f.Fields)
	}
}

func (s *Server) listTools(c *call, sess *session.Session) error {
	list := sess.Tools().List(c.ctx())
	return wholeList[api.ToolInfo]{items: list, key: func(one api.ToolInfo) string { return one.Name }}.answer(c)
}

func (s *Server) listToolCalls(c *call, sess *session.Session) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	calls, err := sess.Tools().Calls(c.ctx(), page)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, calls)
}

// postToolResults answers calls of an execution, and waits on as the request did that began it.
func (s *Server) postToolResults(c *call, sess *session.Session) error {
	wait, bounded, err := c.seconds("wait_s")
	if err != nil {
		return err
	}
	final := asExecution
	if asTool, err := isExecuteCode(c); err != nil {
		return err
	} else if asTool {
		final = asExecuteCode
	}
	var req api.ToolResults
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	id := c.param("eid")
	if _, err := sess.Executions().Get(c.ctx(), id); err != nil {
		return err
	}
	if err := sess.Tools().AnswerPending(id, req.Results); err != nil {
		return err
	}
	return s.answerWaited(c, sess, id, wait, bounded, final)
}

// answerWaited waits for an execution, and answers with it: 200 when it is over, 202 when it goes on or waits for its
// client's tools. final makes the body of one that is over.
func (s *Server) answerWaited(
	c *call, sess *session.Session, id string, wait time.Duration, bounded bool, final func(api.Execution) any,
) error {
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	if bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, wait)
		defer stop()
	}
	execution, err := sess.WaitForCalls(ctx, id)
	if err != nil && ctx.Err() != nil {
		if c.ctx().Err() != nil {
			return nil // nobody is there to be told
		}
		err = nil
	}
	return answerExecution(c, final)(execution, err)
}
