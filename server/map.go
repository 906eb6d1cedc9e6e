package server

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"talaria/api"
	"talaria/session"
)

// postMap runs a function or a cell over inputs, by an execution.
func (s *Server) postMap(c *call, sess *session.Session) error {
	answer, err := negotiate(c, formatNDJSON, formatJSON)
	if err != nil {
		return err
	}
	var req api.MapRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	execution, err := session.MapRequest(req)
	if err != nil {
		return err
	}
	id, err := submit(c.command(), sess, execution, false)
	if err != nil {
		return err
	}
	c.Writer.Header().Set("Location", "/v1/sessions/"+url.PathEscape(sess.ID())+"/executions/"+url.PathEscape(id))
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	fold := sess.MapFold(id, req)
	if answer == formatNDJSON {
		return s.stream(ctx, c, answer, mapLines(sess.Journal().ExecutionEvents(ctx, id, 0), fold), nil)
	}
	return answerMap(ctx, c, sess.Journal().ExecutionEvents(ctx, id, 0), fold)
}

// mapLines yields each item as it ends, and in the end the summary, as events that have only their JSON.
func mapLines(events iter.Seq2[api.Event, error], fold *session.MapFold) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		line := func(v any) bool {
			data, err := api.Marshal(v)
			return yield(api.Event{Body: api.RawEvent{JSON: data}}, err) && err == nil
		}
		for event, err := range events {
			var items []api.MapItem
			if err == nil {
				items, err = fold.Add(event)
			}
			if err != nil {
				yield(api.Event{}, err)
				return
			}
			for _, item := range items {
				if !line(item) {
					return
				}
			}
		}
		if fold.Summary().Status.Final() {
			line(fold.Summary())
		}
	}
}

// answerMap answers with all items in the order of the inputs once the map has ended; 202 and those that have ended if the
// server shuts down before.
func answerMap(ctx context.Context, c *call, events iter.Seq2[api.Event, error], fold *session.MapFold) error {
	result := newMapResult(fold.Summary().Items)
	artifacts := map[string]api.Artifact{}
	for event, err := range events {
		if err != nil && ctx.Err() != nil && c.ctx().Err() == nil {
			break
		}
		var items []api.MapItem
		if err == nil {
			items, err = fold.Add(event)
		}
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := result.add(item); err != nil {
				return err
			}
		}
		if err := keepArtifact(artifacts, event); err != nil {
			return err
		}
	}
	summary := fold.Summary()
	status := http.StatusOK
	if !summary.Status.Final() {
		status = http.StatusAccepted
	}
	return c.answer(status, api.MapResult{Items: result.list(artifacts), Summary: summary})
}

// keepArtifact keeps an artifact of the execution: it has the bytes as they were, other than the file.
func keepArtifact(artifacts map[string]api.Artifact, event api.Event) error {
	decoded, err := event.Decoded()
	if a, ok := decoded.Body.(api.ArtifactEvent); ok && err == nil && a.Change != api.Deleted {
		artifacts[a.Path] = a.Artifact
	}
	return err
}

// mapResult collects items up to what fits into an answer.
type mapResult struct {
	items []*api.MapItem // by index
	bytes int
}

func newMapResult(n int) *mapResult { return &mapResult{items: make([]*api.MapItem, n)} }

// itemCost is about what an item takes at least.
const itemCost = 256

func (r *mapResult) add(item api.MapItem) error {
	data, err := api.Marshal(item)
	if err != nil {
		return err
	}
	left := api.MaxAnswer - itemCost*len(r.items)
	if r.bytes+len(data) > left {
		item.Value, item.ValueType, item.Text, item.Error, item.Omitted = nil, "", "", nil, true
		item.Outputs, item.Artifacts = []api.Output{}, []api.Artifact{}
	} else {
		r.bytes += len(data)
	}
	r.items[item.Index] = &item
	return nil
}

// list returns the items, with what is known of their files in the end.
func (r *mapResult) list(artifacts map[string]api.Artifact) []api.MapItem {
	list := []api.MapItem{}
	for _, item := range r.items {
		if item == nil {
			continue
		}
		for i, a := range item.Artifacts {
			if kept, ok := artifacts[a.Path]; ok {
				item.Artifacts[i] = kept
			}
		}
		list = append(list, *item)
	}
	return list
}
