"""Client for the Talaria session kernel server: ``Talaria`` for threads, ``AsyncTalaria`` for asyncio."""

from ._aio import AsyncFiles, AsyncSession, AsyncTalaria
from ._approvals import Approval
from ._checkpoints import Checkpoint, Rollback
from ._client import Files, Session, Talaria
from ._errors import TalariaError
from ._execution import Execution, ExecutionError, Result
from ._map import MapItem, MapResult
from ._tools import Tool, ToolCall, ToolError

__version__ = "0.2.0"

__all__ = [
    "Approval", "AsyncFiles", "AsyncSession", "AsyncTalaria", "Checkpoint", "Execution", "ExecutionError", "Files", "MapItem",
    "MapResult", "Result", "Rollback", "Session", "Talaria", "TalariaError", "Tool", "ToolCall", "ToolError",
]
