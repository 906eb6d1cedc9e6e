"""The tier of isolation of this process, and of what is forked from it."""

from collections.abc import Callable, Iterable
from typing import Protocol

from .fenced import Fenced
from .limits import Limits
from .modes import Listener
from .namespaced import Namespaced
from .root import Park
from .seal import Confinement, Seal


class Tier(Protocol):
    """What tiers do in their own ways, in the order in which it is done."""

    name: str

    def park(self, said: Park) -> None:
        """Makes a sandbox that is nobody's yet out of this process."""

    def keep(self, said: Park) -> None:
        """Makes this process a keeper."""

    def settings(self) -> object:
        """What a fork server, an interpreter of its own, is to adopt; JSON."""

    def adopt(self, settings: object) -> None: ...

    def rehearse(self) -> None:
        """Does what forked processes do, as far as it can be undone."""

    def begin_to_fork(self) -> None: ...

    def fork(self) -> int:
        """As os.fork, the child being pid 1 of a sandbox."""

    def leave(self) -> None:
        """Cuts that child off from the keeper."""

    def settle(self) -> None:
        """Parks it."""

    def place(self, spec: Seal) -> None:
        """Finds out where things will be for those inside."""

    def seal(self, spec: Seal, nested: Callable[[], None], mounted: list[int]) -> None:
        """Makes the sandbox one session's. nested is called when processes that were forked before can join; mounted
        is the workspace where it has no path."""

    def baggage(self) -> object:
        """What join needs to know beside the rest; marshalled."""

    def join(self, uid: int, limits: Limits, confinement: Confinement, baggage: object) -> list[int]:
        """Makes this process, which pid 1 forked before it was sealed, what it would be if forked later. The descriptors
        are for pid 1 to listen to."""

    def enter(self) -> list[int]:
        """Confines a child that a sealed pid 1 has just forked; as join."""

    def listener(self, fd: int) -> Listener:
        """What pid 1 does with such a descriptor."""

    def hide(self) -> None:
        """Keeps other processes of the same user out of this one, where nothing else does."""

    def follow(self, pid: int) -> None:
        """Takes note of a child that was confined."""

    def forget(self, pid: int) -> None:
        """It is gone."""

    def limit(self, pids: list[int], soft: dict[int, int]) -> None:
        """Sets soft limits of processes of the session where the host may not."""

    def unlinked(self, pids: list[int], device: int) -> tuple[int, int, int]:
        """The bytes and inodes on that device that the session's processes hold open without a name, and how many
        processes could not be looked at."""

    def end(self, children: Iterable[int]) -> None:
        """Kills all that the sandbox started and waits for it, where the end of pid 1 does not do that. children are those
        that nobody has waited for."""


_TIERS = {kind.name: kind for kind in (Namespaced, Fenced)}
current: Tier = Namespaced()


def use(name: str) -> None:
    global current
    current = _TIERS[name]()
