"""What a cell costs inside the runner's standard-library engine, over compiling and executing its source.

Prints one line of JSON: for each kind of cell, the microseconds that it takes longer, one number for each round. The
engine is the kernel's own, in this process; its output is thrown away.
"""

import json
import os
import sys
import time

CELLS = {"assignment": "x = 1", "value": "1 + 1", "printed": "print('x')"}
BATCH = 50  # cells in a row
BATCHES = 20  # of which the quickest counts: what else the machine does is not the runner's cost


def main(rounds: int) -> None:
    real = os.dup(1)
    from talaria_runner.engines.plain import PlainEngine
    from talaria_runner.main import _Kernel, _make_main, _prepare_interpreter
    from talaria_runner.run import execution
    from talaria_runner.run.execution import Execution

    module = _make_main()
    _prepare_interpreter()
    kernel = _Kernel(module, PlainEngine)
    queue = kernel._outbox._queue
    count = 0

    def engine(code: str) -> None:
        nonlocal count
        count += 1
        job = Execution(str(count), code, count, False, False)
        kernel._interrupts.execution = job
        execution.begin(job)
        kernel._outbox.begin()
        kernel.engine.run(job)
        assert job.status == "ok", code
        queue.clear()

    def bare(code: str) -> None:
        exec(compile(code, "<cell>", "exec"), vars(module))
        queue.clear()

    samples: dict[str, list[float]] = {name: [] for name in CELLS}
    for name, code in CELLS.items():
        for _ in range(rounds):
            samples[name].append(_micros(engine, code) - _micros(bare, code))
    os.write(real, json.dumps(samples).encode() + b"\n")


def _micros(run: object, code: str) -> float:
    """CPU time of this thread for one cell."""
    quickest = float("inf")
    for _ in range(BATCHES):
        begin = time.thread_time_ns()
        for _ in range(BATCH):
            run(code)
        quickest = min(quickest, time.thread_time_ns() - begin)
    return quickest / BATCH / 1000


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    sys.dont_write_bytecode = True
    main(int(sys.argv[2]))
