package server

import (
	"fmt"
	"log/slog"
	"net/http"

	"talaria/api"
)

// health is the answer of /healthz and /readyz.
type health struct {
	Status  string `json:"status"`
	Version string `json:"version,omitzero"` // in /healthz
}

func (s *Server) getHealth(c *call) error {
	return c.answer(http.StatusOK, health{Status: "ok", Version: s.version})
}

// getReady answers 200 once sessions can be made.
func (s *Server) getReady(c *call) error {
	select {
	case <-s.draining:
		return api.Errorf(api.CodeShuttingDown, "the server is shutting down")
	default:
	}
	if err := s.sessions.Ready(c.ctx()); err != nil {
		s.log.Debug("not ready", slog.Any("error", err))
		return api.Errorf(api.CodeNotReady, "no session can be created now; talaria doctor says why")
	}
	return c.answer(http.StatusOK, health{Status: "ready"})
}

func (s *Server) getStats(c *call) error {
	if err := operator(c); err != nil {
		return err
	}
	return c.answer(http.StatusOK, s.sessions.Stats(c.ctx()))
}

func (s *Server) getMetrics(c *call) error {
	if err := operator(c); err != nil {
		return err
	}
	s.metrics.handler.ServeHTTP(c.Writer, c.Request)
	return nil
}

func (s *Server) getOpenAPI(c *call) error {
	document, err := s.openapi()
	if err != nil {
		return fmt.Errorf("describe the API: %w", err)
	}
	c.Data(http.StatusOK, "application/json", document)
	return nil
}
