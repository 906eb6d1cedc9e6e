"""IPython's shell, with its output, commands, history and files adapted to this kernel."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins
import os
import sys
from fnmatch import fnmatchcase

import IPython
import IPython.core.interactiveshell as interactiveshell
from IPython.core.application import ProfileDir
from IPython.core.builtin_trap import BuiltinTrap
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.formatters import BaseFormatter, DisplayFormatter
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell
from IPython.utils.text import LSString, SList
from traitlets.config.loader import Config

from talaria_runner.introspection.variables import records
from talaria_runner.ipython import comms, magics
from talaria_runner.ipython.events import run_into
from talaria_runner.ipython.expansion import expand
from talaria_runner.own.ours import calling_frame
from talaria_runner.run.ending import CellEnded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from talaria_runner.ipython.contract import Tools
    from talaria_runner.rendering.display import Display

# Our own magics: they keep line numbers, fail the cell when their code fails, await, and stop when
# interrupted.
_OURS_LINE = "time timeit run pip conda mamba uv matplotlib gui sx system env set_env autosave namespace".split()
_OURS_CELL = (
    "time timeit capture map namespace bash sh script perl ruby python python3 pypy node c cpp sx system js javascript".split()
)
_OF_IPYTHON = {  # options that only IPython's own have
    ("line", "run"): ("-d", "-p"),
    ("cell", "script"): ("--bg", "--proc"),
    ("cell", "bash"): ("--bg", "--proc"),
    ("cell", "sh"): ("--bg", "--proc"),
}
_PACKAGE = os.path.dirname(IPython.__file__) + "/"


class _Publisher(DisplayPublisher):
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
        self.shell.display.display(data, raw=True, metadata=metadata, transient=transient, update=update)

    def clear_output(self, wait: bool = False) -> None:
        self.shell.display.clear_output(wait)


class _Hook(DisplayHook):
    def __call__(self, result: object = None) -> None:
        if result is not None:
            self.shell.cells.show(result)

    def flush(self) -> None:
        self.shell.cells.forget(results=True, sources=False)


class _Formatter(DisplayFormatter):
    """Shows values as the other engine does, with its bounds, unless the user says how: by a function for a
    type, or by a setting of IPython's printer."""

    def attach(self, display: Display) -> None:
        self._display = display
        self._plain = self._settings()
        display.formatters.append(self._own)
        display.plain = _Plain(display.plain, self)

    def format(self, value: object, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        data, metadata = self._display.bundle(value) or ({}, {})
        kept = [m for m in data if (not include or m in include) and m not in (exclude or ())]
        return {m: data[m] for m in kept}, {m: v for m, v in metadata.items() if m in kept or m not in data}

    def has_own(self) -> bool:
        """Whether the user has said how something is shown."""
        others = (self.mimebundle_formatter, *self.formatters.values())
        plain = self.formatters["text/plain"]
        return self._settings() != self._plain or any(
            formatter.type_printers or formatter.deferred_printers for formatter in others if formatter is not plain
        )

    def _own(self, value: object) -> tuple[dict, dict] | None:
        """What the user's functions return, with the rest as value itself shows it; None if there is none for
        its type."""
        if not self.has_own():
            return None
        data: dict[str, object] = {}
        metadata: dict[str, object] = {}
        for formatter in (self.mimebundle_formatter, *self.formatters.values()):
            found = self._made(formatter, value)
            if isinstance(found, tuple) and len(found) == 2:
                found, about = found
                metadata.update(about if formatter is self.mimebundle_formatter else {formatter.format_type: about})
            if found is not None:
                data.update(found if formatter is self.mimebundle_formatter else {formatter.format_type: found})
        if not data:
            return None
        own, about = dict(data), dict(metadata)
        self._display.ask(value, own, about)
        return {**own, **data}, {**about, **metadata}

    def _made(self, formatter: BaseFormatter, value: object) -> object:
        if formatter is self.formatters["text/plain"]:
            return formatter(value) if self._settings() != self._plain else None
        try:
            formatter.lookup(value)
        except KeyError:
            return None
        return formatter(value)

    def _settings(self) -> tuple[object, ...]:
        """The settings of the text printer."""
        plain = self.formatters["text/plain"]
        printers = (plain.type_printers, plain.deferred_printers, plain.singleton_printers)
        return (*map(len, printers), plain.pprint, plain.float_precision, plain.max_width, plain.verbose)


class _Plain:
    """The types that need no question, as long as the user has set nothing."""

    def __init__(self, types: frozenset[type] | set[type], formatter: _Formatter) -> None:
        self._types = types
        self._formatter = formatter

    def __contains__(self, kind: type) -> bool:
        return kind in self._types and not self._formatter.has_own()


class _Profile(ProfileDir):
    """A place for files, where none is made."""

    def _location_changed(self, change: object) -> None:
        pass

    def check_dirs(self) -> None:
        pass


class _Shelf(dict):
    """Data that IPython keeps in files, kept as long as the kernel."""

    def keys(self, pattern: str = "*") -> list[str]:
        return [key for key in dict.keys(self) if fnmatchcase(key, pattern)]

    def __delitem__(self, key: str) -> None:
        self.pop(key, None)


class _Trap(BuiltinTrap):
    """Keeps get_ipython, exit and quit in builtins all the time."""

    def activate(self) -> None:
        pass

    deactivate = activate


class ZMQInteractiveShell(InteractiveShell):
    """Libraries choose their output for notebooks by this name."""

    display_pub_class = _Publisher
    displayhook_class = _Hook

    def __init__(self, tools: Tools, **settings: object) -> None:
        self.cells, self.commands, self.display = tools.cells, tools.commands, tools.display
        self.figures, self.inspector_of_kernel = tools.figures, tools.inspector
        self._adapted: dict[tuple[str, str], Callable] = {}
        super().__init__(user_module=tools.main, **settings)

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        """A variable that refers to it is saved with a reference to that of the interpreter."""
        return comms.shell, ()

    # What happens when it is created.

    def _ipython_dir_changed(self, change: object) -> None:
        """Nothing is created."""

    def init_history(self) -> None:
        super().init_history()
        history = self.history_manager
        history.input_hist_parsed = history.input_hist_raw = builtins.In
        history.output_hist = builtins.Out

    def init_user_ns(self) -> None:
        """In, Out, get_ipython and exit are builtins here."""
        history = self.history_manager
        names = {"_ih": history.input_hist_parsed, "_oh": history.output_hist, "_dh": history.dir_hist}
        records.update(names)
        self.user_ns_hidden.update(names)
        self.user_ns_hidden.update((name, value) for name, value in self.user_ns.items() if name.startswith("__"))
        self.user_ns.update(names)

    def use(self, main: ModuleType) -> None:
        """Makes the variables of a module those of cells."""
        self.user_module = main
        vars(main).update({name: self.user_ns[name] for name in ("_ih", "_oh", "_dh") if name in self.user_ns})
        self.user_ns = vars(main)

    def init_display_formatter(self) -> None:
        self.display_formatter = _Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_builtins(self) -> None:
        super().init_builtins()
        builtins.get_ipython = self.get_ipython
        self.builtin_trap = _Trap(shell=self)

    def init_hooks(self) -> None:
        super().init_hooks()
        self.set_hook("show_in_pager", _show_in_pager, 1)
        self.set_hook("editor", _edit, 1)

    def init_events(self) -> None:
        super().init_events()
        self.events.unregister("pre_execute", self._clear_warning_registry)  # the engine does that

    def init_magics(self) -> None:
        super().init_magics()
        for kind, names in (("line", _OURS_LINE), ("cell", _OURS_CELL)):
            for name in names:
                self._adapt(kind, name)
        lines = self.magics_manager.magics["line"]
        self._config_of_ipython, lines["config"] = lines["config"], self._config_magic

    def init_virtualenv(self) -> None:
        """The environment is what it was configured to be."""

    # Magics.

    def _adapt(self, kind: str, name: str) -> None:
        known = self.magics_manager.magics[kind].get(name)
        function = magics.find(self, kind, name)
        options = _OF_IPYTHON.get((kind, name), ())

        def run(line: str, *cell: str) -> object:
            if options and known is not None and any(word in options for word in line.split()):
                return known(line, *cell)
            return function(line, *cell)

        run.__doc__ = function.__doc__
        self._adapted[kind, name] = run
        self.magics_manager.magics[kind][name] = run

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> object:
        ours = self._ours("line", magic_name)
        if ours is not None:
            return ours(self._expanded("line", magic_name, line))
        if self.find_line_magic(magic_name) is None and magic_name not in self._lazy():
            raise UsageError(magics.unknown(self, magic_name, "line"))
        return super().run_line_magic(magic_name, line, _stack_depth + 1)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> object:
        ours = self._ours("cell", magic_name)
        if ours is not None:
            return ours(self._expanded("cell", magic_name, line), cell)
        if self.find_cell_magic(magic_name) is None and magic_name not in self._lazy():
            raise UsageError(magics.unknown(self, magic_name, "cell"))
        return super().run_cell_magic(magic_name, line, cell)

    def magic_names(self, kind: str) -> list[str]:
        return sorted(self.magics_manager.magics[kind])

    def _ours(self, kind: str, name: str) -> Callable | None:
        """Our function for a magic, if it is still the one that is registered."""
        function = self._adapted.get((kind, name))
        return function if function is not None and self.find_magic(name, kind) is function else None

    def _expanded(self, kind: str, name: str, line: str) -> str:
        as_it_is = getattr(magics.find(self, kind, name), "takes_text_as_it_is", False)
        return line if as_it_is else self.var_expand(line)

    def _lazy(self) -> object:
        return getattr(self.magics_manager, "lazy_magics", ())

    def _config_magic(self, line: str) -> object:
        """%config Class.name = value: sets something; without a value it returns it."""
        if line.strip().startswith("InlineBackend"):
            return magics.find(self, "line", "config")(line)
        return self._config_of_ipython(line)

    # Commands.

    def system(self, command: str) -> None:
        self.user_ns["_exit_code"] = self.commands.system(self.var_expand(command))

    system_raw = system_piped = system

    def getoutput(self, command: str, split: bool = True, depth: int = 0) -> SList | LSString:
        text, self.user_ns["_exit_code"] = self.commands.output(self.var_expand(command))
        return SList(text.splitlines()) if split else LSString(text)

    def var_expand(self, cmd: str, depth: int = 0, formatter: object = None) -> str:
        frame = calling_frame(_PACKAGE)
        return expand(cmd, self.user_ns, frame.f_locals if frame is not None else {})

    def get_local_scope(self, stack_depth: int) -> dict[str, object]:
        frame = calling_frame(_PACKAGE)
        return frame.f_locals if frame is not None else {}

    # Code and output.

    def run_cell(
        self, raw_cell: str, store_history: bool = False, silent: bool = False, *args: object, **kwargs: object
    ) -> ExecutionResult:
        """Runs code inside of the cell that runs now, and shows the value of its last expression."""
        result = ExecutionResult(_info(raw_cell, store_history, silent))
        return run_into(result, self.cells, self.display, raw_cell, silent)

    def showtraceback(self, exc_tuple: tuple | None = None, *args: object, **kwargs: object) -> None:
        """Writes the traceback of an exception, or of the one that is handled, to stderr."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if isinstance(error, (CellEnded, KeyboardInterrupt)):
            raise error
        if error is not None:
            self.display.report(error)

    def showsyntaxerror(self, *args: object, **kwargs: object) -> None:
        self.showtraceback()

    def set_next_input(self, text: str, replace: bool = False) -> None:
        """Shows the text, to be copied into the next cell."""
        self.page(text)

    def page(self, text: str) -> None:
        """Shows text as an answer to obj?, beside the cell's output."""
        self.display.display({"text/plain": text}, raw=True, metadata={"pager": True})

    def ask_exit(self) -> None:
        raise SystemExit

    def enable_gui(self, gui: str | None = None) -> None:
        """There is no window system: nothing to enable."""

    def enable_matplotlib(self, gui: str | None = None) -> tuple[str, str]:
        return "inline", "inline"


def make_shell(tools: Tools) -> ZMQInteractiveShell:
    """Returns the shell. It starts no thread, and opens or creates no file."""
    home = os.path.expanduser("~/.ipython")
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.Completer.use_jedi = config.IPCompleter.use_jedi = False
    config.IPKernelApp.parent_appname = "talaria"
    shelf = getattr(interactiveshell, "PickleShareDB", None)
    interactiveshell.PickleShareDB = lambda path: _Shelf()
    try:
        profile = _Profile(location=home + "/profile_default")
        shell = ZMQInteractiveShell.instance(tools, config=config, ipython_dir=home, profile_dir=profile)
    finally:
        if shelf is not None:
            interactiveshell.PickleShareDB = shelf
    for name in ("_", "__", "___"):
        shell.user_ns.pop(name, None)  # builtins as well
    shell.display_trap.__enter__()  # it is the hook all the time
    shell.display_formatter.attach(tools.display)
    return shell


def _show_in_pager(self: ZMQInteractiveShell, data: object, *args: object, **kwargs: object) -> None:
    self.page(str(data.get("text/plain", "") if isinstance(data, dict) else data))


def _edit(self: ZMQInteractiveShell, filename: str, *args: object, **kwargs: object) -> None:
    raise UsageError("there is no editor here: %%writefile FILE writes the cell to a file, and %load FILE shows a file")


def _info(raw_cell: str, store_history: bool, silent: bool) -> ExecutionInfo:
    try:
        return ExecutionInfo(raw_cell, store_history, silent, True, None)
    except TypeError:
        return ExecutionInfo(raw_cell, store_history, silent, True)


ZMQInteractiveShell.__module__ = "ipykernel.zmqshell"
