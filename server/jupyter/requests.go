package jupyter

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"talaria/api"
	"talaria/api/kernelwire"
)

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// isQuestion reports whether a request only asks, so that it need not wait for those before it.
func isQuestion(msgType string) bool {
	switch msgType {
	case "complete_request", "inspect_request", "is_complete_request", "history_request":
		return true
	}
	return false
}

// carryOut does what a message asks for. Every request on shell and control is answered by busy, its reply, and idle; for a cell
// they come with its events.
func (k *channels) carryOut(ctx context.Context, m message) {
	command := context.WithoutCancel(ctx)
	switch m.header.MsgType {
	case "execute_request":
		k.execute(ctx, m)
	case "input_reply":
		k.input(command, m)
	case "kernel_info_request":
		k.answer(ctx, m, k.kernelInfo(ctx))
	case "complete_request":
		k.answer(ctx, m, k.complete(ctx, m))
	case "inspect_request":
		k.answer(ctx, m, k.inspect(ctx, m))
	case "is_complete_request":
		k.answer(ctx, m, k.isComplete(ctx, m))
	case "history_request":
		k.answer(ctx, m, k.history(ctx, m))
	case "comm_info_request":
		k.answer(ctx, m, k.commInfo(ctx, m))
	case "interrupt_request":
		k.answer(ctx, m, status(k.sess.Interrupt(command, "")))
	case "shutdown_request":
		k.shutdown(ctx, m)
	case "comm_open", "comm_msg", "comm_close":
		k.comm(ctx, m)
	default:
		if strings.HasSuffix(m.header.MsgType, "_request") {
			k.answer(ctx, m, status(api.Errorf(api.CodeNotImplemented, "Talaria's kernels do not support %.100s", m.header.MsgType)))
		}
	}
}

// object is the content of a message.
type object map[string]any

func (o object) raw() api.Raw {
	text, err := api.Marshal(o)
	if err != nil { // strings, numbers, lists and their maps always encode
		panic(err)
	}
	return text
}

// status is the content of a reply that says only whether it was done.
func status(err error) object {
	if err == nil {
		return object{"status": "ok"}
	}
	name := "Error"
	if known := new(api.Error); errors.As(err, &known) {
		name = string(known.Code)
		err = errors.New(known.Detail)
	}
	return object{"status": "error", "ename": name, "evalue": err.Error(), "traceback": []string{name + ": " + err.Error()}}
}

func (k *channels) state(parent api.Raw, state string) message {
	return message{channel: iopub, header: header{MsgType: "status"}, parent: parent, content: object{"execution_state": state}.raw()}
}

func (k *channels) busy(parent api.Raw) message { return k.state(parent, "busy") }
func (k *channels) idle(parent api.Raw) message { return k.state(parent, "idle") }

// answer sends busy, the reply to a request, and idle.
func (k *channels) answer(ctx context.Context, m message, content object) {
	if _, ok := content["status"]; !ok {
		content["status"] = "ok"
	}
	reply := message{channel: m.channel, header: header{MsgType: strings.TrimSuffix(m.header.MsgType, "_request") + "_reply"}, parent: m.head, content: content.raw()}
	k.reply(ctx, k.busy(m.head), reply, k.idle(m.head))
}

// executeContent is the content of an execute_request.
type executeContent struct {
	Code        string            `json:"code"`
	Silent      bool              `json:"silent"`
	AllowStdin  *bool             `json:"allow_stdin"`
	StopOnError *bool             `json:"stop_on_error"`
	Expressions map[string]string `json:"user_expressions"`
}

// execute submits a cell under the id of its message, so that the same message sent again runs nothing.
func (k *channels) execute(ctx context.Context, m message) {
	var c executeContent
	if err := json.Unmarshal(m.content, &c); err != nil {
		k.answer(ctx, m, status(api.Errorf(api.CodeInvalidRequest, "the content of the execute_request is not the expected JSON: %v", err)))
		return
	}
	id := m.header.MsgID
	if !api.ValidID(id) {
		id = newID()
	}
	stop, ask := c.StopOnError == nil || *c.StopOnError, c.AllowStdin == nil || *c.AllowStdin
	client := k.id
	if client == "" {
		client = m.header.Session
	}
	k.kernel.expect(id, parent{head: slices.Clone(m.head), client: client, socket: k})
	stored, err := api.Marshal(origin{Header: m.head, Client: client})
	if err == nil {
		_, err = k.sess.Submit(context.WithoutCancel(ctx), api.ExecutionRequest{
			ID: &id, Code: &c.Code, Silent: &c.Silent, StopOnError: &stop, AllowStdin: &ask, Expressions: c.Expressions, Origin: stored,
		}, ask)
	}
	if err != nil {
		k.kernel.end(id)
		content := status(k.h.Problem(ctx, err, "execute_request"))
		content["execution_count"] = 0
		k.answer(ctx, m, content)
	}
}

// input answers the question that the message's parent names, or the open one.
func (k *channels) input(ctx context.Context, m message) {
	var c struct {
		Value string `json:"value"`
	}
	var question header
	if json.Unmarshal(m.content, &c) != nil {
		return
	}
	req := api.InputRequest{Value: c.Value}
	if json.Unmarshal(orEmpty(m.parent), &question) == nil && question.MsgID != "" {
		req.RequestID = &question.MsgID
	}
	_ = k.sess.Input(ctx, req) // the question may be closed already, which the client sees by the cell's output
}

