"""Magics, commands and questions, as both engines have them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import unittest

from talaria_runner.streams.commands import _Streams
from tests.case import RunnerCase
from tests.host import Runner


class Commands(RunnerCase):
    def test_write_where_the_cell_writes(self) -> None:
        outcome = self.run_cell("print('a')\n!echo b; echo c >&2\nprint('d')")
        self.assertEqual((outcome.stdout, outcome.stderr), ("a\nb\nd\n", "c\n"))
        self.assertEqual(self.run_cell("if True:\n    !echo in").stdout, "in\n")
        self.assertEqual(self.run_cell("for i in range(2):\n    !echo {i} $i").stdout, "0 0\n1 1\n")

    def test_write_into_a_stdout_of_the_cell(self) -> None:
        code = (
            "import contextlib, io\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n    !echo 'hü'\n"
            "b.getvalue()"
        )
        outcome = self.run_cell(code)
        self.assertEqual((outcome.stdout, outcome.text), ("", "'hü\\n'"))

    def test_give_lines(self) -> None:
        self.assertEqual(self.run_cell("x = !printf 'a\\nb c\\n'\nx").text, "['a', 'b c']")
        self.assertEqual(self.run_cell("x.n, x.s, x.l is x, x.grep('b'), x.fields(0)").text,
                         "('a\\nb c', 'a b c', True, ['b c'], ['a', 'b'])")  # fmt: skip
        self.assertEqual(self.run_cell("open('f1', 'w').close()\ny = !echo f1\ny.p").text, "[PosixPath('f1')]")
        self.assertEqual(self.run_cell("!!echo a; echo b >&2").text, "['a', 'b']")
        self.assertEqual(self.run_cell("def f():\n    z = 5\n    r = !echo $z {z + 1}\n    return r\nf()").text, "['5 6']")

    def test_give_their_exit_code(self) -> None:
        self.assertEqual(self.run_cell("!exit 3\n_exit_code").text, "3")
        self.assertEqual(self.run_cell("!true\n_exit_code").text, "0")
        self.assertEqual(self.run_cell("x = !exit 4\n_exit_code").text, "4")
        self.assertEqual(self.run_cell("!kill -9 $$\n_exit_code").text, "-9")

    def test_get_only_what_is_a_variable_replaced(self) -> None:
        self.run_cell("import os; os.environ['TAL_V'] = 'env'; zz = 'val'; d = {'k': 1.5}")
        for command, text in (
            ("{zz} $zz", "val val"), ("$TAL_V ${TAL_V}", "env env"), ("$$zz", None), ("{d['k']:.2f} {zz!r}", None),
            ("{no_such}", "{no_such}"), ("'{print $1}'", "{print $1}"), ("'{{zz}}'", "{zz}"), ("$zz.upper", None),
        ):  # fmt: skip
            with self.subTest(command):
                out = self.run_cell(f"!echo {command}").stdout.rstrip("\n")
                if text is not None:
                    self.assertEqual(out, text)
        self.assertEqual(self.run_cell("!echo {d['k']:.2f}").stdout, "1.50\n")

    def test_have_no_input(self) -> None:
        self.assertEqual(self.run_cell("!cat; echo end").stdout, "end\n")

    def test_that_go_on_printing_are_not_read_to_the_end(self) -> None:
        said = []

        class Refilled:
            def write(self, text: str) -> None:
                said.append(text)
                if len(said) < 100:
                    os.write(streams.actions[0][1], b"more")

        streams = _Streams(Refilled(), None)
        self.addCleanup(streams.close)
        os.write(streams.actions[0][1], b"first")
        streams.drain()
        self.assertEqual(said, ["first"])

    def test_that_go_on_are_not_waited_for(self) -> None:
        self.run_cell("x = !sleep 100 & echo $!\nprint(x)")
        self.run_cell("!kill $x.s || kill {x[0]}")

    def test_show_what_they_write_at_once(self) -> None:
        id = self.runner.start("import os\nos.mkfifo('wait')\n!echo first; read said < wait; echo $said")
        path = os.path.join(self.runner.directory.name, "wait")
        while not os.path.exists(path) or not self.runner.pipes[0].data:
            self.runner.pipes[0].drain()
        self.assertIn(b"first", self.runner.pipes[0].data)
        with open(path, "w") as fifo:
            fifo.write("second\n")
        self.assertEqual(self.runner.finish(id).stdout, "first\nsecond\n")

    def interrupted(self, code: str):
        """Runs code, which makes a file named ready, and interrupts it then."""
        path = os.path.join(self.runner.directory.name, "ready")
        self.run_cell(f"import os\nif os.path.exists({path!r}): os.remove({path!r})\nos.mkfifo({path!r})")
        id = self.runner.start(code)
        with open(path) as fifo:
            fifo.read()
        self.runner.interrupt(id)
        return self.runner.finish(id)

    def test_end_by_an_interrupt_and_the_cell_goes_on(self) -> None:
        outcome = self.interrupted("!echo go > ready; sleep 100; echo not\nprint('next', _exit_code != 0)")
        self.assertEqual((outcome.status, outcome.stdout), ("ok", "^C\nnext True\n"))
        outcome = self.interrupted("x = !echo go; echo go > ready; sleep 100\nx")
        self.assertEqual((outcome.status, outcome.text), ("ok", "['go']"))

    def test_that_do_not_mind_an_interrupt_are_ended(self) -> None:
        outcome = self.interrupted("!trap '' INT TERM; echo go > ready; while true; do sleep 0.1; done")
        self.assertEqual((outcome.status, outcome.stdout), ("ok", "^C\n"))

    def test_of_a_whole_cell_end_it_when_interrupted(self) -> None:
        outcome = self.interrupted("%%bash\necho go > ready\nsleep 100")
        self.assertEqual((outcome.error["ename"], outcome.interrupted), ("KeyboardInterrupt", True))


class Scripts(RunnerCase):
    def test_of_shells(self) -> None:
        self.assertEqual(self.run_cell("%%bash\nfor i in 1 2; do echo b$i; done").stdout, "b1\nb2\n")
        self.assertEqual(self.run_cell("%%sh\necho $0").stdout, "sh\n")
        self.assertEqual(self.run_cell("%%bash -s one two\necho $2").stdout, "two\n")
        self.assertEqual(self.run_cell("%%script cat\na\n b").stdout, "a\n b\n")
        outcome = self.run_cell("%%bash --out o --err e\necho out; echo err >&2")
        self.assertEqual((outcome.stdout, outcome.stderr), ("", ""))
        self.assertEqual(self.run_cell("o, e").text, "('out\\n', 'err\\n')")

    def test_that_fail_fail_the_cell(self) -> None:
        outcome = self.fail_cell("%%bash\necho a\nexit 3", "CalledProcessError")
        self.assertEqual(outcome.stdout, "a\n")
        self.assertIn("exit status 3", outcome.error["evalue"])
        self.run_cell("%%bash --no-raise-error\nexit 3")
        self.assertIn("no program", self.fail_cell("%%script no-such-program\nx", "UsageError").error["evalue"])

    @unittest.skipUnless(shutil.which("gcc") and shutil.which("g++"), "there is no compiler")
    def test_that_are_compiled(self) -> None:
        cell = "#include <iostream>\nint main(int n, char **a) {\n  std::cout << a[1] << ' ' << n << '\\n';\n  return %d;\n}"
        self.assertEqual(self.run_cell("%%cpp 'a b' c\n" + cell % 0).stdout, "a b 3\n")
        self.assertIn("exit status 7", self.fail_cell("%%cpp x\n" + cell % 7, "CalledProcessError").error["evalue"])
        self.assertEqual(self.run_cell("%%cpp --out o x\n" + cell % 0 + "\n").stdout, "")
        self.assertEqual(self.run_cell("o").text, "'x 2\\n'")
        self.assertEqual(self.run_cell("%%c\n#include <math.h>\n#include <stdio.h>\n"
                                       "int main() { double x = 9; printf(\"%g\\n\", sqrt(x)); }").stdout, "3\n")
        outcome = self.fail_cell("%%c\nint main() {\n  return nothing;\n}", "CalledProcessError")
        self.assertIn(":3:", outcome.stderr)  # the line of the cell
        self.assertIn("gcc", outcome.error["evalue"])
        self.assertEqual(self.run_cell("import os\n[n for n in os.listdir() if n in ('c', 'cpp')]").text, "[]")

    @unittest.skipUnless(shutil.which("node"), "there is no Node.js")
    def test_of_node(self) -> None:
        self.assertEqual(self.run_cell("%%node\nconsole.log([1, 2].map(x => x * 2).join())").stdout, "2,4\n")

    def test_of_files(self) -> None:
        self.run_cell("open('rf.py', 'w').write('import sys\\nRV = 3\\nprint(\"ran\", __name__, sys.argv[1:])\\n')")
        outcome = self.run_cell("%run rf.py a 'b c'")
        self.assertEqual(outcome.stdout, "ran __main__ ['a', 'b c']\n")
        self.assertEqual(self.run_cell("RV, __name__, '__file__' in globals()").text, "(3, '__main__', False)")
        self.run_cell("open('ex.py', 'w').write('import sys\\nQ = 1\\nsys.exit(0)')")
        self.assertEqual(self.run_cell("%run ex\nQ").text, "1")
        self.run_cell("open('bad.py', 'w').write('def f():\\n    1/0\\nf()')")
        outcome = self.fail_cell("%run bad.py", "ZeroDivisionError")
        self.assertIn("bad.py", outcome.traceback)
        self.run_cell("seen = 5\nopen('see.py', 'w').write('seen += 1')\n%run -i see.py\nassert seen == 6")
        self.fail_cell("%run nowhere.py", "UsageError")
        code = (
            "import json\ncells = [{'cell_type': 'code', 'source': ['nb = 4\\n', 'print(nb)']}]\n"
            "json.dump({'cells': cells}, open('n.ipynb', 'w'))\n%run n.ipynb"
        )
        self.assertEqual(self.run_cell(code).stdout, "4\n")

    def test_are_pickled_as_programs_are(self) -> None:
        self.run_cell("open('cls.py', 'w').write('class K: pass\\nk = K()')\n%run cls.py")
        self.assertEqual(self.run_cell("type(k).__name__, __import__('sys').modules['__main__'].__dict__ is globals()").text,
                         "('K', True)")  # fmt: skip

    def test_are_written(self) -> None:
        self.assertEqual(self.run_cell("%%writefile w.py\nA = 1\n%x").stdout, "Writing w.py\n")
        self.assertEqual(self.run_cell("%%writefile w.py\nA = 1\n%x").stdout, "Overwriting w.py\n")
        self.assertEqual(self.run_cell("%%writefile -a w.py\nB = 2").stdout, "Appending to w.py\n")
        self.assertEqual(self.run_cell("open('w.py').read()").text, "'A = 1\\n%x\\nB = 2\\n'")


class Times(RunnerCase):
    def test_of_one_run(self) -> None:
        outcome = self.run_cell("%time sum(range(1000))")
        self.assertEqual(outcome.text, "499500")
        self.assertRegex(outcome.stdout, r"^CPU times: user.* total: .*\nWall time: .*\n$")
        self.assertEqual(self.run_cell("x = %time 5\nx").text, "5")
        self.assertIsNone(self.run_cell("%time 5;").result)
        self.assertEqual(self.run_cell("%time y = 5\ny").text, "5")
        outcome = self.run_cell("%%time\na = 1\na + 1")
        self.assertEqual((outcome.text, "Wall time" in outcome.stdout), ("2", True))
        self.assertEqual(self.run_cell("%%time\nimport asyncio\nawait asyncio.sleep(0, 7)").text, "7")

    def test_of_many_runs(self) -> None:
        outcome = self.run_cell("%timeit -n 10 -r 2 1+1")
        self.assertRegex(outcome.stdout, r"± .* per loop \(mean ± std. dev. of 2 runs, 10 loops each\)")
        self.assertIn("per loop", self.run_cell("%%timeit -n 5 -r 2 x=1\nx+1").stdout)
        self.assertEqual(self.run_cell("t = %timeit -o -q -n 3 -r 2 1\nt.loops, t.repeat, t.average >= 0").text,
                         "(3, 2, True)")  # fmt: skip
        self.run_cell("n = 0\ndef count():\n    global n\n    n += 1\n%timeit -q -n 3 -r 2 count()\nassert n == 6")
        code = "def f(a):\n    x = %time a + 1\n    %timeit -n 2 -r 2 a + x\n    return x\nf(4)"
        self.assertEqual(self.run_cell(code).text, "5")

    def test_have_the_errors_where_they_are(self) -> None:
        for code, line in (("a = 1\n%time 1/0", 2), ("%%time\n\n1/0", 3), ("\n%timeit 1/0", 2), ("%%timeit\n1/0", 2)):
            with self.subTest(code):
                outcome = self.fail_cell(code, "ZeroDivisionError")
                frames = re.findall(r'File "<cell \d+>", line (\d+)', outcome.traceback)
                self.assertEqual(int(frames[-1]), line, outcome.traceback)
        outcome = self.fail_cell("%%time\nx = = 1", "SyntaxError")
        self.assertIn("line 2", outcome.traceback)

    def test_of_functions(self) -> None:
        self.run_cell("%prun -q sum(range(10))")
        outcome = self.run_cell("%prun sum(range(10))")
        self.assertIn("function calls", outcome.displays[0]["text/plain"])


class Variables(RunnerCase):
    def test_are_listed(self) -> None:
        with Runner(engine=self.engine) as runner:
            runner.run("w1 = 1\nw2 = 'two'\n_hidden = 3")
            self.assertEqual(runner.run("%who").stdout.split(), ["w1", "w2"])
            self.assertEqual(runner.run("%who str").stdout.split(), ["w2"])
            self.assertRegex(runner.run("%whos").stdout, r"w1 +int +1\nw2 +str +'?two")

    def test_are_deleted(self) -> None:
        with Runner(engine=self.engine) as runner:
            runner.run("w1 = 1\nw1")
            self.assertEqual(runner.run("%reset -f").status, "ok")
            self.assertEqual(runner.run("'w1' in globals(), __name__, len(Out)").text, "(False, '__main__', 0)")
            runner.run("w2 = 1")
            runner.run("%reset", ["n"], allow_stdin=True)
            self.assertEqual(runner.run("w2").text, "1")
            runner.run("%reset", ["y"], allow_stdin=True)
            self.assertEqual(runner.run("'w2' in globals()").text, "False")
            self.assertEqual(runner.run("get_ipython() is not None, display is not None, print").status, "ok")

    def test_of_the_environment(self) -> None:
        self.assertEqual(self.run_cell("%env TAL_X=1\nimport os; os.environ['TAL_X']").text, "'1'")
        self.assertEqual(self.run_cell("%env TAL_X").text, "'1'")
        self.assertEqual(self.run_cell("%set_env TAL_X two words\nos.environ['TAL_X']").text, "'two words'")
        self.assertEqual(self.run_cell("v = 'val'\n%env TAL_X=$v\nos.environ['TAL_X']").text, "'val'")
        self.assertEqual(self.run_cell("e = %env\ne['TAL_X']").text, "'val'")

    def test_of_folders(self) -> None:
        self.run_cell("import os; os.makedirs('sub dir', exist_ok=True); here = os.getcwd()")
        self.assertEqual(self.run_cell("%cd sub dir").stdout.rstrip()[-8:], "/sub dir")
        self.assertEqual(self.run_cell("p = %pwd\np == os.getcwd() and p.endswith('sub dir')").text, "True")
        self.run_cell("%cd -q -\nassert os.getcwd() == here") if self.engine == "stdlib" else self.run_cell("%cd -")
        self.assertIn("sub dir", self.run_cell("%ls").stdout)


class Shows(RunnerCase):
    def test_texts(self) -> None:
        for name, mime in (
            ("html", "text/html"), ("javascript", "application/javascript"), ("latex", "text/latex"),
            ("markdown", "text/markdown"), ("svg", "image/svg+xml"), ("js", "application/javascript"),
        ):  # fmt: skip
            with self.subTest(name):
                self.assertIn("<svg", self.run_cell(f"%%{name}\n<svg/>").displays[0][mime])

    def test_captured_output_only_when_asked(self) -> None:
        outcome = self.run_cell("%%capture cap\nprint('hidden')\ndisplay(4)\n!echo sh\nimport sys\nsys.stderr.write('e')\n5")
        self.assertEqual((outcome.stdout, outcome.stderr, outcome.displays, outcome.result), ("", "", [], None))
        self.assertEqual(self.run_cell("cap.stdout, cap.stderr").text, "('hidden\\nsh\\n', 'e')")
        outcome = self.run_cell("cap()")
        self.assertEqual([data["text/plain"] for data in outcome.displays], ["4", "5"])
        self.assertEqual((outcome.stdout, outcome.stderr), ("hidden\nsh\n", "e"))
        self.assertEqual(self.run_cell("%%capture --no-stdout\nprint(1)").stdout, "1\n")
        self.fail_cell("%%capture cap\nprint('kept')\n1/0", "ZeroDivisionError")
        self.assertEqual(self.run_cell("print(cap.stdout)").stdout, "kept\n\n")

    def test_what_an_object_is(self) -> None:
        self.run_cell("def described(a, b=2):\n    'What it does.'\n    return a")
        for code in ("described?", "described ?", "?described", "%pinfo described"):
            outcome = self.run_cell(code)
            frame = outcome.of("display")[0]
            self.assertEqual(frame["metadata"], {"pager": True})
            self.assertRegex(frame["data"]["text/plain"], r"described\(a, b=2\)[\s\S]*What it does\.")
        self.assertIn("return a", self.run_cell("described??").displays[0]["text/plain"])
        self.assertIn("not found", self.run_cell("no_such_thing?").stdout)
        self.assertIn("described", self.run_cell("*describ*?").displays[0]["text/plain"])
        self.assertTrue(self.run_cell("%time?").displays[0]["text/plain"])
        self.assertTrue(self.run_cell("%%bash?").displays[0]["text/plain"])
        self.assertTrue(self.run_cell("?").displays[0]["text/plain"])

    def test_what_there_is(self) -> None:
        text = self.run_cell("%lsmagic").text
        for name in (
            "%cd %env %load_ext %ls %lsmagic %matplotlib %pip %pwd %reset %run %time %timeit %who %whos %history "
            "%config %set_env %reload_ext %%bash %%capture %%html %%javascript %%js %%latex %%markdown %%sh %%svg "
            "%%script %%time %%timeit %%writefile"
        ).split():
            self.assertRegex(text, rf"(?m)(^|\s){re.escape(name)}(\s|$)")

    def test_cells_before(self) -> None:
        with Runner(engine=self.engine) as runner:
            runner.run("a = 'old'")
            runner.run("b = 2")
            self.assertEqual(runner.run("%history 1").stdout, "a = 'old'\n")
            self.assertRegex(runner.run("%history -n 1-2").stdout, r"1: a = 'old'\n +2: b = 2")


class Errors(RunnerCase):
    def test_name_close_magics(self) -> None:
        for code, words in (
            ("%tiem 1", ["%tiem", "%time"]), ("%%bahs\nls", ["%%bahs", "%%bash"]), ("x = %pdw", ["%pwd"]),
            ("%writefile a", ["%%writefile"]), ("1\n%%time\n2", ["%%time", "first line"]), ("%nothing_like_it", ["%lsmagic"]),
        ):  # fmt: skip
            with self.subTest(code):
                message = self.fail_cell(code, "UsageError").error["evalue"]
                for word in words:
                    self.assertIn(word, message)

    def test_of_other_installers_say_what_to_do(self) -> None:
        for code in ("%conda install x", "%mamba install x", "%uv add x"):
            message = self.fail_cell(code, "UsageError").error["evalue"]
            self.assertIn("%pip install NAME", message)

    def test_keep_their_line(self) -> None:
        outcome = self.fail_cell("!true\nx = !echo a\n%env A=1\n\n1/0", "ZeroDivisionError")
        self.assertIn("line 5", outcome.traceback)
        outcome = self.fail_cell("!true\nx = !echo \\\n a\ny = (1\n", "SyntaxError")
        self.assertIn("'(' was never closed", outcome.traceback)
        self.assertIn("line 4", outcome.traceback)
        outcome = self.fail_cell("def f():\n    %time 1/0\nf()", "ZeroDivisionError")
        self.assertIn("%time 1/0", outcome.traceback)

    def test_do_not_come_of_python_that_looks_like_a_magic(self) -> None:
        self.assertEqual(self.run_cell("a = 7\n(a\n%4)").text, "3")
        self.assertEqual(self.run_cell("a \\\n%4").text, "3")
        self.assertEqual(self.run_cell("s = '''\n!ls\n%time\n'''\nlen(s.split())").text, "2")
        self.assertEqual(self.run_cell("ls = 3\nls").text, "3")
        self.assertEqual(self.run_cell("time = 3\ntime -1").text, "2")
        self.run_cell("del ls, time")


class Robustness(RunnerCase):
    def test_of_magics_without_modules(self) -> None:
        with Runner(engine=self.engine) as runner:
            runner.run("import sys\nsys.modules.clear()")
            self.assertEqual(runner.run("%time 1 + 1").text, "2")
            self.assertEqual(runner.run("!echo a").stdout, "a\n")

    def test_of_commands_without_streams(self) -> None:
        with Runner(engine=self.engine) as runner:
            outcome = runner.run("import sys\nsys.stdout = sys.stderr = None\n!echo a; echo b >&2")
            self.assertEqual((outcome.stdout, outcome.stderr), ("a\n", "b\n"))
            self.assertEqual(runner.run("import os\nos.environ.clear()\n!echo a").stdout, "a\n")
            self.assertEqual(runner.run("os.environ['SHELL'] = '/no/such'\nx = !echo a\nx").text, "['a']")

    def test_of_sources_that_are_no_cell(self) -> None:
        for code in (
            "%", "!", "%%", "?" * 10, "*" * 100_000 + "?", "a" * 100_000 + " ??", "%" * 1000, "= !x", "\\", "%%\n\n",
            "(" * 50 + "?", "x = %", "'''\n!ls", "%time", "!!", "\x00!ls", "%time %time 1/", "!" + "(" * 1000,
        ):  # fmt: skip
            with self.subTest(code[:20]):
                self.runner.run(code)
                self.assert_alive(self.runner)

    def test_of_a_shell_that_user_code_broke(self) -> None:
        for code in (
            "get_ipython().user_ns.clear()", "get_ipython().events.callbacks['pre_run_cell'] = [1]",
            "get_ipython().display_formatter = None", "import builtins; del builtins.get_ipython",
            "get_ipython().ast_node_interactivity = 5", "get_ipython().events = None", "del get_ipython().cells",
            "get_ipython().display.sinks.append(1)",
        ):  # fmt: skip
            with self.subTest(code), Runner(engine=self.engine) as runner:
                runner.run(code)
                runner.run("1 + 1")
                self.assertIn("alive\n", runner.run("print('alive')").stdout)


class Leaving(RunnerCase):
    def test_out_the_percent_sign_works_in_cells_of_one_line(self) -> None:
        self.assertEqual(self.run_cell("import os").status, "ok")
        self.assertEqual(self.run_cell("pwd").text, self.run_cell("os.getcwd()").text)
        self.run_cell("open('listed', 'w').close()")
        self.assertIn("listed", self.run_cell("ls").stdout)
        self.assertIn("listed", self.run_cell("ls -a").stdout)
        self.fail_cell("pwd\npwd", "NameError")


class Settings(RunnerCase):
    def test_of_matplotlib_are_taken(self) -> None:
        self.assertEqual(self.run_cell("%matplotlib inline").happened[0][0], "done")
        self.assertIn("windows", self.fail_cell("%matplotlib qt", "UsageError").error["evalue"])
        self.run_cell("%config InlineBackend.rc = {}")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "this interpreter has no matplotlib")
    def test_of_figures_are_taken(self) -> None:
        plot = "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nplt.plot([1]);"
        for value, mime in (("'svg'", "image/svg+xml"), ("'retina'", "image/png"), ("['svg', 'png']", "image/svg+xml")):
            self.run_cell(f"%config InlineBackend.figure_format = {value}")
            self.assertIn(mime, self.run_cell(plot).displays[0])
        for value in ("'nope'", "5"):
            self.assertIn("figure_format", self.fail_cell(f"%config InlineBackend.figure_format = {value}", "UsageError")
                          .error["evalue"])  # fmt: skip
        self.assertIn("image/svg+xml", self.run_cell(plot).displays[0])

    def test_of_values(self) -> None:
        self.assertEqual(self.run_cell("from IPython.core.interactiveshell import InteractiveShell as S\n"
                                       "S.ast_node_interactivity = 'all'").status, "ok")  # fmt: skip
        outcome = self.run_cell("1\n2;\n3")
        # A cell has one result: what comes before it is displayed.
        self.assertEqual(([data["text/plain"] for data in outcome.displays], outcome.text), (["1"], "3"))
        self.run_cell("S.ast_node_interactivity = 'last_expr_or_assign'")
        self.assertEqual(self.run_cell("y = 7").text, "7")
        self.run_cell("S.ast_node_interactivity = 'none'")
        self.assertIsNone(self.run_cell("7").result)
        self.run_cell("S.ast_node_interactivity = 'last_expr'")
        self.run_cell("%precision 2")
        self.assertEqual(self.run_cell("3.14159").text, "3.14")
        self.run_cell("%precision")
        self.assertEqual(self.run_cell("3.14159").text, "3.14159")
