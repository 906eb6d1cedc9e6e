"""The steps of making a sandbox, numbered and named, so that a failure says where it happened."""

import os

PARK = (
    "new cgroup namespace",
    "check threads",
    "private mounts",
    "open sources",
    "root tmpfs",
    "dev",
    "bind sources",
    "etc",
    "proc",
    "pivot root",
    "root read-only",
    "shared proc",
    "new namespaces",
    "own proc",
    "raise oom score",
    "loopback up",
    "tmp",
    "terminals",
    "mask proc",
)
SEAL = (
    "bind workspace",
    "bind packages",
    "bind mounts",
    "cover sessions",
    "size tmpfs",
    "host name",
    "user id",
    "new keyring",
    "nested user namespace",
    "limit counts",
    "bounding set",
    "no new privileges",
    "capabilities",
    "landlock",
    "system call filter",
    "home",
    "verify",
    "runner",
)
NETWORK = ("join network namespace", "network device", "listen in network namespace")
# The steps of the tier without namespaces, besides some of the above.
FENCE = (
    "outer fence",
    "adopt orphans",
    "bound signals",
    "check signals",
    "scratch",
    "limits",
    "filter of modes",
)
_NUMBERS = {name: number for number, name in enumerate(PARK + SEAL + NETWORK + FENCE, 1)}


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

    @classmethod
    def told(cls, name: str, number: int, text: str) -> "StepError":
        """A step that failed in another process and was reported by it."""
        error = cls.__new__(cls)
        Exception.__init__(error, text)
        error.step, error.errno = name, number
        return error


class step:
    """A context that turns an exception in it into a failure of that step."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, StepError):
            raise StepError(self._name, error) from error
