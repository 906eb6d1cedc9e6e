"""The magics of the standard-library engine. This module lists them; the module of a magic is imported when
it is first used."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.introspection.closest import closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Shell

# Modules by name; each has a function line_NAME or cell_NAME, which takes the shell and the text.
_LINE = {
    "listing": "lsmagic magic history hist pinfo pinfo2 psearch pdoc psource",
    "programs": "sx system sc cat cp ll ls mkdir mv rm rmdir",
    "folders": "cd pwd pushd popd dirs bookmark",
    "environment": "env set_env",
    "installing": "pip conda mamba uv",
    "timing": "time timeit prun",
    "variables": "who who_ls whos reset xdel",
    "scripts": "run load",
    "namespaces": "namespace",
    "settings": "matplotlib pylab config precision load_ext reload_ext unload_ext autoreload aimport colors xmode pdb "
                "automagic gui autosave",
}  # fmt: skip
_CELL = {
    "programs": "sx system bash sh script perl ruby python python3 pypy node c cpp",
    "files": "writefile file",
    "timing": "time timeit prun",
    "capturing": "capture",
    "mapping": "map",
    "namespaces": "namespace",
    "showing": "html HTML javascript js latex markdown svg SVG",
}
_ALL_LINE = frozenset(name for text in _LINE.values() for name in text.split())
_SAME = {"!": "sx"}
_ONLY_IN_IPYTHON = frozenset(
    "alias debug doctest_mode edit killbgscripts logstart logoff logon logstate logstop macro notebook pastebin "
    "pfile pprint psource recall rehashx rerun save tb unalias".split()
)
_IPYTHON_ONLY = "%{0} needs IPython; this kernel runs without it (engine stdlib)"

_kept: dict[str, object] = {}  # our modules: user code may remove them from sys.modules
_found: dict[tuple[str, str], Callable] = {}


def keep_modules() -> None:
    """Called when the kernel has been put together."""
    _kept.update((name, module) for name, module in modules.items() if name.startswith("talaria_runner"))


def names(shell: Shell, kind: str) -> list[str]:
    """The names of all magics of that kind, "line" or "cell", sorted."""
    table = _LINE if kind == "line" else _CELL
    own = [name for text in table.values() for name in text.split()]
    return sorted({*own, *shell.own_magics[kind]}, key=str.lower)


def is_line_magic(shell: Shell, name: str) -> bool:
    return name in _ALL_LINE or name in shell.own_magics["line"]


def find(shell: Shell, kind: str, name: str) -> Callable | None:
    """The function of one of the magics here, which takes the text."""
    name = _SAME.get(name, name)
    if (kind, name) in _found:
        return _found[kind, name]
    table = _LINE if kind == "line" else _CELL
    for module, text in table.items():
        if name in text.split():
            break
    else:
        return None
    full = f"talaria_runner.ipython.magics.{module}"
    for known, kept in _kept.items():
        modules.setdefault(known, kept)
    __import__(full)
    function = getattr(modules[full], f"{kind}_{name}")

    def run(*texts: str) -> object:
        return function(shell, *texts)

    run.__doc__ = function.__doc__
    run.__name__ = run.__qualname__ = name
    run.takes_text_as_it_is = getattr(function, "takes_text_as_it_is", False)
    _found[kind, name] = run
    return run


def as_it_is(function: Callable) -> Callable:
    """Marks a magic that gets its text verbatim, without $name and {expression} replaced."""
    function.takes_text_as_it_is = True
    return function


def unknown(shell: Shell, name: str, kind: str) -> str:
    """The message about a magic that does not exist."""
    marks = "%" if kind == "line" else "%%"
    if kind == "line" and name.startswith("%"):
        return f"%{name} is a cell magic: it has to be the first line of its cell"
    if name in _ONLY_IN_IPYTHON and name not in shell.magic_names(kind):
        return _IPYTHON_ONLY.format(name)
    other = "cell" if kind == "line" else "line"
    if name in shell.magic_names(other):
        if kind == "line":
            return f"%{name} is a cell magic: write %%{name} as the first line of a cell, and its text below"
        return f"%%{name} is a line magic: write %{name}"
    close = closest(name, shell.magic_names(kind), 3, 0.4)
    hint = f"did you mean {' or '.join(marks + n for n in close)}?" if close else "%lsmagic lists all magics"
    return f"there is no magic {marks}{name}; {hint}"
