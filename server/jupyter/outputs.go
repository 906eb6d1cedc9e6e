package jupyter

import (
	"context"

	"talaria/api"
)

// translate returns what a client of Jupyter gets for an event of the log.
func (k *channels) translate(ctx context.Context, e api.Event) []message {
	p := k.parentOf(ctx, e.ExecutionID)
	out := func(msgType string, content object) []message {
		return []message{{channel: iopub, header: header{MsgType: msgType, Date: date(e.Time.Time)}, parent: p.head, content: content.raw()}}
	}
	switch b := e.Body.(type) {
	case api.ExecutionStarted:
		k.running = e.ExecutionID
		list := []message{k.busy(p.head)}
		if b.ExecutionCount != nil {
			k.count = *b.ExecutionCount
			list = append(list, out("execute_input", object{"code": b.Code, "execution_count": k.count})...)
		}
		return list
	case api.Stream:
		return out("stream", object{"name": b.Name, "text": b.Text})
	case api.DisplayData:
		return out("display_data", display(b.Data, b.Metadata, b.DisplayID))
	case api.UpdateDisplayData:
		return out("update_display_data", display(b.Data, b.Metadata, b.DisplayID))
	case api.ExecuteResult:
		content := display(b.Data, b.Metadata, "")
		content["execution_count"] = b.ExecutionCount
		return out("execute_result", content)
	case api.ErrorEvent:
		return out("error", failure(b.ErrorOutput))
	case api.ClearOutput:
		return out("clear_output", object{"wait": b.Wait})
	case api.InputRequested:
		if !k.asked(p) {
			return nil
		}
		ask := message{channel: stdin, header: header{MsgID: b.RequestID, MsgType: "input_request"}, parent: p.head,
			content: object{"prompt": b.Prompt, "password": b.Password}.raw()}
		return []message{ask}
	case api.ExecutionFinished:
		k.kernel.end(e.ExecutionID)
		if k.running == e.ExecutionID {
			k.running = ""
		}
		return k.finished(p, b.Execution)
	case api.CommOpened, api.CommSent, api.CommClosed:
		return commMessages(e.Body, p)
	case api.UserExpressions:
		k.expressed, k.expressions = e.ExecutionID, b.Values
	case api.CommHandled:
		return append(k.commHandled(e.ExecutionID, p), k.stillBusy(ctx)...)
	case api.KernelDied:
		return append(k.closeComms(), k.life("restarting")...)
	case api.KernelReset:
		closed := k.closeComms()
		k.generation, k.count = b.Generation, 0
		if b.Reason == "reset" { // else it follows a death, which was told, or a time of idleness
			// As with a Jupyter Server, "restarting" is for kernels that died: it makes clients drop their requests and connect
			// again, and the one that asked for this restart is doing that already.
			return append(closed, k.life("starting")...)
		}
		return closed
	case api.SessionStateEvent:
		switch {
		case b.State == api.StateStarting:
			return k.life("starting")
		case b.State == api.StateIdle && k.phase != "":
			return k.life("idle")
		}
	}
	return nil
}

// life tells where an interpreter is between the end of the last one and its first cell. It belongs to no request.
func (k *channels) life(state string) []message {
	if k.phase == state {
		return nil
	}
	if k.phase = state; state == "idle" {
		k.phase = ""
	}
	return []message{k.state(nil, state)}
}

// asked reports whether this connection's client sent the request.
func (k *channels) asked(p parent) bool {
	return p.socket == k || p.client != "" && p.client == k.id
}

func display(data api.MIMEBundle, metadata map[string]api.Raw, id string) object {
	if metadata == nil {
		metadata = map[string]api.Raw{}
	}
	transient := object{}
	if id != "" {
		transient["display_id"] = id
	}
	return object{"data": orBundle(data), "metadata": metadata, "transient": transient}
}

func failure(e api.ErrorOutput) object {
	return object{"ename": e.Ename, "evalue": e.Evalue, "traceback": orNone(e.Traceback)}
}

// finished returns the reply to the client that asked for an execution, and idle for all.
func (k *channels) finished(p parent, e api.Execution) []message {
	var list []message
	if e.StartedAt == nil { // cancelled: nobody saw it begin
		list = append(list, k.busy(p.head))
	}
	if k.asked(p) {
		content := executeReply(e)
		if content["status"] == "ok" && k.expressed == e.ID {
			content["user_expressions"] = k.expressions
		}
		content["execution_count"] = k.count
		if e.ExecutionCount != nil { // a client that was away has not seen the cell start
			content["execution_count"] = *e.ExecutionCount
		}
		list = append(list, message{channel: shell, header: header{MsgType: "execute_reply"}, parent: p.head, content: content.raw()})
	}
	return append(list, k.idle(p.head))
}

func executeReply(e api.Execution) object {
	switch {
	case e.Status == api.StatusOK:
		return object{"status": "ok", "payload": []any{}, "user_expressions": object{}}
	case e.Status == api.StatusCancelled:
		return object{"status": "aborted"}
	}
	content := object{"ename": string(e.Status), "evalue": e.Reason, "traceback": []string{}}
	if e.Error != nil {
		content = failure(*e.Error)
	}
	content["status"] = "error"
	return content
}
