package e2b

import (
	"context"
	"iter"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
	"talaria/server/transfer"
)

func TestASilentExecutionKeepsItsConnectionAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := httptest.NewRecorder()
		events := func(context.Context) iter.Seq2[api.Event, error] {
			return func(yield func(api.Event, error) bool) {
				text := api.Event{Body: api.Stream{Name: "stdout", Text: "x"}}
				time.Sleep(4 * time.Second) // no line for so short a time
				if !yield(text, nil) {
					return
				}
				time.Sleep(11 * time.Second)
				if !yield(text, nil) {
					return
				}
				yield(api.Event{Body: api.ExecutionFinished{Execution: api.Execution{Status: api.StatusOK}}}, nil)
			}
		}
		if err := relay(t.Context(), transfer.NewStream(answer, time.Minute), events); err != nil {
			t.Fatal(err)
		}
		const text, alive = `{"text":"x","timestamp":"0001-01-01T00:00:00.000Z","type":"stdout"}` + "\n", `{"type":"keepalive"}` + "\n"
		if got, want := answer.Body.String(), text+alive+alive+text+`{"type":"end_of_execution"}`+"\n"; got != want {
			t.Errorf("the lines are\n%s, want\n%s", got, want)
		}
	})
}
