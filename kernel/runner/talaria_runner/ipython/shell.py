"""get_ipython() in a kernel without IPython: as much of its shell as cells and libraries use."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from sys import _getframe

from talaria_runner.ipython import comms, magics
from talaria_runner.ipython.events import EventManager, Info, Result, run_into
from talaria_runner.ipython.expansion import expand
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.ipython.text import LSString, SList
from talaria_runner.own.ours import calling_frame
from talaria_runner.rendering.display import Display
from talaria_runner.rendering.formatters import DisplayFormatter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from talaria_runner.ipython.contract import Tools


_USAGE = f"""Python {sys.version.split()[0]}, with the magics of IPython that %lsmagic lists.

obj? says what an object is, obj?? shows its source, *name*? searches for names.
!command runs a shell command, x = !command keeps its output.
%magic says what each magic does."""


class Config(dict):
    """The settings that libraries look for. A section that is not there is empty."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.setdefault(name, Config())

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value


class InteractiveShell:
    """Its methods are for the main thread, while a cell runs."""

    ast_node_interactivity = "last_expr"
    colors = "NoColor"
    banner1 = banner2 = ""

    _instance: InteractiveShell | None = None

    def __init__(self, tools: Tools) -> None:
        display = tools.display
        self.use(tools.main)
        self.user_ns_hidden = dict(self.user_ns)
        self.config = Config(IPKernelApp=Config(), InteractiveShellApp=Config())
        self.events = EventManager(display.report)
        self.display_formatter = DisplayFormatter(display)
        self._publisher = DisplayPublisher(display)
        self.extension_manager = ExtensionManager(self)
        self.magics_manager = MagicsManager(self)
        self.dir_stack: list[str] = []
        self.home_dir = os.path.expanduser("~")
        self.automagic = True
        self._publisher_sink = self._publish
        self.cells = tools.cells
        self.commands = tools.commands
        self.display = display
        self.figures = tools.figures
        self.inspector = tools.inspector
        self.own_magics: dict[str, dict[str, Callable]] = {"line": {}, "cell": {}}
        InteractiveShell._instance = self

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        """A variable that refers to it is saved with a reference to that of the interpreter."""
        return comms.shell, ()

    @classmethod
    def initialized(cls) -> bool:
        return InteractiveShell._instance is not None

    @classmethod
    def instance(cls, *args: object, **kwargs: object) -> InteractiveShell | None:
        return InteractiveShell._instance

    def get_ipython(self) -> InteractiveShell:
        return self

    @property
    def execution_count(self) -> int:
        return self.cells.count

    @property
    def display_pub(self) -> DisplayPublisher:
        """What gets all that is shown. Another one gets it in place of the cell, until this one is put back."""
        return self._publisher

    @display_pub.setter
    def display_pub(self, publisher: DisplayPublisher) -> None:
        sinks = self.display.sinks
        if self._publisher_sink in sinks:
            sinks.remove(self._publisher_sink)
        self._publisher = publisher
        if type(publisher) is not DisplayPublisher:
            sinks.append(self._publisher_sink)

    def _publish(self, data: dict[str, object], metadata: dict[str, object], id: str, update: bool) -> None:
        transient = {"display_id": id} if id else None
        self._publisher.publish(data=data, metadata=metadata, transient=transient, update=update)

    def use(self, main: ModuleType) -> None:
        """Makes the variables of a module those of cells."""
        self.user_module = main
        self.user_ns = self.user_global_ns = vars(main)

    # Magics.

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> object:
        """Runs a line magic as %magic_name line does."""
        function = self.find_line_magic(magic_name)
        if function is None:
            raise UsageError(magics.unknown(self, magic_name, "line"))
        if not getattr(function, "takes_text_as_it_is", False):
            line = self.var_expand(line)
        return function(line, **_local_scope(function, self.user_ns))

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        """Runs a cell magic as %%magic_name line does, with cell below it."""
        function = self.find_cell_magic(magic_name)
        if function is None:
            raise UsageError(magics.unknown(self, magic_name, "cell"))
        if not getattr(function, "takes_text_as_it_is", False):
            line = self.var_expand(line)
        return function(line, cell, **_local_scope(function, self.user_ns))

    def magic(self, arg_s: str) -> object:
        name, _, rest = arg_s.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest.strip())

    def find_line_magic(self, magic_name: str) -> Callable[[str], object] | None:
        return self.own_magics["line"].get(magic_name) or magics.find(self, "line", magic_name)

    def find_cell_magic(self, magic_name: str) -> Callable[[str, str], object] | None:
        return self.own_magics["cell"].get(magic_name) or magics.find(self, "cell", magic_name)

    def find_magic(self, magic_name: str, magic_kind: str = "line") -> Callable | None:
        return self.find_cell_magic(magic_name) if magic_kind == "cell" else self.find_line_magic(magic_name)

    def register_magic_function(
        self, func: Callable, magic_kind: str = "line", magic_name: str | None = None
    ) -> None:
        """Makes func a magic: "line", "cell" or "line_cell"."""
        name = magic_name or func.__name__
        if magic_kind not in ("line", "cell", "line_cell"):
            raise ValueError(f"magic_kind is line, cell or line_cell, not {magic_kind!r}")
        for kind in magic_kind.split("_"):
            self.own_magics[kind][name] = func

    def register_magics(self, *magic_objects: object) -> None:
        """Takes over the magics of classes that IPython.core.magic's decorators were used on, or of their instances."""
        for value in magic_objects:
            if isinstance(value, type):
                try:
                    value = value(self)
                except Exception:
                    value = value()  # a class of a real IPython, which accepts only its own shell
                    value.shell = self
            for kind, names in value.magics.items():
                for name, function in names.items():
                    function = getattr(value, function) if isinstance(function, str) else function
                    self.own_magics[kind][name] = function

    # Commands.

    def system(self, command: str) -> None:
        """Runs a shell command. Its exit code is then the variable _exit_code."""
        self.user_ns["_exit_code"] = self.commands.system(self.var_expand(command))

    system_raw = system_piped = system

    def getoutput(self, command: str, split: bool = True, depth: int = 0) -> SList | LSString:
        """Runs a shell command and returns what it writes, as lines."""
        text, self.user_ns["_exit_code"] = self.commands.output(self.var_expand(command))
        return SList(text.splitlines()) if split else LSString(text)

    def var_expand(self, cmd: str, depth: int = 0) -> str:
        """The text with $name and {expression} replaced by what they are in the cell, where they are something."""
        frame = calling_frame()
        return expand(cmd, self.user_ns, frame.f_locals if frame is not None else {})

    # Code and variables.

    def run_cell(self, raw_cell: str, store_history: bool = False, silent: bool = False, **further: object) -> Result:
        """Runs code inside of the cell that runs now, and shows the value of its last expression."""
        result = Result(Info(raw_cell, store_history, silent), self.execution_count)
        return run_into(result, self.cells, self.display, raw_cell, silent)

    def ex(self, cmd: str) -> None:
        exec(cmd, self.user_ns)

    def ev(self, expr: str) -> object:
        return eval(expr, self.user_ns)

    def push(self, variables: dict[str, object] | str | list[str], interactive: bool = True) -> None:
        """Makes them variables of the cells: a dict, or names of variables of the caller."""
        if not isinstance(variables, dict):
            names = variables.split() if isinstance(variables, str) else variables
            caller = _getframe(1)
            variables = {name: eval(name, caller.f_globals, caller.f_locals) for name in names}
        self.user_ns.update(variables)

    def displayhook(self, value: object) -> None:
        """Shows value as a result of the cell."""
        sys.displayhook(value)

    def drop_by_id(self, variables: dict[str, object]) -> None:
        for name, value in variables.items():
            if self.user_ns.get(name) is value:
                del self.user_ns[name]

    def set_next_input(self, text: str, replace: bool = False) -> None:
        """Shows the text, to be copied into the next cell."""
        self.page(text)

    def page(self, text: str) -> None:
        """Shows text as an answer to obj?, beside the cell's output."""
        self.display.display({"text/plain": text}, raw=True, metadata={"pager": True})

    def show_usage(self) -> None:
        """Says what can be done here: the cell ?"""
        self.page(_USAGE)

    def showtraceback(self, exc_tuple: tuple | None = None, *args: object, **kwargs: object) -> None:
        """Writes the traceback of an exception, or of the one that is handled, to stderr."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            self.display.report(error)

    def show_usage_error(self, error: BaseException) -> None:
        print(f"UsageError: {error}", file=sys.stderr)

    def magic_names(self, kind: str) -> list[str]:
        """The names of all magics of that kind, "line" or "cell"."""
        return magics.names(self, kind)

    def enable_gui(self, gui: str | None = None) -> None:
        """There is no window system: nothing to enable."""

    def enable_matplotlib(self, gui: str | None = None) -> tuple[str, str]:
        return "inline", "inline"

    enable_pylab = enable_matplotlib

    def register_post_execute(self, func: Callable[[], object]) -> None:
        self.events.register("post_execute", func)

    def set_hook(self, name: str, hook: Callable, priority: int = 50, **further: object) -> None:
        """Accepted and ignored: there is nothing that such a hook could change."""


class ZMQInteractiveShell(InteractiveShell):
    """Libraries choose their output for notebooks by this name."""


class DisplayPublisher:
    """get_ipython().display_pub."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def publish(
        self,
        data: dict[str, object],
        metadata: dict[str, object] | None = None,
        source: object = None,
        *,
        transient: dict[str, object] | None = None,
        update: bool = False,
        **further: object,
    ) -> None:
        """Shows a MIME bundle."""
        self._display.display(data, raw=True, metadata=metadata, transient=transient, update=update)

    def clear_output(self, wait: bool = False) -> None:
        self._display.clear_output(wait)


