"""The tier of namespaces: each sandbox has a tree of its own, and its pid 1 is the first process of a pid namespace."""

import os
from collections.abc import Callable, Iterable

from . import linux, root
from .environment import make_home
from .limits import Limits
from .modes import Listener
from .root import Park, Root
from .seal import Confinement, Seal, join, seal
from .step import step


class NamespaceTier:
    name = "namespace"

    def __init__(self) -> None:
        self._tree: Root | None = None
        self._user_limits = -1
        self._pids = -1

    def park(self, said: Park) -> None:
        self._user_limits = root.park(said)

    def keep(self, said: Park) -> None:
        self._tree = root.build(said)
        root.share(self._tree)
        with step("home"):
            make_home()

    def settings(self) -> object:
        return self._tree.hidden

    def adopt(self, settings: object) -> None:
        self._tree = Root(settings)

    def rehearse(self) -> None:
        root.rehearse(self._tree)

    def begin_to_fork(self) -> None:
        self._pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """The child is pid 1 of a new pid namespace."""
        linux.unshare(linux.CLONE_NEWPID)
        try:
            return linux.fork()
        finally:
            if os.getpid() != 1:
                # The unshared namespace is for one child; the next one gets another.
                linux.setns(self._pids, linux.CLONE_NEWPID)

    def leave(self) -> None:
        root.leave()

    def settle(self) -> None:
        self._user_limits = root.settle(self._tree)

    def place(self, spec: Seal) -> None:
        """Everything is where it always is."""

    def seal(self, spec: Seal, nested: Callable[[], None], mounted: list[int]) -> None:
        seal(spec, self._user_limits, nested, mounted)

    def baggage(self) -> object:
        return None

    def join(self, uid: int, limits: Limits, confinement: Confinement, baggage: object) -> list[int]:
        join(uid, limits, confinement)
        return []

    def enter(self) -> list[int]:
        """Pid 1 is sealed, and so is what it forks."""
        return []

    def listener(self, fd: int) -> Listener:
        raise RuntimeError("nobody here asks pid 1")

    def hide(self) -> None:
        linux.set_dumpable(False)

    def follow(self, pid: int) -> None:
        """The pid namespace ends everything."""

    def forget(self, pid: int) -> None:
        pass

    def limit(self, pids: list[int], soft: dict[int, int]) -> None:
        raise RuntimeError("the host sets limits itself where there are namespaces")

    def unlinked(self, pids: list[int], device: int) -> tuple[int, int, int]:
        raise RuntimeError("the host looks at open files itself where there are namespaces")

    def end(self, children: Iterable[int]) -> None:
        pass
