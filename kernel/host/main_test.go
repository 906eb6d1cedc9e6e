package host_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(doomedDir); dir != "" {
		doomedHost(dir)
	}
	goleak.VerifyTestMain(m)
}
