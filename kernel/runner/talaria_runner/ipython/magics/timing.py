"""How long code takes: %time, %timeit and %prun."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from time import perf_counter, process_time

from talaria_runner.ipython.magics import as_it_is
from talaria_runner.ipython.magics.options import number, parse
from talaria_runner.ipython.magics.usage import UsageError
from talaria_runner.own.ours import calling_place
from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Shell

_ENOUGH = 0.2  # s that one run is to take
_RUNS = 7
_MOST_LOOPS = 10**9
_TEMPLATE = """
def timed(loops, clock):
    pass
    start = clock()
    for _ in loops:
        pass
    end = clock()
    return end - start
"""


@as_it_is
def line_time(shell: Shell, line: str) -> object:
    """%time STATEMENT: runs it, says how long it took, and returns the value of an expression."""
    if not line.strip():
        raise UsageError("%time needs a statement")
    return _time(shell, line, *calling_place())


@as_it_is
def cell_time(shell: Shell, line: str, cell: str) -> object:
    """%%time: runs the cell and says how long it took."""
    if line.strip():
        raise UsageError("%%time takes nothing on its own line: write the code below it, or %time in front of a line")
    return _time(shell, cell, *calling_place(1))


def _time(shell: Shell, code: str, *place: object) -> object:
    from resource import RUSAGE_SELF, getrusage

    before, begin = getrusage(RUSAGE_SELF), perf_counter()
    try:
        return shell.cells.run_inside(code, *place)
    finally:
        wall, after = perf_counter() - begin, getrusage(RUSAGE_SELF)
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        cpu = [f"{name}: {spell(value)}" for name, value in (("user", user), ("sys", system), ("total", user + system))]
        print(f"CPU times: {', '.join(cpu)}\nWall time: {spell(wall)}")


@as_it_is
def line_timeit(shell: Shell, line: str) -> object:
    """%timeit [-n LOOPS] [-r RUNS] [-p DIGITS] [-c] [-q] [-o] STATEMENT: runs it many times and says how long one run
    takes. -c counts CPU time, -q prints nothing, -o returns the figures."""
    options, code = parse("timeit", line, "n:r:tcp:qov:")
    if not code:
        raise UsageError("%timeit needs a statement")
    return _timeit(shell, options, "", code, *calling_place())


@as_it_is
def cell_timeit(shell: Shell, line: str, cell: str) -> object:
    """%%timeit [OPTIONS] [SETUP]: like %timeit, for the cell. SETUP runs once before it."""
    options, setup = parse("%timeit", line, "n:r:tcp:qov:")
    return _timeit(shell, options, setup, cell, *calling_place(1))


class TimeitResult:
    """Times in seconds, of one loop each."""

    def __init__(self, loops: int, repeat: int, all_runs: list[float], compile_time: float, precision: int) -> None:
        self.loops = loops
        self.repeat = repeat
        self.all_runs = all_runs
        self.timings = [run / loops for run in all_runs]
        self.best = min(self.timings)
        self.worst = max(self.timings)
        self.compile_time = compile_time
        self._precision = precision

    @property
    def average(self) -> float:
        return sum(self.timings) / len(self.timings)

    @property
    def stdev(self) -> float:
        mean = self.average
        return (sum([(t - mean) ** 2 for t in self.timings]) / len(self.timings)) ** 0.5

    def __str__(self) -> str:
        runs = f"{self.repeat} run{'s' if self.repeat != 1 else ''}"
        loops = f"{self.loops:,} loop{'s' if self.loops != 1 else ''} each"
        mean, deviation = (spell(t, self._precision) for t in (self.average, self.stdev))
        return f"{mean} ± {deviation} per loop (mean ± std. dev. of {runs}, {loops})"

    def __repr__(self) -> str:
        return f"<TimeitResult : {self}>"


def _timeit(shell: Shell, options: dict[str, str], setup: str, code: str, *place: object) -> object:
    runs = number("timeit", "r", options["r"]) if "r" in options else _RUNS
    digits = number("timeit", "p", options["p"]) if "p" in options else 3
    clock = process_time if "c" in options else perf_counter
    begin = perf_counter()
    timed = _timed(shell, setup, code, *place)
    compiling = perf_counter() - begin
    gc = load("gc")
    collects = gc.isenabled()
    gc.disable()
    try:
        loops = number("timeit", "n", options["n"]) if options.get("n", "0") != "0" else 0
        if not loops:
            loops = 1
            while timed(_repeat(loops), clock) < _ENOUGH and loops < _MOST_LOOPS:
                loops *= 10
        result = TimeitResult(loops, runs, [timed(_repeat(loops), clock) for _ in range(runs)], compiling, digits)
    finally:
        if collects:
            gc.enable()
    if "q" not in options:
        if result.best and result.worst > 4 * result.best and result.worst > 1e-6:
            print(f"The slowest run took {result.worst / result.best:.2f} times longer than the fastest. "
                  "This could mean that an intermediate result is being cached.")  # fmt: skip
        print(result)
    return result if "o" in options else None


def _timed(
    shell: Shell, setup: str, code: str, file: str, line: int, names: dict[str, object] | None
) -> Callable[[object, Callable], float]:
    """A function that runs the code so often. Its lines have the numbers that they have in the cell."""
    tree = compile(_TEMPLATE, file, "exec", 0x400, True)
    function = tree.body[0]
    function.body[:1] = shell.cells.compiled(setup, file, max(1, line - 1)).body or function.body[:1]
    body = shell.cells.compiled(code, file, line).body
    loop = function.body[-3]
    loop.body = body or loop.body
    made = compile(tree, file, "exec", shell.cells.futures, True)
    globals = shell.user_ns if names is None else {**shell.user_ns, **names}
    inner = next(constant for constant in made.co_consts if hasattr(constant, "co_code"))
    return type(lambda: None)(inner.replace(co_name="<module>", co_qualname="<module>"), globals)


def _repeat(count: int) -> object:
    return load("itertools").repeat(None, count)


@as_it_is
def line_prun(shell: Shell, line: str) -> object:
    """%prun [-s KEY] [-l LINES] [-q] [-r] [-D FILE] [-T FILE] STATEMENT: shows how long each function took."""
    options, code = parse("prun", line, "D:l:rs:T:q")
    if not code:
        raise UsageError("%prun needs a statement")
    return _prun(shell, options, code, *calling_place())


@as_it_is
def cell_prun(shell: Shell, line: str, cell: str) -> object:
    """%%prun [OPTIONS]: like %prun, for the cell."""
    options, rest = parse("%prun", line, "D:l:rs:T:q")
    return _prun(shell, options, f"{rest}\n{cell}", *calling_place())


def _prun(shell: Shell, options: dict[str, str], code: str, *place: object) -> object:
    from cProfile import Profile
    from io import StringIO
    from pstats import Stats

    profile = Profile()
    try:
        profile.runcall(shell.cells.run_inside, code, *place)
    except SystemExit:
        print("*** SystemExit exception caught in code being profiled.")
    text = StringIO()
    stats = Stats(profile, stream=text).strip_dirs().sort_stats(options.get("s", "time"))
    limit = options.get("l", "")
    stats.print_stats(*([int(limit) if limit.isdecimal() else limit] if limit else []))
    if "q" not in options:
        shell.page(text.getvalue())
    if "D" in options:
        stats.dump_stats(options["D"])
    if "T" in options:
        with open(options["T"], "w", encoding="utf-8") as out:
            out.write(text.getvalue())
    return stats if "r" in options else None


def spell(seconds: float, digits: int = 3) -> str:
    """A time with its unit."""
    if seconds >= 60:
        parts = []
        rest = int(seconds)
        for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
            count, rest = divmod(rest, size)
            if count or (unit == "s" and not parts):
                parts.append(f"{count}{unit}")
        return " ".join(parts)
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.{digits}g} {unit}"
    return f"{seconds / 1e-9:.{digits}g} ns"
