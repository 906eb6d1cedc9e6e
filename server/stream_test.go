package server

import (
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"talaria/api"
)

func TestAStreamIsBrokenOffIfTheLogGoesOnWithoutIt(t *testing.T) {
	for _, test := range []struct {
		why    error
		broken bool
	}{
		{api.Errorf(api.CodeEventsExpired, "the log begins at seq 9"), true},
		{api.Errorf(api.CodeSessionNotFound, "the session was deleted"), false},
		{nil, false},
	} {
		events := func(yield func(api.Event, error) bool) {
			if yield(api.Event{Seq: 1, Body: api.KernelReset{Reason: "died", Generation: 2}}, nil) && test.why != nil {
				yield(api.Event{}, test.why)
			}
		}
		s := &Server{log: slog.New(slog.DiscardHandler)}
		engine := gin.New()
		engine.GET("/", func(c *gin.Context) {
			if err := s.stream(c.Request.Context(), &call{Context: c}, formatNDJSON, iter.Seq2[api.Event, error](events), nil); err != nil {
				t.Errorf("%v: %v", test.why, err)
			}
		})
		web := httptest.NewServer(engine)
		answer, err := http.Get(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		web.Close()
		if broken := err != nil; broken != test.broken || !test.broken && !strings.Contains(string(body), `"kernel_reset"`) {
			t.Errorf("%v: the client read %q, %v", test.why, body, err)
		}
	}
}
