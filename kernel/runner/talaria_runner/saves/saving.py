"""Saves the variables of a namespace in a file."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import sys
from math import inf
from os import O_CLOEXEC, O_CREAT, O_RDWR, O_TRUNC, SEEK_SET
from posix import close, fsync, ftruncate, lseek, open, replace, unlink
from time import monotonic

from talaria_runner.introspection.classes import derives
from talaria_runner.introspection.lookup import Function, Module
from talaria_runner.introspection.preview import class_name
from talaria_runner.introspection.variables import is_function_of_engine, records
from talaria_runner.saves import reasons, settings, worker
from talaria_runner.saves.archive import TooLarge, Writer, is_full, no_room
from talaria_runner.saves.loading import Parts, Unpickling, is_consequence
from talaria_runner.saves.pickling import Context, Pickling
from talaria_runner.saves.report import Saved
from talaria_runner.saves.sharing import Sharing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TRACING = 0.4  # of the time is for finding out what shares objects,
_WRITING = 0.9  # and so much has passed when writing ends; the rest is for the index
_CHECKED = 64 << 20  # bytes of a group's arrays that the check reads at first; those above are left empty
_DEPTH = 20_000  # of recursion while pickling, which goes down into objects: a stack of 8 MiB has room for it
_OF_MODULE = frozenset((
    "__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__cached__", "__builtins__",
    "__builtin__", "__annotations__", "__annotate__", "__conditional_annotations__", "__warningregistry__",
))  # fmt: skip


def save(
    namespace: dict[str, object],
    path: str,
    *,
    skip: Iterable[str] = (),
    deadline: float,
    max_bytes: int,
    dir_fd: int | None = None,
    changed: dict[str, object] | None = None,
) -> Saved:
    """Saves the variables in a file at path, which is replaced when the new one is complete. skip are names to leave out,
    deadline is of time.monotonic(), and max_bytes is for the values; an index of some 200 bytes a variable comes on top.
    changed is what settings.changed() returned before the fork: random seeds itself anew in a fork.

    Runs code of the variables in a fork of this process: call it in the main thread of a process that was itself forked
    for this. It returns soon after the deadline, whatever that code does. Every variable that was not saved is named.
    Raises OSError if the file cannot be written, even without any variable, or no process started."""
    skipped = frozenset(skip)
    variables = {name: value for name, value in _users(namespace) if name not in skipped}
    changed = settings.changed() if changed is None else changed
    streams = {name: getattr(sys, name, None) for name in ("stdin", "stdout", "stderr")}

    def write(fd: int) -> object:
        def work(gone: dict[str, str], tell: worker.Tell) -> object:
            return _Saving(fd, namespace, streams, variables, gone, max_bytes, deadline).run(changed, tell)

        result, gone, reason = worker.run(work, deadline)
        if result is None:
            for name in variables:
                gone.setdefault(name, reason)
            result = _Saving(fd, namespace, streams, variables, gone, max_bytes, deadline).finish()
        return result

    return _replace(path, dir_fd, write)


def save_none(path: str) -> Saved:
    """Writes a file without variables, in this process. Raises OSError."""
    return _replace(path, None, lambda fd: _Saving(fd, {}, {}, {}, {}, 0, inf).finish())


def has_variables(namespace: dict[str, object]) -> bool:
    """Whether save would find any."""
    return bool(_users(namespace))


def _users(namespace: dict[str, object]) -> list[tuple[str, object]]:
    return [
        (name, value) for name, value in list(dict.items(namespace)) if type(name) is str and is_users(name, value, namespace)
    ]  # fmt: skip


def _replace(path: str, dir_fd: int | None, write: Callable[[int], object]) -> Saved:
    """Replaces the file at path when write has completed the new one."""
    part = f"{path}.part"
    fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600, dir_fd=dir_fd)
    try:
        saved, lost, size, digest = write(fd)
        report = Saved(saved, [tuple(one) for one in lost], size, digest)
        fsync(fd)
        replace(part, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        return report
    except BaseException:
        unlink(part, dir_fd=dir_fd)
        raise
    finally:
        close(fd)


def is_users(name: str, value: object, namespace: dict[str, object]) -> bool:
    """Whether a variable is the user's, and not one that the module or the engine has. _ and _1 are the user's: the engine has its
    own in builtins."""
    return not (name in _OF_MODULE or records.get(name, records) is value or is_function_of_engine(name, value, namespace))


class _Late(Exception):
    pass


class _Failure(Exception):
    """Pickling one variable of a group failed."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name = name
        self.error = error


class _Unloadable(Exception):
    """Some variables of a group were pickled, and could not be loaded."""

    def __init__(self, errors: dict[str, BaseException]) -> None:
        self.errors = errors


