"""The built-in tools that work on files: which places they may use, and what search_files finds (row P04)."""

from __future__ import annotations

import os
import tempfile

from tests import test_tools
from tests.case import RunnerCase
from tests.host import Outcome

_ARGUMENTS = {
    "read_file": "path offset limit", "write_file": "path content", "patch": "path old_string new_string replace_all mode patch",
    "search_files": "pattern target path file_glob limit offset output_mode context order",
}  # fmt: skip
_TOOLS = [{"name": n, "builtin": True, "parameters": {"properties": {p: {} for p in ps.split()}}} for n, ps in _ARGUMENTS.items()]
_BEGIN = """from hermes_tools import *
from hermes_tools import ToolError
import os
def attempt(tool, *args, **named):
    try: return tool(*args, **named)
    except ToolError as e: return e.code
"""


class FileTools(RunnerCase):
    drive = test_tools.Tools.drive
    mounts: list[str] = []

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)

    def value(self, code: str, **mounts: list[str]) -> object:
        """Runs a cell whose calls of tools are carried out with these mounts; returns the value of its last expression."""
        outcome: Outcome = self.drive(_BEGIN + code, lambda frame: {"body": {"run": True, **mounts}}, _TOOLS)
        self.assertEqual(outcome.status, "ok", outcome.traceback)
        return eval(str(outcome.text))

    def test_mounts_can_be_used_and_nothing_beside_them(self) -> None:
        data, beside = self.folder + "/data", self.folder + "/data2"
        for folder in (data, beside):
            os.mkdir(folder)
            with open(folder + "/a.txt", "w") as f:
                f.write("one\n")
        code = (
            f"data, beside = {data!r}, {beside!r}\n"
            "[attempt(read_file, data + '/a.txt'), attempt(write_file, data + '/new/b.txt', 'two'), "
            "attempt(patch, data + '/a.txt', 'one', '1')['files'] if os.path.exists(data + '/new') else None, "
            "attempt(search_files, '[1t]', path=data), attempt(search_files, '*', 'files', data), "
            "attempt(read_file, beside + '/a.txt'), attempt(read_file, data + '/../data2/a.txt'), attempt(write_file, beside + '/c', ''), "
            "attempt(search_files, 'one', path=beside)]"
        )
        self.assertEqual(self.value(code), ["outside", "outside", None] + ["outside"] * 6)
        self.assertEqual(self.value(code, mounts=[data]), [
            {"content": "one\n", "total_lines": 1}, {"path": f"{data}/new/b.txt", "bytes": 3}, [f"{data}/a.txt"],
            {"matches": [{"path": f"{data}/a.txt", "line": 1, "content": "1"}, {"path": f"{data}/new/b.txt", "line": 1, "content": "two"}],
             "total": 2},
            {"files": [f"{data}/a.txt", f"{data}/new/b.txt"], "total": 2}, "outside", "outside", "outside", "outside",
        ])  # fmt: skip

    def test_no_link_leads_out_of_the_workspace_or_a_mount(self) -> None:
        """Not even from one into the other, as approvals go by the path of the call."""
        os.symlink("/etc", self.folder + "/etc")
        self.assertEqual(self.value(
            f"data = {self.folder!r}\nos.symlink(data, 'into'); os.symlink(os.getcwd(), data + '/home')\n"
            "os.mkdir('real'); os.symlink('real', 'near')\n"
            "said = [attempt(tool, path) for path in (data + '/etc/passwd', 'into/x', data + '/home/x', 'near/x', data + '/x')\n"
            "        for tool in (read_file, lambda path: write_file(path, 'new')['bytes'])]\n"
            "said.append(attempt(patch, mode='patch', patch='*** Begin Patch\\n*** Add File: into/y\\n+1\\n*** End Patch'))\n"
            "for name in ('into', 'near'): os.remove(name)\nsaid",
            mounts=[self.folder],
        ), ["outside"] * 6 + ["not_found", 3] * 2 + ["outside"])  # fmt: skip
        self.assertEqual(sorted(os.listdir(self.folder)), ["etc", "home", "x"])

    def test_a_patch_changes_nothing_if_one_of_its_files_cannot_be_written(self) -> None:
        self.assertEqual(self.value(
            "open('first', 'w').write('one\\n'); open('file', 'w').write('')\n"
            "said = [attempt(patch, mode='patch', patch='*** Begin Patch\\n*** Update File: first\\n-one\\n+two\\n'\n"
            "        f'*** Add File: {name}\\n+1\\n*** End Patch') for name in ('/proc/self/new', 'file/below')]\n"
            "said, open('first').read()",
            mounts=["/proc/self"],
        ), (["failed", "not_a_folder"], "one\n"))  # fmt: skip

    def test_a_patch_knows_a_file_by_all_its_names(self) -> None:
        self.assertEqual(self.value(
            "open('twice', 'w').write('one\\ntwo\\n'); os.symlink('twice', 'alias')\n"
            "def apply(text): return patch(mode='patch', patch='*** Begin Patch\\n' + text + '\\n*** End Patch')['files']\n"
            "apply('*** Update File: twice\\n-one\\n+1\\n*** Update File: ./x/../twice\\n-two\\n+2\\n*** Update File: alias\\n 2\\n+3'), open('twice').read()",
        ), (["twice"], "1\n2\n3\n"))  # fmt: skip

    def test_a_patch_that_does_not_fit_names_the_file_and_the_hunk(self) -> None:
        self.assertEqual(self.value(
            "open('fits', 'w').write('one\\ntwo\\n'); said = []\n"
            "for text in ('*** Update File: fits\\n-one\\n+1\\n@@\\n-three\\n+3', '*** Add File: \\n+a'):\n"
            "    try: patch(mode='patch', patch='*** Begin Patch\\n' + text + '\\n*** End Patch')\n"
            "    except ToolError as e: said.append(e.message)\nsaid, open('fits').read()",
        ), (["hunk 2 of fits does not fit: its lines are not in the file, from line 2 on: 'three'",
             "the patch is malformed: the name of a file is missing"], "one\ntwo\n"))  # fmt: skip

    def test_a_search_has_an_order_pages_and_modes(self) -> None:
        self.assertEqual(self.value(
            "os.makedirs('s/deep/er'); os.makedirs('s/.hidden')\n"
            "for age, name in enumerate(('b.py', 'a.txt', 'deep/c.py', 'deep/er/d.py', '.hidden/e.py')):\n"
            "    open('s/' + name, 'w').write('hit\\nmiss\\nhit\\x0b hit\\r\\n'); os.utime('s/' + name, (age, age))\n"
            "open('s/binary.py', 'wb').write(b'hit\\0'); os.mkfifo('s/pipe.py'); os.utime('s/binary.py', (0, 0)); os.utime('s/pipe.py', (0, 0))\n"
            "def names(*a, **n):\n    r = search_files(*a, path='s', **n); return [x[2:] for x in r['files']], r['total']\n"
            "[names('hit', output_mode='files_only'), names('hit', output_mode='files_only', order='newest', limit=2),\n"
            " names('hit', output_mode='files_only', order='discovery', limit=2, offset=1), names('*.py', 'files', limit=-1),\n"
            " names('*.py', 'files', order='newest', limit=3), names('deep/*.py', 'files'), names('**/*.py', 'files', limit=3),\n"
            " names('hit', file_glob='deep/er/*', output_mode='files_only'),\n"
            " [(m['path'], m['line'], m['content']) for m in search_files('^hit', path='s', limit=2, offset=1)['matches']],\n"
            " search_files('miss', path='s/a.txt', context=1), search_files('hit', path='s', output_mode='count', limit=1)]",
        ), [
            (["a.txt", "b.py", "deep/c.py", "deep/er/d.py"], 4), (["deep/er/d.py", "deep/c.py"], 4), (["b.py", "deep/c.py"], 4), ([], 5),
            (["deep/er/d.py", "deep/c.py", "b.py"], 5), (["deep/c.py", "deep/er/d.py"], 2), (["b.py", "binary.py", "pipe.py"], 5),
            (["deep/er/d.py"], 1),
            [("s/a.txt", 3, "hit\x0b hit"), ("s/b.py", 1, "hit")],
            {"matches": [{"path": "s/a.txt", "line": 2, "content": "miss", "before": ["hit"], "after": ["hit\x0b hit"]}], "total": 1},
            {"files": ["s/a.txt"], "total": 4, "counts": {"s/a.txt": 2}},
        ])  # fmt: skip

    def test_a_search_that_cannot_be_done_says_why(self) -> None:
        self.assertEqual(self.value(
            "[attempt(search_files, '('), attempt(search_files, 'a', order='size'), attempt(search_files, 'a', output_mode='all'),\n"
            " attempt(search_files, 'a', path='nowhere')]",
        ), ["invalid_arguments"] * 3 + ["not_found"])  # fmt: skip

    def test_lines_end_at_line_feeds_only(self) -> None:
        self.assertEqual(
            self.value("open('lines', 'w').write('a\\x0cb\\u2028c\\nd')\nread_file('lines'), read_file('lines', 2)['content']"),
            ({"content": "a\x0cb\u2028c\nd", "total_lines": 2}, "d"))

    def test_text_that_is_not_unicode_is_refused(self) -> None:
        self.assertEqual(
            self.value(r"[attempt(write_file, 'f', '\ud83d'), attempt(write_file, '\ud83d', ''), attempt(read_file, '\ud83d'), os.path.exists('f')]"),
            ["invalid_arguments"] * 3 + [False])

    def test_a_file_that_has_no_room_takes_none(self) -> None:
        code = (
            "import resource\n"
            "def present(): return len(os.listdir('/proc/self/fd')), os.listdir()\n"
            "before, soft = present(), resource.getrlimit(resource.RLIMIT_FSIZE)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, soft[1]))\n"
            "answer = attempt(write_file, 'large', 2000 * 'x')\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, soft)\n"
            "[answer, before == present()]"
        )
        self.assertEqual(self.value(code), ["failed", True])


if __name__ == "__main__":
    import unittest

    unittest.main()
