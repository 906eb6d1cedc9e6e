package kernel

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a change of packages.
const (
	MaxRequirements   = 200
	MaxRequirementLen = 1 << 10  // bytes
	maxRequirements   = 32 << 10 // bytes of all requirements of one request
)

// A kernel may ask for installBurst installations at once, and for one more each installPause.
const (
	installBurst = 50
	installPause = time.Second
)

// ErrNoInstallPending tells that no change of packages with that request id is open.
var ErrNoInstallPending = errors.New("no installation is pending")

// noInstallsVariable tells the runner why packages cannot be installed. It takes it from the environment.
const noInstallsVariable = "TALARIA_INTERNAL_NO_INSTALLS"

const (
	installBusy  = "another installation of this session is under way; try again when it has ended"
	installEnded = "the installation was ended: %s"
	installLarge = "the requirements take %d bytes and %d is the most; install fewer at a time"
	installSoon  = "this kernel asked for more than %d installations in a short time; try again in a few seconds, and name " +
		"all packages in one request"
)

// PackageChange is what is to become of a session's packages. The requirements are as their user wrote them: 1 to
// MaxRequirements texts of up to MaxRequirementLen bytes, and nothing more is known of them.
type PackageChange struct {
	Remove       bool
	Requirements []string
	Upgrade      bool
	Reinstall    bool
	NoDeps       bool
	Pre          bool
	Quiet        bool
}

// Kind implements [AskBody].
func (PackageChange) Kind() AskKind { return AskInstall }

// InstallResult is how a change of packages ended.
type InstallResult struct {
	Error    string    `json:"error,omitzero"` // for its user, in one or more lines; "" is that it is done
	Packages []Package `json:"packages"`       // that are new or changed, or gone
}

// Package is one distribution. A Version of "" is that it is gone.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// installAnswer is the body of the answer.
type installAnswer struct {
	Packages []Package `json:"packages"`
}

func (r InstallResult) answer() answerOut {
	if r.Error != "" {
		return answerOut{Error: r.Error}
	}
	return answerOut{Body: installAnswer{append([]Package{}, r.Packages...)}}
}

func decodeInstall(f *fields) AskBody {
	return PackageChange{
		Requirements: f.requirements("requirements"),
		Remove:       f.flag("remove"), Upgrade: f.flag("upgrade"), Reinstall: f.flag("reinstall"), NoDeps: f.flag("no_deps"),
		Pre: f.flag("pre"), Quiet: f.flag("quiet"),
	}
}

// requirements is an array of texts, not empty.
func (f *fields) requirements(name string) (list []string) {
	f.each(name, func(value jsontext.Value) {
		text := f.unquote(name, value, nil)
		if len(text) == 0 || len(text) > MaxRequirementLen || len(list) == MaxRequirements {
			f.fail(name, "too many, or one that is empty or too long")
			return
		}
		list = append(list, string(text))
	})
	if len(list) == 0 {
		f.fail(name, "none")
	}
	return list
}

// refuseInstall tells why packages cannot be changed now. The caller holds mu.
func (k *interpreter) refuseInstall(f askFrame) string {
	if k.noInstalls != "" {
		return k.noInstalls
	}
	size := 0
	for _, r := range f.body.(PackageChange).Requirements {
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

// paceInstall reports whether the kernel may ask for an installation now, and counts it. The caller holds mu.
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
