package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/cgroup"
	"talaria/kernel/python"
)

// Probe finds out whether this machine supports the backend, and leaves nothing behind. It makes a sandbox of an environment, seals
// it, runs a command in it and closes it: what works then works. ctx bounds it.
func (b *Backend) Probe(ctx context.Context, env kernel.Environment) kernel.Probe {
	findings := []kernel.Finding{b.probeSandbox(ctx, env)}
	if !findings[0].OK {
		findings = append(findings, b.tier.Causes()...)
	}
	findings = append(findings, b.confinement.findings()...)
	findings = append(findings, b.probeGroups()...)
	if b.tier.Contained() {
		findings = append(findings, probeTun())
	}
	return kernel.Probe{OK: findings[0].OK, Findings: findings}
}

func (b *Backend) probeSandbox(ctx context.Context, env kernel.Environment) kernel.Finding {
	finding := kernel.Finding{Name: "sandbox"}
	if env.Python == "" {
		finding.Detail = "there is no Python to test one with"
		finding.Remedy = "install Python 3.11 or later (Debian: apt-get install python3), or configure the one to use"
		return finding
	}
	// Kernels need the rest of the library. They come later, so its compilation goes on meanwhile.
	b.keeping.Go(func() {
		if err := b.library.rest.compile(b.ctx, env); err != nil && b.ctx.Err() == nil {
			b.cfg.Log.WarnContext(b.ctx, "the runner is not compiled yet", "err", err)
		}
	})
	trial := env
	trial.Engine = python.EngineScript
	start := time.Now()
	var layers []string
	create := func() (*Sandbox, error) { return b.create(ctx, trial) }
	err := b.withOwnSandbox(ctx, ownMemory, create, func(s *Sandbox, _ string) error {
		layers = s.Layers()
		return run(ctx, s, kernel.Program{Args: []string{env.Python, "-I", "-S", "-c", ""}})
	})
	if err != nil {
		finding.Detail = err.Error()
		finding.Remedy = b.remedy(err)
		return finding
	}
	finding.OK = true
	finding.Detail = fmt.Sprintf("created, sealed and closed in %d ms: %s",
		time.Since(start).Milliseconds(), strings.Join(layers, "; "))
	return finding
}

// remedy says what an operator can do about an error in making a sandbox.
func (b *Backend) remedy(err error) string {
	step := ""
	if inside := (*stepError)(nil); errors.As(err, &inside) {
		step = inside.step
	}
	if remedy := b.tier.Remedy(step, err); remedy != "" {
		return remedy
	}
	switch step {
	case "system call filter":
		return "use a distribution's kernel, which has system call filters; in a container, allow seccomp in its seccomp " +
			"profile"
	case "landlock":
		return "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in the seccomp profile of " +
			"the container"
	}
	return ""
}

// probeTun reports whether network devices can be made, through which a permitted session gets its network.
func probeTun() kernel.Finding {
	const path = "/dev/net/tun"
	finding := kernel.Finding{Name: "network device", OK: true, Detail: path + " can be opened: sessions with a network use devices"}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		finding.OK = false
		finding.Detail = fmt.Sprintf("%s cannot be opened: %v; sessions with a network get proxies instead", path, err)
		finding.Remedy = "load the module: modprobe tun; start a container with --device " + path
		return finding
	}
	_ = unix.Close(fd)
	return finding
}

// probeGroups reports for each limit what would enforce it.
func (b *Backend) probeGroups() []kernel.Finding {
	var findings []kernel.Finding
	for _, limit := range []struct{ controller, name, without string }{
		{cgroup.Memory, "memory limit", "RLIMIT_DATA for each process"},
		{cgroup.PIDs, "process limit", "RLIMIT_NPROC"},
		{cgroup.CPU, "CPU time limit", "nothing"},
	} {
		finding := kernel.Finding{Name: limit.name}
		for _, h := range b.groups.Hierarchies {
			for _, controller := range h.Controllers() {
				if controller == limit.controller {
					finding.OK = true
					finding.Detail = h.Version() + " below " + h.Base()
				}
			}
		}
		if !finding.OK {
			finding.Detail = "no writable control group: limited by " + limit.without
			finding.Remedy = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes …"
		}
		findings = append(findings, finding)
	}
	for _, unusable := range b.groups.Unusable {
		findings = append(findings, kernel.Finding{
			Name:   "control group",
			Detail: fmt.Sprintf("%s cannot be used: %v", unusable.Dir, unusable.Err),
			Remedy: "make the control group writable for this user, or run in a delegated one",
		})
	}
	return findings
}
