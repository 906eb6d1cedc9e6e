package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"talaria/api"
	"talaria/kernel/command"
	"talaria/kernel/record"
	"talaria/session/processes"
)

// CommMessage is a front end's message over a comm. Action is "open", "msg" or "close".
type CommMessage struct {
	ID       string // chosen by the front end, unique for the kernel
	Action   string
	CommID   string
	Target   string // of a message that opens a comm
	Data     api.Raw
	Metadata map[string]api.Raw
	Buffers  [][]byte
}

// maxCommMessageID leaves room for the prefix that tells the id of a message from that of an execution.
const maxCommMessageID = 128

// maxDepth bounds the nesting of values for the kernel, whose decoder is recursive. Requests of the API are checked as a whole.
const maxDepth = 200

func tooDeep(value api.Raw) bool {
	return api.TooComplex(value, maxDepth, math.MaxInt)
}

// EventID returns the id by which events name the message and the output of the code that handles it.
func (m CommMessage) EventID() string { return record.CommMessageID(m.ID) }

// CutCommMessage returns the id of the front end's message that an event names; ok is false if it names an execution.
func CutCommMessage(executionID string) (id string, ok bool) {
	return record.CutCommMessageID(executionID)
}

// SendComm gives a front end's message to the kernel, which counts as use. Without a kernel it fails with
// no_kernel, and with kernel_busy if too many messages wait. The event comm_handled follows when the kernel has handled
// it. A message that was given before, by its id, is not given again.
func (i *Interpreter) SendComm(ctx context.Context, m CommMessage) error {
	action := record.CommAction(m.Action)
	switch {
	case action != record.CommOpen && action != record.CommSend && action != record.CommClose:
		return api.Invalid("the action of a comm message must be open, msg or close")
	case m.ID == "" || len(m.ID) > maxCommMessageID:
		return api.Invalid("the id of a comm message must have 1 to %d bytes", maxCommMessageID)
	case m.CommID == "" || len(m.CommID) > record.MaxCommName || len(m.Target) > record.MaxCommName:
		return api.Invalid("\"comm_id\" must have 1 to %d bytes, and \"target_name\" no more than that", record.MaxCommName)
	case len(m.Buffers) > record.MaxCommBuffers:
		return api.Invalid("a comm message has at most %d buffers", record.MaxCommBuffers)
	}
	if tooDeep(m.Data) || slices.ContainsFunc(slices.Collect(maps.Values(m.Metadata)), tooDeep) {
		return api.Invalid("a comm message may be nested %d levels deep", maxDepth)
	}
	c := command.CommMessage{ID: m.ID, Action: action, Comm: m.CommID, Target: m.Target, Data: json.RawMessage(m.Data), Buffers: m.Buffers}
	if len(m.Metadata) > 0 {
		c.Metadata = map[string]json.RawMessage{}
	}
	for name, value := range m.Metadata {
		c.Metadata[name] = json.RawMessage(value)
	}
	key, _, err := i.kernel()
	if err != nil {
		return err
	}
	switch err := command.Tell(ctx, i.host, key, c); {
	case err == nil, errors.Is(err, command.ErrRepeated):
		return i.touch(ctx)
	case errors.Is(err, command.ErrTooOld):
		return processes.ErrTooOld
	case errors.Is(err, command.ErrNoKernel):
		return errNoKernel()
	case errors.Is(err, command.ErrKernelBusy):
		return api.Errorf(api.CodeKernelBusy, "%d messages wait for the kernel to handle them; wait for some of them first", command.MaxCommMessages)
	default:
		return fmt.Errorf("give a comm message to the kernel: %w", err)
	}
}

// Comms returns the targets of the comms that are open, by id. A session without a kernel has none.
func (i *Interpreter) Comms(ctx context.Context) (map[string]string, error) {
	open, err := ask(ctx, i, command.ListComms{})
	var known *api.Error
	if errors.As(err, &known) && (known.Code == api.CodeNoKernel || known.Code == api.CodeNotImplemented) {
		return map[string]string{}, nil
	}
	return open, err
}

// comm logs a message of a comm that the running execution sent, within limits.display_bytes. Beyond them only the ends
// of comms are logged.
func (t *translation) comm(running *execution, b record.Comm) {
	d := draft{executionID: running.row.ID, body: commEvent(b)}
	drafts, err := running.out.show(d, func() draft {
		if b.Action != record.CommClose {
			return draft{}
		}
		return draft{executionID: running.row.ID, body: api.CommClosed{CommID: b.ID, Data: api.Raw("{}"), Metadata: map[string]api.Raw{}}}
	})
	if err != nil {
		t.s.log.Error("encode a comm message", "error", err)
	}
	t.c.drafts = append(t.c.drafts, drafts...)
}

func commEvent(b record.Comm) api.EventBody {
	data, about := api.Raw(b.Data), metadata(b.Metadata)
	switch b.Action {
	case record.CommOpen:
		return api.CommOpened{CommID: b.ID, TargetName: b.Target, Data: data, Metadata: about, Buffers: b.Buffers}
	case record.CommClose:
		return api.CommClosed{CommID: b.ID, Data: data, Metadata: about, Buffers: b.Buffers}
	}
	return api.CommSent{CommID: b.ID, Data: data, Metadata: about, Buffers: b.Buffers}
}

// isOfComms reports whether a record of no running execution is a message of a comm, or comes from code that handles a
// front end's message.
func isOfComms(r record.Record) bool {
	_, sent := r.Body.(record.Comm)
	_, handler := record.CutCommMessageID(r.ExecutionID)
	return sent || handler
}

// betweenCells logs messages of comms, and what code prints that handles front ends' messages, while their execution does
// not run. From the start of one execution to that of the next, all of it counts against limits.display_bytes; beyond
// them it is dropped. That a message was handled is always logged: its front end waits for that.
func (t *translation) betweenCells(r record.Record) {
	s := t.s
	s.mu.Lock()
	limit := s.limits.DisplayBytes
	s.mu.Unlock()
	d := draft{executionID: r.ExecutionID}
	size := int64(eventCost)
	switch b := r.Body.(type) {
	case record.CommHandled:
		t.log(r.ExecutionID, api.CommHandled{})
		return
	case record.Comm:
		size, d.body = max(size, int64(b.Size())), commEvent(b)
	case record.Stream:
		size, d.body = max(size, int64(len(b.Text))), api.Stream{Name: b.Name, Text: b.Text}
	case record.Display:
		if size = max(size, rawSize(b.Data, b.Metadata)); s.commBytes+size <= limit { // beyond it there is no artifact
			d = s.out.display(t.ctx, r.ExecutionID, b, t.hold)
		}
	case record.Clear:
		d.body = api.ClearOutput{Wait: b.Wait}
	default:
		return
	}
	over := s.commBytes > limit
	if s.commBytes += size; s.commBytes <= limit {
		t.c.drafts = append(t.c.drafts, d)
	} else if !over {
		s.commBytes = limit + 1
		t.log(r.ExecutionID, api.Stream{Name: "stderr", Text: fmt.Sprintf(
			"\n[messages of comms and output between two cells reached limits.display_bytes (%d); more is dropped until a cell runs]\n", limit)})
	}
}
