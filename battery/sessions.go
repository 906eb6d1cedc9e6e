package battery

import (
	"fmt"
	"slices"
	"strings"

	"talaria/api"
)

// crossSession are attempts of one session on another.
var crossSession = []Check{
	apart("sessions/tmp", `open("/tmp/shared", "w").write("x"); say(saw="made")`,
		`say(saw=os.path.exists("/tmp/shared"))`, "false"),
	apart("sessions/shm", `open("/dev/shm/shared", "w").write("x"); say(saw="made")`,
		`say(saw=entries("/dev/shm"))`, "[]"),
	apart("sessions/home", `open(os.path.expanduser("~/shared"), "w").write("x"); say(saw="made")`,
		`say(saw=os.path.exists(os.path.expanduser("~/shared")))`, "false"),
	apart("sessions/workspace", `open("shared", "w").write("x"); say(saw="made")`, `
say(saw=[p for top in entries("/") if top not in ("proc", "usr", "lib", "bin", "sbin") for p, _, files in os.walk("/" + top) if "shared" in files])`, "[]"),
	apart("sessions/abstract-socket", `s = socket.socket(socket.AF_UNIX); s.bind("\0shared"); s.listen(); say(saw="made")`,
		`say(saw=attempt(socket.socket(socket.AF_UNIX).connect, "\0shared"))`, "ECONNREFUSED", "EPERM"),
	apart("sessions/sysv-memory", `say(saw=["failed", "made"][libc.shmget(4711, 4096, 0o1666) >= 0])`,
		`say(saw=libc.shmget(4711, 4096, 0) < 0)`, "true"),
	apart("sessions/sysv-semaphores", `say(saw=["failed", "made"][libc.semget(4711, 1, 0o1666) >= 0])`,
		`say(saw=libc.semget(4711, 1, 0) < 0)`, "true"),
	apart("sessions/sysv-messages", `say(saw=["failed", "made"][libc.msgget(4711, 0o1666) >= 0])`,
		`say(saw=libc.msgget(4711, 0) < 0)`, "true"),
	apart("sessions/loopback", `s = socket.create_server(("127.0.0.1", 4711)); say(saw="made")`,
		`say(saw=attempt(socket.create_connection, ("127.0.0.1", 4711), 5))`, "ECONNREFUSED", "EAFNOSUPPORT"),
	apart("sessions/processes", `child = subprocess.Popen(["sleep", "4711"]); say(saw="made")`,
		`say(saw=[p for p in entries("/proc") if p.isdigit() and b"4711" in read(f"/proc/{p}/cmdline")])`, "[]"),
	apart("sessions/kill-everyone", `child = subprocess.Popen(["sleep", "4711"]); say(saw="made")`,
		`attempt(os.kill, -1, signal.SIGKILL); say(saw="killed")`, "killed"),
	// Threads of the session's other processes can be signalled too, and only the folder of each process lists them. After a
	// rollback, the interpreter that waits as the undo checkpoint may keep its reading thread for any time.
	alone(asks("sessions/signal-others", `(lambda known: [p for p in {*range(1, 1000), *range(max(1, os.getpid() - 30_000),
    os.getpid() + 5_000)} if str(p) not in known and attempt(os.kill, p, 0) == "ok"])(
    [*os.listdir("/proc/self/task"), *(task for p in entries("/proc") if p.isdigit() for task in (p, *entries(f"/proc/{p}/task")))])`, "[]")),
	apart("sessions/host-name", `say(saw=["failed", "made"][bool(socket.gethostname())])`,
		`say(saw=attempt(open, "/etc/hostname", "a"))`, "EROFS", "EACCES"),
	differ("sessions/random", `import random; say(saw=random.random())`),
	differ("sessions/random-of-numpy", `import numpy; say(saw=float(numpy.random.rand()))`),
	differ("sessions/random-of-the-system", `import uuid, secrets; say(saw=str(uuid.uuid4()) + secrets.token_hex(8))`),
	differ("sessions/temporary-names", `import tempfile; say(saw=tempfile.mktemp())`),
	strictlyDiffer("sessions/hash-seed", `say(saw=hash("a"))`),
	strictlyDiffer("sessions/addresses", `say(saw=id(print))`),
	{Name: "sessions/user-on-the-host", Quick: true, Needs: []Need{NeedRoot}, Judge: judgeOwnUser},
	{Name: "sessions/other-owner", Quick: true, Needs: []Need{NeedOtherOwner}, Cell: `open("x", "w").write("x")`,
		Judge: judgeOtherOwner},
	{Name: "sessions/no-token", Quick: true, Judge: func(t *Trial) error {
		for _, token := range []string{"", "x", "tal_", t.Server.Token + "x"} {
			if err := t.answers(token, api.CodeUnauthorized); err != nil {
				return err
			}
		}
		return nil
	}},
	{Name: "sessions/busy-neighbour", Alone: true, Judge: judgeBusyNeighbour},
}

