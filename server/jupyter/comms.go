package jupyter

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"talaria/api"
	"talaria/session"
)

// commContent is the content of a comm_open, comm_msg or comm_close.
type commContent struct {
	CommID     string  `json:"comm_id"`
	TargetName string  `json:"target_name"`
	Data       api.Raw `json:"data"`
}

// comm gives a client's message to the kernel. Busy comes before anything that it causes, and idle when it was handled.
func (k *channels) comm(ctx context.Context, m message) {
	var c commContent
	var metadata map[string]api.Raw
	sent := session.CommMessage{ID: m.header.MsgID, Action: strings.TrimPrefix(m.header.MsgType, "comm_")}
	id := sent.EventID()
	client := k.id
	if client == "" {
		client = m.header.Session
	}
	k.kernel.expect(id, parent{head: slices.Clone(m.head), client: client, socket: k})
	k.reply(ctx, k.state(m.head, "busy"))
	err := json.Unmarshal(orEmpty(m.content), &c)
	if err == nil {
		err = json.Unmarshal(orEmpty(m.metadata), &metadata)
	}
	if err == nil {
		sent.CommID, sent.Target, sent.Data, sent.Metadata, sent.Buffers = c.CommID, c.TargetName, c.Data, metadata, m.buffers
		err = k.sess.Interpreter().SendComm(context.WithoutCancel(ctx), sent)
	}
	if err == nil {
		return // the event that it was handled follows
	}
	k.kernel.end(id)
	var list []message
	if sent.Action == "open" { // nobody will receive it
		list = append(list, message{channel: iopub, header: header{MsgType: "comm_close"}, parent: m.head,
			content: object{"comm_id": c.CommID, "data": object{}}.raw()})
	}
	k.reply(ctx, append(list, k.idle(m.head))...)
}

// commInfo lists the open comms, of one target where the request names it.
func (k *channels) commInfo(ctx context.Context, m message) object {
	var c commContent
	if err := json.Unmarshal(orEmpty(m.content), &c); err != nil {
		return status(err)
	}
	open, err := k.sess.Interpreter().Comms(ctx)
	if err != nil {
		return status(k.h.Problem(ctx, err, "comm_info_request"))
	}
	list := object{}
	for id, target := range open {
		if c.TargetName == "" || c.TargetName == target {
			list[id] = object{"target_name": target}
		}
	}
	return object{"comms": list}
}

// commMessages translates what the kernel says over its comms.
func commMessages(body api.EventBody, p parent) []message {
	m := message{channel: iopub, parent: p.head}
	var metadata map[string]api.Raw
	content := object{}
	switch b := body.(type) {
	case api.CommOpened:
		m.header.MsgType, m.buffers, metadata = "comm_open", b.Buffers, b.Metadata
		content["comm_id"], content["target_name"], content["data"] = b.CommID, b.TargetName, b.Data
	case api.CommSent:
		m.header.MsgType, m.buffers, metadata = "comm_msg", b.Buffers, b.Metadata
		content["comm_id"], content["data"] = b.CommID, b.Data
	case api.CommClosed:
		m.header.MsgType, m.buffers, metadata = "comm_close", b.Buffers, b.Metadata
		content["comm_id"], content["data"] = b.CommID, b.Data
	}
	m.content = content.raw()
	if len(metadata) > 0 {
		about := object{}
		for name, value := range metadata {
			about[name] = value
		}
		m.metadata = about.raw()
	}
	return []message{m}
}

// commHandled ends a client's message.
func (k *channels) commHandled(id string, p parent) []message {
	k.kernel.end(id)
	if p.socket == k { // it has had busy
		return []message{k.idle(p.head)}
	}
	return []message{k.busy(p.head), k.idle(p.head)}
}

// noteComms notes which comms the client knows to be open, from what it is sent.
func (k *channels) noteComms(m message) {
	switch m.header.MsgType {
	case "comm_open", "comm_close":
		var c commContent
		if json.Unmarshal(m.content, &c) != nil {
			return
		}
		if m.header.MsgType == "comm_open" {
			k.comms[c.CommID] = true
		} else {
			delete(k.comms, c.CommID)
		}
	case "comm_info_reply":
		var c struct {
			Comms map[string]api.Raw `json:"comms"`
		}
		if json.Unmarshal(m.content, &c) == nil {
			for id := range c.Comms {
				k.comms[id] = true
			}
		}
	}
}

// closeComms closes the comms that the client knows: their kernel has ended.
func (k *channels) closeComms() (list []message) {
	for id := range k.comms {
		list = append(list, message{channel: iopub, header: header{MsgType: "comm_close"}, content: object{"comm_id": id, "data": object{}}.raw()})
	}
	return list
}
