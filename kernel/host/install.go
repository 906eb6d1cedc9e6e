package host

import (
	"fmt"
	"time"

	"talaria/kernel/frame"
	"talaria/kernel/record"
)

// A kernel may ask for installBurst installations at once, and for one more every installPause.
const (
	installBurst = 50
	installPause = time.Second
)

// noInstallsVariable tells the runner why packages cannot be installed. The runner removes it from the environment.
const noInstallsVariable = "TALARIA_INTERNAL_NO_INSTALLS"

const (
	maxRequirements = 32 << 10 // bytes of all requirements of one request

	installBusy  = "another installation of this session is running; try again when it has finished"
	installEnded = "the installation was stopped: %s"
	installLarge = "the requirements take %d bytes, more than the limit of %d; install fewer at a time"
	installSoon  = "this kernel asked for more than %d installations in a short time; try again in a few seconds, and name " +
		"all packages in one request"
)

// refuseInstall says why packages cannot be changed now, or returns "". The caller holds mu.
func (k *interpreter) refuseInstall(f frame.Ask) string {
	if k.noInstalls != "" {
		return k.noInstalls
	}
	size := 0
	for _, r := range f.Body.(record.PackageChange).Requirements {
		size += len(r)
	}
	switch {
	case size > maxRequirements:
		return fmt.Sprintf(installLarge, size, maxRequirements)
	case !k.paceInstall(time.Now()):
		return fmt.Sprintf(installSoon, installBurst)
	}
	return ""
}

// paceInstall reports whether the kernel may ask for an installation now, and counts the request. The caller holds mu.
func (k *interpreter) paceInstall(now time.Time) bool {
	if k.installsPaid.Before(now) {
		k.installsPaid = now
	}
	if k.installsPaid.Sub(now) > (installBurst-1)*installPause {
		return false
	}
	k.installsPaid = k.installsPaid.Add(installPause)
	return true
}
