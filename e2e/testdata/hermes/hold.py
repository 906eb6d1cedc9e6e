"""hold.py SOCKET UID: launches a kernel and a command, says so, and waits until their leases end, as they do when the server is killed.
After the line that it reads then, it says whether their processes are gone."""

import sys
import time

from broker import Process
from kernel import Kernel

path, uid = sys.argv[1], int(sys.argv[2])
kernel = Kernel(path, uid)
kernel.print("x = 1")
command = Process(path, uid, merged=True, stdin=False, argv=["bash", "-c", "echo on; sleep 1000"], cwd="/", env={})
assert command.stdout.readline() == b"on\n"
time.sleep(2.5)  # longer than a session may be idle
assert kernel.print("print(x)") == "1\n" and command.lives()
print("ready", flush=True)
for one in (kernel.process, command):
    assert one.wait() is None, "a program has ended"
print("ended", flush=True)
sys.stdin.readline()
print("left:", [one.pid for one in (kernel.process, command) if one.lives()], flush=True)
kernel.close()
command.close()
