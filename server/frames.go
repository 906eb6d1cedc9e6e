package server

import (
	"context"

	"github.com/gorilla/websocket"

	"talaria/api"
)

// command carries out one type of frame. data is the whole frame.
type command func(k *socket, ctx context.Context, data []byte) (result any, err error)

// commands are the frames of the protocol by type.
var commands = map[string]command{
	"execute":     (*socket).execute,
	"interrupt":   (*socket).interrupt,
	"reset":       (*socket).reset,
	"ping":        (*socket).ping,
	"input_reply": (*socket).inputReply,
	"complete":    (*socket).later,
	"inspect":     (*socket).later,
	"is_complete": (*socket).later,
	"variables":   (*socket).later,
	"tools":       (*socket).later,
	"tool_result": (*socket).later,
	"checkpoint":  (*socket).later,
	"rollback":    (*socket).later,
}

// carryOut answers one frame; the reply has the frame's id, or null where it has none that can be read.
func (k *socket) carryOut(ctx context.Context, f frame) api.Reply {
	reply := api.Reply{Type: "reply", ID: api.Raw("null")}
	result, err := k.dispatch(ctx, f, &reply.ID)
	if err != nil {
		reply.Error = k.srv.problem(ctx, err, "frame")
		return reply
	}
	reply.OK, reply.Result = true, result
	return reply
}

func (k *socket) dispatch(ctx context.Context, f frame, id *api.Raw) (any, error) {
	if f.kind != websocket.TextMessage {
		return nil, api.Errorf(api.CodeInvalidRequest, "a frame must be text: one JSON object")
	}
	var fields map[string]api.Raw
	if err := decodeObject(f.data, &fields, "a frame"); err != nil {
		return nil, err
	}
	if given, ok := fields["id"]; ok {
		*id = given
	}
	raw, ok := fields["type"]
	if !ok {
		return nil, missing("type")
	}
	var kind string
	if raw.Kind() != '"' || api.Unmarshal(raw, &kind) != nil {
		return nil, api.Errorf(api.CodeInvalidRequest, "field \"type\" must be a string")
	}
	run, ok := commands[kind]
	if !ok {
		return nil, api.Errorf(api.CodeInvalidRequest, "there is no frame of type %.80q", kind)
	}
	return run(k, ctx, f.data)
}

// head is what all frames but execute have beside their own fields.
type head struct {
	Type string  `json:"type"`
	ID   api.Raw `json:"id,omitzero"`
}

func (k *socket) execute(ctx context.Context, data []byte) (any, error) {
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

func (k *socket) interrupt(ctx context.Context, data []byte) (any, error) {
	var f struct {
		head
		api.InterruptRequest
	}
	if err := api.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	return struct{}{}, interrupt(ctx, k.sess, f.InterruptRequest)
}

func (k *socket) reset(ctx context.Context, data []byte) (any, error) {
	var f struct {
		head
		api.ResetRequest
	}
	if err := api.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	return struct{}{}, k.sess.Reset(ctx, f.ResetRequest)
}

func (k *socket) ping(_ context.Context, data []byte) (any, error) {
	var f head
	return struct{}{}, api.Unmarshal(data, &f)
}

func (k *socket) inputReply(ctx context.Context, data []byte) (any, error) {
	var f struct {
		head
		inputBody
	}
	if err := api.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	return struct{}{}, f.send(ctx, k.sess)
}

func (k *socket) later(context.Context, []byte) (any, error) { return nil, errLater() }
