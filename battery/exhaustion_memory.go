package battery

import (
	"fmt"

	"talaria/api"
)

// exhaustionMemory are attempts to hold memory and disk space that belong to no mapping and no name. Each cell reports
// what it holds as it goes on, since it may be interrupted or killed at any moment.
var exhaustionMemory = []Check{
	{Name: "exhaustion/memory-unmapped", Alone: true, Cell: `
files, held = [], 0
for _ in range(24):
    try: files.append(os.memfd_create("x"))
    except OSError: break
    for _ in range(6):
        for _ in range(10): held += os.write(files[-1], bytes(1 << 20))
        say(held=held >> 20)
say(held=held >> 20)`, Judge: judgeMemory},
	{Name: "exhaustion/memory-detached", Alone: true, Cell: `
libc.shmat.restype = ctypes.c_void_p
held = 0
for _ in range(20):
    segment = libc.shmget(0, ctypes.c_size_t(60 << 20), 0o1600)
    at = libc.shmat(segment, None, 0) if segment >= 0 else None
    if at in (None, ctypes.c_void_p(-1).value): break
    ctypes.memset(at, 1, 60 << 20)
    libc.shmdt(ctypes.c_void_p(at))
    held += 60
    say(held=held)
say(held=held)`, Judge: judgeMemory},
	{Name: "exhaustion/sockets", Alone: true, Cell: `
held, sockets, block = 0, [], bytes(1 << 16)
def pair():
    if not OWN_TREE: return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = socket.create_connection(listener.getsockname())
        return made, listener.accept()[0]
def fill(tell):
    taken = 0
    try:
        while True:
            for s in pair():
                sockets.append(s)
                s.setblocking(False)
                try:
                    while taken < 200 << 20: taken += s.send(block)
                except BlockingIOError: pass
            if taken >= 200 << 20: break
    except OSError: pass
    os.write(tell, struct.pack("q", taken))
    time.sleep(1000)
children = {}
for _ in range(5):
    read_end, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try: fill(tell)
        finally: os._exit(0)
    os.close(tell)
    taken = os.read(read_end, 8)
    if taken: children[pid] = struct.unpack("q", taken)[0]
    time.sleep(0.2)
    children = {pid: taken for pid, taken in children.items() if os.waitpid(pid, os.WNOHANG)[0] == 0}
    held = max(held, sum(children.values()))
    say(held=held >> 20)
say(held=held >> 20)`, Judge: judgeMemory},
	{Name: "exhaustion/files-in-flight", Alone: true, Holds: NeedHeldDisk, Cell: `
held, pairs = 0, []
for n in range(12):
    file = os.open(f"/workspace/{n}", os.O_CREAT | os.O_RDWR)
    for _ in range(10):
        held += os.write(file, bytes(4 << 20))
        say(held=held)
        time.sleep(0.1)
    os.unlink(f"/workspace/{n}")
    pairs += socket.socketpair()
    socket.send_fds(pairs[-1], [b"x"], [file])
    os.close(file)`, Judge: judgeFilesHeld},
	{Name: "exhaustion/files-mapped", Alone: true, Holds: NeedHeldDisk, Cell: `
libc.mmap.restype = ctypes.c_void_p
held = 0
for n in range(12):
    file = os.open(f"/workspace/{n}", os.O_CREAT | os.O_RDWR)
    for _ in range(10):
        held += os.write(file, bytes(4 << 20))
        say(held=held)
        time.sleep(0.1)
    os.unlink(f"/workspace/{n}")
    libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file, ctypes.c_long(0))
    os.close(file)`, Judge: judgeFilesHeld},
}

// judgeFilesHeld checks files that have no name any more against the limit of the workspace, plus what a watched limit
// may be exceeded by.
func judgeFilesHeld(t *Trial) error {
	held := t.number("held")
	switch {
	case t.Execution.Status == api.StatusOK, held > diskBytes+overshootBytes:
		return fmt.Errorf("%d bytes are held, the limit is %d", held, diskBytes)
	case held < 0:
		return fmt.Errorf("nothing was written: %.300s", t.Execution.Text)
	}
	if _, err := t.Server.Client.ResetSession(t.ctx, t.Session, api.ResetRequest{}); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	if err := t.Works(); err != nil {
		return err
	}
	if held > diskBytes {
		return bounded("%d bytes past the limit of %d", held-diskBytes, diskBytes)
	}
	return nil
}
