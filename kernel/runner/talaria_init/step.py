"""The steps of making a sandbox, numbered and named, so that a failure says where it happened."""

import contextlib
import os
from collections.abc import Iterator

PARK = (
    "check threads",
    "new cgroup namespace",
    "loopback up",
    "raise oom score",
    "private mounts",
    "open sources",
    "root tmpfs",
    "dev",
    "tmp",
    "bind sources",
    "etc",
    "proc",
    "pivot root",
    "limit namespaces",
    "mask proc",
)
# Landlock and seccomp have their place between "capabilities" and "home".
SEAL = (
    "bind workspace",
    "bind packages",
    "cover sessions",
    "size tmpfs",
    "host name",
    "root read-only",
    "process limit",
    "user id",
    "new keyring",
    "nested user namespace",
    "bounding set",
    "no new privileges",
    "capabilities",
    "home",
    "verify",
)
_NUMBERS = {name: number for number, name in enumerate(PARK + SEAL, 1)}


class StepError(Exception):
    """A step that failed: "step 11 proc: Operation not permitted (/proc)"."""

    def __init__(self, name: str, cause: BaseException) -> None:
        reason = str(cause) or type(cause).__name__
        if isinstance(cause, OSError) and cause.errno:
            reason = cause.strerror or os.strerror(cause.errno)
            if cause.filename:
                reason += f" ({cause.filename})"
        super().__init__(f"step {_NUMBERS[name]} {name}: {reason}")
        self.step = name
        self.errno = cause.errno if isinstance(cause, OSError) else 0


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    if name not in _NUMBERS:
        raise KeyError(name)
    try:
        yield
    except Exception as e:
        raise StepError(name, e) from e
