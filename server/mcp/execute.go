package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"talaria/api"
	"talaria/session"
)

const (
	defaultWait = 45 * time.Second // clients give up on a request after 60 s
	maxWait     = time.Hour
	// Progress is told when there is a new line of output, at most each progressPause, and at least each progressBeat.
	progressPause = time.Second
	progressBeat  = 8 * time.Second
	// maxProgressLine bounds the line of output in it, in bytes.
	maxProgressLine = 200
)

type executeInput struct {
	Code      string   `json:"code" jsonschema:"Python source. Lines may begin with ! (a shell command) or % (a magic)."`
	SessionID string   `json:"session_id,omitzero" jsonschema:"The session to run in; omit it for your own, which is created on first use."`
	TimeoutS  *float64 `json:"timeout_s,omitzero" jsonschema:"Stop the code after this many seconds; variables are kept."`
	WaitS     *float64 `json:"wait_s,omitzero" jsonschema:"Return after this many seconds even if the code is still running (default 45); get_execution then continues to wait."`
	Reset     bool     `json:"reset,omitzero" jsonschema:"Start a fresh interpreter first; files are kept."`
	Images    string   `json:"images,omitzero" jsonschema:"thumb (default): pictures scaled to 1024 pixels; full: unchanged; none: links only."`
}

type getExecutionInput struct {
	ExecutionID string   `json:"execution_id" jsonschema:"As execute_code returned it."`
	SessionID   string   `json:"session_id,omitzero" jsonschema:"The session of the execution; omit it for your own."`
	WaitS       *float64 `json:"wait_s,omitzero" jsonschema:"Wait up to this many seconds for the end (default 45); 0 does not wait."`
	Images      string   `json:"images,omitzero" jsonschema:"thumb (default), full or none."`
}

