"""The acceptance script: client.py SOCKET UID SECRET TOOLS, where SECRET is a file that no sandbox may see, and TOOLS says whether its
cells can have sockets."""

import contextlib
import os
import sys
import threading
import time

import broker
from broker import Process, Refused
from kernel import Kernel

SOCKET, UID, SECRET = sys.argv[1], int(sys.argv[2]), sys.argv[3]
HAS_SOCKETS = sys.argv[4] == "tools"


def same(got, want):
    assert got == want, f"{got!r} is not {want!r}"


def refused(code, words, *args, **fields):
    try:
        conn, _, answer = broker.request(SOCKET, UID, *args, **fields)
        conn.close()
    except Refused as e:
        assert e.code == code and words in e.message, f"refused with {e}, not {code} and {words!r}"
    else:
        raise AssertionError(f"{fields} was launched: {answer}")


def command(script, stdin=None, cwd="/nowhere/project", env=None):
    """Runs a shell command as the agent's terminal does, with both outputs in one pipe; returns its output and exit code."""
    with contextlib.closing(Process(SOCKET, UID, merged=True, stdin=stdin is not None, argv=["/bin/bash", "-c", script], cwd=cwd, env=env or {})) as p:
        if stdin is not None:
            threading.Thread(target=lambda: (p.stdin.write(stdin), p.stdin.close())).start()
        return p.stdout.read().decode(), p.wait()


def cells():
    k = Kernel(SOCKET, UID, env={"PROJECT": "apollo"})
    assert k.process.lives(), k.process.answer
    same(k.print("x = [1, 2]\nprint('hello')"), "hello\n")
    answer = k.run("import sys\nx.append(3)\nprint(x)\nprint('careful', file=sys.stderr)")
    same((answer["stdout"], answer["stderr"], answer["execution_count"]), ("[1, 2, 3]\n", "careful\n", 2))
    answer = k.run("1/0")
    assert answer["status"] == "error" and "ZeroDivisionError" in answer["traceback"], answer
    same(k.print("import os, subprocess; print(subprocess.run(['sh', '-c', 'echo raw; echo wrong >&2']).returncode)"), "0\n")
    k.print("import time; time.sleep(0.2)")
    assert b"raw\n" in k.raw, k.raw
    same(k.print("print('é' * 3_000_000)"), "é" * 3_000_000 + "\n")
    same(k.print("v = %r; print(len(v))" % ("z" * 2_000_000)), "2000000\n")  # more than any pipe holds
    same(k.print("print(os.environ['PROJECT'], os.environ['PYTHONUTF8'], os.environ.get('LD_PRELOAD'), os.environ['HOME'] != '/nowhere',"
                 " '/nowhere' in os.environ['PATH'], os.path.exists('/nowhere'))"), "apollo 1 None True False False\n")
    same(k.print("open('kept.txt', 'w').write('kept'); print(open('kept.txt').read(), os.listdir('.'))"), "kept ['kept.txt']\n")
    answer = k.run("raise SystemExit(4)")
    same((answer["status"], answer["traceback"]), ("exit", "4"))
    same(k.process.wait(), 0)
    assert k.process.stderr.read().startswith(b"wrong\n")
    k.process.kill()  # it is gone already
    k.close()
    k = Kernel(SOCKET, UID, cwd="/tmp/only/here")
    same(k.print("import os; print(os.listdir('.'), 'x' in globals())"), "[] False\n")  # another sandbox
    k.process.stdin.close()  # the runner ends by itself
    same(k.process.wait(), 0)
    k.close()


