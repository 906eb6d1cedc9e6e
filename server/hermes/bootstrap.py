"""Becomes a runner of hermes-agent: takes its source, and the module that it loads, from the beginning of standard input."""

import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]  # files of the workspace must not stand for modules

import os


def _take(size):
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, min(size - len(data), 1 << 20))
        if not piece:
            os._exit(1)
        data += piece
    return bytes(data)


def _begin(runner_size, tools_size):
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), "hermes_kernel_%d" % os.getpid())
    os.mkdir(folder, 0o700)
    path = os.path.join(folder, "hermes_kernel_runner.py")
    source = _take(runner_size)
    files = {path: source}
    if tools_size:
        tools = os.path.join(folder, "hermes_tools.py")
        files[tools] = _take(tools_size)
        os.environ["HERMES_KERNEL_TOOLS_PATH"] = tools
    for name, data in files.items():
        with open(name, "wb") as file:
            file.write(data)
    # Programs that a cell starts import the module from here, too.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, folder)
    sys.argv[:] = [path]
    return compile(source, path, "exec"), {
        "__name__": "__main__", "__file__": path, "__package__": None, "__cached__": None, "__builtins__": __builtins__,
    }


exec(*_begin(int(sys.argv[1]), int(sys.argv[2])))
