from __future__ import annotations

import os
import unittest

from talaria_runner.packages.pip_arguments import Refused, change_of, parse
from tests.host import ENGINE
from tests.packages import VERSION, PackagesCase

_ALL = {"remove": False, "upgrade": False, "reinstall": False, "no_deps": False, "pre": False, "quiet": False}


class Installing(PackagesCase):
    def test_makes_a_package_importable_at_once(self) -> None:
        self.packages.files = {"newcomer.py": "V = 1\n"}
        self.packages.output = ["Collecting newcomer\n", "Successfully installed newcomer-1\n"]
        self.packages.changed = [{"name": "newcomer", "version": "1"}]
        hint = self.cell("import newcomer", "error").error["hint"]
        self.assertIn("%pip install newcomer", hint)
        outcome = self.cell("print('a')\n%pip install newcomer 'other>=1,<2' -U -q\nprint('b')\nimport newcomer; newcomer.V")
        self.assertEqual(outcome.stdout, "a\nCollecting newcomer\nSuccessfully installed newcomer-1\nb\n")
        self.assertEqual(outcome.text, "1")
        (frame,) = self.runner.installs
        self.assertRegex(frame.pop("ask"), "^[0-9a-f]{32}$")
        asked = {**_ALL, "requirements": ["newcomer", "other>=1,<2"], "upgrade": True, "quiet": True}
        self.assertEqual(frame, {"type": "ask", "id": "e2", "kind": "install", "body": asked})

    def test_shows_what_comes_with_the_answer_while_earlier_output_is_shown(self) -> None:
        def installer(frame: dict) -> None:
            if frame["type"] == "ask":
                self.runner.send(type="progress", ask=frame["ask"], text="first\n")
                while self.runner.next_frame()["type"] != "display":
                    pass
                self.runner.send(type="progress", ask=frame["ask"], text="last\n")
                self.runner.send(type="answer", ask=frame["ask"], body={"packages": []})

        self.runner.installer = installer
        code = """
import sys, time
from IPython.display import display
class Slow:
    def write(self, text):
        out.write(text)
        if text == "first\\n":
            display("being shown")
            time.sleep(0.3)
    def flush(self):
        pass
out, sys.stdout = sys.stdout, Slow()
try:
    %pip install newcomer
finally:
    sys.stdout = out
"""
        self.assertEqual(self.cell(code).stdout, "last\n")  # the first was read above

    def test_without_a_percent_sign_and_with_variables(self) -> None:
        self.cell("pip install newcomer")
        self.cell("name = 'x'\n%pip install {name}==1 # a comment\n%uv pip install --system y")
        self.cell("%pip install 'a; python_version<\"4\"' \\\n  \"b>=1\" c;\nfor x in 'de':\n    %pip install {x}")
        self.cell("%%bash\npip install f")
        self.assertEqual([f["body"]["requirements"] for f in self.runner.installs],
                         [["newcomer"], ["x==1"], ["y"], ['a; python_version<"4"', "b>=1", "c"], ["d"], ["e"], ["f"]])

    def test_that_fails_fails_the_cell(self) -> None:
        self.packages.error, self.packages.output = "there is no newcomer", ["Looking for it\n"]
        outcome = self.cell("%pip install newcomer", "error")
        self.assertEqual((outcome.error["ename"], outcome.error["evalue"]), ("InstallError", "there is no newcomer"))
        self.assertEqual(outcome.stdout, "Looking for it\n")
        self.assertNotIn("talaria_runner", outcome.traceback)

    def test_is_seen_by_child_processes_behind_the_standard_library(self) -> None:
        self.packages.files = {"newcomer.py": "V = 1\n", "colorsys.py": "raise ValueError\n", "x.pth": "/nowhere\n"}
        code = "%pip install newcomer\nimport subprocess, sys\n"
        code += "print(subprocess.run([sys.executable, '-c', 'import newcomer, colorsys; print(newcomer.V)'], "
        code += "capture_output=True, text=True))"
        self.assertIn(r"stdout='1\n', stderr=''", self.cell(code).stdout)

    def test_replaces_what_was_there_for_later_imports(self) -> None:
        self.packages.files = {"one.py": "V = 1\n", "two.py": "V = 1\n"}
        self.cell("%pip install one\nimport one")
        self.packages.files = {"one.py": "V = 2\n", "two.py": "V = 2\n"}
        self.assertEqual(self.cell("%pip install one\nimport one, two; one.V, two.V").text, "(1, 2)")

    def test_tells_what_is_loaded_in_another_version(self) -> None:
        records = "{0}/__init__.py,,\n{0}-{1}.dist-info/RECORD,,\n../../../bin/x,,\n"
        self.packages.files = {
            "told/__init__.py": "__version__ = '1.0'\n", "silent.py": "",
            "told-1.0.dist-info/RECORD": records.format("told", "1.0"), "Silent_Thing-1.dist-info/RECORD": "silent.py,,\n",
        }  # fmt: skip
        self.packages.changed = [{"name": "told", "version": "1.0"}, {"name": "silent-thing", "version": "1"}]
        self.assertEqual(self.cell("%pip install told silent-thing\nimport told, silent").stdout, "")
        self.packages.files = {
            "told/__init__.py": "__version__ = '2.0'\n", "silent.py": "",
            "told-2.0.dist-info/RECORD": records.format("told", "2.0"), "Silent_Thing-2.dist-info/RECORD": "silent.py,,\n",
        }  # fmt: skip
        self.packages.changed = [{"name": "told", "version": "2.0"}, {"name": "silent-thing", "version": "2"}]
        self.assertEqual(
            self.cell("%pip install -U told silent-thing").stdout.splitlines(),
            ["told 1.0 is still loaded; reset the session to use 2.0",
             "another version of silent-thing is still loaded; reset the session to use 2"],
        )  # fmt: skip
        self.packages.files, self.packages.changed = {}, [{"name": "told", "version": ""}]
        self.assertEqual(self.cell("%pip uninstall -y told").stdout,
                         "told is uninstalled, but stays loaded until the session is reset\n")

    def test_follows_what_packages_add_to_the_path(self) -> None:
        self.packages.files = {
            "a.pth": "inner\nimport builtins; builtins.counted = getattr(builtins, 'counted', 0) + 1\n",
            "bad.pth": "import nothing_like_it\n", "inner/deep.py": "V = 3\n", ".hidden.pth": "import builtins; builtins.hid = 1\n",
        }  # fmt: skip
        self.cell("%pip install a")
        os.mkfifo(f"{self.packages.path}/0001/lib/python{VERSION}/site-packages/blocks.pth")
        self.cell("%pip install b")
        code = "import deep, sys; folders = [p for p in sys.path if p.endswith(('-packages', '/inner'))]\n"
        code += "deep.V, counted, [p.rsplit('/', 1)[1] for p in folders][:2], hasattr(__builtins__, 'hid')"
        self.assertEqual(self.cell(code).text, "(3, 1, ['site-packages', 'inner'], False)")

    def test_is_interrupted(self) -> None:
        self.runner.installer = lambda frame: None
        id = self.runner.start("try:\n    %pip install newcomer\nexcept KeyboardInterrupt:\n    print('interrupted')\n1+1")
        self.runner.finish(id, until="install")
        self.runner.interrupt(id)
        outcome = self.runner.finish(id)
        self.assertEqual((outcome.stdout, outcome.text), ("interrupted\n", "2"))
        asked, ended = self.runner.installs
        self.assertEqual(ended, {"type": "ask_end", "ask": asked["ask"]})
        self.runner.send(type="answer", ask=asked["ask"], error="late")
        self.runner.send(type="progress", ask="unknown", text="x")
        self.assertEqual(self.cell("3").text, "3")

    def test_is_not_for_forked_children(self) -> None:
        code = "import os\nif not os.fork():\n    try:\n        %pip install x\n    except BaseException as e:\n"
        code += "        print(type(e).__name__)\n        os._exit(0)\nos.wait()"
        self.assertIn("InstallError", self.cell(code).stdout)
        self.assertEqual(self.runner.installs, [])

    def test_says_what_it_does_not_do(self) -> None:
        for line, words in (
            ("install", ["pip install NAME"]), ("install .", ["'NAME'", "."]), ("install -e x", ["-e", "-r FILE"]),
            ("install --target x y", ["--target"]), ("install --index-url http://a b", ["--index-url", "operator"]),
            ("install git+https://a/b", ["git+https://a/b", "name only"]), ("install 'a", ["quotation"]),
            ("uninstall", ["pip uninstall NAME"]), ("install -r missing.txt", ["missing.txt", "No such file"]),
        ):  # fmt: skip
            with self.subTest(line):
                error = self.cell(f"%pip {line}", "error").error
                self.assertEqual(error["ename"], "UsageError")
                for word in words:
                    self.assertIn(word.strip("'"), error["evalue"])
        self.assertEqual(self.runner.installs, [])


