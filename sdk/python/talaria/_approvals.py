"""Approvals: questions that a session asks a person before it continues."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any, Callable, Dict, Optional

from ._errors import TalariaError
from ._http import Transport, path


@dataclasses.dataclass(frozen=True)
class Approval:
    """A question that a session asks a person before it continues.

    ``kind`` is ``tool``, ``cell``, ``network`` or ``packages``; ``summary`` says in one line what is requested, and
    ``detail`` in full. Without an answer by ``expires_at``, it is denied.
    """

    id: str
    kind: str
    summary: str
    detail: str
    expires_at: str
    execution_id: Optional[str] = None

    @staticmethod
    def of(fields: Dict[str, Any]) -> Approval:
        """Reads an event approval_request, or an item of the list of approvals."""
        return Approval(fields["approval_id"], fields["kind"], fields["summary"], fields.get("detail", ""),
                        fields["expires_at"], fields.get("execution_id"))


#: Returns ``once``, ``session`` or ``deny``; None leaves the answer to someone else.
Decide = Callable[[Approval], Optional[str]]


def decide(transport: Transport, session_id: str, approval: Approval, callback: Decide) -> None:
    """Asks the callback, and sends its decision. If the callback raises, the answer is no: the question is about safety."""
    body: Dict[str, Any]
    try:
        decision = callback(approval)
        if decision is None:
            return
        body = {"decision": decision}
    except Exception as e:
        logging.getLogger("talaria").exception("the callback for approvals failed")
        body = {"decision": "deny", "reason": f"the client's callback failed: {type(e).__name__}"}
    try:
        transport.call("POST", path("sessions", session_id, "approvals", approval.id), body=body, repeatable=True)
    except TalariaError as e:
        if e.status not in (404, 409):  # somebody else answered, or the cell was interrupted
            logging.getLogger("talaria").warning("the decision on approval %s was not accepted: %s", approval.id, e)
