package battery

import (
	"fmt"

	"talaria/api"
)

// sessionShared are attempts of one session on another through what the kernel has in common for both.
var sessionShared = []Check{
	{Name: "sessions/inotify-others", Quick: true, Alone: true, Judge: judgeWatches},
	{Name: "sessions/descriptors-in-flight", Quick: true, Alone: true, Cell: inFlight, Judge: judgeInFlight},
}

// inFlight leaves as many descriptors in flight through sockets as the limit of open ones allows.
const inFlight = `
import array
pairs = [socket.socketpair() for _ in range(16)]
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))]
errors = [attempt(pair[0].sendmsg, [b"x"], rights) for pair in pairs]
say(last=errors[-1])`

// judgeInFlight starts another session, which involves sending a few descriptors.
func judgeInFlight(t *Trial) error {
	if err := saw("last", "ETOOMANYREFS")(t); err != nil {
		return err
	}
	for range 3 { // more than are kept ready
		other, err := t.NewSession(nil)
		if err != nil {
			return err
		}
		if _, err := t.See(other, "say(saw=subprocess.run(['true']).returncode)"); err != nil {
			return err
		}
	}
	return nil
}

const watch = `
import fcntl
fd = libc.inotify_init1(os.O_NONBLOCK)
error = error_name(ctypes.get_errno()) if fd < 0 else "ok"
for path in ("WATCHED", "TEMPORARY", os.path.dirname("WATCHED"), os.path.join("WATCHED", "../..")):
    libc.inotify_add_watch(fd, path.encode(), 0xfff)
own = os.open("/workspace", os.O_RDONLY)
signal.signal(signal.SIGIO, signal.SIG_IGN)
say(error=error, notify=attempt(fcntl.fcntl, own, fcntl.F_NOTIFY, 0x3f))`

const watched = `
try: seen = os.read(fd, 1 << 16)
except OSError: seen = b""
say(payroll=b"payroll" in seen)`

// judgeWatches makes a session watch the directories of another one, which makes files meanwhile. If the machine's
// tree is visible, nothing can be watched at all.
func judgeWatches(t *Trial) error {
	other, err := t.NewSession(nil)
	if err != nil {
		return err
	}
	places, err := t.See(other, `say(workspace="/workspace", tmp="/tmp")`)
	if err != nil {
		return err
	}
	saw, err := t.See(t.Session, watch, "WATCHED", fmt.Sprint(places["workspace"]), "TEMPORARY", fmt.Sprint(places["tmp"]))
	if err != nil {
		return err
	}
	if t.Server.ownFiles {
		if saw["error"] != "EPERM" || saw["notify"] != "EPERM" {
			return fmt.Errorf("inotify_init1 and F_NOTIFY end with %v and %v, want EPERM", saw["error"], saw["notify"])
		}
		return nil
	}
	const makes = `for folder in ("/workspace", "/tmp"): open(folder + "/payroll", "w").close()`
	if e, err := t.RunIn(other, api.ExecutionRequest{Code: new(makes)}); err != nil || e.Status != api.StatusOK {
		return fmt.Errorf("make files: %s %.300s (%w)", e.Status, e.Text, err)
	}
	found, err := t.See(t.Session, watched)
	if err == nil && found["payroll"] != false {
		err = fmt.Errorf("a session sees the names of another's files")
	}
	return err
}
