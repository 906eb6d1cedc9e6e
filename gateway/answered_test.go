package gateway

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"talaria/api"
)

func TestAKernelThatIsBusyIsAskedAgainForAWhile(t *testing.T) {
	for _, test := range []struct {
		busy int // answers that say so
		code api.Code
		took time.Duration
	}{{0, "", 0}, {2, "", 2 * triesPause}, {100, api.CodeKernelBusy, (mostTries - 1) * triesPause}} {
		synctest.Test(t, func(t *testing.T) {
			begin, asked := time.Now(), 0
			reply, err := answered(t.Context(), func() (string, error) {
				if asked++; asked <= test.busy {
					return "", api.Errorf(api.CodeKernelBusy, "the kernel did not answer within 200 ms")
				}
				return "variables", nil
			})
			code := api.Code("")
			if refused := refusal(err); refused != nil {
				code = refused.Code
			}
			if code != test.code || (code == "") != (reply == "variables") || time.Since(begin) != test.took {
				t.Errorf("after %d busy answers: %q, %v, in %v", test.busy, reply, err, time.Since(begin))
			}
		})
	}
}

// A chat handles one update after another: one that is tried again for ever would hold up all that follow.
func TestOnlyErrorsThatMayPassAreTriedAgain(t *testing.T) {
	for code, want := range map[api.Code]bool{
		"": true, api.CodeInternal: true, api.CodeShuttingDown: true, api.CodeNotReady: true, api.CodeUnauthorized: true,
		api.CodeDiskLimit: false, api.CodeDiskFull: false, api.CodeNotImplemented: false, api.CodeKernelStart: false,
		api.CodeQueueFull: false, api.CodeKernelBusy: false, api.CodeSessionNotFound: false,
	} {
		err := fmt.Errorf("upload a file: %w", &api.Error{Status: code.Status(), Code: code, Detail: "why"})
		if again := refusal(err) == nil; again != want {
			t.Errorf("%q is tried again: %t, want %t", code, again, want)
		}
	}
	if refusal(errors.New("connection refused")) != nil {
		t.Error("an error of the connection is taken for a refusal")
	}
}
