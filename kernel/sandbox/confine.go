package sandbox

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"talaria/kernel"
	"talaria/kernel/procfs"
	"talaria/kernel/seccomp"
)

// The versions of Landlock that sandboxes use. With the first one, no file could move to another folder; of later
// versions, they use what the last one offers.
const (
	minLandlock = 2
	maxLandlock = 7
)

// confinement names the layers in force here, besides the namespaces, that confine processes without privileges.
type confinement struct {
	calls   seccomp.Filter
	limits  seccomp.Filter // in addition, for processes whose resource limits are final
	filters int            // that the server itself, and so everything it starts, runs under
	request confinementRequest
	fence   string // what Landlock is used for
	final   string // the filter of limits in the form that pid 1 takes, and
	unheld  string // the one used if no control group bounds memory
	// landlock is the version, or 0 with the reason why sandboxes do without it.
	landlock   int
	noLandlock error
}

func findConfinement(tier Tier) (confinement, error) {
	self, err := procfs.Read(os.Getpid())
	if err != nil {
		return confinement{}, fmt.Errorf("read the filters of this process: %w", err)
	}
	c := confinement{calls: tier.Calls(), fence: tier.Fence(), limits: seccomp.FinalLimits()}
	c.filters, _ = strconv.Atoi(self.Status["Seccomp_filters"])
	c.landlock, c.noLandlock = landlockVersion()
	if err := tier.Landlock(c.landlock); err != nil && c.noLandlock == nil {
		c.landlock, c.noLandlock = 0, err
	}
	c.request = confinementRequest{Landlock: c.landlock, Calls: base64.StdEncoding.EncodeToString(c.calls.Bytes()),
		Modes: base64.StdEncoding.EncodeToString(tier.Modes().Bytes())}
	c.final = base64.StdEncoding.EncodeToString(c.limits.Bytes())
	c.unheld = base64.StdEncoding.EncodeToString(seccomp.UnheldMemory().Bytes())
	return c, nil
}

// missing returns what is missing for a tier that cannot do without these layers, or nil.
func (c confinement) missing(tier Tier) error {
	switch {
	case tier.Contained():
		return nil
	case c.landlock == 0:
		return fmt.Errorf("tier %s requires Landlock: %w", tier.Name(), c.noLandlock)
	case c.calls.Rules() == 0:
		return fmt.Errorf("tier %s requires a system call filter, which does not exist for %s", tier.Name(), runtime.GOARCH)
	}
	return nil
}

func landlockVersion() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return 0, os.NewSyscallError("landlock_create_ruleset", errno)
	case version < minLandlock:
		return 0, fmt.Errorf("version %d of Landlock would not let any file be moved to another folder", version)
	}
	return min(int(version), maxLandlock), nil
}

// verify checks from outside that a process has a filter of its own. The other layer cannot be seen from there.
func (c confinement) verify(p procfs.Process) error {
	if c.calls.Rules() == 0 {
		return nil
	}
	filters, _ := strconv.Atoi(p.Status["Seccomp_filters"])
	if p.Status["Seccomp"] != strconv.Itoa(unix.SECCOMP_MODE_FILTER) || filters <= c.filters {
		return errors.New("has no system call filter")
	}
	return nil
}

func (c confinement) layers() []string {
	var layers []string
	if rules := c.calls.Rules(); rules > 0 {
		layers = append(layers, fmt.Sprintf("system calls: filter of %d rules", rules+c.limits.Rules()))
	}
	if c.landlock > 0 {
		layers = append(layers, fmt.Sprintf("landlock: ABI %d", c.landlock))
	}
	return layers
}

// findings report which of the layers this machine has.
func (c confinement) findings() []kernel.Finding {
	filter := kernel.Finding{Name: "system call filter", OK: c.calls.Rules() > 0}
	if filter.OK {
		filter.Detail = fmt.Sprintf("%d calls refused, some by their arguments (%d instructions); "+
			"calls of other architectures end the process", c.calls.Rules()+c.limits.Rules(), c.calls.Instructions())
	} else {
		filter.Detail = "not available for " + runtime.GOARCH
		filter.Remedy = "run on amd64 or arm64"
	}
	landlock := kernel.Finding{Name: "landlock", OK: c.landlock > 0}
	switch {
	case landlock.OK:
		landlock.Detail = fmt.Sprintf("ABI %d: %s", c.landlock, c.fence)
	case errors.Is(c.noLandlock, unix.EOPNOTSUPP):
		landlock.Detail = "the kernel has it, but it is switched off"
		landlock.Remedy = "add landlock to the kernel's boot parameter lsm="
	case errors.Is(c.noLandlock, unix.EPERM):
		landlock.Detail = c.noLandlock.Error()
		landlock.Remedy = "allow landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in the seccomp " +
			"profile of the container"
	default:
		landlock.Detail = c.noLandlock.Error()
		landlock.Remedy = "use Linux 5.19 or later, built with CONFIG_SECURITY_LANDLOCK; in a container, allow the " +
			"landlock calls in its seccomp profile"
	}
	return []kernel.Finding{filter, landlock}
}
