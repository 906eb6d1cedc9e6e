package host

import (
	"fmt"

	"talaria/kernel/frame"
)

const (
	maxWithdrawn = 50 // withdrawn asks after which a cell may not ask for input again: each makes events

	inputRefused = "no client can answer input(): attach one to the session, or put the value into the code"
	inputBusy    = "another input() of this cell is waiting; answer that one first"
	inputEnded   = "input() was stopped: %s"
	inputOften   = "this cell called input() %d times without waiting for an answer; ask in another cell"
)

// refuseInput says why nobody can be asked, or returns "". The caller holds mu.
func (k *interpreter) refuseInput(f frame.Ask) string {
	switch {
	case f.ID == "" || !k.run.AllowStdin:
		return inputRefused
	case k.run.withdrawn >= maxWithdrawn:
		return fmt.Sprintf(inputOften, k.run.withdrawn)
	}
	return ""
}
