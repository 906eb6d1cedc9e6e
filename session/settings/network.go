package settings

import (
	"cmp"
	"errors"
	"slices"

	"talaria/api"
	"talaria/kernel"
	"talaria/kernel/network"
)

// NetworkBounds are what an operator lets sessions reach.
type NetworkBounds struct {
	MaxMode        api.NetworkMode // the most that a session may ask for; "" means none
	Allowed        []string        // what may be listed in mode allow; with MaxMode full in addition to the public network
	HostPorts      []int           // of this machine, which may be listed as host:PORT
	NameServer     string          // HOST:PORT; "": as this machine resolves names
	MaxConnections int             // of a session at a time; 0: the host's default
	MaxBytes       int64           // in both directions over the life of a kernel; 0: any number
}

// Check reports what is wrong with the bounds.
func (b NetworkBounds) Check() error {
	switch b.MaxMode {
	case "", api.NetworkNone, api.NetworkAllow, api.NetworkFull:
	default:
		return api.Invalid("network.max_mode must be %q, %q or %q", api.NetworkNone, api.NetworkAllow, api.NetworkFull)
	}
	if b.MaxConnections < 0 || b.MaxBytes < 0 {
		return errors.New("network.max_connections and network.max_bytes cannot be negative")
	}
	return b.bounds().Check()
}

func (b NetworkBounds) bounds() network.Bounds {
	return network.Bounds{MaxMode: network.Mode(b.MaxMode), Allowed: b.Allowed, HostPorts: b.HostPorts}
}

// CheckNetwork validates what a session asks to reach.
func (o *Operator) CheckNetwork(asked api.Network, into *api.Network) error {
	asked.Allow = slices.Clone(asked.Allow)
	switch asked.Mode {
	case "", api.NetworkNone:
		asked.Mode = api.NetworkNone
		if len(asked.Allow) > 0 {
			return api.Invalid("network.allow has entries, but network.mode is %q; set it to %q", api.NetworkNone, api.NetworkAllow)
		}
	case api.NetworkAllow, api.NetworkFull:
	default:
		return api.Invalid("network.mode must be %q, %q or %q", api.NetworkNone, api.NetworkAllow, api.NetworkFull)
	}
	if _, err := network.ParseRules(asked.Allow); err != nil {
		return api.Invalid("network.allow: %v", err)
	}
	if err := o.PermitNetwork(asked); err != nil {
		return err
	}
	*into = asked
	return nil
}

// PermitNetwork refuses what exceeds the operator's bounds.
func (o *Operator) PermitNetwork(n api.Network) error {
	if n.Mode == api.NetworkNone {
		return nil
	}
	if o.NoNetwork != "" {
		return api.Errorf(api.CodeLimitExceeded, "network.mode %q: %s", n.Mode, o.NoNetwork)
	}
	b := o.Network
	what, err := b.bounds().Refuses(network.Mode(n.Mode), n.Allow)
	if err != nil {
		return err
	}
	if what != "" {
		return api.Errorf(api.CodeLimitExceeded,
			"%.200q is more than the operator lets sessions reach (network.max_mode is %q, network.allowed has %d entries, network.host_ports %d)",
			what, cmp.Or(b.MaxMode, api.NetworkNone), len(b.Allowed), len(b.HostPorts))
	}
	return nil
}

// KernelNetwork returns a network as kernels have it.
func (o *Operator) KernelNetwork(n api.Network) kernel.Network {
	b := o.Network
	return kernel.Network{
		Mode: string(n.Mode), Allow: n.Allow, MaxConnections: b.MaxConnections, MaxBytes: b.MaxBytes, NameServer: b.NameServer,
	}
}

// SameNetwork reports whether two networks reach the same.
func SameNetwork(a, b api.Network) bool { return a.Mode == b.Mode && slices.Equal(a.Allow, b.Allow) }
