package hermes

import (
	"slices"
	"strings"
)

// The variables of a client that describe its machine, its user or its Python. The sandbox has its own. All others were chosen by the
// agent, which removes its secrets before it sends them.
var (
	hostNames = []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "TMP", "TEMP", "MAIL", "HOSTNAME",
		"VIRTUAL_ENV", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BASH_ENV", "ENV", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET",
		// Descriptors and files of the client's side.
		"HERMES_KERNEL_PARENT_DEATH_FD", "HERMES_KERNEL_PARENT_PROCESS_HANDLE", "HERMES_KERNEL_SPILL_DIR", "HERMES_BROKER_FDS",
		rpcVariable, toolsVariable,
	}
	hostPrefixes = []string{"LD_", "PYTHON", "CONDA", "XDG_", "SSH_", "DBUS_", "SYSTEMD_", "TALARIA_", "GIO_", "SUDO_"}
	// ownPython are the settings of Python that mean the same everywhere.
	ownPython = []string{"PYTHONIOENCODING", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONWARNINGS"}
)

// The variables that name what belongs to a kernel on the client's side, and that are replaced.
const (
	rpcVariable   = "HERMES_RPC_SOCKET"
	toolsVariable = "HERMES_KERNEL_TOOLS_PATH"
)

// inside returns the variables of a client that a program inside gets.
func inside(env map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range env {
		if passes(name) {
			kept[name] = value
		}
	}
	return kept
}

func passes(name string) bool {
	switch {
	case slices.Contains(ownPython, name):
		return true
	case slices.Contains(hostNames, name):
		return false
	case strings.HasSuffix(strings.ToLower(name), "_proxy"): // a sandbox with a network may have its own
		return false
	}
	return !slices.ContainsFunc(hostPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
