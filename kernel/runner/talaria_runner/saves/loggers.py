"""Loggers: their levels, filters and handlers. The handlers and filters of a library's logger are left to the library."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.introspection.classes import derives
from talaria_runner.introspection.preview import class_name
from talaria_runner.saves import rebuild

TYPE_CHECKING = False
if TYPE_CHECKING:
    from logging import Handler, Logger

_WARNING = 30  # the level of the root logger at the start
_OTHERS = frozenset(("name", "parent", "manager", "_cache"))  # attributes that a logger has wherever it is
_FOR_LIBRARIES = frozenset(("handlers", "filters"))


def is_logger(cls: type) -> bool:
    kind = getattr(modules.get("logging"), "Logger", None)
    return type(kind) is type and derives(cls, kind)


def changed() -> dict[str, Logger]:
    """The loggers that differ from new ones, by what they are called in reports."""
    root = getattr(modules.get("logging"), "root", None)
    if root is None:
        return {}
    loggers = [root, *[one for one in list(root.manager.loggerDict.values()) if is_logger(type(one))]]
    return {title(one): one for one in loggers if _is_changed(one)}


def title(logger: Logger) -> str:
    return f"logging.getLogger({'' if logger.parent is None else repr(logger.name)})"


def reduce(value: Logger, cls: type, streams: dict[int, str], losses: dict[str, str]) -> object:
    """As __reduce__; None for a logger that cannot be found by its name. losses gets what of it is not saved."""
    if modules["logging"].getLogger(value.name) is not value:
        return None
    state = {name: one for name, one in vars(value).items() if name not in _OTHERS}
    if _is_library(value):
        state = {name: one for name, one in state.items() if name not in _FOR_LIBRARIES}
    else:
        kept = [one for one in value.handlers if _is_kept(one, streams)]
        if len(kept) < len(value.handlers):
            state["handlers"] = kept
            kinds = dict.fromkeys(class_name(type(one)) for one in value.handlers if not _is_kept(one, streams))
            losses[title(value)] = f"without its handlers of type {', '.join(kinds)}, which cannot be saved"
    return rebuild.logger, (value.name,), (cls, state), None, None, rebuild.configure_logger


def _is_changed(logger: Logger) -> bool:
    usual = _WARNING if logger.parent is None else 0
    if logger.level != usual or logger.disabled or not logger.propagate:
        return True
    return bool(logger.handlers or logger.filters) and not _is_library(logger)


def _is_library(logger: Logger) -> bool:
    return logger.parent is not None and logger.name.partition(".")[0] in modules.keys() - {"__main__"}


def _is_kept(handler: Handler, streams: dict[int, str]) -> bool:
    """Whether it writes to a standard stream, or is of the cells: others have files and connections, or threads."""
    logging, cls = modules["logging"], type(handler)
    if derives(cls, logging.StreamHandler) and id(handler.stream) not in streams:
        return False
    return cls is logging.StreamHandler or cls is logging.NullHandler or rebuild.is_of_cells(cls)