def tools():
    k = Kernel(SOCKET, UID)
    if not HAS_SOCKETS:
        assert k.run("import hermes_tools; hermes_tools.call('add')")["status"] == "error"
        k.close()
        return
    same(k.print("import hermes_tools\nprint([hermes_tools.call('add', of=[n, 1])['sum'] for n in range(5)])"), "[1, 2, 3, 4, 5]\n")
    same(k.calls, ["add"] * 5)
    same(k.print("text = 'ab' * 400_000\nprint(hermes_tools.call('turn', text=text)['text'] == text[::-1])"), "True\n")
    same(k.print("import os, subprocess, sys\nhermes_tools._sock.close(); hermes_tools._sock = None\n"
                 "print(subprocess.run([sys.executable, '-c', 'import hermes_tools; print(hermes_tools.call(\"add\", of=[20, 22])[\"sum\"])'],"
                 " capture_output=True, text=True).stdout)"), "42\n\n")
    # A client that says no more gets its answer, and one that leaves without it is in nobody's way.
    own = ("import json, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(os.environ['HERMES_RPC_SOCKET'])\n"
           "s.sendall(json.dumps({'tool': 'add', 'args': {'of': [1, 1]}, 'token': os.environ['HERMES_RPC_TOKEN']}).encode() + b'\\n')\n"
           "s.shutdown(socket.SHUT_WR)\n")
    for _ in range(2):
        same(k.print(own + "print(s.makefile().read())"), '{"sum": 2, "text": ""}\n\n')
        k.print(own + "s.close()")
    same(k.print("print(hermes_tools.call('add', of=[2, 2])['sum'])"), "4\n")
    answer = k.run("os.environ['HERMES_RPC_TOKEN'] = 'wrong'\nprint(hermes_tools.call('add'))")
    same(answer["stdout"], "{'error': 'Unauthorized RPC request'}\n")
    k.close()


def isolation():
    k = Kernel(SOCKET, UID)
    for attempt in (f"open({SECRET!r})", f"open({k.folder + '/runner.py'!r})", f"os.listdir({os.path.dirname(SECRET)!r})",
                    "socket.create_connection(('127.0.0.1', 1), 5)", "socket.create_connection(('192.0.2.1', 80), 5)",
                    "open('/etc/shadow')", f"os.kill({os.getpid()}, 0)"):
        answer = k.run("import os, socket\n" + attempt)
        assert answer["status"] == "error" and "Error" in answer["traceback"], (attempt, answer)
    k.close()


def lease():
    k = Kernel(SOCKET, UID)
    k.print("import os")
    k.process.stdin.write(b'{"id": "1", "code": "import subprocess; subprocess.Popen([\'sleep\', \'1000\']); import time; time.sleep(1000)"}\n')
    k.process.stdin.flush()
    time.sleep(0.3)
    k.process.kill()
    same(k.process.stdout.read(), b"")  # nobody holds the pipe any more
    k.close()
    line = sleeper(1)
    with contextlib.closing(Process(SOCKET, UID, merged=True, stdin=False, argv=["bash", "-c", line + " & echo on; wait"], cwd="/", env={})) as p:
        same(p.stdout.readline(), b"on\n")
        until(lambda: running(line) == 1)
        p.kill()
    until(lambda: not running(line))


def sleeper(n):
    """A command line that no other process of this machine has."""
    return f"sleep {os.getpid()}.{n}"


def running(line):
    """How many processes of this machine have that command line. Those in sandboxes are seen from here."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            count += file.read().split(b"\0")[:-1] == line.encode().split()
    return count


def until(true):
    """Waits for what is about to happen."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def commands():
    same(command("echo out; echo err >&2; echo out; exit 3"), ("out\nerr\nout\n", 3))
    same(command("cat; pwd | wc -c | grep -q .", b"input" * 100_000), ("input" * 100_000, 0))
    same(command("cat"), ("", 0))
    same(command("echo one > file.txt; echo $NAME", env={"NAME": "value", "BASH_ENV": "/nowhere"}), ("value\n", 0))
    same(command("cat file.txt"), ("one\n", 0))  # from one command to the next
    same(command("kill -9 $$"), ("", -9))
    same(command("true", cwd="/tmp"), ("", 0))
    if HAS_SOCKETS:  # the tier has a tree of its own
        same(command("pwd", cwd="/tmp")[0], "/tmp\n")
        same(command("mkdir sub; cd sub; pwd", cwd="/workspace")[0], "/workspace/sub\n")
        same(command("pwd", cwd="/workspace/sub")[0], "/workspace/sub\n")
    same(command("echo $PWD | grep -q only", cwd="/tmp/only/here"), ("", 1))
    output, code = command("seq 300000")
    same((output, code), ("".join(f"{n}\n" for n in range(1, 300001)), 0))
    same(command(sleeper(2) + " & exit 0")[1], 0)
    until(lambda: not running(sleeper(2)))  # what is left in the group ends with the command
    with contextlib.closing(Process(SOCKET, UID, argv=["bash", "-c", "echo a; echo b >&2; exit 5"], cwd="/", env={})) as p:
        same((p.stdout.read(), p.stderr.read(), p.wait()), (b"a\n", b"b\n", 5))
    with contextlib.closing(Process(SOCKET, UID, merged=True, argv=["bash", "-c", "yes"], cwd="/", env={})) as p:
        time.sleep(7)  # longer than a host waits for a reader that it takes for gone
        data = p.stdout.read(1 << 22)
        same(data, b"y\n" * (1 << 21))
        p.kill()
    if HAS_SOCKETS:  # the terminal keeps exported variables and functions in a file, which it replaces after each command
        same(command("f=$(mktemp /tmp/snap.XXXXXX) && { export KEPT=kept; export -p; declare -f; } > $f && mv -f $f /tmp/snap.sh"), ("", 0))
        same(command("source /tmp/snap.sh; echo $KEPT"), ("kept\n", 0))
        # The first file is of a login shell, and so all later commands have its programs.
        same(command("bash -l -c 'echo $PATH; command -v python pip'"), command("echo $PATH; command -v python pip"))


