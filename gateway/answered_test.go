package gateway

import (
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
