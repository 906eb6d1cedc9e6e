"""Checkpoints of a session, and going back to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Union

from ._execution import Execution


@dataclass(frozen=True)
class Checkpoint:
    """A state of a session that it can go back to.

    ``level`` is ``live`` if it has the variables in memory, ``saved`` if on disk, or ``files`` if it has none; ``reason``
    says why it has none, or why they are only on disk. ``execution_id`` is the newest execution that had ended, or "".
    ``not_saved`` is what it does not have, each with ``name`` and ``reason``. ``undo`` is true if a rollback made it,
    of the state before. ``raw`` is the checkpoint as the server sent it.
    """

    id: str
    name: str
    level: str
    reason: str
    undo: bool
    execution_id: str
    created_at: str
    bytes: int
    not_saved: List[Dict[str, Any]]
    raw: Dict[str, Any]

    @staticmethod
    def of(raw: Dict[str, Any]) -> Checkpoint:
        """Reads a checkpoint as the server describes it."""
        return Checkpoint(raw["id"], raw.get("name", ""), raw["level"], raw.get("reason", ""), raw.get("undo", False),
                          raw["execution_id"], raw["created_at"], raw["bytes"], raw["not_saved"], raw)


@dataclass(frozen=True)
class Rollback:
    """The result of a rollback.

    ``undo`` is the id of a checkpoint of the state before: going back to it undoes the rollback, as far as
    ``undo_level`` allows. ``not_restored`` is what could not be restored, each with ``name`` and ``reason``, and
    ``files`` how many files were changed. ``raw`` is the answer as the server sent it.
    """

    checkpoint_id: str
    execution_id: str
    undo: str
    undo_level: str
    not_restored: List[Dict[str, Any]]
    files: int
    raw: Dict[str, Any]

    @staticmethod
    def of(raw: Dict[str, Any]) -> Rollback:
        """Reads the answer to a rollback."""
        return Rollback(raw["checkpoint_id"], raw["execution_id"], raw["undo"], raw["undo_level"], raw["not_restored"],
                        raw["files"], raw)


def rollback_body(to: Union[Checkpoint, Execution, str], what: str, keep_user_edits: bool) -> Dict[str, Any]:
    """The body of ``POST /v1/sessions/{id}/rollback``."""
    body: Dict[str, Any] = {"what": what, "keep_user_edits": keep_user_edits}
    if isinstance(to, Execution):
        body["execution_id"] = to.id
    else:
        body["checkpoint_id"] = to if isinstance(to, str) else to.id
    return body
