"""%run and %load."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys

from talaria_runner.ipython.magics import timing
from talaria_runner.ipython.magics.options import first_word, parse, words
from talaria_runner.ipython.magics.usage import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from talaria_runner.ipython.contract import Shell


def line_run(shell: Shell, line: str) -> None:
    """%run FILE [ARGUMENT…]: runs a Python file or notebook as a program and takes over its variables. -i lets it see
    the cells' variables, -n gives it a __name__ other than __main__, -e ignores sys.exit, -t says how long it took,
    -m takes the name of a module."""
    options, rest = parse("run", line, "nietm:G")
    file, text = (options["m"], rest) if "m" in options else first_word(rest)
    if not file:
        raise UsageError("%run needs a file")
    arguments = words("run", text)
    if "G" not in options:
        arguments = [path for argument in arguments for path in _matches(argument)]
    if "m" in options:
        names, run = _module(file)
    else:
        path = _find(file)
        names, run = _notebook(shell, path) if path.endswith((".ipynb", ".ipy")) else _program(shell, path, options)
    argv, sys.argv = sys.argv, [names.get("__file__", file), *arguments]
    begin = timing.perf_counter()
    try:
        run()
    except SystemExit as e:
        if "e" not in options and e.code not in (None, 0):
            raise
    finally:
        sys.argv = argv
        sys.modules["__main__"] = shell.user_module
        if names is not shell.user_ns:
            taken = {name: value for name, value in names.items() if not name.startswith("__")}
            shell.user_ns.update(taken)
    if "t" in options:
        print(f"Wall time: {timing.spell(timing.perf_counter() - begin)}")


def line_load(shell: Shell, line: str) -> None:
    """%load FILE: shows a file, to be copied into a cell."""
    with open(_find(line.strip()), encoding="utf-8") as file:
        shell.set_next_input(file.read())


def _program(shell: Shell, path: str, options: dict[str, str]) -> tuple[dict[str, object], object]:
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", 0, True)
    if "i" in options:
        names = shell.user_ns
    else:
        name = os.path.splitext(os.path.basename(path))[0] if "n" in options else "__main__"
        names = vars(_new_main(name, path))

    def run() -> None:
        before = names.get("__file__")
        names["__file__"] = path
        folder = os.path.dirname(path)
        sys.path.insert(0, folder)
        try:
            exec(code, names)
        finally:
            if folder in sys.path:
                sys.path.remove(folder)
            if names is shell.user_ns:
                names.pop("__file__") if before is None else names.__setitem__("__file__", before)

    return names, run


def _new_main(name: str, path: str) -> ModuleType:
    module = type(sys)(name)
    module.__file__ = path
    module.__builtins__ = sys.modules["builtins"]
    if name == "__main__":
        sys.modules["__main__"] = module
    _kept.append(module)
    return module


_kept: list[ModuleType] = []  # functions of a program need its globals as long as they live


def _module(name: str) -> tuple[dict[str, object], object]:
    names: dict[str, object] = {}

    def run() -> None:
        from runpy import run_module

        names.update(run_module(name, run_name="__main__", alter_sys=False))

    return names, run


def _notebook(shell: Shell, path: str) -> tuple[dict[str, object], object]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if path.endswith(".ipy"):
        sources = [text]
    else:
        from json import loads

        cells = loads(text).get("cells", [])
        sources = ["".join(cell.get("source", "")) for cell in cells if cell.get("cell_type") == "code"]

    def run() -> None:
        for source in sources:
            value = shell.cells.run_inside(source)
            if value is not None:
                shell.display.display(value)

    return shell.user_ns, run


def _find(name: str) -> str:
    name = os.path.expanduser(name)
    for path in (name, name + ".py"):
        if os.path.isfile(path):
            return os.path.abspath(path)
    raise UsageError(f"there is no file {name!r} in {os.getcwd()}")


def _matches(argument: str) -> list[str]:
    from glob import glob

    return (sorted(glob(os.path.expanduser(argument))) if any(c in argument for c in "*?[") else []) or [argument]
