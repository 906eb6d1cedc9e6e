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
	"complete":    (*socket).complete,
	"inspect":     (*socket).inspect,
	"is_complete": (*socket).isComplete,
	"variables":   (*socket).variables,
	"table":       (*socket).table,
	"tools":       (*socket).later,
	"tool_result": (*socket).later,
	"checkpoint":  (*socket).later,
	"rollback":    (*socket).later,
}

// questions are the commands that only ask the kernel. They are carried out beside the others, so that an interrupt
// does not wait for their answers.
var questions = map[string]bool{"complete": true, "inspect": true, "is_complete": true, "variables": true, "table": true}

// order is one frame that is to be carried out.
type order struct {
	id    api.Raw // that the reply repeats, or null where there is none that can be read
	kind  string
	run   command
	data  []byte
	wrong error // why it is no command
}

func parseOrder(f frame) (o order) {
	o = order{id: api.Raw("null"), data: f.data}
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
	if o.run, ok = commands[o.kind]; !ok {
		o.wrong = api.Errorf(api.CodeInvalidRequest, "there is no frame of type %.80q", o.kind)
	}
	return o
}

// carryOut answers one frame.
func (k *socket) carryOut(ctx context.Context, o order) api.Reply {
	reply := api.Reply{Type: "reply", ID: o.id}
	result, err := any(nil), o.wrong
	if err == nil && k.visitor && o.kind != "ping" {
		err = errReadOnly()
	}
	if err == nil {
		result, err = o.run(k, ctx, o.data)
	}
	if err != nil {
		reply.Error = k.srv.problem(ctx, err, "frame")
		return reply
	}
	reply.OK, reply.Result = true, result
	return reply
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

func (k *socket) later(context.Context, []byte) (any, error) {
	return nil, api.Errorf(api.CodeNotImplemented, "this version of the server cannot do this yet")
}
