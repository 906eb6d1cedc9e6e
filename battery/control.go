package battery

import (
	"fmt"
	"strings"

	"talaria/api"
	"talaria/client"
)

// control are attempts on the channel between a kernel and its host, which everything inside can write to.
var control = []Check{
	forgery("control/done", `forge(b'\n{"type":"done","id":"CELL","status":"ok","interrupted":false}\n')`),
	forgery("control/done-of-another", `
forge(b'\n{"type":"done","id":"another","status":"ok","interrupted":false}\n')`),
	forgery("control/done-twice", `forge(b'\n{"type":"done","id":"CELL","status":"ok"}\n' * 2000)`),
	forgery("control/all-types", `
forge(b'\n', b'{"type":"ready","mark":"0011223344556677"}\n', b'{}\n', b'[]\n', b'null\n', b'"x"\n',
    b'{"type":"nothing"}\n', b'{"type":"execution_finished","execution":{"status":"ok"}}\n',
    b'{"type":"exit","code":0}\n', b'{"type":"kernel_died"}\n')`),
	forgery("control/unknown-fields", `
forge(b'\n{"type":"stream","id":"CELL","name":"stdout","text":"FORGED","seq":1,"time":"x"}\n')`),
	forgery("control/wrong-types", `
forge(b'\n', b'{"type":1}\n', b'{"type":"stream","id":{},"name":"stdout","text":[]}\n',
    b'{"type":"done","id":"CELL","status":true}\n',
    b'{"type":"error","id":"CELL","ename":"x","evalue":"y","traceback":{}}\n',
    b'{"type":"clear","id":"CELL","wait":"yes"}\n')`),
	forgery("control/half-a-frame", `forge(b'\n{"type":"done","id":"CELL"')`),
	forgery("control/oversize", `
forge(b'\n{"type":"stream","id":"CELL","name":"stdout","text":"' + b'x' * (56 << 20) + b'"}\n')`),
	forgery("control/deep", `
forge(b'\n' + b'[' * 3_000_000 + b'\n', b'{"type":"display","id":"CELL","data":{"application/json":' + b'{"a":' *
    100_000 + b'1' + b'}' * 100_000 + b'}}\n')`),
	forgery("control/many-members", `
forge(b'\n{"type":"display","id":"CELL","data":{' + b','.join(b'"a%d/b":"x"' % n for n in range(300_000)) + b'}}\n')`),
	forgery("control/invalid-text", `
forge(b'\n', b'{"type":"\xff\xfe"}\n', b'{"type":"stream","id":"CELL","name":"stdout","text":"\xff\xc3"}\n')`),
	forgery("control/lone-surrogates", `
forge(b'\n', b'{"type":"\\ud800"}\n', b'{"type":"stream","id":"CELL","name":"stdout","text":"\\ud800x\\udc00"}\n')`),
	forgery("control/zero-bytes", `
forge(b'\n' + b'\0' * 100_000 + b'\n', b'{"type":"stream","id":"CELL","name":"stdout","text":"\\u0000"}\n')`),
	forgery("control/repeated-members", `
forge(b'\n{"type":"stream","type":"done","id":"CELL","id":"x","status":"ok","status":"error"}\n')`),
	forgery("control/marks", `
marks = (0, 1, 2**53, 2**64, 10**40)
forge(*(b'\n{"type":"stream","id":"CELL","name":"stdout","text":"","mark":%d}\n' % n for n in marks))
os.write(1, b"\x1e0011223344556677:1\x1e\x1e:\x1e" * 1000)`),
	forgery("control/two-results", `forge(b'\n{"type":"result","id":"CELL","data":{"text/plain":"FORGED"}}\n' * 50)`),
	forgery("control/questions", `
forge(*(b'\n{"type":"ask","id":"CELL","ask":"q%d","kind":"input","body":{"prompt":"FORGED"}}\n' % n for n in range(500)))`),
	forgery("control/many-frames", `
forge(b'\n' + b'{"type":"stream","id":"CELL","name":"stdout","text":"x"}\n' * 100_000)`),
	forgery("control/long-names", `
forge(b'\n{"type":"error","id":"CELL","ename":"' + b'E' * (8 << 20) + b'","evalue":"' + b'v' * (8 << 20) +
    b'","traceback":["' + b't' * (8 << 20) + b'"]}\n')`),
	forgery("control/descriptors", `
import array
for fd in sockets_of_ours():
    s = socket.socket(fileno=os.dup(fd))
    for _ in range(200):
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2] * 50))
        attempt(s.sendmsg, [b"\n"], [rights], socket.MSG_DONTWAIT)`),
	forgery("control/two-writers", `
if not os.fork():
    for _ in range(2000):
        for fd in sockets_of_ours() or range(3, 1100): attempt(os.write, fd, b'\n{"type":"done","id":"CELL","status":"ok"}\n')
    os._exit(0)
for n in range(2000): print(n)`),
	forgery("control/reads-along", `
def steal():
    for fd in sockets_of_ours():
        os.set_blocking(fd, False)
        attempt(os.read, fd, 1 << 16)
for _ in range(1000): steal()
for fd in sockets_of_ours(): os.set_blocking(fd, True)`),
	forgery("control/shut-down", `
for fd in sockets_of_ours(): attempt(socket.socket(fileno=os.dup(fd)).shutdown, socket.SHUT_RDWR)`),
	{Name: "control/after-the-end", Quick: true, Alone: true, Cell: `
control = sockets_of_ours()
go = threading.Event()
def late():
    go.wait()
    for n in range(200): forge(b'\n{"type":"done","id":"CELL","status":"ok"}\n{"type":"stream","id":"CELL","name":"stdout","text":"FORGED"}\n')
thread = threading.Thread(target=late)
thread.start()`, Judge: judgeLate},
	{Name: "control/done-of-the-next", Quick: true, Alone: true, Judge: judgeNext},
}

