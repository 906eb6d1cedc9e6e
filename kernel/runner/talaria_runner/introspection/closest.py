"""Names that a misspelt name may have meant."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 5_000  # names that are compared
_LONGEST = 80  # characters of a name that are compared


def closest(name: str, names: Iterable[object], most: int = 1, far: float = 1 / 3) -> list[str]:
    """Up to most of the names, nearest first, that differ in no more than that share of their letters."""
    if not name or len(name) > _LONGEST:
        return []
    found = []
    wanted = name.lower()
    for number, other in enumerate(names):
        if number >= _MOST:
            break
        if type(other) is not str or other == name or not other or len(other) > _LONGEST:
            continue
        length = max(len(name), len(other))
        room = max(1, int(length * far)) if length > 1 else 0
        if abs(len(name) - len(other)) > room:
            continue
        steps = distance(wanted, other.lower(), room)
        if steps <= room and steps < length:
            found.append((steps, number, other))
    found.sort()
    return [other for _, _, other in found[:most]]


def distance(a: str, b: str, most: int) -> int:
    """How many letters have to be inserted, removed, replaced or swapped with the next; most + 1 if it is more."""
    earlier: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        following = [i]
        for j, y in enumerate(b, 1):
            step = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                step = min(step, earlier[j - 2] + 1)
            following.append(step)
        if min(following) > most:
            return most + 1
        earlier, row = row, following
    return row[-1]
