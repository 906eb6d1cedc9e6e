"""The module hermes_tools: listing tools, calling them, and what ends a call."""

from __future__ import annotations

import os

from tests.case import RunnerCase
from tests.host import Outcome, Runner, ask

_SEARCH = {
    "name": "web_search", "description": "Searches the web.",
    "parameters": {"type": "object", "required": ["query"],
                   "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 5}}},
}  # fmt: skip
_TOOLS = [_SEARCH, {"name": "__import__"}, {"name": "gh__list-issues", "server": "gh"}, {"name": "old", "gone": True}]


def _runs(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Tools(RunnerCase):
    def drive(self, code: str, answer: object, tools: list[dict] = _TOOLS) -> Outcome:
        """Runs a cell; answer is called with the frame of each call, and returns the fields of its answer."""
        self.lists = 0
        id = self.runner.start(code)
        outcome = self.runner.executions[id]
        while not outcome.of("done"):
            frame = self.runner.next_frame()
            outcome.frames.append(frame)
            self.runner._place(outcome, frame)
            if frame.get("kind") == "tools":
                self.lists += 1
                self.runner.send(type="answer", ask=frame["ask"], body={"tools": tools})
            elif frame.get("kind") == "tool":
                fields = answer(frame)
                if fields:
                    self.runner.send(type="answer", ask=frame["ask"], **fields)
        return outcome

    def echo(self, frame: dict) -> dict:
        return {"body": {"result": frame["body"]}}

    def test_a_tool_is_a_function(self) -> None:
        """P01, P04: it is there from the first line, with the signature of its schema."""
        outcome = self.drive(
            "from hermes_tools import web_search\nimport inspect\n"
            "str(inspect.signature(web_search)), web_search.__doc__, web_search('a'), web_search(limit=2, query='b')", self.echo)
        self.assertEqual(
            outcome.text,
            "('(query: str, limit: int = 5)',\n 'Searches the web.',\n {'tool': 'web_search', 'arguments': {'query': 'a', 'limit': 5}},\n"
            " {'tool': 'web_search', 'arguments': {'query': 'b', 'limit': 2}})", outcome.traceback)
        self.assertEqual(self.lists, 1)

    def test_names_that_are_not_there(self) -> None:
        """P01: a name that was never registered is an ImportError, one that is gone ToolUnavailable."""
        outcome = self.drive(
            "import hermes_tools\nsaid = []\nfor line in ('from hermes_tools import nope', 'hermes_tools.nope', 'from hermes_tools import old'):\n"
            "    try: exec(line)\n    except Exception as e: said.append(type(e).__name__)\nsaid", self.echo)
        self.assertEqual(outcome.text, "['ImportError', 'AttributeError', 'ToolUnavailable']", outcome.traceback)

    def test_a_hostile_name_is_data(self) -> None:
        outcome = self.drive("import hermes_tools\nhermes_tools.import_()['tool'], __import__('sys').__name__", self.echo)
        self.assertEqual(outcome.text, "('__import__', 'sys')", outcome.traceback)

    def test_a_tool_without_a_schema_takes_any_arguments_by_name(self) -> None:
        outcome = self.drive("import hermes_tools\nhermes_tools.import_(a=1, self=2)['arguments'], hermes_tools.aio.import_", self.echo)
        self.assertIn("{'a': 1, 'self': 2}", outcome.text, outcome.traceback)
        outcome = self.drive("import hermes_tools\nhermes_tools.web_search('a', other=1)", self.echo)
        self.assertIn("unexpected keyword argument 'other'", outcome.traceback)

    def test_servers_and_search(self) -> None:
        outcome = self.drive(
            "import hermes_tools as h\nh.servers.gh.list_issues()['tool'], h.search_tools('web', detail='name'), dir(h.servers)", self.echo)
        self.assertEqual(outcome.text, "('gh__list-issues', ['web_search'], ['gh'])", outcome.traceback)

    def test_servers_are_modules(self) -> None:
        outcome = self.drive(
            "import hermes_tools.servers.gh\nfrom hermes_tools.servers.gh import list_issues\nfrom hermes_tools.servers import gh\n"
            "print(list_issues()['tool'], hermes_tools.servers.gh.list_issues()['tool'], gh.list_issues()['tool'], dir(gh))\n"
            "for line in ('import hermes_tools.servers.nope', 'from hermes_tools.servers.gh import nope', 'from hermes_tools.servers import nope'):\n"
            "    try: exec(line)\n    except ImportError as e: print(type(e).__name__)", self.echo)
        self.assertEqual(outcome.stdout, "gh__list-issues gh__list-issues gh__list-issues ['list_issues']\n"
                         "ModuleNotFoundError\nImportError\nImportError\n", outcome.traceback)

    def test_codes_are_exceptions(self) -> None:
        codes = iter(("unavailable", "timeout", "limit", "provider_gone", "denied", "odd"))
        outcome = self.drive(
            "import hermes_tools as h\nsaid = []\nfor _ in range(6):\n    try: h.web_search('a')\n"
            "    except h.ToolError as e: said.append((type(e).__name__, e.code, e.message))\nsaid",
            lambda frame: {"error": "no", "code": next(codes)})
        self.assertEqual(eval(outcome.text), [
            ("ToolUnavailable", "unavailable", "no"), ("ToolTimeout", "timeout", "no"), ("ToolLimit", "limit", "no"),
            ("ProviderGone", "provider_gone", "no"), ("ApprovalDenied", "denied", "no"), ("ToolError", "odd", "no"),
        ])  # fmt: skip

    def test_a_text_that_is_json_is_parsed_again(self) -> None:
        """P07"""
        results = iter(('{"a": [1]}', "plain"))
        outcome = self.drive("import hermes_tools as h\nh.web_search('a'), h.web_search('b')",
                             lambda frame: {"body": {"result": next(results)}})
        self.assertEqual(outcome.text, "({'a': [1]}, 'plain')", outcome.traceback)

    def test_a_text_that_is_nested_too_deeply_stays_a_text(self) -> None:
        text = "[" * 501 + "]" * 501
        results = iter((text, text[1:-1], '["' + "[" * 501 + '"]'))
        outcome = self.drive("import hermes_tools as h\n[type(h.web_search('a')).__name__ for _ in range(3)]",
                             lambda frame: {"body": {"result": next(results)}})
        self.assertEqual(outcome.text, "['str', 'list', 'list']", outcome.traceback)

    def test_an_answer_that_cannot_be_read_ends_the_call(self) -> None:
        with Runner() as runner:  # its reader may end
            self.runner = runner

            def answer(frame: dict) -> None:
                runner.control.sendall(b'{"type":"answer","ask":"%s","body":{"result":%s}}\n' % (frame["ask"].encode(), unreadable))

            for unreadable in (b"[" * 5000 + b"]" * 5000, b"1" * 5000):
                outcome = self.drive(
                    "import hermes_tools as h\ntry: h.web_search('a'); print('some Pythons can read it')\n"
                    "except h.ToolError as e: print(e)", answer)
                self.assertIn("read", outcome.stdout, outcome.traceback)
                self.assert_alive(runner)

    def test_threads_get_their_own_answers(self) -> None:
        """P19: ten threads call at once, and are answered in the opposite order."""
        calls = []

        def answer(frame: dict) -> None:
            calls.append(frame)
            if len(calls) == 10:
                for call in reversed(calls):
                    self.runner.send(type="answer", ask=call["ask"], body={"result": call["body"]["arguments"]["query"]})

        outcome = self.drive(
            "from hermes_tools import web_search\nfrom concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(10) as pool: got = list(pool.map(web_search, 'abcdefghij'))\n''.join(got)", answer)
        self.assertEqual(outcome.text, "'abcdefghij'", outcome.traceback)

    def test_tasks_wait_at_once(self) -> None:
        calls = []

        def answer(frame: dict) -> None:
            calls.append(frame)
            if len(calls) == 3:
                for call in reversed(calls):
                    self.runner.send(type="answer", ask=call["ask"], body={"result": call["body"]["arguments"]["query"]})

        outcome = self.drive(
            "import asyncio\nfrom hermes_tools import aio\nawait asyncio.gather(*(aio.web_search(c) for c in 'xyz'))", answer)
        self.assertEqual(outcome.text, "['x', 'y', 'z']", outcome.traceback)

    def test_an_interrupt_ends_a_call_and_keeps_the_state(self) -> None:
        def answer(frame: dict) -> dict:
            self.runner.interrupt(frame["id"])
            return {"error": "the tool call was stopped: interrupted", "code": "ended"}

        outcome = self.drive("from hermes_tools import web_search\nkept = 7\nweb_search('a')", answer)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))
        self.assertEqual(self.runner.run("kept").text, "7")

    def test_arguments_that_cannot_be_sent(self) -> None:
        outcome = self.drive(
            "import hermes_tools as h\nsaid = []\ndeep = []\nfor _ in range(500): deep = [deep]\n"
            "for value in ('x' * (2 << 20), deep, {1}):\n    try: h.web_search(value)\n    except h.ToolError as e: said.append(e.code)\nsaid",
            self.echo)
        self.assertEqual(outcome.text, "['limit', 'invalid_arguments', 'invalid_arguments']", outcome.traceback)

    def test_keys_that_are_the_same_in_json(self) -> None:
        """The host would drop the call, and nobody would answer."""
        outcome = self.drive(
            "import hermes_tools as h\nsaid = []\n"
            "for value in ({1: 'a', '1': 'b'}, [{None: 1, 'null': 2}], {'k': {'\\ud800': 1, '\\ud801': 2}}, {(): 1, None: 2}):\n"
            "    try: h.web_search(value)\n    except h.ToolError as e: said.append(e.code)\n"
            "set(said), len(said), h.web_search({1: 'a', True: 'b', 'é': 3, 1.5: 4})['arguments']['query']",
            self.echo)
        self.assertEqual(outcome.text, "({'invalid_arguments'}, 4, {'1': 'b', 'é': 3, '1.5': 4})", outcome.traceback)

    def test_a_call_after_its_cell_is_refused(self) -> None:
        """K08"""
        self.drive("import threading, hermes_tools as h\ngo = threading.Event(); said = []\nf = h.web_search\n"
                   "def late():\n    go.wait()\n    try: f('a')\n    except h.ToolError as e: said.append(e.code)\n"
                   "t = threading.Thread(target=late); t.start()", self.echo)
        outcome = self.drive("go.set(); t.join(); said, f('now')['arguments']['query']", self.echo)
        self.assertEqual(outcome.text, "(['late'], 'now')", outcome.traceback)

    def test_a_forked_process_gets_an_error(self) -> None:
        outcome = self.drive(
            "import os, hermes_tools as h\nf = h.web_search\npid = os.fork()\nif not pid:\n    try: f('a')\n"
            "    except h.ToolError as e: os._exit(7 if e.code == 'forked' else 8)\n    os._exit(9)\n"
            "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", self.echo)
        self.assertEqual(outcome.text, "7", outcome.traceback)

    def test_built_in_tools_work_on_files_of_the_workspace(self) -> None:
        """P04: they are carried out inside, and the host is told how each ended."""
        tools = [{"name": n, "builtin": True, "parameters": {"properties": {p: {} for p in ps}, "required": ps[:1]}}
                 for n, ps in (("read_file", ("path", "offset", "limit")), ("write_file", ("path", "content")),
                               ("search_files", ("pattern", "target")), ("patch", ("path", "old_string", "new_string")))]  # fmt: skip
        outcome = self.drive(
            "from hermes_tools import read_file, write_file, search_files, patch, ToolError\nimport os\n"
            "os.symlink('/etc', 'out')\nsaid = []\nw = write_file('a/b.txt', 'one\\ntwo\\n')\n"
            "p = patch('a/b.txt', 'two', 'three')['files']\nr = read_file('a/b.txt', 2)\ns = search_files('thr.e')\n"
            "for path in ('/etc/passwd', '../x', 'out/passwd', 'nope'):\n    try: read_file(path)\n"
            "    except ToolError as e: said.append(e.code)\nw, p, r, s['matches'], search_files('*.txt', 'files')['files'], said",
            lambda frame: {"body": {"run": True}}, tools)
        self.assertEqual(outcome.status, "ok", outcome.traceback)
        self.assertEqual(eval(outcome.text), (
            {"path": "a/b.txt", "bytes": 8}, ["a/b.txt"], {"content": "three\n", "total_lines": 2},
            [{"path": "a/b.txt", "line": 2, "content": "three"}], ["a/b.txt"], ["outside", "outside", "outside", "not_found"],
        ))  # fmt: skip
        ended = [(frame["ok"], frame["code"]) for frame in outcome.of("tool_end")]
        self.assertEqual(ended, [(True, "")] * 4 + [(False, "outside")] * 3 + [(False, "not_found"), (True, "")])

    def test_a_patch_changes_several_files_or_none(self) -> None:
        """P04: the mode patch, which takes the V4A format."""
        tools = [{"name": "patch", "builtin": True, "parameters": {"properties": {p: {} for p in ("mode", "patch")}}}]
        outcome = self.drive(
            "from hermes_tools import patch, ToolError\nimport os\nfor n in 'xyz': open(n, 'w').write('one\\n  two  \\nthree\\none\\nfour\\n')\n"
            "def apply(*lines):\n    try: return patch(mode='patch', patch='\\n'.join(('*** Begin Patch', *lines, '*** End Patch')))['files']\n"
            "    except ToolError as e: return e.code\n"
            "print(apply('*** Update File: x', '@@ three', '-one', '+1', '*** Update File: y', '*** Move to: d/y', '@@', ' one', ' two', '+more',"
            " '*** Delete File: z', '*** Add File: new', '+a', '+', '+b'))\n"
            "print([open(n).read() for n in ('x', 'd/y', 'new')], os.path.exists('y'), os.path.exists('z'))\n"
            "print(apply('*** Update File: x', '-one', '+gone', '*** Update File: new', '-nope', '+x'), open('x').read()[:3])\n"
            "print(apply('*** Move File: new -> moved'), os.path.exists('new'))\n"
            "for lines in (['*** Add File: ../out', '+a'], ['*** Add File: x', '+a'], ['*** Delete File: nope'], ['nonsense'], [],"
            " ['*** Update File: x', 'no mark'], ['*** Update File: /etc/passwd', '-root', '+x']): print(apply(*lines))\n"
            "for n in ('x', 'd/y', 'moved'): os.remove(n)\nos.rmdir('d')",
            lambda frame: {"body": {"run": True}}, tools)
        self.assertEqual(
            outcome.stdout, "['x', 'y', 'd/y', 'z', 'new']\n"
            "['one\\n  two  \\nthree\\n1\\nfour\\n', 'one\\n  two  \\nmore\\nthree\\none\\nfour\\n', 'a\\n\\nb\\n'] False False\n"
            "no_match one\n['new', 'moved'] False\noutside\nexists\nnot_found\ninvalid_arguments\ninvalid_arguments\ninvalid_arguments\noutside\n",
            outcome.traceback)

    _TERMINAL = [{"name": "terminal", "builtin": True, "parameters": {
        "properties": {"command": {}, "timeout": {}, "workdir": {}}, "required": ["command"]}}]  # fmt: skip

    def test_the_terminal_keeps_its_state(self) -> None:
        """P04, P15"""
        outcome = self.drive(
            "from hermes_tools import terminal, ToolTimeout\nsaid = []\n"
            "for c in ('mkdir -p sub && cd sub && x=1 && export Y=2', 'basename $PWD; echo $x; sh -c \"echo \\$Y\"', 'exit 3', 'echo $x; false'):\n"
            "    r = terminal(c); said.append((r['output'], r['exit_code']))\n"
            "try: terminal('sleep 60', timeout=0.1)\nexcept ToolTimeout as e: said.append(e.code)\n"
            "said.append(terminal('basename $PWD', workdir='/')['output']); said.append(terminal('echo $x')['output'])\nsaid",
            lambda frame: {"body": {"run": True}}, self._TERMINAL)
        self.assertEqual(outcome.status, "ok", outcome.traceback)
        self.assertEqual(eval(outcome.text), [("", 0), ("sub\n1\n2\n", 0), ("", 3), ("1\n", 1), "timeout", "/\n", "1\n"])

    def test_the_terminal_has_the_environment_of_the_cells(self) -> None:
        """What they change between two commands, and otherwise what its own commands have left."""
        outcome = self.drive(
            "import os\nfrom hermes_tools import terminal\nos.environ.update(A='1', B='1')\nterminal('export B=own C=own')\n"
            "first = terminal('echo $A $B $C')['output']\nos.environ['A'] = \"it's\"; del os.environ['B']; os.environ['C'] = 'cell'\n"
            "[first, terminal('echo $A $B $C; export C=own; false')['output'], terminal('echo $A $B $C')['output']]",
            lambda frame: {"body": {"run": True}}, self._TERMINAL)
        self.assertEqual(outcome.text, """['1 own own\\n', "it's cell\\n", "it's own\\n"]""", outcome.traceback)

    def test_the_terminal_does_not_wait_for_what_a_command_leaves_printing(self) -> None:
        outcome = self.drive("from hermes_tools import terminal\nterminal('yes & exit 3', timeout=20)['exit_code']",
                             lambda frame: {"body": {"run": True}}, self._TERMINAL)
        self.assertEqual(outcome.text, "3", outcome.traceback)

    def test_a_command_finds_no_input(self) -> None:
        outcome = self.drive(
            "from hermes_tools import terminal\nterminal('cat; read x || echo end')", lambda frame: {"body": {"run": True}}, self._TERMINAL)
        self.assertEqual(outcome.text, "{'output': 'end\\n', 'exit_code': 0}", outcome.traceback)

    def test_an_interrupt_ends_the_terminals_command(self) -> None:
        """The processes of the command are gone then."""
        begun = self.runner.directory.name + "/begun"
        os.mkfifo(begun)
        pids: list[str] = []

        def answer(frame: dict) -> dict:
            if "sleep" in frame["body"]["arguments"]["command"]:
                self.runner.send(type="answer", ask=frame["ask"], body={"run": True})
                with open(begun) as f:
                    pids.extend(f.read().split())
                self.runner.interrupt(frame["id"])
                return {}
            return {"body": {"run": True}}

        self.drive("from hermes_tools import terminal\nterminal('kept=5')", answer, self._TERMINAL)
        outcome = self.drive("terminal('exec >/dev/null 2>&1; sh -c \\'echo $PPID $$ >begun; exec sleep 60\\'')", answer, self._TERMINAL)
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))
        self.assertEqual([frame["code"] for frame in outcome.of("tool_end")], ["interrupted"])
        self.assertEqual((len(pids), [pid for pid in pids if _runs(pid)]), (2, []))
        self.assertEqual(self.drive("terminal('echo $kept')['output']", answer, self._TERMINAL).text, "'5\\n'")

    def test_are_saved_with_the_variables(self) -> None:
        """In another kernel they call the tools of that one's session."""
        self.addCleanup(setattr, self, "runner", self.runner)
        with Runner() as host, Runner() as other:
            path = os.path.join(host.directory.name, "variables")
            self.runner = host
            outcome = self.drive(
                "import hermes_tools, hermes_tools.servers.gh\nfrom hermes_tools import web_search, search_tools, ToolError, aio\n"
                "from hermes_tools.servers import gh\nsoon = aio.web_search\n"
                "def twice(q): return [web_search(q), web_search(q)]\ngh is hermes_tools.servers.gh", self.echo)
            self.assertEqual(outcome.text, "True", outcome.traceback)
            saved = ask(host, type="save", path=path, seconds=20, max_bytes=1 << 20)
            self.assertEqual((saved["reason"], saved["lost"]), ("", []), saved)
            loaded = ask(other, type="load", path=path, digest=saved["digest"])
            self.assertEqual((loaded["reason"], loaded["lost"]), ("", []), loaded)
            self.runner = other
            outcome = self.drive(
                "import inspect, hermes_tools as h\n[*twice('a'), await soon('b'), str(inspect.signature(web_search)), aio is h.aio, "
                "search_tools is h.search_tools, ToolError is h.ToolError, gh is h.servers.gh, dir(gh)]",
                lambda frame: {"body": {"result": frame["body"]["arguments"]["query"]}})
            self.assertEqual(outcome.status, "ok", outcome.traceback)
            self.assertEqual(eval(outcome.text), ["a", "a", "b", "(query: str, limit: int = 5)", True, True, True, True, ["list_issues"]])

    def test_the_helpers(self) -> None:
        """P06"""
        outcome = self.drive(
            "import hermes_tools as h\nslept = []\nn = []\ndef fail():\n    n.append(1); raise ValueError(len(n))\n"
            "sleep, h.retry.__globals__['sleep'] = h.retry.__globals__['sleep'], slept.append\n"
            "try: h.retry(fail)\nexcept ValueError as e: last = e.args\n"
            "h.retry(lambda: fail() if len(n) < 5 else 0, max_attempts=4, delay=0.5); h.retry.__globals__['sleep'] = sleep\n"
            "h.json_parse('\\ufeff{\"a\": \"x\\ny\"}'), h.shell_quote(\"it's\"), last, slept", self.echo)
        self.assertEqual(outcome.text, """({'a': 'x\\ny'}, '\\'it\\'"\\'"\\'s\\'', (3,), [2, 4, 0.5, 1.0])""", outcome.traceback)

    def test_a_cell_without_calls_loads_nothing(self) -> None:
        """P20"""
        with Runner() as fresh:
            outcome = fresh.run("import sys\nsorted(m for m in sys.modules if m.startswith('talaria_runner.tools.'))")
        self.assertEqual(outcome.text, "['talaria_runner.tools.finder', 'talaria_runner.tools.rpc']")
