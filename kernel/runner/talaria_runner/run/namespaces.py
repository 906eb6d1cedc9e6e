"""The variables, working directories and states of bash of %%namespace, by name."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from posix import chdir, getcwd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


class BashState:
    """What cells of %%bash --state leave to each other, as commands of bash that restore it."""

    __slots__ = ("left", "folder", "settings", "options", "aliases", "environment")

    def __init__(self) -> None:
        self.left = False  # whether a cell has left any
        self.folder = b""  # the working directory
        self.settings = b""  # variables, functions, and options of shopt
        self.options = b""  # of set
        self.aliases = b""
        self.environment: dict[str, str] = {}  # with which the cell began that left it


class Namespace:
    """The variables of cells, and what else such cells leave to each other."""

    __slots__ = ("module", "folder", "futures", "bash")

    def __init__(self, module: ModuleType, folder: str) -> None:
        self.module = module  # __main__, while a cell of the namespace runs
        self.folder = folder  # the working directory
        self.futures = 0  # the flags of the from __future__ imports so far
        self.bash = BashState()

    def enter(self) -> str:
        """Goes to the working directory, and returns the one before; "" if that is gone."""
        before = _working_directory()
        chdir(self.folder)
        return before

    def leave(self, before: str) -> None:
        """Goes back to the working directory that there was before."""
        self.folder = _working_directory() or self.folder
        if before:
            try:
                chdir(before)
            except OSError:
                pass  # as if the cell had removed it while it was there


made: dict[str, Namespace] = {}
_bash = BashState()  # of the cells outside of all namespaces


def bash_in(module: ModuleType) -> BashState:
    """The state of bash for cells with the variables of that module."""
    return next((n.bash for n in made.values() if n.module is module), _bash)


def lost() -> list[tuple[str, str, str]]:
    """What saving the variables leaves out, as it is reported: the name, the type and why, for each namespace."""
    reason = "only the variables outside of all namespaces are saved"
    shell = [("%%bash --state", "bash", "the state of bash is not saved")] if _bash.left else []
    return [(f"%%namespace {name}", "namespace", reason) for name in made] + shell


def _working_directory() -> str:
    try:
        return getcwd()
    except OSError:
        return ""
