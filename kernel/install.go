package kernel

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a change of packages, and of what is said about it.
const (
	MaxRequirements   = 200
	MaxRequirementLen = 1 << 10  // bytes
	maxRequirements   = 32 << 10 // bytes of all requirements of one request
	maxInstallText    = 64 << 10 // in one frame
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
	installLate  = "the cell that asked for it has ended"
	installEnded = "the installation was ended: %s"
	installLarge = "the requirements take %d bytes and %d is the most; install fewer at a time"
	installSoon  = "this kernel asked for more than %d installations in a short time; try again in a few seconds, and name " +
		"all packages in one request"
)

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

// The frames about a change of packages. An installEndFrame withdraws it.
type (
	installFrame struct {
		id      string // of the execution, or ""
		request InstallRequest
	}
	installEndFrame struct{ requestID string }
)

func (installFrame) frame()    {}
func (installEndFrame) frame() {}

type (
	installOutputOut struct {
		Type      string `json:"type"`
		RequestID string `json:"request_id"`
		Text      string `json:"text"`
	}
	installedOut struct {
		Type      string    `json:"type"`
		RequestID string    `json:"request_id"`
		Error     string    `json:"error"`
		Packages  []Package `json:"packages"`
	}
)

// installation is one that is open. It is under the lock of its interpreter.
type installation struct {
	requestID string
	execution string // that asked, or ""
}

// decodeInstall decodes the rest of an install frame.
func decodeInstall(f *fields) installFrame {
	in := installFrame{id: f.optionalName("id"), request: InstallRequest{
		RequestID: f.matching("request_id", hexPattern.MatchString),
		Change: PackageChange{
			Remove: f.flag("remove"), Upgrade: f.flag("upgrade"), Reinstall: f.flag("reinstall"), NoDeps: f.flag("no_deps"),
			Pre: f.flag("pre"), Quiet: f.flag("quiet"),
		},
	}}
	in.request.Change.Requirements = f.requirements("requirements")
	return in
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

// showInstall is the command [InstallOutput].
func (k *interpreter) showInstall(requestID, text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.installs(requestID); err != nil {
		return err
	}
	for text = strings.ToValidUTF8(text, "\uFFFD"); text != ""; {
		piece := truncate(text, maxInstallText)
		if err := k.frames.send(installOutputOut{"install_output", requestID, piece}); err != nil {
			return err
		}
		text = text[len(piece):]
	}
	return nil
}

// answerInstall is the command [AnswerInstall].
func (k *interpreter) answerInstall(requestID string, r InstallResult) error {
	defer k.records.flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.installs(requestID); err != nil {
		return err
	}
	err := k.endInstall("answered", r)
	k.tellClock()
	return err
}

// installs is nil where that request is open. The caller holds mu.
func (k *interpreter) installs(requestID string) error {
	switch {
	case k.phase != serving:
		return ErrNoKernel
	case k.install == nil || k.install.requestID != requestID:
		return ErrNoInstallPending
	}
	return nil
}

// askInstall opens a request for a change of packages. There is one at a time. The caller holds mu.
func (k *interpreter) askInstall(f installFrame) error {
	id := f.request.RequestID
	switch {
	case k.phase != serving:
		return errUnexpected
	case k.noInstalls != "":
		return k.refuseInstall(id, k.noInstalls)
	case k.install != nil && k.install.requestID == id:
		return errUnexpected
	case k.install != nil:
		return k.refuseInstall(id, installBusy)
	case f.id != "" && !k.runs(f.id):
		return k.refuseInstall(id, installLate)
	}
	if size := f.request.Change.size(); size > maxRequirements {
		return k.refuseInstall(id, fmt.Sprintf(installLarge, size, maxRequirements))
	}
	if !k.paceInstall(time.Now()) {
		return k.refuseInstall(id, fmt.Sprintf(installSoon, installBurst))
	}
	if f.id != "" {
		k.settle((*tap).release)
	}
	k.install = &installation{requestID: id, execution: f.id}
	k.tellClock()
	k.records.add(f.id, f.request)
	return nil
}

func (c PackageChange) size() (bytes int) {
	for _, r := range c.Requirements {
		bytes += len(r)
	}
	return bytes
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

func (k *interpreter) refuseInstall(requestID, why string) error {
	return k.frames.send(installedOut{"installed", requestID, why, []Package{}})
}

// withdrawInstall closes the request whose asker is gone. The caller holds mu.
func (k *interpreter) withdrawInstall(f installEndFrame) error {
	if k.install == nil || k.install.requestID != f.requestID {
		return errUnexpected // it was closed already
	}
	k.dropInstall("interrupted")
	k.tellClock()
	return nil
}

// closeInstallOf closes the request of the execution that runs, if it has one open. The caller holds mu.
func (k *interpreter) closeInstallOf(run *running, how string) {
	if k.install != nil && k.install.execution == run.ID {
		k.dropInstall(how)
	}
}

// dropInstall closes the request without an answer of the installer. The caller holds mu.
func (k *interpreter) dropInstall(how string) {
	if err := k.endInstall(how, InstallResult{Error: fmt.Sprintf(installEnded, how)}); err != nil {
		k.log.Debug("tell of an installation that ended", "error", err)
	}
}

// endInstall tells how the open request ended, and closes it. The caller holds mu.
func (k *interpreter) endInstall(how string, r InstallResult) error {
	open := k.install
	k.install = nil
	k.records.add(open.execution, InstallClosed{RequestID: open.requestID, How: how})
	if r.Packages == nil {
		r.Packages = []Package{}
	}
	return k.frames.send(installedOut{"installed", open.requestID, r.Error, r.Packages})
}
