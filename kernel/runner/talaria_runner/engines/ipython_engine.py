"""The engine for environments with IPython: its shell, magics, formatters and transformers, with cells that
run as in the other engine. So interrupts, await, the order of output, errors and results are the same in
both."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.engines.plain import ONLY_AST, TOP_LEVEL_AWAIT, PlainEngine
from talaria_runner.engines.rewriting import rewrite
from talaria_runner.ipython.ipython_shell import ZMQInteractiveShell, make_shell
from talaria_runner.run.execution import Execution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _ast import Module

    from talaria_runner.ipython.contract import Tools


_LONGEST_LINE = 2000  # characters


class IPythonEngine(PlainEngine):
    name = "ipython"

    def _make_shell(self, tools: Tools) -> ZMQInteractiveShell:
        shell = make_shell(tools)
        self._transformers = _transformers(shell)
        return shell

    def magics(self) -> list[str]:
        kinds = self.shell.magics_manager.magics
        return [f"%{n}" for n in list(kinds["line"])] + [f"%%{n}" for n in list(kinds["cell"])]

    def run(self, execution: Execution) -> None:
        if not execution.silent:
            self.shell.execution_count = execution.count
        super().run(execution)

    def fail(self, execution: Execution, error: BaseException) -> None:
        shell = self.shell
        if shell.custom_exceptions and isinstance(error, shell.custom_exceptions):
            trace = error.__traceback__
            self._guard.run(execution, lambda: shell.CustomTB(type(error), error, trace, tb_offset=None))
        super().fail(execution, error)

    def _is_magic(self, word: str) -> bool:
        return word in self.shell.magics_manager.magics["line"]

    def _rewrite(self, source: str) -> tuple[str, dict[int, str]] | None:
        """Syntax that both engines support is rewritten as in the other one, since IPython does not keep line
        numbers."""
        rewritten = rewrite(source)
        if rewritten is not None and self._is_python(rewritten[0]):
            return rewritten
        if len(max(source.split("\n"), key=len)) > _LONGEST_LINE:
            return rewritten  # some of its patterns take minutes for such lines, and cannot be interrupted
        transformed = self.shell.transform_cell(source)
        return (transformed, {}) if self._is_python(transformed) else rewritten

    def _is_python(self, text: str) -> bool:
        try:
            compile(text, "<cell>", "exec", ONLY_AST | TOP_LEVEL_AWAIT | self.futures, True)
        except (SyntaxError, ValueError):
            return False
        return True

    def _transform(self, source: str) -> str:
        if _transformers(self.shell) == self._transformers:
            return source
        try:
            return self.shell.transform_cell(source)
        except Exception as e:
            self._display.report(e)  # the cell may be the one that removes the function again
            return source

    def _transform_tree(self, tree: Module) -> Module:
        return self.shell.transform_ast(tree) if self.shell.ast_transformers else tree

    def _transforms(self) -> bool:
        return bool(self.shell.ast_transformers) or _transformers(self.shell) != self._transformers


def _transformers(shell: ZMQInteractiveShell) -> tuple[int, ...]:
    """The functions that rewrite cells, in enough detail to see that they changed."""
    manager = shell.input_transformer_manager
    lists = (manager.cleanup_transforms, manager.line_transforms, manager.token_transformers,
             shell.input_transformers_post)  # fmt: skip
    return tuple(id(function) for functions in lists for function in functions)
