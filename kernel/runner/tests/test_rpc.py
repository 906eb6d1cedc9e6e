"""The older protocol for tools, on the socket that HERMES_RPC_SOCKET names."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import unittest
import unittest.mock

from talaria_runner.tools import rpc
from tests.host import ENGINE, Outcome, Runner, kind_of

# What a hermes_tools.py of the older protocol does.
_CLIENT = """
import json, os, socket
_sock = None
def call(tool, **args):
    global _sock
    if _sock is None:
        _sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        _sock.connect(os.environ["HERMES_RPC_SOCKET"])
    return send(json.dumps({"tool": tool, "args": args}).encode() + b"\\n")[0]
def send(data, lines=1):
    _sock.sendall(data)
    buffer = b""
    while buffer.count(b"\\n") < lines:
        chunk = _sock.recv(65536)
        if not chunk:
            raise RuntimeError("Agent process disconnected")
        buffer += chunk
    return [json.loads(line) for line in buffer.splitlines()]
"""
_TOOLS = [{"name": "web_search"}, {"name": "terminal"}, {"name": "old", "gone": True}]


class Rpc(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.runner = Runner({"TALARIA_INSTALLS": self.folder + "/asks", "TALARIA_PACKAGES": self.folder}, engine=ENGINE)
        self.addCleanup(self.runner.__exit__, None, None, None)
        with open(self.runner.directory.name + "/older.py", "w") as f:
            f.write(_CLIENT)
        self.calls: list[dict] = []

    def answer(self, frame: dict) -> dict:
        return {"body": {"result": frame["body"]}}

    def cell(self, code: str, status: str = "ok") -> Outcome:
        id = self.runner.start(code)
        outcome = self.runner.executions[id]
        while not outcome.of("done"):
            frame = self.runner.next_frame()
            outcome.frames.append(frame)
            self.runner._place(outcome, frame)
            if kind_of(frame) == "tools":
                self.runner.send(type="answer", ask=frame["ask"], body={"tools": _TOOLS})
            elif kind_of(frame) == "tool":
                self.calls.append(frame)
                fields = self.answer(frame)
                if fields:
                    self.runner.send(type="answer", ask=frame["ask"], **fields)
        self.assertEqual(outcome.status, status, outcome.traceback)
        return outcome

    def test_a_line_is_a_call(self) -> None:
        """P10: the connection is used again, also by the next cell."""
        outcome = self.cell("import older\nolder.call('web_search', query='a'), older.call('web_search', query='é')")
        self.assertEqual([c["arguments"] for c in eval(outcome.text)], [{"query": "a"}, {"query": "é"}])
        self.assertIn("'b'", self.cell("older.call('web_search', query='b')").text)
        self.assertEqual(len(self.calls), 3)

    def test_a_cell_with_too_many_descriptors_costs_a_connection_at_most(self) -> None:
        outcome = self.cell(
            "import older, resource, fcntl, os\n_, most = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (100, most))\nheld = []\ntry:\n"
            "    while True: held.append(fcntl.fcntl(0, fcntl.F_DUPFD, 80))\nexcept OSError: pass\n"
            "try: older.call('web_search')\nexcept (RuntimeError, OSError): print('cut off')\n"
            "for fd in held: os.close(fd)\n"
            "older._sock = None; older.call('web_search', query='a')['arguments']")
        self.assertEqual((outcome.stdout, outcome.text), ("cut off\n", "{'query': 'a'}"))

    def test_a_connection_waits_for_a_free_descriptor(self) -> None:
        server = rpc.Rpc(calls=lambda: None, descriptors=None, start=lambda function: None)
        for number, goes_on in ((errno.EMFILE, True), (errno.ENFILE, True), (errno.EBADF, False)):
            with unittest.mock.patch.object(rpc, "_accept", side_effect=OSError(number, "")):
                self.assertEqual(server.hear(0), goes_on)

    def test_packets_are_no_boundaries(self) -> None:
        """P11: several requests in one packet are answered in order, and one may come in pieces."""
        outcome = self.cell(
            "import older, json\nolder.call('web_search', n=0)\n"
            "line = lambda n: json.dumps({'tool': 'web_search', 'args': {'n': n}}).encode() + b'\\n'\n"
            "several = [a['arguments']['n'] for a in older.send(line(1) + b'\\n  \\n' + line(2) + line(3), 3)]\n"
            "older._sock.sendall(line(4)[:9]); several, older.send(line(4)[9:])[0]['arguments']")
        self.assertEqual(outcome.text, "([1, 2, 3], {'n': 4})")

    def test_a_request_that_cannot_be_read_leaves_the_connection(self) -> None:
        """P12"""
        outcome = self.cell(
            "import older\nolder.call('web_search')\n"
            "bad = [b'{', b'\\xff\\xfe', b'[]', b'{}', b'{\"tool\": 1}', b'{\"tool\": \"web_search\", \"args\": 1}', b'[' * 9000]\n"
            "print([a['error'].startswith('Invalid RPC request: ') for a in older.send(b'\\n'.join(bad) + b'\\n', len(bad))])\n"
            "print(older.call('web_search')['tool'])")
        self.assertEqual(outcome.stdout, f"{[True] * 7}\nweb_search\n")
        self.assertEqual(len(self.calls), 2)

    def test_a_tool_that_is_not_there(self) -> None:
        """P13: it is named with those that are there, sorted, and is not called."""
        outcome = self.cell("import older\nprint(older.call('nope')['error'])\nprint(older.call('old')['error'])")
        self.assertEqual(outcome.stdout, "Tool 'nope' is not available. Available: terminal, web_search\n"
                                         "Tool 'old' is not available. Available: terminal, web_search\n")
        self.assertEqual(self.calls, [])

    def test_arguments_of_the_terminal_that_mean_nothing_here(self) -> None:
        """P15: they are dropped."""
        outcome = self.cell("import older\nolder.call('terminal', command='ls', background=True, pty=True, check_interval=1, "
                            "notify_on_complete=True, timeout=3, notify=True, watch_patterns=['x'], heartbeat=5, persist_on_release=True)['arguments']")
        self.assertEqual(outcome.text, "{'command': 'ls', 'timeout': 3}")

    def test_a_failure_is_an_answer(self) -> None:
        """P14, P16: so is the limit of calls."""
        self.answer = lambda frame: {"error": "the limit of 50 tool calls is reached", "code": "limit"}
        outcome = self.cell("import older\nprint(older.call('web_search'))")
        self.assertEqual((outcome.stdout, outcome.stderr), ("{'error': 'the limit of 50 tool calls is reached'}\n", ""))

    def test_who_may_call(self) -> None:
        """P18: the socket is its owner's, and a token that is given must be the right one."""
        outcome = self.cell(
            "import older, os, json\npath = os.environ['HERMES_RPC_SOCKET']\nolder.call('web_search')\n"
            "ask = lambda token: older.send(json.dumps({'tool': 'web_search', 'token': token}).encode() + b'\\n')[0].get('error')\n"
            "print(oct(os.stat(path).st_mode & 0o777), oct(os.stat(os.path.dirname(path)).st_mode & 0o777))\n"
            "print([ask(t) for t in ('', 'x', 'ü', '\\ud800', 7, None)], ask(os.environ['HERMES_RPC_TOKEN']))")
        self.assertEqual(outcome.stdout, f"0o600 0o700\n{['Unauthorized RPC request'] * 6} None\n")

    def test_another_user_is_refused(self) -> None:
        """P18: whatever the permissions of the socket let through."""
        server = rpc.Rpc(calls=lambda: None, descriptors=None, start=lambda function: None)
        self.assertEqual((server._refused(os.getuid() + 1, 7), server._open), ("Unauthorized RPC request", set()))
        self.assertEqual((server._refused(os.getuid(), 7), server._open), ("", {7}))

    def test_brackets_in_a_string_are_not_deep(self) -> None:
        outcome = self.cell("import older\nprint(older.call('web_search', q='[\\\\\"' * 900)['arguments']['q'] == '[\\\\\"' * 900)")
        self.assertEqual(outcome.stdout, "True\n")

    def test_processes_and_forks_call(self) -> None:
        outcome = self.cell(
            "import os, subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import older; print(older.call(\"web_search\", n=1)[\"arguments\"])'],"
            " capture_output=True, text=True).stdout)\n"
            "import older\nsys.stdout.flush()\npid = os.fork()\nif not pid: os._exit(older.call('web_search', n=7)['arguments']['n'])\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        self.assertEqual(outcome.stdout, "{'n': 1}\n\n7\n")

    def test_an_interrupted_call_is_no_answer_to_the_next(self) -> None:
        def answer(frame: dict) -> dict:
            if frame["body"]["arguments"]["n"] == 1:
                self.runner.interrupt(frame["id"])
                return {"error": "the tool call was stopped: interrupted", "code": "ended"}
            return {"body": {"result": frame["body"]}}

        self.answer = answer
        self.assertEqual(self.cell("import older\nolder.call('web_search', n=1)", "error").error["ename"], "KeyboardInterrupt")
        self.assertIn("{'n': 2}", self.cell("older.call('web_search', n=2)").text)

    def test_hostile_clients_are_bounded(self) -> None:
        outcome = self.cell(
            "import older, os, socket, time\n"
            "def connect():\n    s = socket.socket(socket.AF_UNIX); s.connect(os.environ['HERMES_RPC_SOCKET']); return s\n"
            "endless = connect()\ntry:\n    for _ in range(4096): endless.sendall(b'x' * 65536)\n    print('all of it')\n"
            "except OSError: print('cut')\nendless.close()\n"
            "many = []\nfor _ in range(200): many.append(connect())\n"
            "print(b'which is the limit' in many[-1].recv(1000), len(os.listdir('/proc/self/task')) < 60)\n"
            "for s in many: s.close()\nbefore = len(os.listdir('/proc/self/fd'))\n"
            "for _ in range(2000):\n    with connect() as s:\n        try: s.send(b'{')\n"
            "        except BrokenPipeError: pass  # one too many, and closed already\n"
            "while True:\n    try: print(older.call('web_search')['tool']); break\n"
            "    except (OSError, RuntimeError): older._sock = None\n    except KeyError: older._sock = None\n")
        self.assertEqual(outcome.stdout, "cut\nTrue True\nweb_search\n")

    def test_a_variable_of_the_session_wins(self) -> None:
        with Runner({"TALARIA_INSTALLS": self.folder + "/other", "HERMES_RPC_SOCKET": "/mine"}, engine=ENGINE) as runner:
            self.assertEqual(runner.run("import os; os.environ['HERMES_RPC_SOCKET']").text, "'/mine'")

    def test_a_fork_holds_no_connection_of_the_kernel(self) -> None:
        outcome = self.cell(
            "import older, os\nolder.call('web_search')\npid = os.fork()\nif not pid:\n"
            "    os._exit(len([f for f in map(int, os.listdir('/proc/self/fd')) if f >= 900]))\n"
            "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(outcome.text, "0")
