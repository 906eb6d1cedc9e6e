package server

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"talaria/api"
)

// cancelWait is how long the answer to the cancellation of a batch waits for the cells that run.
const cancelWait = 5 * time.Second

// withBatches is a handler of a server that runs batches.
func (s *Server) withBatches(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if s.batches == nil {
			return api.Errorf(api.CodeNotImplemented, "this server does not run batches")
		}
		return handle(c)
	}
}

func (s *Server) postBatch(c *call) error {
	var req api.BatchRequest
	if err := readJSON(c, &req, false); err != nil {
		return err
	}
	made, err := s.batches.Create(c.command(), c.owner, req)
	if err != nil {
		return err
	}
	c.Header("Location", "/v1/batch/"+url.PathEscape(made.ID))
	return c.answer(http.StatusAccepted, made)
}

func (s *Server) listBatches(c *call) error {
	page, err := c.page()
	if err != nil {
		return err
	}
	list, err := s.batches.List(c.ctx(), c.owner, page)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, list)
}

func (s *Server) getBatch(c *call) error {
	found, err := s.batches.Get(c.ctx(), c.owner, c.param("bid"))
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, found)
}

// cancelBatch answers 200 if the batch has ended, and 202 if cells still run.
func (s *Server) cancelBatch(c *call) error {
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, cancelWait)
	defer stop()
	found, err := s.batches.Cancel(ctx, c.owner, c.param("bid"))
	if err != nil {
		return err
	}
	if !found.Status.Final() {
		return c.answer(http.StatusAccepted, found)
	}
	return c.answer(http.StatusOK, found)
}

func (s *Server) getBatchEvents(c *call) error {
	answer, err := negotiate(c, formatSSE, formatNDJSON)
	if err != nil {
		return err
	}
	follow, err := c.flag("follow", true)
	if err != nil {
		return err
	}
	after, _, err := c.after()
	if err != nil {
		return err
	}
	ctx, cancel := s.untilDrain(c.ctx())
	defer cancel()
	events, err := s.batches.Events(ctx, c.owner, c.param("bid"), after, follow)
	if err != nil {
		return err
	}
	return s.stream(ctx, c, answer, encoded(events), nil)
}

// encoded makes of a batch's events those that streams write.
func encoded(events iter.Seq2[api.BatchEvent, error]) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		for event, err := range events {
			var line []byte
			if err == nil {
				line, err = api.Marshal(event)
			}
			if !yield(api.Event{Seq: event.Seq, Time: event.Time, Body: api.RawEvent{Type: event.Type, JSON: line}}, err) {
				return
			}
		}
	}
}
