"""The module hermes_tools. It is made when it is imported first; until then it costs nothing."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from _frozen_importlib import ModuleSpec
from _thread import get_ident
from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from talaria_runner.run.interrupts import Interrupts
    from talaria_runner.tools.calls import Calls
    from talaria_runner.tools.live import Names
    from talaria_runner.wire.asks import Asks

_NAME = "hermes_tools"
_SERVERS = _NAME + ".servers."


class Finder:
    """Finds hermes_tools where nothing else does, so that a file of that name goes before it."""

    def __init__(self, asks: Asks, interrupts: Interrupts) -> None:
        self._asks = asks
        self._interrupts = interrupts
        self._main = get_ident()
        self._calls: Calls | None = None
        self._names: Names | None = None  # when hermes_tools was imported

    def install(self) -> None:
        sys.meta_path.append(self)
        shared.append(self)

    def calls(self) -> Calls:
        """The calls of this kernel, in any thread."""
        from talaria_runner.tools.calls import Calls

        if self._calls is None:
            self._calls = Calls(self._asks, self._interrupts, self._main)
        return self._calls

    def function(self, spec: dict[str, object], awaitable: bool) -> object:
        """The function that calls a tool."""
        from talaria_runner.tools import functions

        calls = self.calls()
        return functions.make(spec, calls.acall if awaitable else calls.call, awaitable)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == _NAME:
            return ModuleSpec(name, self, origin="built-in", is_package=True)
        server = name.removeprefix(_SERVERS)
        if server != name and self._names is not None and self._names.has_server(server):
            return ModuleSpec(name, self, origin="built-in")
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ != _NAME:
            self._names.fill_server(module, module.__name__.removeprefix(_SERVERS))
            return
        from talaria_runner.tools import failures, helpers
        from talaria_runner.tools.live import Names

        self._names = names = Names(self.calls())
        module.__doc__ = "The tools of this session, as functions."
        fixed = {c.__name__: c for c in failures.ALL}
        fixed.update({f.__name__: f for f in (helpers.json_parse, helpers.shell_quote, helpers.retry)})
        fixed["search_tools"] = names.search_tools()
        for part in ("aio", "servers"):
            inner = type(module)(f"{_NAME}.{part}")
            inner.__path__ = []  # importlib looks for modules below packages only
            inner.__spec__ = ModuleSpec(inner.__name__, None)  # variables are saved as references to modules that have one
            fixed[part] = modules[inner.__name__] = inner
        vars(module).update(fixed)
        names.fixed.update(fixed)
        names.fill(module, names.function)
        names.fill(fixed["aio"], names.awaitable)
        names.fill_servers(fixed["servers"])


shared: list[Finder] = []  # the kernel's one


def function(spec: dict[str, object], awaitable: bool) -> object:
    """The function of a tool, in the interpreter that loads it. Saved variables name this function."""
    return shared[0].function(spec, awaitable)
