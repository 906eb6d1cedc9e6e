"""folder.py SOCKET UID FOLDER: a kernel and commands share the folder FOLDER with this machine, at the same path; then there are as many
kernels as may be, and one more is refused."""

import contextlib
import os
import sys

from broker import Process, Refused
from kernel import Kernel

path, uid, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]


def command(script):
    with contextlib.closing(Process(path, uid, merged=True, stdin=False, argv=["bash", "-c", script], cwd=folder, env={})) as p:
        return p.stdout.read().decode(), p.wait()


with open(os.path.join(folder, "a.txt"), "w") as file:
    file.write("here")
got = command(f"builtin cd -- {folder} || exit 126; pwd; cat a.txt; echo command > b.txt")
assert got == (folder + "\nhere", 0), got
kernel = Kernel(path, uid, cwd=folder)
got = kernel.print("import os; print(os.getcwd(), open('b.txt').read()); open('c.txt', 'w').write('cell')")
assert got == folder + " command\n\n", got
with open(os.path.join(folder, "c.txt")) as file:
    assert file.read() == "cell"
try:
    Kernel(path, uid)
except Refused as e:
    assert e.code == "launch_failed" and "max_sessions" in e.message, e
else:
    raise AssertionError("there are more kernels than may be")
kernel.close()
print("done")
