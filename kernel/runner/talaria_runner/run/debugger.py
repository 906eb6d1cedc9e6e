"""pdb inside a cell: it asks through input(), and sees only user code."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from talaria_runner.own.ours import OURS
from talaria_runner.run.execution import disguise
from talaria_runner.run.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType, TracebackType


class Debugger:
    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts

    def adopt_bdb(self, bdb: ModuleType) -> None:
        """Makes every debugger step over code of the runner, and continue where user code ends."""
        dispatch, get_stack = bdb.Bdb.trace_dispatch, bdb.Bdb.get_stack

        def trace_dispatch(self_: object, frame: FrameType, event: str, arg: object) -> object:
            if not frame.f_code.co_filename.startswith(OURS):
                try:
                    return dispatch(self_, frame, event, arg)
                except BaseException:
                    if hasattr(self_, "enterframe"):
                        self_.enterframe = None  # Python 3.14 leaves it set, and this debugger would never stop again
                    raise
            if not self._has_user_code_outside(frame):
                self_.set_continue()
            return None

        def stack_of_user(
            self_: object, f: FrameType | None, t: TracebackType | None
        ) -> tuple[list[tuple[FrameType, int]], int]:
            stack, at = get_stack(self_, f, t)
            first = 1 + max((i for i, (frame, _) in enumerate(stack) if frame is self._interrupts.guard), default=-1)
            kept = [i for i in range(first, len(stack)) if not stack[i][0].f_code.co_filename.startswith(OURS)]
            if not kept:
                return stack, at
            return [stack[i] for i in kept], max(0, sum(i <= at for i in kept) - 1)

        disguise(trace_dispatch, dispatch)
        disguise(stack_of_user, get_stack)
        bdb.Bdb.trace_dispatch, bdb.Bdb.get_stack = trace_dispatch, stack_of_user

    def adopt_pdb(self, pdb: ModuleType) -> None:
        """Makes an interrupt end a cell that waits in a debugger, which would otherwise ask again."""
        original = pdb.Pdb._cmdloop

        def cmdloop(self_: object) -> None:
            self_.cmdloop()

        disguise(cmdloop, original)
        pdb.Pdb._cmdloop = cmdloop

    def _has_user_code_outside(self, frame: FrameType | None) -> bool:
        guard = self._interrupts.guard
        while frame is not None and frame is not guard:
            name = frame.f_code.co_filename
            if not name.startswith(OURS) and "/asyncio/" not in name:
                return guard is not None
            frame = frame.f_back
        return False