// forgery makes a check of something that writes to the control channel. How its own cell ends does not matter.
func forgery(name, code string) Check {
	return Check{Name: name, Quick: true, Alone: true, Cell: code + "\nprint('after')",
		Request: api.ExecutionRequest{TimeoutS: new(10.0)}, Judge: judgeForgery}
}

func judgeForgery(t *Trial) error {
	if err := t.goesOn(); err != nil {
		return err
	}
	return t.logIsSound()
}

// logIsSound checks that the session's log has no gap, and that each execution ends once.
func (t *Trial) logIsSound() error {
	ended := map[string]int{}
	last := int64(0)
	for event, err := range t.Server.Client.Events(t.ctx, t.Session, client.EventsQuery{Past: true}) {
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if event.Seq != last+1 {
			return fmt.Errorf("event %d comes after %d", event.Seq, last)
		}
		last = event.Seq
		switch body := event.Body.(type) {
		case api.ExecutionFinished:
			if ended[event.ExecutionID]++; ended[event.ExecutionID] > 1 {
				return fmt.Errorf("execution %s ended twice", event.ExecutionID)
			}
		case api.RawEvent:
			return fmt.Errorf("the log has an event of type %q", body.Type)
		}
	}
	return nil
}

// judgeLate runs a cell while forged frames of the previous, ended one arrive.
func judgeLate(t *Trial) error {
	e, err := t.Run("go.set(); thread.join(); print('real ' + 'work')")
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(stdout(e), "FORGED", "")
	if e.Status != api.StatusOK || text != "real work\n" {
		return fmt.Errorf("the next cell ended %s %s with %.100q", e.Status, e.Reason, stdout(e))
	}
	first, err := t.Server.Client.Execution(t.ctx, t.Session, t.Execution.ID)
	if err != nil {
		return fmt.Errorf("look at the first cell: %w", err)
	}
	if strings.Contains(first.Text, "FORGED") {
		return fmt.Errorf("a finished execution has changed: %.200q", first.Text)
	}
	return t.logIsSound()
}

// judgeNext forges the end of an execution that has not begun.
func judgeNext(t *Trial) error {
	next := client.NewID()
	if _, err := t.Run(`forge(b'\n{"type":"done","id":"NEXT","status":"ok"}\n' * 50)`, "NEXT", next); err != nil {
		return err
	}
	code := "print('real ' + 'work')"
	e, err := t.RunIn(t.Session, api.ExecutionRequest{ID: &next, Code: &code})
	if err != nil {
		return err
	}
	if e.Status != api.StatusOK || stdout(e) != "real work\n" {
		return fmt.Errorf("an execution with a forged end: %s %.100q", e.Status, stdout(e))
	}
	return t.logIsSound()
}
