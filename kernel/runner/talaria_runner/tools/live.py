"""The names that hermes_tools gives to tools: looked up when they are used, so that they are never out of date."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.tools import functions
from talaria_runner.tools.calls import Calls
from talaria_runner.tools.failures import ToolUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class Names:
    """Finds tools by the names that they have in Python."""

    def __init__(self, calls: Calls) -> None:
        self.fixed: dict[str, object] = {}  # what no tool takes the place of
        self._calls = calls

    def function(self, spec: dict[str, object]) -> object:
        return functions.make(spec, self._calls.call)

    def awaitable(self, spec: dict[str, object]) -> object:
        return functions.make(spec, self._calls.acall, awaitable=True)

    def fill(self, module: ModuleType, make: Callable[[dict[str, object]], object]) -> None:
        """Gives a module the attributes that are tools."""
        namespace = vars(module)

        def __getattr__(name: str) -> object:
            if name == "__all__":
                return sorted(self._present())
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            spec = self._find(name)
            if spec is None:
                there = ", ".join(sorted(self._present())) or "none"
                raise AttributeError(f"no tool is called {name!r}; the tools of this session: {there}")
            if spec.get("gone"):
                raise ToolUnavailable(f"the tool {name!r} was removed from this session", "unavailable")
            return make(spec)

        def __dir__() -> list[str]:
            return sorted({*filter(lambda n: n[:1] != "_", namespace), *self._present()})

        namespace["__getattr__"], namespace["__dir__"] = __getattr__, __dir__

    def fill_servers(self, module: ModuleType) -> None:
        """Gives a module an attribute for each MCP server, which has the server's tools."""

        def __getattr__(name: str) -> object:
            if name.startswith("__") or not self._of(name):
                raise AttributeError(f"no MCP server has the name {name!r}")
            __import__(f"{module.__name__}.{name}")
            return modules[f"{module.__name__}.{name}"]

        vars(module).update(
            __getattr__=__getattr__,
            __dir__=lambda: sorted({functions.identifier(s["server"]) for s in self._present().values() if s.get("server")}),
        )

    def has_server(self, name: str) -> bool:
        """Whether an MCP server of that name has tools in this session. Any may where the host cannot be asked: outside of a
        cell, where saved variables are loaded."""
        return not self._calls.can_list() or bool(self._of(name))

    def fill_server(self, module: ModuleType, name: str) -> None:
        """Gives a module the tools of one MCP server as attributes, looked up when they are used."""

        def __getattr__(tool: str) -> object:
            if tool == "__all__":
                return sorted(self._of(name))
            spec = None if tool.startswith("__") else self._of(name).get(tool) or self._of(name, tool).get(tool)
            if spec is None:
                raise AttributeError(f"the server {name!r} has no tool {tool!r}")
            return self.function(spec)

        vars(module).update(__getattr__=__getattr__, __dir__=lambda: sorted(self._of(name)))

    def search_tools(self) -> Callable[..., object]:
        """Makes the function of that name."""

        def search_tools(query: str = "", detail: str = "summary") -> list[object]:
            """Finds tools by the words of a query. detail says how much to return of each: "name", "summary" or "schema"."""
            if detail not in ("name", "summary", "schema"):
                raise ValueError('detail must be "name", "summary" or "schema"')
            words = query.lower().split()
            found = []
            for name, spec in sorted(self._present().items()):
                about = f"{name} {spec['name']} {spec.get('server', '')} {spec.get('description', '')}".lower()
                score = sum(2 if word in name.lower() else 1 for word in words if word in about)
                if score or not words:
                    found.append((-score, name, spec))
            return [_told(name, spec, detail) for _, name, spec in sorted(found, key=lambda f: f[:2])]

        search_tools.__module__, search_tools.__qualname__ = "hermes_tools", "search_tools"
        return search_tools

    def _present(self) -> dict[str, dict[str, object]]:
        return {name: s for name, s in self._by_identifier(self._calls.specs()).items() if not s.get("gone")}

    def _find(self, name: str) -> dict[str, object] | None:
        spec = self._by_identifier(self._calls.specs()).get(name)
        return spec or self._by_identifier(self._calls.specs(name)).get(name)

    def _of(self, server: str, wanted: str | None = None) -> dict[str, dict[str, object]]:
        """The tools of a server by the names that they have there. They are asked for again where wanted is not among them."""
        specs = self._calls.specs(wanted and f"{server}__{wanted}")
        return {
            functions.identifier(s["name"].removeprefix(s["server"] + "__")): s
            for s in specs.values()
            if not s.get("gone") and s.get("server") and functions.identifier(s["server"]) == server
        }  # fmt: skip

    def _by_identifier(self, specs: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
        """A tool whose name is an identifier has it before one whose name only becomes it."""
        names: dict[str, dict[str, object]] = {}
        for tool, spec in sorted(specs.items(), key=lambda item: (functions.identifier(item[0]) != item[0], item[0])):
            name = functions.identifier(tool)
            while name in self.fixed or name in names:
                name += "_"
            names[name] = spec
        return names


def _told(name: str, spec: dict[str, object], detail: str) -> object:
    if detail == "name":
        return name
    told = {"name": name, "description": spec.get("description", "")}
    if detail == "schema":
        told["parameters"] = spec.get("parameters", {})
    return told
