package python

import (
	"context"
	"sync"

	"talaria/kernel"
)

// maxDiscoveries bounds how many environments are discovered at a time, as each of them starts interpreters.
const maxDiscoveries = 4

// Discovery is what [DiscoverEnvironment] returned for one configuration.
type Discovery struct {
	Environment kernel.Environment
	Findings    []kernel.Finding
	Err         error
}

// DiscoverEnvironments discovers all of the configured environments, several at a time, and returns one discovery for
// each of them in their order. ctx bounds it.
func DiscoverEnvironments(ctx context.Context, list []EnvironmentConfig) []Discovery {
	found := make([]Discovery, len(list))
	slots := make(chan struct{}, maxDiscoveries)
	var discoveries sync.WaitGroup
	for i, cfg := range list {
		slots <- struct{}{}
		discoveries.Go(func() {
			defer func() { <-slots }()
			d := &found[i]
			d.Environment, d.Findings, d.Err = DiscoverEnvironment(ctx, cfg)
		})
	}
	discoveries.Wait()
	return found
}