func (k *channels) kernelInfo(ctx context.Context) object {
	info := k.sess.Info(ctx)
	return object{
		"protocol_version": protocolVersion, "implementation": "talaria", "implementation_version": k.h.Version,
		"language_info": object{
			"name": "python", "version": info.Kernel.Python, "mimetype": "text/x-python", "file_extension": ".py",
			"pygments_lexer": "ipython3", "codemirror_mode": object{"name": "ipython", "version": 3}, "nbconvert_exporter": "python",
		},
		"banner":     "Python " + info.Kernel.Python + " in Talaria " + k.h.Version,
		"help_links": []any{}, "debugger": false, "supported_features": []string{},
	}
}

func (k *channels) complete(ctx context.Context, m message) object {
	var c api.CompleteRequest
	if err := json.Unmarshal(m.content, &c); err != nil {
		return status(err)
	}
	reply, err := k.sess.Interpreter().Complete(ctx, c)
	if err != nil { // nothing to offer while the kernel is starting or busy
		at := int64(0)
		if c.CursorPos != nil {
			at = *c.CursorPos
		}
		reply = &api.CompleteReply{CursorStart: at, CursorEnd: at}
	}
	return object{"matches": orNone(reply.Matches), "cursor_start": reply.CursorStart, "cursor_end": reply.CursorEnd, "metadata": object{}}
}

func orNone(list []string) []string { return append([]string{}, list...) }

func (k *channels) inspect(ctx context.Context, m message) object {
	var c api.InspectRequest
	if err := json.Unmarshal(m.content, &c); err != nil {
		return status(err)
	}
	reply, err := k.sess.Interpreter().Inspect(ctx, c)
	if err != nil {
		reply = &api.InspectReply{}
	}
	return object{"found": reply.Found, "data": orBundle(reply.Data), "metadata": object{}}
}

func orBundle(b api.MIMEBundle) api.MIMEBundle {
	if b == nil {
		return api.MIMEBundle{}
	}
	return b
}

func (k *channels) isComplete(ctx context.Context, m message) object {
	var c api.IsCompleteRequest
	if err := json.Unmarshal(m.content, &c); err != nil {
		return status(err)
	}
	reply, err := k.sess.Interpreter().IsComplete(ctx, c)
	if err != nil {
		return object{"status": "unknown"}
	}
	answer := object{"status": string(reply.Status)}
	if reply.Status == api.SourceIncomplete {
		answer["indent"] = reply.Indent
	}
	return answer
}

// historyContent is the content of a history_request.
type historyContent struct {
	Type    string `json:"hist_access_type"`
	Output  bool   `json:"output"`
	N       *int   `json:"n"`
	Start   int64  `json:"start"`
	Stop    *int64 `json:"stop"`
	Pattern string `json:"pattern"`
	Unique  bool   `json:"unique"`
}

// maxHistory bounds the cells of one answer.
const maxHistory = 1000

// history answers with cells of this kernel. Sessions in the sense of the message are the interpreters that it has had.
func (k *channels) history(ctx context.Context, m message) object {
	var c historyContent
	if err := json.Unmarshal(m.content, &c); err != nil {
		return status(err)
	}
	matches, err := glob(c.Pattern)
	if err != nil {
		return status(err)
	}
	limit := maxHistory
	if c.N != nil && c.Type != "range" {
		limit = min(max(*c.N, 0), maxHistory)
	}
	list, seen := []any{}, map[string]bool{}
	take := func(e api.Execution) (bool, error) {
		if len(list) >= limit {
			return false, nil
		}
		if e.ExecutionCount == nil { // a silent one
			return true, nil
		}
		n := *e.ExecutionCount
		switch c.Type {
		case "range":
			if n < c.Start || c.Stop != nil && n >= *c.Stop {
				return true, nil
			}
		case "search":
			if !matches.MatchString(e.Code) || c.Unique && seen[e.Code] {
				return true, nil
			}
			seen[e.Code] = true
		}
		input := any(e.Code)
		if c.Output {
			input = []any{e.Code, nil}
		}
		list = append(list, []any{e.Generation, n, input})
		return true, nil
	}
	page := api.PageQuery{Limit: api.MaxPage}
	if _, err := k.sess.Executions().List(ctx, page, take); err != nil {
		return status(k.h.Problem(ctx, err, "history_request"))
	}
	slices.Reverse(list)
	return object{"history": list}
}

// glob compiles a pattern of the shell, with * and ?; "" matches everything.
func glob(pattern string) (*regexp.Regexp, error) {
	if pattern == "" {
		pattern = "*"
	}
	text := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	return regexp.Compile("(?s)^" + text + "$")
}

// shutdown ends the kernel, or starts it again.
func (k *channels) shutdown(ctx context.Context, m message) {
	var c struct {
		Restart bool `json:"restart"`
	}
	if err := json.Unmarshal(orEmpty(m.content), &c); err != nil {
		k.answer(ctx, m, status(err))
		return
	}
	command := context.WithoutCancel(ctx)
	if c.Restart {
		content := status(k.sess.Reset(command, api.ResetRequest{}))
		content["restart"] = true
		k.answer(ctx, m, content)
		return
	}
	k.answer(ctx, m, object{"restart": false}) // before the deletion ends this connection
	if k.caller.Session == "" {
		id, _ := kernelwire.SessionID(k.kernel.id)
		_ = k.h.Sessions.Delete(command, k.caller.Owner, id) // somebody else may have deleted it
	}
}