@unittest.skipUnless(ENGINE == "ipython", "this is of IPython's engine")
class OfTheKernel(PackagesCase):
    def test_packages_are_said_to_stay_what_they_are(self) -> None:
        self.packages.files = {
            "traitlets/__init__.py": "__version__ = '99'\n", "traitlets-99.dist-info/RECORD": "traitlets/__init__.py,,\n",
        }  # fmt: skip
        self.packages.changed = [{"name": "traitlets", "version": "99"}]
        self.assertRegex(self.cell("%pip install -U traitlets").stdout,
                         r"^traitlets \S+ is part of this kernel, which continues to use it; 99 is for other processes\n")
        self.assertNotIn("99", self.cell("import traitlets; traitlets.__version__").text)


class Off(PackagesCase):
    further = {"TALARIA_INTERNAL_NO_INSTALLS": "the operator of this server has turned it off"}

    def test_says_why(self) -> None:
        why = "packages cannot be installed here: the operator of this server has turned it off"
        error = self.cell("%pip install x", "error").error
        self.assertEqual((error["ename"], error["evalue"]), ("InstallError", why))
        self.assertEqual(self.cell("import newcomer_x", "error").error["hint"], why)
        outcome = self.cell("!pip install x")
        self.assertEqual((outcome.stderr, self.cell("_exit_code").text), (f"ERROR: {why}\n", "1"))
        self.assertEqual(self.runner.installs, [])

    def test_leaves_other_processes_the_pip_of_their_environment(self) -> None:
        self.assertEqual(self.cell("import os; os.environ.get('PYTHONPATH'), [n for n in os.environ if 'INTERNAL' in n]").text,
                         "(None, [])")


