"""Programs and shells: %sx, %%bash, %%script and the few that have a magic of their own."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.ipython.magics.options import parse, words
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.stdlib import load
from talaria_runner.run.namespaces import bash_in
from talaria_runner.streams.bash_state import run_bash
from talaria_runner.streams.commands import redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Shell

_OPTIONS = "out= err= no-raise-error raise-error bg proc="


def line_sx(shell: Shell, line: str) -> object:
    """Runs a shell command and returns the lines that it writes: !!command."""
    return shell.getoutput(line)


line_system = line_sx


def line_sc(shell: Shell, line: str) -> None:
    """%sc NAME=command: stores the command's output in a variable."""
    options, rest = parse("sc", line, "lv")
    name, equals, command = rest.partition("=")
    if not equals:
        raise UsageError("%sc NAME=command; name = !command does the same")
    output = shell.getoutput(command, split="l" in options)
    shell.user_ns[name.strip()] = output


def cell_sx(shell: Shell, line: str, cell: str) -> object:
    """Runs the cell with a shell and returns the lines that it writes."""
    return shell.getoutput("\n".join(filter(None, (line, cell))))


cell_system = cell_sx


def cell_script(shell: Shell, line: str, cell: str) -> None:
    """%%script PROGRAM [ARGUMENT…]: gives the cell to a program as its input. Options: --out NAME and --err NAME keep
    what it writes in variables, --no-raise-error lets it fail."""
    options, rest = parse("script", line, "", _OPTIONS)
    arguments = words("script", rest)
    if not arguments:
        raise UsageError("%%script needs a program: %%script python3")
    _run(shell, arguments, options, cell)


def cell_bash(shell: Shell, line: str, cell: str) -> None:
    """Runs the cell with bash. --out NAME and --err NAME keep what it writes in variables; with --state, it begins with the
    variables, functions, aliases, options and working directory that the previous cell with --state left."""
    options, arguments = _options_and_arguments("bash", line, _OPTIONS + " state")
    _run(shell, ["bash", *arguments], options, cell)


def _options_and_arguments(magic: str, line: str, known: str = _OPTIONS) -> tuple[dict[str, str], list[str]]:
    """Our options, which begin with two hyphens, and the arguments of the program, which may begin with one."""
    options, rest = parse(magic, line, "", known) if line.startswith("--") else ({}, line)
    return options, words(magic, rest)


def _script(program: str) -> Callable:
    def cell_magic(shell: Shell, line: str, cell: str) -> None:
        options, arguments = _options_and_arguments(program, line)
        _run(shell, [program, *arguments], options, cell)

    cell_magic.__doc__ = f"Runs the cell with {program}. --out NAME and --err NAME keep what it writes in variables."
    return cell_magic


cell_sh, cell_perl, cell_ruby, cell_python3, cell_pypy, cell_node = map(
    _script, ("sh", "perl", "ruby", "python3", "pypy", "node")
)
cell_python = cell_python3


def _compiled(magic: str, compiler: list[str], libraries: list[str]) -> Callable:
    def cell_magic(shell: Shell, line: str, cell: str) -> None:
        options, arguments = _options_and_arguments(magic, line)
        with load("tempfile").TemporaryDirectory() as folder:
            program = f"{folder}/{magic}"
            # The line of the magic counts, so that the compiler's numbers are those of the cell.
            _run(shell, [*compiler, "-o", program, "-", *libraries], {}, "\n" + cell)
            _run(shell, [program, *arguments], options, "")

    cell_magic.__doc__ = (
        f"Compiles the cell with {compiler[0]} and runs it with the arguments after %%{magic}. "
        "--out NAME and --err NAME keep what it writes in variables."
    )
    return cell_magic


# The options are those of POST /v1/run.
cell_c = _compiled("c", ["gcc", "-O2", "-pipe", "-x", "c"], ["-lm"])
cell_cpp = _compiled("cpp", ["g++", "-std=gnu++20", "-O2", "-pipe", "-x", "c++"], [])


def _alias(command: str) -> Callable:
    def line_magic(shell: Shell, line: str) -> None:
        shell.system(f"{command} {line}")

    line_magic.__doc__ = f"Runs {command} in a shell."
    return line_magic


line_cat, line_cp, line_mkdir, line_mv, line_rm, line_rmdir = map(
    _alias, ("cat", "cp", "mkdir", "mv", "rm", "rmdir")
)
line_ls, line_ll = _alias("ls -F"), _alias("ls -F -o")


class _Kept:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, text: str) -> None:
        self.parts.append(text)


def _run(shell: Shell, arguments: list[str], options: dict[str, str], cell: str) -> None:
    if "bg" in options or "proc" in options:
        raise UsageError("--bg and --proc need IPython; start it with & in %%bash, or with subprocess.Popen")
    out, err = redirected()
    kept = {}
    for name in ("out", "err"):
        if options.get(name):
            kept[name] = _Kept()
    try:
        out, err = kept.get("out", out), kept.get("err", err)
        if "state" in options:
            code = run_bash(bash_in(shell.user_module), shell.commands, arguments, cell, out, err)
        else:
            code = shell.commands.run(arguments, cell, out, err)
    except FileNotFoundError:
        raise UsageError(f"there is no program {arguments[0]} in this environment") from None
    for name, taken in kept.items():
        shell.user_ns[options[name]] = "".join(taken.parts)
    shell.user_ns["_exit_code"] = code
    if code and "no-raise-error" not in options:
        from subprocess import CalledProcessError

        texts = ["".join(kept[name].parts) if name in kept else None for name in ("out", "err")]
        raise CalledProcessError(code, arguments, *texts)
