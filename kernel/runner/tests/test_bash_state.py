"""%%bash --state: what cells in bash leave to each other."""

from __future__ import annotations

import os

from tests.case import RunnerCase

# What bash prints of cells, and how they end, is the same with the state and without it.
_SAME = [
    "echo a; echo b >&2; exit 3",
    "#!/bin/bash\n# a comment\necho $LINENO $0 $# $?",
    "false",
    "set -e\nfalse\necho not",
    "set -eu -o pipefail\necho $undefined\necho not",
    "set -x\necho traced\nexit 2",
    "(exit 4)",
    "kill -TERM $$",
    "echo one\nif then\necho not",
    "if then",
    "echo 'open",
    "cat <<E\n$((1 + 1))\nE\ncat <<E\nnever closed",
    "echo before\ncat\nthis is what cat reads",
    "no-such-program\necho $?",
    "no-such-program",
    "f() { return 5; }; f",
    "f() { local inside=1; exit 6; }; f",
    "trap 'echo debug' DEBUG\necho here",
    "trap 'echo failed' ERR\nset -E\nfalse",
    "readonly r=1\nr=2\necho not",
    "shopt -s failglob extglob nullglob\necho [x]*nothing",
    "set -o posix\nexport 1x=3\necho after",
    "printf 'no newline'",
    "sleep 0.01 & wait; echo $!  | wc -l",
    "(exit 9) | true; echo ${PIPESTATUS[*]}",
    "env | grep BASH_ENV; compgen -v | grep -i talaria; compgen -A function; echo $BASH_ENV; ls /dev/fd | wc -l >/dev/null",
    "bash -c 'echo child; exit 1' || echo $?",
    "IFS=,; set -- 'a b'; echo \"$*\"; cd /; unset PWD HOME PATH",
    "alias exit='echo never'\ntrue",
    "set -t\necho not",
    "",
]

# Cells that leave no state, and say so.
_LOST = [
    "trap 'echo bye; exit 7' EXIT\necho here",
    "exec sh -c 'echo replaced; exit 8'",
    "exec 252>&-; exec 251>&-; echo closed",
    "builtin() { echo mine; }\nfalse",
    "set -n\necho not",
    "set -r\necho restricted",
]

# Cells in an environment with POSIXLY_CORRECT.
_POSIX = [
    "shopt -po posix; echo \"$POSIXLY_CORRECT\"; sh -c 'echo \"$POSIXLY_CORRECT\"'; env | grep -c BASH_ENV",
    "export 1x=3\necho not",
    "set +o posix; echo \"<$POSIXLY_CORRECT>\"; sh -c 'echo \"<$POSIXLY_CORRECT>\"'",
    "set -x\necho traced",
]

