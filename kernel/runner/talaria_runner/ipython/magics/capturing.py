"""%%capture: what a cell writes and shows, kept in a variable."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from io import StringIO

from talaria_runner.ipython.magics import as_it_is
from talaria_runner.ipython.magics.options import parse
from talaria_runner.own.ours import calling_place
from talaria_runner.rendering.display import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from talaria_runner.ipython.contract import Shell


@as_it_is
def cell_capture(shell: Shell, line: str, cell: str) -> None:
    """%%capture [NAME]: runs the cell and keeps its output, in a variable if NAME is given. --no-stdout, --no-stderr and
    --no-display let that kind of output through."""
    options, rest = parse("%capture", line, "", "no-stdout no-stderr no-display")
    name, further = rest.partition(" ")[::2]
    if further.startswith("-"):
        options.update(parse("%capture", further, "", "no-stdout no-stderr no-display")[0])
    capture = capture_output(*(f"no-{kind}" not in options for kind in ("stdout", "stderr", "display")))
    with capture as kept:
        if name:
            shell.user_ns[name] = kept
        value = shell.cells.run_inside(cell, *calling_place(1))
        if value is not None:
            shell.display.display(value)
        shell.figures.flush()


class capture_output:
    """A context in which stdout, stderr and what is shown are kept. It gives a CapturedIO, which has them."""

    def __init__(self, stdout: bool = True, stderr: bool = True, display: bool = True) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.display = display

    def __enter__(self) -> CapturedIO:
        self._before = sys.stdout, sys.stderr
        kept = CapturedIO(StringIO() if self.stdout else None, StringIO() if self.stderr else None)
        self._sink = lambda *what: kept.outputs.append(Shown(*what))
        if self.display:
            shared[0].sinks.append(self._sink)
        sys.stdout, sys.stderr = kept._stdout or sys.stdout, kept._stderr or sys.stderr
        return kept

    def __exit__(self, *error: object) -> None:
        sys.stdout, sys.stderr = self._before
        if self._sink in shared[0].sinks:
            shared[0].sinks.remove(self._sink)


class Shown:
    """Something that was shown."""

    def __init__(self, data: dict[str, object], metadata: dict[str, object], id: str, update: bool) -> None:
        self.data = data
        self.metadata = metadata
        self._id = id
        self._update = update

    def __repr__(self) -> str:
        return str(self.data.get("text/plain", f"<{', '.join(self.data)}>"))

    def display(self) -> None:
        """Shows it now."""
        shared[0].display(
            self.data, raw=True, metadata=self.metadata, display_id=self._id or None, update=self._update
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        return self.data, self.metadata


class CapturedIO:
    """What was written to stdout and stderr, and what was shown. Calling it shows all of that."""

    def __init__(self, stdout: StringIO | None, stderr: StringIO | None) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self.outputs: list[Shown] = []

    @property
    def stdout(self) -> str:
        return self._stdout.getvalue() if self._stdout is not None else ""

    @property
    def stderr(self) -> str:
        return self._stderr.getvalue() if self._stderr is not None else ""

    def __str__(self) -> str:
        return self.stdout

    def show(self) -> None:
        """Writes and shows it now."""
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)
        for output in self.outputs:
            output.display()

    __call__ = show


RichOutput = Shown
Shown.__name__ = Shown.__qualname__ = "RichOutput"
Shown.__module__ = CapturedIO.__module__ = capture_output.__module__ = "IPython.utils.capture"
