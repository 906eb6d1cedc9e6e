"""Cells that are a text of a MIME type: %%html and its like."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Shell


def _shower(name: str) -> Callable:
    def show(shell: Shell, line: str, cell: str) -> None:
        from talaria_runner.rendering import media

        shell.display.display(getattr(media, name)(cell))

    show.__doc__ = f"Shows the cell as {name}."
    return show


cell_html = cell_HTML = _shower("HTML")
cell_javascript = cell_js = _shower("Javascript")
cell_latex = _shower("Latex")
cell_markdown = _shower("Markdown")
cell_svg = cell_SVG = _shower("SVG")
