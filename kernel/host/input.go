package host

import (
	"fmt"

	"talaria/kernel/frame"
)

const (
	maxWithdrawn = 50 // asks of one cell, after which it may not ask for input: each makes events

	inputRefused = "nobody is there to answer input(): attach a client to the session, or put the value into the code"
	inputBusy    = "another question of this cell is open; answer that first"
	inputEnded   = "input() was ended: %s"
	inputOften   = "this cell asked and did not wait for the answer %d times; ask in another cell"
)

// refuseInput tells why nobody can be asked. The caller holds mu.
func (k *interpreter) refuseInput(f frame.Ask) string {
	switch {
	case f.ID == "" || !k.run.AllowStdin:
		return inputRefused
	case k.run.withdrawn >= maxWithdrawn:
		return fmt.Sprintf(inputOften, k.run.withdrawn)
	}
	return ""
}