class Present(PackagesCase):
    """Packages that exist when the kernel starts."""

    def before(self) -> None:
        self.packages.files = {
            "early.py": "V = 1\n", "early.pth": "import builtins, sys; builtins.early = 1; print('lost')\n",
            "exits.pth": "import sys; sys.exit(3)\n", "stops.pth": "import sys; raise KeyboardInterrupt\n", "colorsys.py": "raise ValueError\n",
        }  # fmt: skip
        self.packages.change()

    def test_are_found(self) -> None:
        outcome = self.cell("import early as e, colorsys; e.V, early")
        self.assertEqual((outcome.text, outcome.stdout + outcome.stderr), ("(1, 1)", ""))


class Program(PackagesCase):
    def before(self) -> None:
        self.packages.output = ["Collecting newcomer\n", "Done: ü\n"]
        self.packages.files = {
            "newcomer.py": "V = 1\n", "pip/__init__.py": "__version__ = '99'\n", "pip/_internal.py": "V = 2\n",
            "pip/__main__.py": "import os, sys; print('the other', sys.argv[1:], os.environ.get('PYTHONPATH'))\nsys.exit(3)\n",
        }  # fmt: skip
        self.packages.change()

    def test_asks_the_kernel(self) -> None:
        outcome = self.cell("!pip install -U newcomer\nimport newcomer; newcomer.V, _exit_code")
        self.assertEqual((outcome.stdout, outcome.stderr, outcome.text), ("Collecting newcomer\nDone: ü\n", "", "(1, 0)"))
        (frame,) = self.runner.installs
        frame.pop("ask")
        asked = {**_ALL, "requirements": ["newcomer"], "upgrade": True}
        self.assertEqual(frame, {"type": "ask", "id": "e1", "kind": "install", "body": asked})

    def test_can_be_captured(self) -> None:
        for command in ('["pip3", "install", "newcomer"]', '[sys.executable, "-m", "pip", "install", "newcomer"]'):
            with self.subTest(command):
                code = f"import subprocess, sys; r = subprocess.run({command}, capture_output=True, text=True)\n"
                self.assertEqual(self.cell(code + "r.returncode, r.stdout, r.stderr").text,
                                 r"(0, 'Collecting newcomer\nDone: ü\n', '')")

    def test_fails_as_the_installation_does(self) -> None:
        self.packages.error = "there is no newcomer"
        outcome = self.cell("!pip install newcomer\n_exit_code")
        self.assertEqual((outcome.stderr, outcome.text), ("ERROR: there is no newcomer\n", "1"))
        outcome = self.cell("!pip install git+https://a/b\n_exit_code")
        self.assertRegex(outcome.stderr, r"^ERROR: git\+https://a/b: packages are installed by name only")
        self.assertEqual(outcome.text, "1")

    def test_of_another_session_of_processes_names_no_execution(self) -> None:
        self.cell("import subprocess; subprocess.run(['pip', 'install', 'x'], start_new_session=True)")
        self.assertNotIn("id", self.runner.installs[0])

    def test_of_another_environment_is_its_own(self) -> None:
        code = "import subprocess, sys; r = subprocess.run([sys.executable, '-c', "
        code += "'import sys, runpy; sys.prefix = \"/elsewhere\"; sys.argv = [\"pip\", \"install\", \"x\"]; "
        code += "runpy.run_module(\"pip\", run_name=\"__main__\")'], capture_output=True, text=True); r.returncode, r.stdout"
        self.assertEqual(self.cell(code).text, r'''(3, "the other ['install', 'x'] None\n")''')
        self.assertEqual(self.runner.installs, [])

    def test_leaves_the_rest_to_the_pip_of_the_environment(self) -> None:
        for code in ("%pip list -v", "!pip list -v", "import subprocess, sys; r = "
                     "subprocess.run([sys.executable, '-m', 'pip', 'list', '-v'])"):  # fmt: skip
            self.assertEqual(self.cell(code).stdout, "the other ['list', '-v'] None\n", code)
        code = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', "
        code += "'import pip, pip._internal; print(pip.__version__, pip._internal.V)'], capture_output=True, text=True))"
        self.assertIn(r"stdout='99 2\n'", self.cell(code).stdout)

    def test_that_is_killed_withdraws(self) -> None:
        self.runner.installer = lambda frame: None
        id = self.runner.start("import subprocess; p = subprocess.Popen(['pip', 'install', 'x']); p.wait()")
        self.runner.finish(id, until="install")
        self.runner.send(type="progress", ask=self.runner.installs[0]["ask"], text="once\n")
        self.runner.interrupt(id)  # the interrupt reaches it as well
        outcome = self.runner.finish(id)
        self.assertEqual(outcome.error["ename"], "KeyboardInterrupt")
        self.cell("p.wait(); p.poll()")
        while len(self.runner.installs) < 2:
            self.runner.installs.append(self.runner.next_frame())
        self.assertEqual(self.runner.installs[1], {"type": "ask_end", "ask": self.runner.installs[0]["ask"]})

    def test_leaves_nothing(self) -> None:
        self.cell("!pip install x\n!pip install ./x")
        self.assertEqual(self.cell("import os; sorted(os.listdir(os.environ['TALARIA_INSTALLS']))").text, "['asks', 'rpc']")

    def test_says_so_where_there_is_no_kernel(self) -> None:
        code = "import os, subprocess; r = subprocess.run(['pip', 'install', 'x'], capture_output=True, text=True, "
        code += "env={**os.environ, 'TALARIA_INSTALLS': '/nowhere'}); r.returncode, r.stderr"
        self.assertRegex(self.cell(code).text, r"\(1,\s+'ERROR: the kernel .* %pip install NAME")

    def test_is_not_asked_by_junk(self) -> None:
        code = """
import json, os
folder = os.environ["TALARIA_INSTALLS"]
asks = os.open(folder + "/asks", os.O_WRONLY)
good = {"change": {**%r, "requirements": ["x"]}, "session": 0, "prefix": ""}
def ask(request, answer=os.mkfifo):
    name = os.urandom(16).hex()
    if request is not None:
        with open(f"{folder}/{name}.request", "w") as f:
            f.write(request if isinstance(request, str) else json.dumps(request))
    if answer:
        answer(f"{folder}/{name}.answer")
    got = os.open(f"{folder}/{name}.answer", os.O_RDONLY | os.O_NONBLOCK) if answer is os.mkfifo else -1
    os.write(asks, name.encode() + b"\\n")
    if got < 0:
        return ""
    with open(got, "rb", buffering=0) as f:
        import select
        p = select.poll(); p.register(got, select.POLLIN); p.poll()
        return (f.read(10000) or b"").decode()
os.write(asks, b"\\n\\xff\\xfe" + b"x" * 3000 + b"\\n../../etc/passwd\\n" + b"0" * 31 + b"\\n" + b"G" * 32 + b"\\n")
ask(None); ask(good, None); ask(None, lambda path: open(path, "w").close())
ask(None, lambda path: os.symlink("/dev/null", path))
print([ask(r) for r in (None, "", "[]", "{", "x" * 600000, "[" * 5000)])
for change in (None, [], {}, {"requirements": ["x"]}, dict(good["change"], requirements="x"), dict(good["change"], quiet=1),
               dict(good["change"], requirements=[1]), dict(good["change"], requirements=["x"] * 300),
               dict(good["change"], requirements=[""]), dict(good["change"], requirements=["x" * 2000])):
    print(ask(dict(good, change=change)), end="")
print(ask(good).count("Collecting"))
""" % ({k: v for k, v in _ALL.items()},)
        lines = self.cell(code).stdout.splitlines()
        self.assertEqual(lines[0], str([""] * 6))
        self.assertTrue(all('"error"' in line for line in lines[1:11]), lines)
        self.assertEqual(lines[11:], ["1"])
        asked = [f["body"]["requirements"] for f in self.runner.installs if f["type"] == "ask"]
        self.assertEqual(asked, [["x"]])

    def test_may_be_run_a_few_times_at_once(self) -> None:
        self.runner.installer = lambda frame: None
        code = "import subprocess; all = [subprocess.Popen(['pip', 'install', 'x'], stderr=subprocess.PIPE) for _ in range(9)]\n"
        code += "import select; p = select.poll(); [p.register(x.stderr) for x in all]; p.poll()\n"
        code += "[x.kill() for x in all]; b'too many programs' in b''.join(x.stderr.read() for x in all)"
        self.assertEqual(self.cell(code).text, "True")
        self.assertLessEqual(sum(f["type"] == "ask" for f in self.runner.installs), 8)

    def test_survives_a_kernel_that_closes_what_is_not_its_own(self) -> None:
        self.cell("import os\nfor fd in range(3, 2000):\n    try:\n        t = os.readlink(f'/proc/self/fd/{fd}')\n"
                  "        t.endswith('/asks') and os.close(fd)\n    except OSError:\n        pass")
        self.assertEqual(self.cell("import time; t = time.process_time(); time.sleep(0.2); time.process_time() - t < 0.1").text,
                         "True")
        self.assertIn("%pip install NAME", self.cell("!pip install x").stderr)


