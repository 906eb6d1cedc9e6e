package jupyter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"talaria/api"
	"talaria/api/kernelwire"
	"talaria/session"
)

// write sends events and answers, and says how the connection is to end.
func (k *channels) write(ctx context.Context) (code int, reason string) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case event, more := <-k.events:
			if !more {
				return k.ending(ctx, k.failed)
			}
			err = k.sendReady(ctx, event)
		case list := <-k.out:
			if err = k.ask(); err == nil { // a client that has this answer has confirmed what came before it
				err = k.send(append(list, k.stillBusy(ctx)...))
			}
		case <-k.behind:
			err = k.ask()
		case <-ping.C:
			err = k.socket.Ping("")
		case <-ctx.Done():
			return k.ending(ctx, nil)
		}
		if err != nil {
			return 0, ""
		}
	}
}

// sendReady sends an event, and with it all others that are there by now.
func (k *channels) sendReady(ctx context.Context, event api.Event) error {
	k.socket.Hold()
	err := k.sendEvent(ctx, event)
	for more := true; more && err == nil && !k.socket.Full(); {
		var next api.Event
		select {
		case next, more = <-k.events:
			if more {
				event = next
				err = k.sendEvent(ctx, event)
			}
		default:
			more = false
		}
	}
	if err == nil {
		k.kernel.sent(k, event.Seq)
		err = k.ask()
	}
	return errors.Join(err, k.socket.Release())
}

// stillBusy says again that a cell runs: clients take each status for that of the kernel, also the idle that ends the answer to a
// request beside the cell.
func (k *channels) stillBusy(ctx context.Context) []message {
	if k.running == "" {
		return nil
	}
	return []message{k.busy(k.parentOf(ctx, k.running).head)}
}

// ask asks the client how far it has read, unless enough such questions are open or there is nothing new to ask about.
func (k *channels) ask() error {
	seq, ok := k.kernel.toAsk(k)
	if !ok {
		return nil
	}
	return k.socket.Ping(formatInt(seq))
}

// hear takes the answer to ask.
func (k *channels) hear(data string) {
	seq, err := strconv.ParseInt(data, 10, 64)
	if err != nil || !k.kernel.read(k, seq) {
		return
	}
	select {
	case k.behind <- struct{}{}:
	default:
	}
}

// ending returns what the close frame says after the log has ended with err, or ctx.
func (k *channels) ending(ctx context.Context, err error) (code int, reason string) {
	select {
	case <-k.sess.Deleted():
		return closeNormal, "kernel deleted"
	default:
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errGone):
		return 0, ""
	case errors.Is(cause, errReplaced):
		return closeNormal, "replaced by another connection of the same session_id"
	case errors.Is(err, session.ErrLagging):
		return closeLagging, "lagging; connect again with the same session_id"
	case err != nil && ctx.Err() == nil && !errors.Is(err, session.ErrClosing):
		k.h.Log.Error("follow a session", slog.Any("error", err))
		return closeBroken, "internal error"
	}
	return closeRestart, "the server is restarting, or the token was revoked"
}

// sendEvent sends what an event becomes.
func (k *channels) sendEvent(ctx context.Context, event api.Event) error {
	list := k.translate(ctx, event)
	for i := range list {
		if id := &list[i].header.MsgID; *id == "" {
			*id = kernelwire.MessageID(k.kernel.logID, kernelwire.Position{Seq: event.Seq, Index: i})
		}
	}
	return k.send(list)
}

func (k *channels) send(list []message) error {
	for _, m := range list {
		m.header.Session = k.kernel.session(k.generation)
		m.header.Username, m.header.Version = "kernel", protocolVersion
		if m.header.MsgID == "" {
			m.header.MsgID = newID()
		}
		if m.header.Date == "" {
			m.header.Date = date(time.Now())
		}
		k.noteComms(m)
		data, binary, err := m.encode(k.v1)
		if err != nil {
			return err
		}
		if err := k.socket.Write(binary, data); err != nil {
			return err
		}
	}
	return nil
}

// parentOf returns the request for an execution, or the front end's message, that events name by that id.
func (k *channels) parentOf(ctx context.Context, id string) parent {
	if id == "" {
		return parent{}
	}
	if id != k.parentID {
		p, known := k.kernel.expected(id)
		if !known {
			p = k.otherParent(ctx, id)
		}
		k.parentID, k.parent = id, p
	}
	return k.parent
}

// otherParent is for what came before the server started, or another way: then the header is made from what is known.
func (k *channels) otherParent(ctx context.Context, id string) parent {
	if stored, err := k.sess.Executions().Origin(ctx, id); err == nil && stored != nil {
		var o origin
		if json.Unmarshal(stored, &o) == nil && len(o.Header) > 0 {
			return parent{head: o.Header, client: o.Client}
		}
	}
	made := header{MsgID: id, MsgType: "execute_request", Version: protocolVersion, Date: date(time.Now())}
	if message, ok := session.CutCommMessage(id); ok {
		made.MsgID, made.MsgType = message, "comm_msg"
	}
	head, err := json.Marshal(made)
	if err != nil { // strings always encode
		panic(err)
	}
	return parent{head: head}
}

// origin is what is stored with an execution, so that a later server can answer the request for it.
type origin struct {
	Header api.Raw `json:"header"`
	Client string  `json:"client"`
}
