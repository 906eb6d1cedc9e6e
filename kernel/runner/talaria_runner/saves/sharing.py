"""Which variables share objects, and have to be saved together; and which cannot be saved at all."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import getrefcount

from talaria_runner.introspection.classes import derives
from talaria_runner.introspection.lookup import Builtin, Function
from talaria_runner.saves import arrays, reasons
from talaria_runner.saves.pickling import ATOMS, Cell, Context, Pickling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SHARED = ("shared",)
# Sharing one of these makes no difference.
_UNCHANGING = frozenset((
    frozenset, range, slice, type(Ellipsis), type(NotImplemented), Builtin, type(vars(list)["append"]),
    type(vars(object)["__repr__"]), arrays.Region, type((lambda: None).__code__),
))  # fmt: skip


class Group:
    """Variables that are saved together, in the order in which they are loaded."""

    __slots__ = ("names", "size", "rank")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.size = 0  # bytes, roughly
        self.rank = 2  # of the first: others need modules (0), functions and classes (1) while they are loaded


class Sharing:
    """Pickles every variable into nothing. gone gets the reason for each that fails."""

    def __init__(self, context: Context, gone: dict[str, str]) -> None:
        self._context = context
        self._gone = gone
        self._owners: dict[int, str] = {}  # objects that several others refer to -> the variable that led to them
        self._kept: list[object] = []  # those objects, so that no other gets the same id
        self._parents: dict[str, str] = {}
        self._sizes: dict[str, int] = {}

    def add(self, name: str, value: object) -> None:
        tracer = _Tracer(self, name, self._context)
        try:
            tracer.dump(value)
        except BaseException as e:
            self._gone[name] = reasons.of(e)
            return
        self._parents.setdefault(name, name)
        self._sizes[name] = tracer.written.size

    def groups(self, rank: Callable[[str], int]) -> list[Group]:
        """Those that others depend on first, and small ones before large ones."""
        groups: dict[str, Group] = {}
        for name in self._sizes:
            group = groups.setdefault(self._root(name), Group())
            group.names.append(name)
            group.size += self._sizes[name]
            group.rank = min(group.rank, rank(name))
        for group in groups.values():
            group.names.sort(key=rank)
        return sorted(groups.values(), key=lambda group: (group.rank, group.size))

    def meet(self, value: object, name: str) -> bool:
        """Whether value belongs to another variable already, which is joined with this one."""
        owner = self._owners.get(id(value))
        if owner is None or owner in self._gone:
            self._owners[id(value)] = name
            self._kept.append(value)
            return False
        if owner == name:
            return False
        self._parents.setdefault(name, name)
        self._parents[self._root(name)] = self._root(owner)
        return True

    def _root(self, name: str) -> str:
        while self._parents[name] != name:
            self._parents[name] = name = self._parents[self._parents[name]]
        return name


class _Written:
    """What is written goes nowhere; its size is counted."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: object) -> None:
        self.size += len(data)

    def keep(self, buffer: object) -> None:
        with buffer.raw() as view:
            self.size += view.nbytes


class _Tracer(Pickling):
    def __init__(self, sharing: Sharing, name: str, context: Context) -> None:
        self.written = _Written()
        super().__init__(self.written, context, self.written.keep)
        self._sharing = sharing
        self._name = name
        self._held: list[object] = []

    def keep_region(self, region: arrays.Region) -> int:
        self.written.size += region.memory.nbytes
        return 0

    def persistent_id(self, value: object) -> object:
        cls = type(value)
        if cls in ATOMS:
            return None
        if cls is tuple:
            self._held.extend(value)  # pickle itself does not, unlike items of lists and dicts: see ALONE
            return None
        count = getrefcount(value)
        plain = cls in self.context.plain
        if plain and count <= ALONE:
            return None
        token = None if plain else self.token(value, cls)
        if count > ALONE and (token is None or cls is Cell) and self._can_be_shared(value, cls):
            if self._sharing.meet(value, self._name):
                return _SHARED
        return token

    def _can_be_shared(self, value: object, cls: type) -> bool:
        if cls in _UNCHANGING or arrays.is_dtype(cls):
            return False
        return not ((cls is Function or derives(cls, type)) and self.context.is_named(value))


class _Scale(Pickling):
    """Finds what getrefcount returns in persistent_id for an object that only one other refers to. Most are of this
    kind, and there is no need to remember them."""

    def __init__(self) -> None:
        super().__init__(_Written(), Context({}, {}))
        self.counts: list[int] = []

    def persistent_id(self, value: object) -> object:
        cls = type(value)
        if cls in ATOMS:
            return None
        count = getrefcount(value)
        self.counts.append(count)
        return None


def _alone() -> int:
    lowest = []
    for container in ([[]], {0: []}):
        scale = _Scale()
        scale.dump(container)
        lowest.append(scale.counts[-1])
    return min(lowest)


ALONE = _alone()
