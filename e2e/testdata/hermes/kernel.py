"""What hermes-agent does with its session kernel: the staging folder, the socket for tools, the frames. The runner and the module of tools
are small ones that speak the same protocols."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import struct
import tempfile
import threading

from broker import Process

RUNNER = r'''
import contextlib, importlib.util, io, json, os, sys, traceback
sentinel = os.environ["HERMES_KERNEL_SENTINEL"]
path = os.environ.pop("HERMES_KERNEL_TOOLS_PATH", os.path.join(os.path.dirname(__file__), "hermes_tools.py"))
spec = importlib.util.spec_from_file_location("hermes_tools", path)
sys.modules["hermes_tools"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["hermes_tools"])
real, names = sys.stdout, {"__name__": "__main__", "__builtins__": __builtins__}
count = 0
for line in sys.stdin:
    asked = json.loads(line)
    count += 1
    out, err, status, trace = io.StringIO(), io.StringIO(), "ok", ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            exec(compile(asked["code"], "<cell>", "exec"), names)
    except SystemExit as e:
        status, trace = "exit", repr(e.code)
    except BaseException:
        status, trace = "error", traceback.format_exc()
    body = json.dumps({"id": asked["id"], "status": status, "stdout": out.getvalue(), "stderr": err.getvalue(),
                       "traceback": trace, "execution_count": count}).encode()
    real.buffer.write(("\n" + sentinel + " " + str(len(body)) + "\n").encode() + body)
    real.buffer.flush()
    if status == "exit":
        break
'''

TOOLS = r'''
import json, os, socket
_sock = None
def call(tool, **args):
    """Connects once, and again if the connection is gone, as the server drops it when it was idle."""
    global _sock
    line = json.dumps({"tool": tool, "args": args, "token": os.environ.get("HERMES_RPC_TOKEN", "")}).encode() + b"\n"
    for attempt in range(2):
        try:
            if _sock is None:
                _sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                _sock.connect(os.environ["HERMES_RPC_SOCKET"])
                _sock.settimeout(300)
            _sock.sendall(line)
            answer = b""
            while not answer.endswith(b"\n"):
                data = _sock.recv(65536)
                if not data:
                    raise RuntimeError("Agent process disconnected")
                answer += data
            return json.loads(answer)
        except (OSError, RuntimeError):
            _sock.close()
            _sock = None
            if attempt:
                raise
'''


class Kernel:
    """A kernel of the agent, through the broker."""

    def __init__(self, path, uid, env=None, cwd="/nowhere/project"):
        self.folder = tempfile.mkdtemp(prefix="hermes_kernel_", dir="/tmp")
        os.chmod(self.folder, 0o711)
        for name, text in {"hermes_tools.py": TOOLS, "runner.py": RUNNER}.items():
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
            os.chmod(os.path.join(self.folder, name), 0o644)
        self.token, self.sentinel = secrets.token_urlsafe(32), "@@KERNEL-" + secrets.token_urlsafe(16) + "@@"
        self.uid, self.calls = uid, []
        self.rpc = os.path.join(self.folder, "rpc_" + secrets.token_hex(16) + ".sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.rpc)
        os.chmod(self.rpc, 0o666)
        self.listener.listen(1)
        threading.Thread(target=self._serve, daemon=True).start()
        try:
            self.process = Process(path, uid, os.path.join(self.folder, "runner.py"), runner_python="/nowhere/bin/python", cwd=cwd, scratch=True, env={
                "PATH": "/nowhere/bin", "HOME": "/nowhere", "PYTHONPATH": self.folder, "PYTHONUTF8": "1", "LD_PRELOAD": "/nowhere.so",
                "HERMES_RPC_SOCKET": self.rpc, "HERMES_RPC_TOKEN": self.token, "HERMES_RPC_PERSISTENT": "1",
                "HERMES_KERNEL_SENTINEL": self.sentinel, "HERMES_KERNEL_TOOLS_PATH": os.path.join(self.folder, "hermes_tools.py"),
                "HERMES_KERNEL_INLINE_SPILL": "1", **(env or {}),
            })
        except BaseException:  # such as a refusal
            self.listener.close()
            shutil.rmtree(self.folder)
            raise
        self.raw = b""  # what was printed outside of frames

    def _serve(self):
        """Serves one client after another, as the agent does, and drops each after two calls."""
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            peer = struct.unpack("=iII", conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            with contextlib.suppress(OSError), conn, conn.makefile("rb") as lines:  # a client may leave without its answer
                for n, line in enumerate(lines, 1):
                    asked = json.loads(line)
                    self.calls.append(asked["tool"])
                    answer = {"sum": sum(asked["args"].get("of", [])), "text": asked["args"].get("text", "")[::-1]}
                    if asked["token"] != self.token or peer[1] != self.uid:
                        answer = {"error": "Unauthorized RPC request"}
                    conn.sendall(json.dumps(answer).encode() + b"\n")
                    if n == 2:
                        break

    def run(self, code):
        """Runs a cell and returns the frame of its answer."""
        id = secrets.token_hex(8)
        self.process.stdin.write(json.dumps({"id": id, "code": code}).encode() + b"\n")
        self.process.stdin.flush()
        mark, data = ("\n" + self.sentinel + " ").encode(), b""
        while mark not in data or b"\n" not in data.partition(mark)[2]:
            data += self._more()
        raw, _, rest = data.partition(mark)
        self.raw += raw
        size, _, body = rest.partition(b"\n")
        while len(body) < int(size):
            body += self._more()
        answer = json.loads(body)
        assert answer["id"] == id and len(body) == int(size), (answer, body[:200])
        return answer

    def _more(self):
        data = self.process.stdout.read1(65536)
        assert data, ("the kernel has ended", self.process.stderr.read())
        return data

    def print(self, code):
        """Runs a cell that must succeed, and returns what it has printed."""
        answer = self.run(code)
        assert answer["status"] == "ok", answer
        return answer["stdout"]

    def close(self):
        self.listener.close()
        self.process.close()
        shutil.rmtree(self.folder)
