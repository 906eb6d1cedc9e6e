"""The one exception of this package."""

from __future__ import annotations

from typing import Optional

_HINTS = {
    "unreachable": "check the URL, and that `talaria serve` is running there",
    "unauthorized": "pass a valid token: `talaria token show` prints the first owner's",
    "session_not_found": "the session was deleted, or belongs to another owner; session(id) creates it again",
    "session_conflict": "if_exists='keep' takes the session as it is, and 'apply' changes what can change",
    "execution_conflict": "this id was used with other code; use a new id for each cell",
    "events_expired": "read the events again from the session's first_seq - 1",
    "log_changed": "the log was replaced; read the events again from after=0",
    "checkpoint_gone": "checkpoints() lists the existing ones, with their levels; a name keeps one",
    "queue_full": "wait until some of the session's cells have finished",
    "disk_limit": "delete files, or raise limits.disk_bytes",
}


class TalariaError(Exception):
    """A request that failed. A cell that raises is not one: see ``Execution.error``.

    ``code`` is a stable word to branch on (``unreachable`` when no server answers), ``message`` says what happened,
    ``hint`` what to do next where that is known, and ``status`` is the HTTP status, 0 without an answer.
    """

    def __init__(self, code: str, message: str, status: int = 0, hint: Optional[str] = None) -> None:
        self.code = code
        self.message = message
        self.status = status
        self.hint = _HINTS.get(code, "") if hint is None else hint
        super().__init__(f"{message} ({code})" + (f"; {self.hint}" if self.hint else ""))
