package session_test

import (
	"testing"

	"talaria/api"
)

// BenchmarkCell measures one small cell after another, from the submission to the end, over a fake kernel.
func BenchmarkCell(b *testing.B) {
	r := scripted(b, nil)
	s := r.session(api.SessionRequest{})
	code := "result 2"
	for b.Loop() {
		id, err := s.Submit(b.Context(), api.ExecutionRequest{Code: &code}, false)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Wait(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
}
