package host

import (
	"context"
	"fmt"
	"net"
	"strings"

	"talaria/kernel"
	"talaria/kernel/command"
	"talaria/kernel/network"
	"talaria/kernel/record"
)

// wantsNetwork reports whether anything may be reached.
func wantsNetwork(n kernel.Network) bool { return n.Mode != "" && n.Mode != string(network.None) }

func policyOf(n kernel.Network) (network.Policy, error) {
	rules, err := network.ParseRules(n.Allow)
	if err != nil {
		return network.Policy{}, err
	}
	hosts, err := network.ParseHosts(n.Hosts)
	return network.Policy{Mode: network.Mode(n.Mode), Rules: rules, Hosts: hosts}, err
}

// resolverOf returns a resolver that uses the session's own name server. It is nil if the session has none.
func resolverOf(n kernel.Network) *net.Resolver {
	if n.NameServer == "" {
		return nil
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, kind, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, kind, n.NameServer)
	}}
}

// connect gives a sealed sandbox its egress, if it is to have one, and returns the variables that the runner needs.
func (k *interpreter) connect(ctx context.Context, wanted kernel.Network) (env map[string]string, err error) {
	if !wantsNetwork(wanted) {
		return nil, nil
	}
	policy, err := policyOf(wanted)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	exiter, ok := k.sandbox.(kernel.Networker)
	if !ok {
		return nil, fmt.Errorf("network: tier %s cannot provide one", k.cfg.Backend.Name())
	}
	exit, err := exiter.OpenEgress(ctx)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	way := network.New(network.Config{
		Policy: policy, MaxConnections: wanted.MaxConnections, MaxBytes: wanted.MaxBytes, Resolver: resolverOf(wanted),
		Denied: func(d network.Denial) { k.tell("[" + d.String() + "]") },
		Log:    k.log,
	})
	how := "through a device, held outside the sandbox"
	if exit.Device != nil {
		err = way.AttachDevice(exit.Device)
	} else {
		how = "through proxies, held outside the sandbox, since no device can be created (" + exit.Why + ")"
		err = way.AttachProxies(exit.HTTP, exit.SOCKS)
	}
	if err != nil {
		way.Close()
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase >= leaving {
		go way.Close()
		return nil, command.ErrNoKernel
	}
	k.way, k.wayMode, k.wayHow = way, wanted.Mode, how
	return exit.Env, nil
}

// changeNetwork changes what may be reached. The change is in force when it returns, for open connections too.
func (k *interpreter) changeNetwork(ctx context.Context, wanted kernel.Network) ([]string, error) {
	if k.usable() == nil {
		return nil, command.ErrNoKernel
	}
	policy, err := policyOf(wanted)
	if err != nil {
		return nil, fmt.Errorf("change network: %w", err)
	}
	k.wayChanging <- struct{}{}
	defer func() { <-k.wayChanging }()
	k.mu.Lock()
	way := k.way
	k.mu.Unlock()
	if way == nil && wantsNetwork(wanted) {
		env, err := k.connect(ctx, wanted)
		if err != nil {
			return nil, err
		}
		if len(env) > 0 { // the programs already running do not have them
			k.disconnect()
			return nil, fmt.Errorf("change network: %w", kernel.ErrNeedsReset)
		}
	} else if way != nil {
		way.SetPolicy(policy)
		k.mu.Lock()
		k.wayMode = wanted.Mode
		k.mu.Unlock()
	}
	return k.layers(), nil
}

// disconnect removes the egress, if there is one.
func (k *interpreter) disconnect() {
	k.mu.Lock()
	way := k.way
	k.way = nil
	k.mu.Unlock()
	if way != nil {
		way.Close()
	}
}

// layers lists the layers of the sandbox, and what its network lets through.
func (k *interpreter) layers() []string {
	layers := k.sandbox.Layers()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.way == nil || k.wayMode == "" || k.wayMode == string(network.None) {
		return layers
	}
	for i, l := range layers {
		if strings.HasPrefix(l, "network:") {
			layers[i] = "network: " + k.wayMode + ", " + k.wayHow
		}
	}
	return layers
}

// ChangeNetwork changes what a living kernel may reach and returns the layers then in force. The error wraps
// ErrNeedsReset if only a fresh kernel can have that network.
func (h *Host) ChangeNetwork(ctx context.Context, key record.Key, n kernel.Network) (layers []string, err error) {
	k := h.kernel(key)
	if k == nil {
		return nil, command.ErrNoKernel
	}
	return k.changeNetwork(ctx, n)
}
