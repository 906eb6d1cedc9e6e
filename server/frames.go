package server

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/gorilla/websocket"

	"talaria/api"
	"talaria/session"
)

// runFrame carries a frame out. data is the whole frame.
type runFrame func(ctx context.Context, k *socket, data []byte) (result any, err error)

// frameKind is what the server does with frames of one type.
type frameKind struct {
	run runFrame
	// beside frames only ask the kernel. They are carried out beside the others, so that an interrupt does not wait for
	// their answers.
	beside bool
	right  api.Right // that a link or a session token needs; "": the owner's token only
}

// frameKinds are the frames of the protocol by type.
var frameKinds = map[string]frameKind{
	"execute":     {run: executeFrame, right: api.RightRun},
	"interrupt":   {run: command(interrupt), right: api.RightRun},
	"reset":       {run: command((*session.Session).Reset), right: api.RightRun},
	"ping":        {run: command(ping), right: api.RightRead},
	"input_reply": {run: command(answerInput), right: api.RightRun},
	"complete":    {run: ofInterpreter((*session.Interpreter).Complete), beside: true, right: api.RightRun},
	"inspect":     {run: ofInterpreter((*session.Interpreter).Inspect), beside: true, right: api.RightRun},
	"is_complete": {run: ofInterpreter((*session.Interpreter).IsComplete), beside: true, right: api.RightRun},
	"variables":   {run: question(variables), beside: true, right: api.RightRun},
	"ping_kernel": {run: question(pingKernel), beside: true, right: api.RightRun},
	"table":       {run: ofInterpreter((*session.Interpreter).Table), beside: true, right: api.RightRun},
	"checkpoint":  {run: question((*session.Session).Checkpoint), right: api.RightRun},
	"rollback":    {run: question((*session.Session).Rollback), right: api.RightRun},

	"tools":         {run: ofSocket(provideTools), right: api.RightRun},
	"tool_result":   {run: ofSocket(answerTool), right: api.RightRun},
	"tool_progress": {run: ofSocket(tellProgress), right: api.RightRun},
	"approve":       {run: ofSocket(approve), right: api.RightRun},
}

// question makes a frame's fields the argument of a function, and what that returns the result of the reply.
func question[F, R any](ask func(*session.Session, context.Context, F) (R, error)) runFrame {
	return ofSocket(func(k *socket, ctx context.Context, fields F) (R, error) { return ask(k.sess, ctx, fields) })
}

// ofInterpreter is question for a question to the session's interpreter.
func ofInterpreter[F, R any](ask func(*session.Interpreter, context.Context, F) (R, error)) runFrame {
	return question(func(sess *session.Session, ctx context.Context, fields F) (R, error) {
		return ask(sess.Interpreter(), ctx, fields)
	})
}

// command is question for a function without a result.
func command[F any](run func(*session.Session, context.Context, F) error) runFrame {
	return question(func(sess *session.Session, ctx context.Context, fields F) (struct{}, error) {
		return struct{}{}, run(sess, ctx, fields)
	})
}

// socketCommand is one frame that is to be carried out.
type socketCommand struct {
	id   api.Raw // that the reply repeats, or null where there is none that can be read
	kind string
	frameKind
	data  []byte
	wrong error // why it is not a command
}

func parseOrder(f frame) (o socketCommand) {
	o = socketCommand{id: api.Raw("null"), data: f.data}
	if f.kind != websocket.TextMessage {
		o.wrong = api.Errorf(api.CodeInvalidRequest, "a frame must be text: one JSON object")
		return o
	}
	var fields map[string]api.Raw
	if o.wrong = decodeObject(f.data, &fields, "a frame"); o.wrong != nil {
		return o
	}
	if given, ok := fields["id"]; ok {
		o.id = given
	}
	raw, ok := fields["type"]
	switch {
	case !ok:
		o.wrong = missing("type")
		return o
	case raw.Kind() != '"' || api.Unmarshal(raw, &o.kind) != nil:
		o.wrong = api.Errorf(api.CodeInvalidRequest, "field \"type\" must be a string")
		return o
	}
	if o.frameKind, ok = frameKinds[o.kind]; !ok {
		o.wrong = api.Errorf(api.CodeInvalidRequest, "unknown frame type %.80q; the types are %s", o.kind,
			strings.Join(slices.Sorted(maps.Keys(frameKinds)), ", "))
	}
	return o
}

// dispatch answers one frame.
func (k *socket) dispatch(ctx context.Context, o socketCommand) api.Reply {
	reply := api.Reply{Type: "reply", ID: o.id}
	result, err := any(nil), o.wrong
	if err == nil && k.visit != nil {
		err = permit(k.visit, o.right)
	}
	if err == nil {
		result, err = o.run(ctx, k, o.data)
	}
	if err != nil {
		reply.Error = k.srv.problem(ctx, err, "frame")
		return reply
	}
	reply.OK, reply.Result = true, result
	return reply
}

// executeFrame has no id of its own: that of the frame is the execution's.
func executeFrame(ctx context.Context, k *socket, data []byte) (any, error) {
	var f struct {
		Type string `json:"type"`
		api.ExecutionRequest
	}
	if err := api.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	id, err := submit(ctx, k.sess, f.ExecutionRequest, true)
	if err != nil {
		return nil, err
	}
	return api.ExecuteReply{ExecutionID: id}, nil
}

func ping(*session.Session, context.Context, struct{}) error { return nil }

func pingKernel(sess *session.Session, ctx context.Context, _ struct{}) (*api.PingReply, error) {
	return sess.Interpreter().Ping(ctx)
}

func variables(sess *session.Session, ctx context.Context, _ struct{}) (*api.VariablesReply, error) {
	return sess.Interpreter().Variables(ctx)
}