class Arguments(unittest.TestCase):
    """What the command line of pip means."""

    def test_are_understood(self) -> None:
        for line, wanted in (
            ("install a", {}),
            ("install a -qU --pre --no-deps --force-reinstall", {"quiet": 1, "upgrade": 1, "pre": 1, "no_deps": 1, "reinstall": 1}),
            ("-q --no-input install --user a --progress-bar off --root-user-action=ignore --timeout 5", {"quiet": 1}),
            ("install --break-system-packages --no-cache-dir --disable-pip-version-check a -v", {}),
            ("uninstall -y a", {"remove": 1}),
        ):  # fmt: skip
            with self.subTest(line):
                change = parse(line.split()).fields()
                self.assertEqual(change.pop("requirements"), ["a"])
                self.assertEqual({name for name, value in change.items() if value}, set(wanted))

    def test_are_left_to_the_other_pip(self) -> None:
        for line in ("", "list", "--version", "-V", "install --help", "freeze -l", "show a", "check", "download a", "--python x list"):
            self.assertIsNone(parse(line.split()), line)

    def test_name_packages(self) -> None:
        for text in ("a", "A.b_c-d", "a[x]", "a[x, y]>=1,<2", "a == 1.*", "a~=1.2", "a===1+local", "a>=1; python_version<'4'", "a (>=1)", "a!=1.0"):
            self.assertEqual(parse(["install", text]).requirements, [text])
        for text in (
            ".", "./a", "../a", "/a", "a/b", "a.whl", "a-1.tar.gz", "a.zip", "-", "a b", "a @ http://x", "http://x/a.whl", "git+ssh://x",
            "a>", ">=1", "a>=1 <2", "a>=1;", "a[", "ä", "a>=1\nb", "", "a" * 1100, "file:a", "a;\n-e b", "$a", "a==${B}",
        ):  # fmt: skip
            with self.subTest(text), self.assertRaises(Refused):
                parsed = parse(["install", text])
                if parsed:
                    change_of(parsed.fields())
        with self.assertRaises(Refused):
            parse(["uninstall", "a>=1"])
        with self.assertRaises(Refused):
            parse(["install", *["a"] * 201])

    def test_refuse_what_is_not_understood_by_name(self) -> None:
        for option in ("-t", "--target", "--prefix", "--root", "-e", "--editable", "-c", "--constraint", "-i", "--index-url",
                       "--extra-index-url", "-f", "--find-links", "--trusted-host", "--no-index", "--no-binary", "--src",
                       "--config-settings", "-x", "--no-build-isolation", "--require-hashes", "--dry-run", "--report"):  # fmt: skip
            with self.subTest(option), self.assertRaisesRegex(Refused, option):
                parse(["install", option, "a", "b"])
            if option.startswith("--"):
                with self.subTest(option), self.assertRaisesRegex(Refused, option):
                    parse(["install", f"{option}=a", "b"])
        with self.assertRaisesRegex(Refused, "--index-url"):
            parse(["--index-url", "x", "install", "a"])
        with self.assertRaisesRegex(Refused, "-r needs a value"):
            parse(["install", "-r"])


