"""The isolation tier of this process, and of processes forked from it."""

from collections.abc import Callable, Iterable
from typing import Protocol

from .landlock_tier import LandlockTier
from .limits import Limits
from .modes import Listener
from .namespace_tier import NamespaceTier
from .root import Park
from .seal import Confinement, Seal


class Tier(Protocol):
    """What differs between tiers, in the order in which it is done."""

    name: str

    def park(self, said: Park) -> None:
        """Makes this process a sandbox that belongs to no session yet."""

    def keep(self, said: Park) -> None:
        """Makes this process a keeper."""

    def settings(self) -> object:
        """The settings that a fork server, an interpreter of its own, must adopt; JSON."""

    def adopt(self, settings: object) -> None: ...

    def rehearse(self) -> None:
        """Does what forked processes do, as far as it can be undone."""

    def begin_to_fork(self) -> None: ...

    def fork(self) -> int:
        """Like os.fork, the child being pid 1 of a sandbox."""

    def leave(self) -> None:
        """Cuts that child off from the keeper."""

    def settle(self) -> None:
        """Parks that child."""

    def place(self, spec: Seal) -> None:
        """Finds out where things will be for the processes inside."""

    def seal(self, spec: Seal, nested: Callable[[], None], mounted: list[int]) -> None:
        """Makes the sandbox one session's. nested is called when processes that were forked before can join;
        mounted is the workspace if it has no path."""

    def baggage(self) -> object:
        """What join needs to know besides the rest; marshalled."""

    def join(self, uid: int, limits: Limits, confinement: Confinement, baggage: object) -> list[int]:
        """Brings this process, which pid 1 forked before it was sealed, into the state of one forked later.
        It returns descriptors for pid 1 to listen to."""

    def enter(self) -> list[int]:
        """Confines a child that a sealed pid 1 has just forked; returns the same as join."""

    def listener(self, fd: int) -> Listener:
        """Returns what pid 1 does with such a descriptor."""

    def hide(self) -> None:
        """Keeps other processes of the same user out of this one, if nothing else does."""

    def follow(self, pid: int) -> None:
        """Notes a child that was confined."""

    def forget(self, pid: int) -> None:
        """Forgets a child that is gone."""

    def limit(self, pids: list[int], soft: dict[int, int]) -> None:
        """Sets soft limits of processes of the session if the host may not."""

    def unlinked(self, pids: list[int], device: int) -> tuple[int, int, int]:
        """The bytes and inodes on that device that the session's processes hold open without a name, and how
        many processes could not be inspected."""

    def end(self, children: Iterable[int]) -> None:
        """Kills everything that the sandbox started and waits for it, if the end of pid 1 does not do that.
        children are those that nobody has waited for."""


_TIERS = {kind.name: kind for kind in (NamespaceTier, LandlockTier)}
current: Tier = NamespaceTier()


def use(name: str) -> None:
    global current
    current = _TIERS[name]()
