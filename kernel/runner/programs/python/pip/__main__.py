"""The program pip of a session: it has the kernel install and remove packages. For all else it is the pip of the
environment. talaria_runner.packages.pip_server says how the two talk."""

from __future__ import annotations

import json
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PROGRAMS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_NO_WAY = "the kernel of this session cannot be asked for packages from here; use %pip install NAME in a cell"
_GONE = "the kernel of this session has ended, and the installation with it"


def main(words: list[str]) -> int:
    sys.path.insert(0, os.path.dirname(_PROGRAMS))
    from talaria_runner.packages.pip_arguments import Refused, parse

    del sys.path[0]
    try:
        change = parse(words)
    except Refused as e:
        return _fail(str(e))
    if change is None:
        return _run_other(words)
    try:
        return _ask(words, change.fields())
    except OSError:
        return _fail(_NO_WAY)
    except KeyboardInterrupt:
        return 130


def _ask(words: list[str], change: dict[str, object]) -> int:
    folder = os.environ.get("TALARIA_INSTALLS", "/nowhere")
    name = f"{folder}/{os.urandom(16).hex()}"
    asks = os.open(folder + "/asks", os.O_WRONLY | os.O_NONBLOCK)
    # Which pip is meant: of a program it is the session's, of a module that of whoever runs it.
    request = {"change": change, "session": os.getsid(0), "prefix": "" if sys.flags.isolated else sys.prefix}
    try:
        with open(name + ".request", "x") as f:
            json.dump(request, f)
        os.mkfifo(name + ".answer", 0o600)
        answer = os.open(name + ".answer", os.O_RDONLY | os.O_NONBLOCK)
        os.write(asks, os.path.basename(name).encode() + b"\n")
        return _follow(answer, words)
    finally:
        for path in (name + ".request", name + ".answer"):
            if os.path.lexists(path):
                os.unlink(path)


def _follow(answer: int, words: list[str]) -> int:
    rest = b""
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    while True:
        poll.poll()
        part = os.read(answer, 1 << 16)
        if not part:
            return _fail(_GONE)
        *lines, rest = (rest + part).split(b"\n")
        for line in map(json.loads, lines):
            if "text" in line:
                sys.stdout.buffer.write(line["text"].encode("utf-8", "replace"))
                sys.stdout.flush()
            elif "local" in line:
                return _run_other(words)
            elif line["error"]:
                return _fail(line["error"])
            else:
                return 0


def _run_other(words: list[str]) -> NoReturn:
    """Becomes the pip of the environment."""
    environment = dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1")
    paths = environment.get("PYTHONPATH", "").split(":")
    environment["PYTHONPATH"] = ":".join(path for path in paths if path != _PROGRAMS + "/python")
    if not environment["PYTHONPATH"]:
        del environment["PYTHONPATH"]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "pip", *words], environment)


def _fail(text: str) -> int:
    print(f"ERROR: {text}", file=sys.stderr)
    return 1


sys.exit(main(sys.argv[1:]))
