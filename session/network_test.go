package session_test

import (
	"strings"
	"testing"

	"talaria/api"
	"talaria/session"
)

func TestARefusedNetworkNamesTheModeThatIsInForce(t *testing.T) {
	for mode, want := range map[api.NetworkMode]string{
		"": `network.max_mode is "none"`, api.NetworkAllow: `network.max_mode is "allow"`, api.NetworkFull: `network.max_mode is "full"`,
	} {
		r := scripted(t, func(c *session.Config) { c.Network.MaxMode = mode })
		_, err := r.Create(t.Context(), "ann", api.SessionRequest{Network: &api.Network{Mode: api.NetworkAllow, Allow: []string{"10.0.0.1:80"}}})
		if code(err) != api.CodeLimitExceeded || !strings.Contains(err.Error(), want) {
			t.Errorf("max_mode %q: %v, want %s", mode, err, want)
		}
	}
}