class ExtensionManager:
    """%load_ext: modules with a function load_ipython_extension."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self.loaded: set[str] = set()

    def load_extension(self, name: str) -> str | None:
        if name in self.loaded:
            return "already loaded"
        if name == "autoreload":
            from talaria_runner.ipython.magics.autoreload import load_ipython_extension

            load_ipython_extension(self._shell)
        else:
            load = getattr(self._module(name), "load_ipython_extension", None)
            if load is None:
                return "no load function"
            load(self._shell)
        self.loaded.add(name)
        return None

    def unload_extension(self, name: str) -> str | None:
        if name not in self.loaded:
            return "not loaded"
        unload = getattr(sys.modules.get(name), "unload_ipython_extension", None)
        if unload is None:
            return "no unload function"
        unload(self._shell)
        self.loaded.discard(name)
        return None

    def reload_extension(self, name: str) -> str | None:
        if name in self.loaded and name in sys.modules:
            from importlib import reload

            self.unload_extension(name)
            self.loaded.discard(name)
            reload(sys.modules[name])
        return self.load_extension(name)

    def _module(self, name: str) -> ModuleType:
        try:
            __import__(name)
        except ModuleNotFoundError as e:
            if e.name != name.partition(".")[0]:
                raise
            raise UsageError(f"there is no extension {name!r}: no module with that name is installed")
        return sys.modules[name]


class MagicsManager:
    """get_ipython().magics_manager, for looking."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    @property
    def magics(self) -> dict[str, dict[str, Callable]]:
        return {
            kind: {name: self._shell.find_magic(name, kind) for name in magics.names(self._shell, kind)}
            for kind in ("line", "cell")
        }

    def lsmagic(self) -> dict[str, dict[str, Callable]]:
        return self.magics


def _local_scope(function: Callable, names: dict[str, object]) -> dict[str, object]:
    return {"local_ns": names} if getattr(function, "needs_local_scope", False) else {}


for _class in (InteractiveShell, ZMQInteractiveShell):
    _class.__module__ = "ipykernel.zmqshell"
