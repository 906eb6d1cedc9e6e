"""Text in a cell that is not Python, and text that only looks like that."""

from __future__ import annotations

import unittest

from talaria_runner.engines.rewriting import rewrite


def python(source: str) -> str | None:
    rewritten = rewrite(source)
    return rewritten and rewritten[0]


class Rewriting(unittest.TestCase):
    def test_of_lines(self) -> None:
        for source, wanted in {
            "!ls": "get_ipython().system('ls')",
            "!!ls": "get_ipython().getoutput('ls')",
            "%time f()": "get_ipython().run_line_magic('time', 'f()')",
            "%pwd": "get_ipython().run_line_magic('pwd', '')",
            "x = !ls": "x = get_ipython().getoutput('ls')",
            "x=!ls": "x=get_ipython().getoutput('ls')",
            "a, b = %time f(1, 2)": "a, b = get_ipython().run_line_magic('time', 'f(1, 2)')",
            "d['='] = !ls": "d['='] = get_ipython().getoutput('ls')",
            "x: int = %pwd": "x: int = get_ipython().run_line_magic('pwd', '')",
            "a?": "get_ipython().run_line_magic('pinfo', 'a')",
            "a ?": "get_ipython().run_line_magic('pinfo', 'a')",
            "a.b[0]??": "get_ipython().run_line_magic('pinfo2', 'a.b[0]')",
            "?a.b": "get_ipython().run_line_magic('pinfo', 'a.b')",
            "??a": "get_ipython().run_line_magic('pinfo2', 'a')",
            "%time?": "get_ipython().run_line_magic('pinfo', '%time')",
            "%%time??": "get_ipython().run_line_magic('pinfo2', '%%time')",
            "*a*?": "get_ipython().run_line_magic('psearch', '*a*')",
            "!echo 'it' \"a\"": "get_ipython().system('echo \\'it\\' \"a\"')",
            "!echo it's\nx": "get_ipython().system(\"echo it's\")\nx",
            "!a \\\n  b\nx": "get_ipython().system('a  b')\n\nx",
            "x = !a \\\n b": "x = get_ipython().getoutput('a  b')\n",
            "if x:\n    !ls\n    %pwd\nelse:\n\t!x": (
                "if x:\n    get_ipython().system('ls')\n    get_ipython().run_line_magic('pwd', '')\n"
                "else:\n\tget_ipython().system('x')"
            ),
            "%%bash -x\na\n\nb": "get_ipython().run_cell_magic('bash', '-x', 'a\\n\\nb\\n')",
            "\n\n%%html\n%a": "\n\nget_ipython().run_cell_magic('html', '', '%a\\n')",
            "  a = 1\n  !ls": "a = 1\nget_ipython().system('ls')",
            ">>> a = (1,\n... 2)\n>>> a": "a = (1,\n2)\na",
        }.items():
            with self.subTest(source):
                self.assertEqual(python(source), wanted)
                compile(wanted, "", "exec")

    def test_leaves_what_only_looks_like_it(self) -> None:
        for source in (
            "'''\n%time\n!ls\n?x\n'''", "f(\n%ls\n)", "x = [\n  5\n  %ls\n]", "a \\\n%b", "a = '!' 'b",
            "# !ls\n1 +", "a == !b", "x = f(a=!ls)", "x = 'a = !ls' +", 'x = """\na = !b\n""" +', "a b?c",
            "s = 'it\\'s' +\n", "print(1", "'\\\n!ls'",
        ):  # fmt: skip
            with self.subTest(source):
                self.assertIsNone(python(source))

    def test_keeps_the_numbers_of_lines(self) -> None:
        source = "a = 1\n!b \\\n c\n%d\nx = '''\n!e\n'''\nf?\n"
        text, changed = rewrite(source)
        self.assertEqual(text.count("\n"), source.count("\n"))
        self.assertEqual(changed, {2: "!b \\", 4: "%d", 8: "f?"})


if __name__ == "__main__":
    unittest.main()
