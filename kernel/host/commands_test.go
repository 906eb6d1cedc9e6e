package host_test

import (
	"errors"
	"testing"

	"talaria/kernel/command"
	"talaria/kernel/kerneltest"
	"talaria/kernel/record"
)

func TestAHostCarriesOutEveryCommand(t *testing.T) {
	r := newRig(t, kerneltest.Cells(func(*kerneltest.Cell) {}))
	for _, name := range command.Names() {
		c, err := command.Decode(name, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.host.Do(t.Context(), r.key, c); errors.Is(err, command.ErrUnknown) {
			t.Errorf("%T: %v", c, err)
		}
		other := record.Key{Session: "other", Generation: 1}
		if _, err := r.host.Do(t.Context(), other, c); !errors.Is(err, command.ErrNoKernel) {
			t.Errorf("%T, for a kernel that does not exist: %v", c, err)
		}
	}
}
