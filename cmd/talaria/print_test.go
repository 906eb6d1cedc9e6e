package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"talaria/api"
)

func TestACellOfATableStaysOnItsLine(t *testing.T) {
	var out strings.Builder
	table := newTable(&out, "NAME", "SIZE")
	table.row("a\nb", "1")
	table.row("txt.\u202eexe", "2")
	table.row("plain é", "3")
	if err := table.flush(); err != nil {
		t.Fatal(err)
	}
	want := "NAME             SIZE\n\"a\\nb\"           1\n\"txt.\\u202eexe\"  2\nplain é          3\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestAnInterruptIsSentUntilTheServerAnswers(t *testing.T) {
	for _, answer := range []error{nil, api.Errorf(api.CodeNotFound, "it has ended")} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			calls := 0
			untilAnswered(t.Context(), &said, "interrupt", func() error {
				if calls++; calls < 5 {
					return errors.New("connection refused")
				}
				return answer
			})
			if calls != 5 || strings.Count(said.String(), "the interrupt has not reached the server") != 1 {
				t.Errorf("%d calls, %q", calls, said.String())
			}
		})
	}
}