class Files(PackagesCase):
    """Files of requirements."""

    def write(self, name: str, text: str) -> str:
        path = f"{self.packages.folder.name}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_are_read(self) -> None:
        self.write("sub/more.txt", "c\n-rlast.txt\n")
        self.write("sub/last.txt", "\ufeffd>=1\n")
        path = self.write("all.txt", "# all\na  # one\n\nb[x]>=1,\\\n<2 ; python_version>'3'\n--requirement=sub/more.txt\n")
        self.assertEqual(parse(["install", "-r", path, "z"]).requirements, ["a", "b[x]>=1, <2 ; python_version>'3'", "c", "d>=1", "z"])
        self.assertEqual(parse(["install", "--requirement=" + path]).requirements[0], "a")
        self.assertEqual(parse(["install", "-r" + path]).requirements[0], "a")
        self.cell(f"import os; os.chdir({os.path.dirname(path)!r})\n%pip install -r all.txt\n!pip install -qr all.txt")
        self.assertEqual([len(f["body"]["requirements"]) for f in self.runner.installs], [4, 4])

    def test_are_refused_where_they_ask_for_more(self) -> None:
        os.mkfifo(self.packages.folder.name + "/pipe")
        for text, words in (
            ("--index-url http://x\na\n", "--index-url"), ("-e .\n", "-e"), ("a --hash=sha256:1\n", "may not have options"),
            ("git+http://x\n", "name only"), ("-c x\n", "-c"), ("-r itself.txt\n", "refer to each other"),
            ("-r missing.txt\n", "No such file"), ("-r pipe\n", "regular file"), ("-r .\n", "regular file"),
            ("a\n" * 300, "more than 200"), ("#" * (2 << 20), "1 MiB"), ("-r http://x/y\n", "files of the session"),
        ):  # fmt: skip
            path = self.write("itself.txt", text)
            with self.subTest(text[:20]), self.assertRaisesRegex(Refused, words):
                parse(["install", "-r", path])


if __name__ == "__main__":
    unittest.main()
