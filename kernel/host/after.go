package host

import (
	"fmt"

	"talaria/kernel/frame"
)

const (
	maxAfter = 16 // in one cell, refused ones included

	afterBusy    = "other requests for checkpoints are waiting; try again when they have been answered"
	afterEnded   = "the request was stopped: %s"
	afterOften   = "a cell may ask for checkpoints and rollbacks %d times; do the rest in another cell"
	afterOutside = "checkpoints can be asked for only by the cell that runs, and by its threads and tasks"
)

// refuseAfter says why nothing can be asked for that is to be done after the cell, or returns "". The caller holds mu.
func (k *interpreter) refuseAfter(f frame.Ask) string {
	switch {
	case k.noAfter != "":
		return k.noAfter
	case f.ID == "":
		return afterOutside
	case k.run.afters >= maxAfter:
		return fmt.Sprintf(afterOften, maxAfter)
	}
	k.run.afters++
	return ""
}