class _Saving:
    """Writes one file, from its beginning. gone gets the reason for each variable that is not in it."""

    def __init__(
        self,
        fd: int,
        namespace: dict[str, object],
        streams: dict[str, object],
        variables: dict[str, object],
        gone: dict[str, str],
        most: int,
        deadline: float,
    ) -> None:
        ftruncate(fd, 0)
        lseek(fd, 0, SEEK_SET)
        begun = monotonic()
        self._traced = begun + (deadline - begun) * _TRACING
        self._end = begun + (deadline - begun) * _WRITING
        self._variables = variables
        self._gone = gone
        self._context = Context(namespace, streams)
        self._writer = Writer(fd, most, self._check)
        self._groups: list[Parts] = []
        self._states: list[object] = []  # of the file before each of them
        # While what was saved is loaded for a check, as after a restart.
        self._loaded: dict[str, object] = {
            "__name__": "__main__", "__builtins__": dict.get(namespace, "__builtins__", __builtins__)
        }  # fmt: skip

    def run(self, changed: dict[str, object], tell: worker.Tell) -> object:
        self._tell = tell
        self._depth = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self._depth, _DEPTH))
        for name, value in changed.items():
            self._write([name], {name: value}, True, True)
        sharing = Sharing(self._context, self._gone)
        for name, value in self._variables.items():
            if name in self._gone:
                continue
            if monotonic() > self._traced:
                self._gone[name] = reasons.NO_TIME
                continue
            tell(name)
            sharing.add(name, value)
        waiting = [group.names for group in sharing.groups(self._rank)]
        last = False
        while waiting:
            # One that fails may need variables while it is loaded that come later.
            later = [names for names in waiting if not self._write(names, self._variables, False, last)]
            last = len(later) == len(waiting)
            waiting = later
        return self.finish()

    def finish(self) -> object:
        """Completes the file. Where there is no room for the index, variables make it: the last first, which are the largest."""
        count = 1
        while True:
            saved = {name for group in self._groups if not group.is_setting for name, _ in group.names}
            order = [name for name in self._variables if name in saved]
            lost = [(name, self._kind(name), reason) for name, reason in {**self._context.losses, **self._gone}.items()]
            index = {"order": order, "lost": lost, "groups": [group.entry() for group in self._groups]}
            try:
                digest = self._writer.finish(index)
            except OSError as e:
                if not is_full(e) or not self._groups:
                    raise
                for _ in self._groups[-count:]:
                    self._writer.rewind(self._states.pop())
                    self._gone.update((name, no_room(e)) for name, _ in self._groups.pop().names)
                count *= 2
                continue
            return order, lost, self._writer.size, digest

    def _write(self, names: list[str], values: dict[str, object], setting: bool, last: bool) -> bool:
        """Writes a group without the variables that fail. Returns False, and has written nothing, if one of them fails
        when it is loaded, unless this is the last attempt."""
        names = list(names)
        while names:
            state = self._writer.state()
            try:
                self._groups.append(self._put(names, values, setting, last))
                self._states.append(state)
                return True
            except _Failure as e:
                if self._writer.error is not None:
                    raise self._writer.error from None
                self._writer.rewind(state)
                if isinstance(e.error, (TooLarge, _Late)):
                    reason = reasons.NO_TIME if isinstance(e.error, _Late) else str(e.error)
                    self._gone.update(dict.fromkeys(names, reason))
                    return True
                self._gone[e.name] = reasons.of(e.error)
                names.remove(e.name)
            except _Unloadable as e:
                self._writer.rewind(state)
                if not last:
                    return False
                for name, error in e.errors.items():
                    self._gone[name] = f"it was saved, but could not be loaded: {reasons.of(error)}"
                names = [name for name in names if name not in e.errors]
        return True

    def _put(self, names: list[str], values: dict[str, object], setting: bool, last: bool) -> Parts:
        writer = self._writer
        start = writer.size
        pickling = Pickling(writer, self._context)
        places = []
        for name in names:
            self._tell(name)
            places.append((writer.size - start, len(pickling.buffers)))
            try:
                self._check()
                pickling.dump(values[name])
            except BaseException as e:
                raise _Failure(name, e) from None
        stream = (start, writer.size - start)
        self._tell(None)
        try:
            regions = [(writer.size, writer.write(region.memory)) for region in pickling.regions]
            buffers = [(writer.size, writer.write(buffer.raw())) for buffer in pickling.buffers]
        except BaseException as e:
            raise _Failure(name, e) from None
        parts = Parts([(name, self._kind(name)) for name in names], stream, regions, buffers, setting)
        del pickling  # it remembers every object
        errors, partial = self._load(parts, places, values, last, _CHECKED)
        if errors and partial:
            # Objects such as an interval check their arrays, and do not accept an empty one.
            errors, _ = self._load(parts, places, values, last, inf)
        if errors:
            raise _Unloadable(errors)
        return parts

    def _load(
        self, parts: Parts, places: list[tuple[int, int]], values: dict[str, object], every: bool, most: float
    ) -> tuple[dict[str, BaseException], bool]:
        """Checks that the variables can be loaded. Returns the first that cannot, or every one, and whether arrays were left empty. An
        error that may come from an earlier variable's is not among them. places say where in the stream each begins, and how many
        buffers come before."""
        unpickling = Unpickling(self._writer.fd, parts, self._loaded, most, checks=True)
        errors: dict[str, BaseException] = {}
        for (name, _), place in zip(parts.names, places):
            self._tell(name)
            try:
                if unpickling.failed:
                    unpickling = unpickling.restarted(*place)
                sys.setrecursionlimit(self._depth)
                copy = unpickling.load()
            except BaseException as e:
                unpickling.failed = True
                if not errors or not is_consequence(e):
                    errors[name] = e
                if not every:
                    break
                continue
            finally:
                sys.setrecursionlimit(max(self._depth, _DEPTH))
            if not parts.is_setting:
                # Values of cells are not kept twice; functions and classes are small, and have to be those with our globals.
                self._loaded[name] = copy if self._rank(name) < 2 else values[name]
        return errors, unpickling.partial

    def _rank(self, name: str) -> int:
        """0 for a module, 1 for a function or class, 2 for anything else: see sharing.Group."""
        cls = type(self._variables[name])
        if derives(cls, Module):
            return 0
        return 1 if cls is Function or derives(cls, type) else 2

    def _kind(self, name: str) -> str:
        return class_name(type(self._variables[name])) if name in self._variables else "setting"

    def _check(self) -> None:
        if monotonic() > self._end:
            raise _Late
