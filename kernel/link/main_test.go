package link_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable makes a process of this test binary a host or a server.
const roleVariable = "TALARIA_LINK_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "host":
		exit(runHost(os.Args[1]))
	case "server":
		exit(runServer(os.Args[1], os.Args[2]))
	default:
		exit(fmt.Errorf("role %q", role))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