type interruptInput struct {
	SessionID   string `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
	ExecutionID string `json:"execution_id,omitzero" jsonschema:"Interrupt only this execution; omit it to interrupt everything that runs or waits."`
}

type packagesInput struct {
	Requirements []string `json:"requirements" jsonschema:"As pip accepts them, such as requests or pandas>=2."`
	SessionID    string   `json:"session_id,omitzero" jsonschema:"Omit it for your own session."`
	WaitS        *float64 `json:"wait_s,omitzero" jsonschema:"Return after this many seconds even if the code is still running (default 45)."`
}

// checkCode answers a call of execute_code that has no code: models often send none, an empty one, or a shell command.
func (h *Handler) checkCode(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		params, ok := req.GetParams().(*sdk.CallToolParamsRaw)
		if !ok || params == nil || params.Name != "execute_code" {
			return next(ctx, method, req)
		}
		var in struct {
			Code any `json:"code"`
		}
		code, isText := "", false
		if json.Unmarshal(params.Arguments, &in) == nil {
			code, isText = in.Code.(string)
		}
		if !isText || strings.TrimSpace(code) == "" {
			return failure(api.Errorf(api.CodeInvalidRequest, "field \"code\" is missing, blank or not a string; %s", api.ExecuteCodeAdvice)), nil
		}
		return next(ctx, method, req)
	}
}

func (h *Handler) executeCode(ctx context.Context, q *request, req *sdk.CallToolRequest, in executeInput) (*sdk.CallToolResult, api.ExecuteCodeResult, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, none, err
	}
	defer sess.Release()
	view, err := newView(in.SessionID, in.WaitS, in.Images)
	if err != nil {
		return nil, none, err
	}
	if in.Reset {
		if err := sess.Reset(q.command(), api.ResetRequest{}); err != nil {
			return nil, none, err
		}
	}
	id, err := sess.Submit(q.command(), api.ExecutionRequest{Code: &in.Code, TimeoutS: in.TimeoutS}, false)
	if err != nil {
		return nil, none, err
	}
	return h.await(ctx, q, req, sess, id, view)
}

func (h *Handler) getExecution(ctx context.Context, q *request, req *sdk.CallToolRequest, in getExecutionInput) (*sdk.CallToolResult, api.ExecuteCodeResult, error) {
	sess, err := q.session(in.SessionID, api.RightRead)
	if err != nil {
		return nil, none, err
	}
	defer sess.Release()
	view, err := newView(in.SessionID, in.WaitS, in.Images)
	if err != nil {
		return nil, none, err
	}
	return h.await(ctx, q, req, sess, in.ExecutionID, view)
}

func (h *Handler) installPackages(ctx context.Context, q *request, req *sdk.CallToolRequest, in packagesInput) (*sdk.CallToolResult, api.ExecuteCodeResult, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, none, err
	}
	defer sess.Release()
	view, err := newView(in.SessionID, in.WaitS, "")
	if err != nil {
		return nil, none, err
	}
	install, err := h.Sessions.InstallRequest(api.PackagesRequest{Requirements: in.Requirements})
	if err != nil {
		return nil, none, err
	}
	id, err := sess.Submit(q.command(), install, false)
	if err != nil {
		return nil, none, err
	}
	return h.await(ctx, q, req, sess, id, view)
}

// sessionResult is the result of what changes a session and shows nothing.
type sessionResult struct {
	SessionID   string `json:"session_id"`
	ExecutionID string `json:"execution_id,omitzero"`
	Status      string `json:"status"`
}

func (h *Handler) interrupt(_ context.Context, q *request, _ *sdk.CallToolRequest, in interruptInput) (*sdk.CallToolResult, sessionResult, error) {
	sess, err := q.session(in.SessionID, api.RightRun)
	if err != nil {
		return nil, sessionResult{}, err
	}
	defer sess.Release()
	if err := sess.Interrupt(q.command(), in.ExecutionID); err != nil {
		return nil, sessionResult{}, err
	}
	id := q.nameOf(in.SessionID)
	return said("Interrupted; variables and files are kept. get_execution shows how the execution ended."),
		sessionResult{SessionID: id, ExecutionID: in.ExecutionID, Status: "interrupted"}, nil
}

// nameOf is the id of the session that a call meant.
func (q *request) nameOf(id string) string {
	if id != "" {
		return id
	}
	return q.defaultSession()
}

// await waits for an execution and shows it, as far as it has come. A client that goes away ends the wait alone; one that
// cancels its call interrupts the execution.
func (h *Handler) await(ctx context.Context, q *request, req *sdk.CallToolRequest, sess *session.Session, id string, v view) (*sdk.CallToolResult, api.ExecuteCodeResult, error) {
	waiting, stop := context.WithTimeout(q.ctx, v.wait)
	defer stop()
	q.open.onCancel(func() { q.interruptCell(v.session, id) })
	told := tellProgress(ctx, waiting, req, sess, id)
	execution, err := sess.Wait(waiting, id)
	ended := waiting.Err() != nil
	stop()
	<-told
	if err != nil && (!ended || execution.ID == "") {
		return nil, none, err
	}
	result, shown := v.show(q.command(), sess, execution)
	return result, shown, nil
}

// interruptCell interrupts an execution whose call was cancelled, if its caller may.
func (q *request) interruptCell(sessionID, id string) {
	sess, err := q.session(sessionID, api.RightRun)
	if err == nil {
		defer sess.Release()
		err = sess.Interrupt(q.command(), id)
	}
	if err != nil {
		q.handler.Log.Debug("interrupt of a cancelled call", "error", err)
	}
}

// tellProgress tells the client how an execution comes along, if it asked for that, until waiting ends. The channel is closed
// when nothing more is told. ctx is the call's own, by which the library finds the stream.
func tellProgress(ctx, waiting context.Context, req *sdk.CallToolRequest, sess *session.Session, id string) <-chan struct{} {
	done := make(chan struct{})
	token := req.Params.GetProgressToken()
	if token == nil {
		close(done)
		return done
	}
	var last atomic.Pointer[string]
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for event, err := range sess.Journal().ExecutionEvents(waiting, id, 0) {
			if err != nil {
				return
			}
			if line := lastLine(event); line != "" {
				last.Store(&line)
			}
		}
	}()
	go func() {
		defer close(done)
		defer func() { <-followed }()
		begin, told := time.Now(), time.Now()
		tick := time.NewTicker(progressPause)
		defer tick.Stop()
		for {
			select {
			case <-waiting.Done():
				return
			case <-tick.C:
			}
			line := last.Swap(nil)
			if line == nil && time.Since(told) < progressBeat {
				continue
			}
			told = time.Now()
			elapsed := time.Since(begin).Seconds()
			text := fmt.Sprintf("running for %.0f s", elapsed)
			if line != nil {
				text += ": " + sess.Redacted(*line)
			}
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: elapsed, Message: text})
			if err != nil {
				return
			}
		}
	}()
	return done
}
