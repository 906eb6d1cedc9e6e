package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"

	"talaria/api"
)

const problemType = "application/problem+json"

// problem is the only place that turns an error into what a client sees. Errors other than an [api.Error] are logged
// and reported without detail.
func (s *Server) problem(ctx context.Context, err error, doing string) *api.Error {
	var known *api.Error
	if errors.As(err, &known) {
		return known
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errTooLarge()
	}
	if ctx.Err() == nil {
		s.log.Error("request failed", slog.String("request", doing), slog.Any("error", err))
	}
	return api.Errorf(api.CodeInternal, "the server failed to do this; its log has the details")
}

func errTooLarge() *api.Error {
	return api.Errorf(api.CodePayloadTooLarge, "the body is larger than the limit of %d bytes", api.MaxBody)
}

// fail answers with err, unless the answer has begun.
func (s *Server) fail(c *gin.Context, err error) { s.failAs(c, err, writeProblem) }

// failAs answers with err by refuse, unless the answer has begun.
func (s *Server) failAs(c *gin.Context, err error, refuse func(http.ResponseWriter, *api.Error)) {
	problem := s.problem(c.Request.Context(), err, c.Request.Method+" "+c.FullPath())
	refuseBody(c.Request)
	if !c.Writer.Written() {
		refuse(c.Writer, problem)
	}
}

func writeProblem(w http.ResponseWriter, problem *api.Error) {
	body, err := api.Marshal(problem)
	if err != nil { // strings and a number always encode
		panic(err)
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(problem.Status)
	_, _ = w.Write(body)
}

func (s *Server) noRoute(c *gin.Context) {
	s.fail(c, api.Errorf(api.CodeNotFound, "there is nothing at this path"))
}

func (s *Server) noMethod(c *gin.Context) {
	s.fail(c, api.Errorf(api.CodeMethodNotAllowed, "%s is not allowed here; use %s",
		c.Request.Method, c.Writer.Header().Get("Allow")))
}

// recoverPanic turns a panic into a 500 without detail.
func (s *Server) recoverPanic(c *gin.Context) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			s.log.Error("panic", slog.String("request", c.Request.Method+" "+c.FullPath()),
				slog.Any("error", fmt.Errorf("%v", p)), slog.String("stack", string(debug.Stack())))
			if c.Writer.Written() {
				panic(http.ErrAbortHandler)
			}
			writeProblem(c.Writer, api.Errorf(api.CodeInternal, "the server failed to do this; its log has the details"))
			c.Abort()
		}
	}()
	c.Next()
}