// apart makes a check that what one session makes does not exist for another, and still exists for itself.
func apart(name, makes, looks string, words ...string) Check {
	return Check{Name: name, Quick: true, Alone: true, Judge: func(t *Trial) error {
		other, err := t.NewSession(nil)
		if err != nil {
			return err
		}
		e, err := t.Run(makes)
		if err != nil {
			return err
		}
		made := seen(e)["saw"]
		refused := made == "failed" || e.Error != nil && slices.Contains([]string{"OSError", "PermissionError"}, e.Error.Ename)
		if (t.Server.ownFiles || t.Server.uncounted && strings.HasPrefix(name, "sessions/sysv-")) && refused {
			return nil // a thing that everybody would share cannot be made
		}
		if made != "made" {
			return fmt.Errorf("the cell that makes it ended %s %s and saw %v: %.300s", e.Status, e.Reason, made, e.Text)
		}
		found, err := t.See(other, looks)
		if err != nil {
			return err
		}
		if got := fmt.Sprint(found["saw"]); !slices.Contains(words, got) {
			return fmt.Errorf("another session sees %s", got)
		}
		alive, err := t.See(t.Session, `say(saw=["child" not in globals() or child.poll() is None, os.path.exists("/tmp")])`)
		if err == nil && fmt.Sprint(alive["saw"]) != "[true true]" {
			err = fmt.Errorf("another session has ended its child: %v", alive["saw"])
		}
		return err
	}}
}

// differ makes a check of a value that no two sessions may have in common.
func differ(name, code string) Check { return differing(name, code, nil) }

// strictlyDiffer is differ for what sessions share by design, unless they ask for a cold start.
func strictlyDiffer(name, code string) Check {
	return differing(name, code, func(req *api.SessionRequest) { req.Isolation = new(api.IsolationStrict) })
}

func differing(name, code string, change func(*api.SessionRequest)) Check {
	return Check{Name: name, Quick: true, Judge: func(t *Trial) error {
		values := map[string]bool{}
		for range 3 {
			id, err := t.NewSession(change)
			if err != nil {
				return err
			}
			saw, err := t.See(id, code)
			if err != nil {
				return err
			}
			value := fmt.Sprint(saw["saw"])
			if values[value] {
				return fmt.Errorf("two sessions have %s", value)
			}
			values[value] = true
		}
		return nil
	}}
}

func judgeOwnUser(t *Trial) error {
	users := map[string]bool{}
	for range 2 {
		id, err := t.NewSession(nil)
		if err != nil {
			return err
		}
		saw, err := t.See(id, `
first, outside, _ = map(int, open("/proc/self/uid_map").read().split())
say(saw=os.getuid() - first + outside)`)
		if err != nil {
			return err
		}
		user := fmt.Sprint(saw["saw"])
		if users[user] || user == "0" {
			return fmt.Errorf("the session's user is %s, as another's", user)
		}
		users[user] = true
	}
	return nil
}

// answers checks that every way to a session is answered with a code for that token.
func (t *Trial) answers(token string, code api.Code) error {
	at := "/v1/sessions/" + t.Session
	for _, call := range []struct{ method, path, body string }{
		{"GET", at, ""}, {"DELETE", at, ""}, {"PATCH", at, `{"name":"x"}`}, {"POST", at + "/reset", "{}"}, {"POST", at + "/interrupt", "{}"},
		{"POST", at + "/executions", `{"code":"1"}`}, {"GET", at + "/executions", ""}, {"GET", at + "/events?follow=false", ""},
		{"GET", at + "/ws", ""}, {"GET", at + "/files", ""}, {"GET", at + "/files/x", ""}, {"PUT", at + "/files/x", "x"},
		{"DELETE", at + "/files/x", ""}, {"GET", at + "/artifacts", ""}, {"GET", at + "/notebook", ""}, {"POST", at + "/keep", ""},
	} {
		a, err := t.send(token, call.method, call.path, "application/json", call.body)
		if err != nil {
			return err
		}
		if a.Code != code {
			return fmt.Errorf("%s %s is answered with %d %s, want %s", call.method, call.path, a.Status, a.Code, code)
		}
	}
	return nil
}

func judgeOtherOwner(t *Trial) error {
	defer t.Run(`os.unlink("x")`)
	if err := t.answers(t.Server.Other, api.CodeSessionNotFound); err != nil {
		return err
	}
	return t.Works()
}

// judgeBusyNeighbour checks that an idle session still answers in time while another one does everything that its
// limits allow.
func judgeBusyNeighbour(t *Trial) error {
	other, err := t.NewSession(nil)
	if err != nil {
		return err
	}
	if _, err := t.See(t.Session, `
for _ in range(8):
    if not os.fork():
        end = time.monotonic() + 2
        while time.monotonic() < end: bytearray(8 << 20)
        os._exit(0)
say(saw="made")`); err != nil {
		return err
	}
	for range 20 {
		e, err := t.Server.Client.Execute(t.ctx, other, api.ExecutionRequest{Code: new("print(1 + 1)")})
		if err != nil || e.Status != api.StatusOK || stdout(e) != "2\n" {
			return fmt.Errorf("a quiet session answers %s %.100q (%v)", e.Status, stdout(e), err)
		}
	}
	return nil
}
