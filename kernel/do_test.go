package kernel_test

import (
	"errors"
	"testing"

	"talaria/kernel"
	"talaria/kernel/kerneltest"
)

func TestAHostCarriesOutEveryCommand(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}))
	for _, name := range kernel.CommandNames() {
		c, err := kernel.DecodeCommand(name, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.host.Do(t.Context(), r.key, c); errors.Is(err, kernel.ErrUnknownCommand) {
			t.Errorf("%T: %v", c, err)
		}
		other := kernel.Key{Session: "other", Generation: 1}
		if _, err := r.host.Do(t.Context(), other, c); !errors.Is(err, kernel.ErrNoKernel) {
			t.Errorf("%T, for a kernel that does not exist: %v", c, err)
		}
	}
}