# Cells, and what the last of them prints.
_KEPT = [
    (["a=1; export B='two  words'; f() { echo f $a; }; mkdir -p sub; cd sub", "f; echo \"$B\"; basename \"$PWD\"; sh -c 'echo \"$B\"'"],
     "f 1\ntwo  words\nsub\ntwo  words\n"),
    (["x=$'line\\n\"quoted\" $HOME `id` \\\\ \\' \\x01'; y=$x", "[ \"$x\" = $'line\\n\"quoted\" $HOME `id` \\\\ \\' \\x01' ] && echo same"],
     "same\n"),
    (["a=(1 'two words' [5]=$'x\\ny'); declare -A m=([k k]=v [' ']=w); declare -i n=4; declare -n ref=n; readonly R=r; declare -u up=abc",
      "echo \"${a[5]}\" \"${#a[@]}\" \"${m[k k]}\" \"${m[ ]}\"; n=n+1; echo $ref $up; (R=2) 2>/dev/null || echo $R"],
     "x\ny 3 v w\n5 ABC\nr\n"),
    (["shopt -s extglob\nf() { case $1 in +(a)) echo as;; *) cat <<E\nnot $1\nE\n;; esac; }\ng() { echo g; }; export -f g", "f aaa; f b; bash -c g"],
     "as\nnot b\ng\n"),
    (["alias ll='echo \"listed\"' echo='echo -n'", "ll\nunalias echo", "echo x"], "x\n"),
    (["alias ll='echo listed'\nll", "ll"], "listed\n"),
    (["set -euo pipefail -f; shopt -s nullglob dotglob", "echo $- *; shopt -q nullglob dotglob; shopt -po pipefail"], "efhuBs *\nset -o pipefail\n"),
    (["set -e; v=1", "echo $v; false; echo not"], "1\n"),
    (["set -o posix; alias e='echo posix'; v=1", "shopt -po posix; e $v"], "set -o posix\nposix 1\n"),
    (["unset HOME PAGER; PATH=/x:$PATH", "echo \"<$HOME$PAGER>\" ${PATH%%:*}"], "<> /x\n"),
    (["mkdir -p one/two; cd one; cd two", "cd - >/dev/null; basename $PWD"], "one\n"),
    (["mkdir -p \"it's  a 'folder'\"; cd \"it's  a 'folder'\"", "basename \"$PWD\"; cd ..; rmdir it*"], "it's  a 'folder'\n"),
    (["mkdir gone; cd gone; rmdir ../gone; v=kept", "echo $v"], "kept\n"),
    (["LINENO=90; RANDOM=1; SECONDS=500\nv=$RANDOM", "echo $LINENO $((SECONDS < 100))"], "1 1\n"),
    (["v=1; exit 3", "echo $v"], "1\n"),
    (["v=1\nif then", "echo $v"], "1\n"),
    (["v=1", "v=2; exec true", "echo $v"], "1\n"),
    (["v=1", "v=2; trap true EXIT", "echo $v"], "1\n"),
    (["v=1", "(v=2; exit 1); v=$(v=3; echo 4)", "echo $v"], "4\n"),
    (["v=1", "kill -KILL $$", "echo $v"], "1\n"),
    (["v=1; sleep 100 >/dev/null 2>&1 & job=$!", "echo $v; kill $job"], "1\n"),
    (["set -- a b; trap 'echo trapped' USR1", "echo $#; kill -USR1 $BASHPID & wait; echo alive"], "0\nalive\n"),
    (["declare() { :; }; printf() { :; }; cd() { builtin cd \"$@\" && echo in; }; mkdir -p o; v=1; cd o >/dev/null", "builtin echo $v; cd ."],
     "1\nin\n"),
    (["builtin cd /; IFS=x; CDPATH=/usr; v='a b'", "pwd; builtin echo $v"], "/\na b\n"),
    (["e=$(printf 'caf\\xc3\\xa9 \\xff'); LC_ALL=C", "printf %s \"$e\" | od -An -tx1 | tr -d ' '"], "636166c3a920ff\n"),
    (["v=$(head -c 300000 /dev/zero | tr '\\0' \\')", "echo ${#v}"], "300000\n"),
    (["mkdir -p nopwd; cd nopwd; unset PWD; set -u; v=1", "echo $v; basename $PWD"], "1\nnopwd\n"),
    (["umask 027", "umask"], "0027\n"),
    (["alias alias='(' x='echo x'; v=1; f() { :; }", "v=2; unalias -a", "alias x='echo x'", "x $v"], "x 2\n"),
    (["set -v", "v=1", "echo $v"], "1\n"),
    (["BASH_ENV=/nowhere; export BASH_ENV", "echo $BASH_ENV"], "/nowhere\n"),
    (["export POSIXLY_CORRECT='a b'; f() { echo f; }", "f; shopt -po posix; sh -c 'echo $POSIXLY_CORRECT'"], "f\nset -o posix\na b\n"),
    (["set -o posix", "shopt -po posix; sh -c 'echo \"<$POSIXLY_CORRECT>\"'"], "set -o posix\n<>\n"),
]


