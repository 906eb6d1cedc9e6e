package python

import (
	"testing"
	"time"
)

// SetDiscoveryTimeout sets the limit for the length of a test.
func SetDiscoveryTimeout(t *testing.T, limit time.Duration) {
	before := discoveryTimeout
	discoveryTimeout = limit
	t.Cleanup(func() { discoveryTimeout = before })
}