def detached(script):
    """Launches a command that continues without its connection, and returns the number and the start time of its process."""
    conn, _, answer = broker.request(SOCKET, UID, argv=["bash", "-c", script], cwd="/", env={}, detached=True)
    assert answer["detached"] and answer["pid"] > 0 and answer["start_time"] > 0, answer
    conn.sendall(b'{"op": "detach_ack"}\n')
    same(conn.recv(1), b"")
    conn.close()
    return answer["pid"], answer["start_time"]


def background():
    def lives(pid, started):
        with contextlib.suppress(OSError):
            return broker.start_time(pid) == started

    def end(pid, signal):
        """Has another command end the process group, by the number that the broker named."""
        one = "kill -%s -- -%d 2>/dev/null || kill -%s %d 2>/dev/null" % (signal, pid, signal, pid)
        return command(f"cd / && eval '{one}'\nexit $?")

    began = detached("echo up > log; until [ -e go ]; do sleep 0.1; done; echo 7 > exit")
    assert lives(*began)
    until(lambda: command("cat log 2>/dev/null")[0] == "up\n")
    same(command("touch go"), ("", 0))
    until(lambda: not lives(*began))
    same(command("cat exit"), ("7\n", 0))

    line = sleeper(3)
    other = detached(line)
    began = detached("trap 'echo asked > log' TERM; echo ready > log; while :; do sleep 0.1; done")
    until(lambda: command("cat log")[0] == "ready\n")
    same(end(began[0], "TERM"), ("", 0))
    until(lambda: command("cat log")[0] == "asked\n")
    assert lives(*began)
    same(end(began[0], "KILL"), ("", 0))
    until(lambda: not lives(*began))
    assert lives(*other) and running(line) == 1
    same(end(other[0], "TERM"), ("", 0))
    until(lambda: not lives(*other))
    same(running(line), 0)


def refusals():
    null, runner = os.open("/dev/null", os.O_RDWR), os.open(__file__, os.O_RDONLY)
    refused("bad_request", "op", op="stop")
    refused("bad_request", "exactly one", env={})
    refused("bad_request", "its path", runner="/tmp/x.py", env={})
    refused("runner_fd_missing", "not received", runner_fd=True, env={})
    refused("runner_not_regular", "regular", [null], runner_fd=True, env={})
    refused("bad_request", "only the standard streams", [runner, null], runner_fd=True, env={})
    refused("bad_request", "kind", [runner, connection()], runner_fd=True, env={}, stdout_fd=1)
    refused("bad_request", "not received", [null], argv=["true"], cwd="/", env={}, stdin_fd=3)
    refused("bad_request", "cwd", argv=["true"], env={})
    refused("launch_failed", "no-such-program", argv=["no-such-program"], cwd="/", env={})
    refused("request_too_large", "more than", argv=["true", "x" * 200_000], cwd="/", env={})
    refused("request_too_large", "bytes", argv=["true", "x" * 2_000_000], cwd="/", env={})
    refused("bad_request", "a socket of user", [runner], runner_fd=True, env={"HERMES_RPC_SOCKET": "/etc/passwd"})
    refused("bad_request", "cannot be used", [runner], runner_fd=True, env={"HERMES_KERNEL_TOOLS_PATH": "/dev/zero"})
    refused("truncated_ancillary", "descriptors", [null] * 20, argv=["true"], cwd="/", env={})
    for fd in (null, runner):
        os.close(fd)


def connection():
    import socket
    a, b = socket.socketpair()
    b.detach()  # for the life of this process
    return a.detach()


for part in (refusals, cells, tools, isolation, lease, commands, background):
    began = time.monotonic()
    part()
    print(part.__name__, f"{time.monotonic() - began:.1f} s", flush=True)
print("done")