class State(RunnerCase):
    def setUp(self) -> None:
        super().setUp()
        self.run_cell("%namespace -d c")

    def ends(self, magic: str, code: str) -> tuple[str, str, str]:
        outcome = self.runner.run(f"{magic}\n{code}")
        return outcome.stdout, outcome.stderr, outcome.error["evalue"] if outcome.error else ""

    def kept(self, code: str) -> str:
        return self.run_cell(f"%%namespace c\n%%bash --state --no-raise-error\n{code}").stdout

    def test_changes_nothing_that_a_cell_shows(self) -> None:
        for code in _SAME:
            with self.subTest(code):
                plain = self.ends("%%namespace p\n%%bash", code)
                self.run_cell("%namespace -d c")
                self.assertEqual(self.ends("%%namespace c\n%%bash --state", code), plain)
                self.run_cell("%namespace -d c")
                self.kept("kept=1")
                self.assertEqual(self.ends("%%namespace c\n%%bash --state", code), plain)

    def test_says_if_there_is_none(self) -> None:
        for code in _LOST:
            with self.subTest(code):
                out, _, ends = self.ends("%%namespace p\n%%bash", code)
                self.run_cell("%namespace -d c")
                self.kept("kept=1")
                got_out, err, got_ends = self.ends("%%namespace c\n%%bash --state", code)
                self.assertEqual((got_out, got_ends), (out, ends))
                self.assertEqual(err.splitlines()[-1], "bash: this cell's state is not kept; the next cell starts with the previous state")
                self.assertEqual(self.kept("echo $kept"), "1\n")

    def test_is_there_in_the_posix_mode_of_the_environment(self) -> None:
        self.run_cell("import os; os.environ['POSIXLY_CORRECT'] = \"it's set\"")
        for code in _POSIX:
            with self.subTest(code):
                plain = self.ends("%%namespace p\n%%bash", code)
                self.run_cell("%namespace -d c")
                self.assertEqual(self.ends("%%namespace c\n%%bash --state", code), plain)
                self.run_cell("%namespace -d c")
                self.kept("kept=1; f-g() { echo f; }")
                self.assertEqual(self.ends("%%namespace c\n%%bash --state", code), plain)
                self.assertEqual(self.kept("echo $kept"), "1\n")
        self.assertEqual(self.kept("set +o posix; v=1; f-g() { echo f-g; }"), "")
        self.assertEqual(self.kept("f-g; echo $v; shopt -po posix"), "f-g\n1\nset +o posix\n")
        self.run_cell("os.environ['POSIXLY_CORRECT'] = 'other'")
        self.assertEqual(self.kept("echo $v; shopt -po posix; sh -c 'echo $POSIXLY_CORRECT'"), "1\nset -o posix\nother\n")
        self.run_cell("del os.environ['POSIXLY_CORRECT']")
        self.assertEqual(self.kept("echo $v $POSIXLY_CORRECT; shopt -po posix"), "1\nset +o posix\n")

    def test_is_there_in_the_next_cell(self) -> None:
        for cells, want in _KEPT:
            with self.subTest(cells):
                self.run_cell("%namespace -d c")
                for code in cells:
                    got = self.kept(code)
                self.assertEqual(got, want)

    def test_is_apart_in_each_namespace_and_from_other_cells(self) -> None:
        self.kept("v=1; export e=2")
        for magic in ("%%namespace d\n%%bash --state", "%%bash --state", "%%namespace c\n%%bash", "%%bash"):
            self.assertEqual(self.run_cell(f"{magic}\necho $v $e").stdout, "\n")
        self.run_cell("%%bash --state\nv=main; mkdir -p m; cd m")
        self.assertEqual(self.run_cell("%%bash --state\necho $v; basename $PWD").stdout, "main\nm\n")
        self.assertEqual(self.kept("echo $v $e"), "1 2\n")
        self.run_cell("%namespace -d c")
        self.assertEqual(self.kept("echo $v $e"), "\n")

    def test_gives_way_to_changes_of_the_environment(self) -> None:
        self.run_cell("import os; os.environ['E'] = 'one'")
        self.assertEqual(self.kept("echo $E; E=two"), "one\n")
        self.assertEqual(self.kept("echo $E; readonly R=r"), "two\n")
        self.run_cell("os.environ.update(E=\"it's three\", R='never')")
        self.assertEqual(self.kept("echo $E $R; sh -c 'echo $E'"), "it's three r\nit's three\n")
        self.run_cell("del os.environ['E'], os.environ['R']")
        self.assertEqual(self.kept("echo $E $R"), "r\n")
        self.run_cell("os.environ['BASH_ENV'] = '/nowhere'")
        self.assertEqual(self.kept("echo $BASH_ENV"), "/nowhere\n")
        self.run_cell("%namespace -d c")
        self.assertEqual(self.kept("echo $BASH_ENV"), "/nowhere\n")
        self.run_cell("del os.environ['BASH_ENV']")

    def test_outlives_an_interrupt(self) -> None:
        self.kept("v=1")
        path = os.path.join(self.runner.directory.name, "ready")
        os.mkfifo(path)
        id = self.runner.start("%%namespace c\n%%bash --state\nv=2\necho go > ready\nsleep 100\nv=3")
        with open(path) as fifo:
            fifo.read()
        self.runner.interrupt(id)
        self.assertTrue(self.runner.finish(id).interrupted)
        self.assertEqual(self.kept("echo $v"), "2\n")

    def test_begins_where_the_namespace_does_if_its_folder_is_gone(self) -> None:
        self.kept("mkdir -p gone; cd gone; v=1")
        self.run_cell("import os; os.rmdir('gone')")
        outcome = self.run_cell("%%namespace c\n%%bash --state\necho $v $(basename $PWD)")
        here = self.runner.directory.name
        self.assertEqual(outcome.stdout, f"1 {os.path.basename(here)}\n")
        self.assertEqual(outcome.stderr, f"bash: the working directory {here}/gone is gone; this cell begins in {here}\n")

    def test_that_is_too_long_is_not_kept(self) -> None:
        self.kept("v=1")
        outcome = self.run_cell("%%namespace c\n%%bash --state\nv=2; w=$(head -c 5000000 /dev/zero | tr '\\0' x)")
        self.assertIn("more than 4 MiB", outcome.stderr)
        self.assertEqual(self.kept("echo $v"), "1\n")

    def test_needs_no_memory_without_a_name(self) -> None:
        outcome = self.run_cell(
            "import gc, types\n[f.__globals__.update(memfd_create=lambda name: open('/nowhere/at/all')) for f in gc.get_objects()\n"
            "    if type(f) is types.FunctionType and f.__module__ == 'talaria_runner.streams.bash_state' and f.__name__ == '_nameless']")
        self.assertEqual(outcome.text, "[None]")
        self.kept("v=1; mkdir -p t; cd t")
        self.assertEqual(self.kept("echo $v; basename $PWD"), "1\nt\n")
