"""%autoreload: modules whose files have changed are imported again before a cell runs."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from posix import stat

from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.ours import OURS
from talaria_runner.own.stdlib import is_standard_path, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from talaria_runner.ipython.contract import Shell

_MODES = {"0": "off", "1": "explicit", "2": "all", "3": "complete"}
_NAMES = ("off", "explicit", "all", "complete", "now", "print", "log")
_Function = type(lambda: None)


def load_ipython_extension(shell: Shell) -> None:
    reloader = Reloader(shell)
    shell.register_magic_function(reloader.autoreload, "line", "autoreload")
    shell.register_magic_function(reloader.aimport, "line", "aimport")
    shell.events.register("pre_run_cell", reloader.before_cell)
    shell.events.register("post_execute", reloader.after_cell)


class Reloader:
    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._mode = "off"
        self._included: set[str] = set()
        self._excluded: set[str] = set()
        self._times: dict[str, tuple[str, int]] = {}  # by module, its file and the time of its last change
        self._failed: dict[str, int] = {}
        self._taken: dict[tuple[str, str], list[object]] = {}  # weak references to what the names stood for before

    def autoreload(self, line: str = "") -> None:
        """%autoreload [0|1|2|3]: 0 or off; 1 or explicit: the modules of %aimport; 2 or all: all modules but those that
        %aimport excludes; 3 or complete: the same. Without an argument, it reloads now."""
        words = line.lower().split()
        word = next((w for w in words if not w.startswith("-")), "")
        mode = _MODES.get(word, word)
        if mode in ("", "now"):
            self._check(force=True)
        elif mode in _NAMES[:4]:
            self._mode = mode
            self._remember()
        else:
            raise UsageError(f"%autoreload takes 0, 1, 2 or 3, not {word!r}")

    def aimport(self, line: str = "") -> None:
        """%aimport NAME…: imports modules and has them reloaded; %aimport -NAME excludes one; without names, lists both."""
        names = line.replace(",", " ").split()
        if not names:
            print(f"Modules to reload:\n{' '.join(sorted(self._included)) or 'all-except-skipped'}")
            print(f"\nModules to skip:\n{' '.join(sorted(self._excluded))}")
        for name in names:
            if name.startswith("-"):
                self._excluded.add(name[1:])
                self._included.discard(name[1:])
            else:
                __import__(name)
                top = name.partition(".")[0]
                self._shell.user_ns[top] = sys.modules[top]
                self._included.add(name)
                self._excluded.discard(name)
        self._remember()

    def before_cell(self, info: object = None) -> None:
        if self._mode != "off":
            self._check()

    def after_cell(self) -> None:
        if self._mode != "off":
            self._remember()

    def _remember(self) -> None:
        """Notes the files of new modules."""
        for name, module in list(sys.modules.items()):
            if name not in self._times:
                found = _file(module)
                if found is not None:
                    self._times[name] = found

    def _check(self, force: bool = False) -> None:
        self._remember()
        for name, (path, changed) in list(self._times.items()):
            module = sys.modules.get(name)
            if module is None:
                del self._times[name]
                continue
            if name in self._excluded or (self._mode == "explicit" and not force and name not in self._included):
                continue
            try:
                present = stat(path).st_mtime_ns
            except OSError:
                continue  # it was deleted, or is being written
            if present == changed or self._failed.get(name) == present:
                continue
            try:
                self._reload(module)
                self._times[name] = path, present
            except Exception as e:
                self._failed[name] = present
                print(f"[autoreload of {name} failed; the old version stays]", file=sys.stderr)
                self._shell.display.report(e)


    def _reload(self, module: ModuleType) -> None:
        """Imports it again. Objects taken from it before, by other modules and the cells, behave like the new
        ones."""
        before = dict(vars(module))
        load("linecache").checkcache(module.__file__)
        load("importlib").reload(module)
        for name, old in before.items():
            new = vars(module).get(name, old)
            if new is old or getattr(old, "__module__", None) != module.__name__:
                continue
            if not isinstance(old, (_Function, type)):
                continue
            taken = self._taken.setdefault((module.__name__, name), [])
            taken.append(load("weakref").ref(old))
            taken[:] = [reference for reference in taken if reference() is not None]
            for reference in taken:
                _update(reference(), new)
                self._rename(reference(), new)

    def _rename(self, old: object, new: object) -> None:
        """Makes names of cells that refer to an old class refer to the new one, so that isinstance is true."""
        names = self._shell.user_ns
        if isinstance(old, type) and isinstance(new, type):
            for name in [name for name, value in names.items() if value is old]:
                names[name] = new


def _file(module: ModuleType) -> tuple[str, int] | None:
    """The source file of a module that somebody may edit, and the time of its last change."""
    path = getattr(module, "__file__", None)
    if type(path) is not str or not path.endswith(".py"):
        return None
    if getattr(module, "__name__", "") in ("__main__", "__mp_main__"):
        return None
    if path.startswith(OURS) or "-packages/" in path or is_standard_path(path):
        return None
    try:
        return path, stat(path).st_mtime_ns
    except OSError:
        return None


def _update(old: object, new: object) -> None:
    if isinstance(old, _Function) and isinstance(new, _Function):
        for attribute in ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__annotations__", "__dict__"):
            try:
                setattr(old, attribute, getattr(new, attribute))
            except (AttributeError, TypeError, ValueError):
                pass  # a different number of variables from outside
    elif isinstance(old, (classmethod, staticmethod)) and type(old) is type(new):
        _update(old.__func__, new.__func__)
    elif isinstance(old, property) and isinstance(new, property):
        for part in ("fget", "fset", "fdel"):
            _update(getattr(old, part), getattr(new, part))
    elif isinstance(old, type) and isinstance(new, type):
        _update_class(old, new)


def _update_class(old: type, new: type) -> None:
    """Makes existing instances instances of the new class, and makes the old class behave like it."""
    for name, value in list(vars(old).items()):
        if name in ("__dict__", "__weakref__"):
            continue
        try:
            if name not in vars(new):
                delattr(old, name)
            elif vars(new)[name] is not value:
                _update(value, vars(new)[name])
                if not isinstance(value, _Function):
                    setattr(old, name, vars(new)[name])
        except (AttributeError, TypeError):
            pass  # one that cannot be set
    for name, value in vars(new).items():
        if name not in vars(old):
            try:
                setattr(old, name, value)
            except (AttributeError, TypeError):
                pass
    for instance in load("gc").get_referrers(old):
        if type(instance) is old:
            try:
                object.__setattr__(instance, "__class__", new)
            except TypeError:
                pass  # its layout is different
