"""Executing a cell. Engine is the interface that the runner needs; PlainEngine uses only the standard library."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from keyword import iskeyword
from _ast import Expr, Expression, Name

from talaria_runner.engines.expressions import evaluate
from talaria_runner.engines.history import History
from talaria_runner.engines.rewriting import call, rewrite, spread, spread_over
from talaria_runner.errors.tracebacks import Tracebacks, bare
from talaria_runner.introspection.inspection import Inspector
from talaria_runner.ipython import magics, shim
from talaria_runner.ipython.contract import Tools
from talaria_runner.ipython.events import Info, Result
from talaria_runner.ipython.shell import ZMQInteractiveShell
from talaria_runner.rendering.display import Display
from talaria_runner.rendering.figures import Figures
from talaria_runner.run.ending import CellEnded
from talaria_runner.run.eventloop import EventLoop
from talaria_runner.run.execution import Execution
from talaria_runner.run.guard import Guard
from talaria_runner.run.namespaces import Namespace
from talaria_runner.run.sources import Sources
from talaria_runner.streams.commands import Commands
from talaria_runner.wire import frames
from talaria_runner.wire.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _ast import Module, stmt
    from types import CodeType, ModuleType
    from typing import Protocol

    from talaria_runner.errors.tracebacks import Described

    class Engine(Protocol):
        def run(self, execution: Execution) -> None:
            """Runs the cell, sends its result or error, and sets execution.status. Called in the main thread."""

        def fail(self, execution: Execution, error: BaseException) -> None:
            """Ends the execution with that error, which came from outside its code."""

        def magics(self) -> list[str]:
            """The names of all magics, with their % or %%. Safe in every thread."""


ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
_FUTURES = 0x1FE0000  # the flags of all from __future__ imports
_COROUTINE = 0x80
_LONGEST_AUTOMAGIC = 1000  # characters

_Function = type(lambda: None)


class PlainEngine:
    name = "stdlib"

    def __init__(
        self,
        main: ModuleType,
        builtins: dict[str, object],
        guard: Guard,
        outbox: Outbox,
        display: Display,
        figures: Figures,
        loop: EventLoop,
        sources: Sources,
        tracebacks: Tracebacks,
        commands: Commands,
    ) -> None:
        self._main = main
        self._namespace = vars(main)
        self._builtins = builtins
        self._builtins_module = self._namespace["__builtins__"]
        self._guard = guard
        self._outbox = outbox
        self._display = display
        self._figures = figures
        self._loop = loop
        self._sources = sources
        self._tracebacks = tracebacks
        self._history = History(builtins, self._namespace)
        self.futures = 0
        self._execution: Execution | None = None
        self._at_end = False  # the value of the last expression is being shown
        sys.displayhook = self.show
        self.shell = self._make_shell(
            Tools(main, self, commands, display, figures, Inspector(self._namespace, sources))
        )
        self._events = self.shell.events  # user code may remove it
        magics.keep_modules()

    def _make_shell(self, tools: Tools) -> ZMQInteractiveShell:
        shell = ZMQInteractiveShell(tools)
        shim.shells.append(shell)
        self._builtins["get_ipython"] = shim.get_ipython
        return shell

    @property
    def count(self) -> int:
        return self._execution.count if self._execution is not None else 0

    def magics(self) -> list[str]:
        shell = self.shell
        return [f"%{n}" for n in magics.names(shell, "line")] + [f"%%{n}" for n in magics.names(shell, "cell")]

    def run(self, execution: Execution) -> None:
        self._execution = execution
        if self._namespace is not vars(self._main):  # an interrupt has left a cell in its namespace
            self._use(self._main)
        self._namespace.setdefault("__builtins__", self._builtins_module)
        self._namespace.pop("__warningregistry__", None)
        error = None
        if not execution.silent:
            self._history.add_source(execution.count, execution.code)
            if self._history.before():
                error = self._guard.run(execution, lambda: self._history.release(execution.code))
                if not isinstance(error, KeyboardInterrupt):
                    error = None
        self._loop.prepare()
        error = error or self._before(execution) or self._run(execution)
        if self._outbox.forked:
            if error is not None:
                raise error
            return
        if isinstance(error, CellEnded):
            error = None
        if error is not None:
            self.fail(execution, error)
        late = self._after(execution, error) or self._guard.run(execution, self._figures.flush)
        if late is not None and error is None:
            self._end_with_figures(execution, late)
        error = late = None  # the frames of the cell lead to this one, and would keep themselves alive through it
        if self._history.holds:
            self._guard.run(execution, self._history.release)
        if execution.status is None:
            if execution.expressions:
                self._outbox.add(frames.expressions(execution, evaluate(execution, self)))
            execution.status = "ok"

    def value_of(self, execution: Execution, source: str) -> str:
        """What the expression evaluates to, as JSON. See engines/expressions.py."""
        made: list[str] = []
        error = self._guard.run(execution, lambda: made.append(
            frames.value(*self._display.encoded(eval(source.strip(), self._namespace)))
        ))  # fmt: skip
        if error is None:
            return made[0]
        described: list[Described] = []
        if self._guard.run(execution, lambda: described.append(self._tracebacks.describe(error))) is not None:
            described = [bare(error)]
        return frames.failure(*described[0][:3])

    def fail(self, execution: Execution, error: BaseException) -> None:
        described: list[Described] = []
        describe = self._tracebacks.describe
        if self._guard.run(execution, lambda: described.append(describe(error, hint=True))) is not None:
            described = [bare(error)]
        self._guard.run(execution, lambda: self._history.add_failure(error))
        self._outbox.add(frames.error(execution, *described[0]))
        execution.status = "error"

    def _end_with_figures(self, execution: Execution, late: BaseException) -> None:
        """A figure that cannot be drawn does not fail the cell; an interrupt while it is being drawn does."""
        if isinstance(late, KeyboardInterrupt):
            self.fail(execution, late)
        elif not isinstance(late, CellEnded):
            self._guard.run(execution, lambda: self._display.report(late))

    def _run(self, execution: Execution) -> BaseException | None:
        """Runs the code, as functions: unlike exec they have nothing between the guard and the first instruction."""
        filename = self._sources.add(execution)
        compiled: list[tuple[CodeType | None, CodeType | None]] = []
        if self._transforms():
            error = self._guard.run(execution, lambda: compiled.append(self._compile(execution.code, filename)))
        else:
            error = None
            try:
                compiled.append(self._compile(execution.code, filename))
            except BaseException as e:
                e.__traceback__ = None
                error = e
        if error is not None:
            return error
        first, last = compiled[0]
        functions = [code and _Function(code, self._namespace) for code in (first, last)]
        if any(code is not None and code.co_flags & _COROUTINE for code in (first, last)):
            both = self._loop.awaiting(*[function for function in functions if function is not None])
            functions = [None, both] if last is not None else [both, None]
        return self._guard.run(execution, *functions, self._show_last)

    def _before(self, execution: Execution) -> BaseException | None:
        """Calls the callbacks for the beginning of a cell."""
        events = self._events
        if execution.silent or not (events.callbacks["pre_run_cell"] or events.callbacks["pre_execute"]):
            return None
        info = Info(execution.code, True, False)
        first, last = lambda: events.trigger("pre_execute"), lambda: events.trigger("pre_run_cell", info)
        return self._guard.run(execution, first, last, lambda _: None)

    def _after(self, execution: Execution, error: BaseException | None) -> BaseException | None:
        """Calls the callbacks for the end of a cell."""
        events = self._events
        if execution.silent or not (events.callbacks["post_run_cell"] or events.callbacks["post_execute"]):
            return None
        self._outbox.write()
        result = Result(Info(execution.code, True, False), execution.count)
        result.error_in_exec = error
        first, last = lambda: events.trigger("post_execute"), lambda: events.trigger("post_run_cell", result)
        return self._guard.run(execution, first, last, lambda _: None)

    def _compile(self, source: str, filename: str) -> tuple[CodeType | None, CodeType | None]:
        """The code of all statements except the last, and of the last one if it is an expression to be shown."""
        text, tree, changed = self._parse(self._transform(source), filename, 1)
        return self._codes(text, self._transform_tree(tree), filename, changed)

    def _parse(self, source: str, filename: str, line: int) -> tuple[str, Module, dict[int, str]]:
        """The source as Python, its tree, and by number the lines that were not Python. The source begins at
        that line of the file."""
        flags = self.futures | TOP_LEVEL_AWAIT | ONLY_AST
        padding = "\n" * (line - 1)
        magic = self._automagic(source)
        try:
            if magic is None:
                return padding + source, compile(padding + source, filename, "exec", flags, True), {}
            changed = {line: source}
            text = padding + magic
        except SyntaxError:
            rewritten = self._rewrite(padding + source)
            if rewritten is None:
                raise
            text, changed = rewritten
        try:
            tree = compile(text, filename, "exec", flags, True)
        except SyntaxError as e:
            if e.lineno in changed:
                e.text, e.offset, e.end_offset = changed[e.lineno], None, None
            raise
        return text, tree, changed

    def _automagic(self, source: str) -> str | None:
        """A cell that is one line and begins with the name of a magic, and of nothing else, as Python."""
        if len(source) > _LONGEST_AUTOMAGIC:
            return None
        source = source.strip()
        word, _, rest = source.partition(" ")
        if not word.isidentifier() or "\n" in source or not self.shell.automagic:
            return None
        if word in self._namespace or word in self._builtins or rest.lstrip().startswith("=") or iskeyword(word):
            return None
        return call(word, rest.strip()) if self._is_magic(word) else None

    def _is_magic(self, word: str) -> bool:
        return magics.is_line_magic(self.shell, word)

    def _rewrite(self, source: str) -> tuple[str, dict[int, str]] | None:
        """A source that does not compile as Python, rewritten, and the lines that were not Python; None if it
        has none."""
        return rewrite(source)

    def _transforms(self) -> bool:
        """Whether functions of the user rewrite cells."""
        return False

    def _transform(self, source: str) -> str:
        return source

    def _transform_tree(self, tree: Module) -> Module:
        return tree

    def _codes(
        self, source: str, tree: Module, filename: str, changed: dict[int, str]
    ) -> tuple[CodeType | None, CodeType | None]:
        flags = self.futures | TOP_LEVEL_AWAIT
        body = tree.body
        if self.shell.ast_node_interactivity != "last_expr":
            self._choose(source, body)
        quiet = not body or type(body[-1]) is not Expr or _is_quiet(source, body[-1]) or not self._shows_values()
        spread(tree, changed)
        value = None
        if not quiet:
            value = Expression(body.pop().value)
        first = last = None
        if body:
            first = compile(tree, filename, "exec", flags, True)
            flags |= first.co_flags & _FUTURES
        if value is not None:
            last = compile(value, filename, "eval", flags, True)
        self.futures = flags & _FUTURES
        return first, last

    def _shows_values(self) -> bool:
        return self.shell.ast_node_interactivity != "none"

    def _choose(self, source: str, body: list[stmt]) -> None:
        """Makes the values be shown that ast_node_interactivity asks for, in addition to the last expression's."""
        mode = self.shell.ast_node_interactivity
        if mode == "last_expr_or_assign" and body:
            targets = getattr(body[-1], "targets", [getattr(body[-1], "target", None)])
            if type(targets[0]) is Name and not _is_quiet(source, body[-1]):
                shown = compile(targets[0].id, "", "exec", ONLY_AST, True).body[0]
                spread_over(shown, body[-1])
                body.append(shown)
        elif mode == "all":
            for node in body[:-1]:
                if type(node) is Expr and not _is_quiet(source, node):
                    shown = compile("get_ipython().displayhook(0)", "", "exec", ONLY_AST, True).body[0].value
                    spread_over(shown, node)
                    shown.args[0] = node.value
                    node.value = shown

    def run_inside(
        self, text: str, file: str = "", line: int = 1, names: dict[str, object] | None = None
    ) -> object:
        """See Cells in ipython/contract.py."""
        file = file or self._sources.add(Execution("", text, 0, True, False))
        codes = self._codes(*self._parse_inside(text, file, line))
        functions = [_Function(code, self._namespace) for code in codes if code is not None]
        if names is not None:
            functions = [lambda code=code: eval(code, self._namespace, names) for code in codes if code is not None]
        elif any(function.__code__.co_flags & _COROUTINE for function in functions):
            functions = [self._loop.awaiting(*functions)]
        value = None
        for function in functions:
            value = function()
        return value if codes[1] is not None else None

    def run_in(self, namespace: Namespace, text: str, file: str, line: int) -> object:
        """See Cells in ipython/contract.py."""
        before, futures = self.shell.user_module, self.futures
        folder = namespace.enter()
        try:
            self.futures = namespace.futures
            self._use(namespace.module)
            return self.run_inside(text, file, line)
        finally:
            self._use(before)
            namespace.futures, self.futures = self.futures, futures
            namespace.leave(folder)

    def _use(self, main: ModuleType) -> None:
        """Makes the variables of a module those of cells."""
        sys.modules["__main__"] = main
        self._namespace = vars(main)
        self.shell.use(main)

    def new_main(self) -> ModuleType:
        """See Cells in ipython/contract.py."""
        module = type(sys)("__main__")
        module.__builtins__ = self._builtins_module
        return module

    def compiled(self, text: str, file: str, line: int) -> Module:
        """See Cells in ipython/contract.py."""
        _, tree, _, changed = self._parse_inside(text, file, line)
        spread(tree, changed)
        return tree

    def _parse_inside(self, text: str, file: str, line: int) -> tuple[str, Module, str, dict[int, str]]:
        """Like _parse, with the file, for text that may be only a part of that line."""
        source, tree, changed = self._parse(text, file, line)
        whole = self._sources.line(file, line)
        if whole.strip() != text.partition("\n")[0].strip():
            changed = {**changed, line: whole}
        return source, tree, file, changed

    def sources(self) -> dict[int, str]:
        """See Cells in ipython/contract.py."""
        return self._history.sources()

    def forget(self, results: bool, sources: bool) -> None:
        """See Cells in ipython/contract.py."""
        self._history.forget(results, sources)

    def _show_last(self, value: object) -> None:
        if not self._execution.silent:
            self._at_end = True
            try:
                sys.displayhook(value)
            finally:
                self._at_end = False

    def show(self, value: object) -> None:
        """sys.displayhook, unless user code has its own."""
        execution = self._execution
        if value is None:
            return
        if not self._at_end:
            self._display.display(value)  # it is not the cell's result: it comes from a console inside it, or from run_cell
            return
        self._display.show_result(value)
        self._history.add_result(execution.count, value)


def _is_quiet(source: str, last: Expr) -> bool:
    """Whether a semicolon follows the last expression."""
    line = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")[last.end_lineno - 1]
    return line.encode()[last.end_col_offset:].lstrip(b" \t\f\\").startswith(b";")
