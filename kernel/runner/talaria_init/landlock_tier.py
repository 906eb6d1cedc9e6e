"""The tier without namespaces, for containers that forbid them: sandboxes are confined by Landlock, a filter
of system calls and, if the host is root, a user of their own.

Three Landlock fences are nested. Pid 1, and a fork server, read the system and write only below the directory
of all sessions. Each pid 1 signals only processes that it has started itself, so that killing everything in
reach kills exactly its sandbox. Processes inside have the system, their own directories, and neither sockets
nor signals for others.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator

import _signal

from . import helper, landlock, linux, places, root
from .environment import make_home
from .limits import Limits
from .modes import Listener
from .root import Park
from .seal import Confinement, Directory, Seal
from .step import step

_FOLDERS = ("workspace", "packages", "home", "tmp")
_SYSTEM = ("/usr", *root.TOP)
_OWN_ETC = ("group", "nsswitch.conf", "passwd", "profile")  # a login shell complains of a profile that it may not read
# Of the rest of /proc, a process sees only its own part.
_PROC = (
    "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys/kernel/cap_last_cap",
    "sys/kernel/ngroups_max", "sys/kernel/osrelease", "sys/kernel/pid_max", "sys/kernel/random",
    "sys/vm/overcommit_memory",
)  # fmt: skip
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_TERMINALS = ("/dev/ptmx", "/dev/pts")


class LandlockTier:
    name = "landlock"

    def __init__(self) -> None:
        self._said: Park | None = None
        self._spec: Seal | None = None
        self._pid = 0  # of pid 1
        self._bounded = False  # it signals nothing that it has not started
        self._seen: dict[int, int] = {}  # descriptors of the directories of children in /proc

    def park(self, said: Park) -> None:
        self._fence(said)
        self._begin()

    def keep(self, said: Park) -> None:
        self._fence(said)
        self._pid = os.getpid()
        with step("adopt orphans"):
            linux.adopt_orphans()
        with step("home"):
            for name in _FOLDERS:
                os.mkdir(f"{said.scratch}/{name}")
            self._place(said.scratch, f"{said.scratch}/workspace", f"{said.scratch}/packages")
            make_home()

    def settings(self) -> object:
        return {"said": vars(self._said), "places": places.all()}

    def adopt(self, settings: object) -> None:
        self._said = Park(**settings["said"])
        places.change(**settings["places"])

    def rehearse(self) -> None:
        """There is nothing to rehearse that could be undone."""

    def begin_to_fork(self) -> None:
        pass

    def fork(self) -> int:
        return linux.fork()

    def leave(self) -> None:
        os.setsid()
        self._begin()

    def settle(self) -> None:
        pass

    def place(self, spec: Seal) -> None:
        self._spec = spec
        sessions = self._said.sessions
        self._place(*(f"{sessions}/{d.path}" for d in (spec.scratch, spec.workspace, spec.packages)))

    def seal(self, spec: Seal, nested: Callable[[], None], mounted: list[int]) -> None:
        if mounted:
            raise RuntimeError("a workspace without a path cannot be had without namespaces")
        with step("check signals"):
            self._bounded = self._check_signals()
        if not self._bounded:
            with step("end earlier processes"):  # which could signal the ones of this session
                helper.kill_user(spec.uid, spec.killer)
        with step("scratch"):
            self._make_scratch(spec)
        nested()

    def baggage(self) -> object:
        directories = {name: vars(getattr(self._spec, name)) for name in ("workspace", "packages", "scratch")}
        return {"places": places.all(), **directories}

    def join(self, uid: int, limits: Limits, confinement: Confinement, baggage: object) -> list[int]:
        places.change(**baggage["places"])
        return self._join(uid, limits, confinement, *(Directory(**baggage[n]) for n in ("workspace", "packages", "scratch")))

    def enter(self) -> list[int]:
        spec = self._spec
        return self._join(spec.uid, spec.limits, spec.confinement, spec.workspace, spec.packages, spec.scratch)

    def listener(self, fd: int) -> Listener:
        return Listener(fd, (places.workspace, places.home, places.temporary))

    def hide(self) -> None:
        """Landlock keeps all others out. Helpers need access to this process."""

    def follow(self, pid: int) -> None:
        # Landlock knows the directory by its inode, which the kernel may create again if nobody holds it.
        if pid in self._seen:
            return
        with contextlib.suppress(OSError):
            self._seen[pid] = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def forget(self, pid: int) -> None:
        if pid in self._seen:
            os.close(self._seen.pop(pid))

    def end(self, children: Iterable[int]) -> None:
        if os.getpid() != self._pid:
            return
        for pid in children:
            os.kill(pid, _signal.SIGKILL)
        if not self._spec:
            for pid in children:  # sandboxes forked by these go on, and are not waited for
                os.waitpid(pid, 0)
            return
        if self._bounded:
            helper.kill_all()
        elif self._spec.uid:
            helper.kill_user(self._spec.uid, self._spec.killer)
        # Whatever its parents were, everything is a child of this process by the time they are dead.
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)

    def limit(self, pids: list[int], soft: dict[int, int]) -> None:
        helper.as_user(self._spec.uid, lambda: helper.limit(pids, soft))

    def unlinked(self, pids: list[int], device: int) -> tuple[int, int, int]:
        return helper.as_user(self._spec.uid, lambda: helper.unlinked(pids, device))

    def _fence(self, said: Park) -> None:
        """Modules imported ahead run with this process's privileges, so it is confined as well."""
        with step("check threads"):
            root.check_threads()
        self._said = said
        places.change(library=said.library, cache=said.cache)
        os.umask(0o022)
        with step("no new privileges"):
            linux.no_new_privileges()
        with step("outer fence"):
            version = landlock.version()
            granted = [*_system(said), ("/proc", landlock.CHANGE), ("/dev", landlock.CHANGE), (said.sessions, landlock.ALL)]
            landlock.fence(version, granted)

    def _begin(self) -> None:
        """Before anything is forked, which must be within the same bounds."""
        self._pid = os.getpid()
        with step("adopt orphans"):
            linux.adopt_orphans()
        with step("bound signals"):
            if landlock.version() >= landlock.SCOPES:
                landlock.bound_signals()

    def _check_signals(self) -> bool:
        """Without bounds, an ordinary user's processes could reach everything that the user runs, and this
        one could kill it."""
        try:
            os.kill(os.getppid(), 0)
        except PermissionError:
            return True
        if os.geteuid() != 0:
            raise RuntimeError("a process outside of the sandbox could be signalled")
        return False  # each sandbox has a user id of its own

    def _place(self, scratch: str, workspace: str, packages: str) -> None:
        places.change(workspace=workspace, packages=packages, home=scratch + "/home", temporary=scratch + "/tmp")

    def _make_scratch(self, spec: Seal) -> None:
        """Only the root of the scratch directory is ours, and nothing of the session is running yet."""
        os.mkdir(places.home, 0o700)
        os.mkdir(places.temporary, 0o700)
        make_home()
        if spec.uid:
            os.chown(places.temporary, spec.uid, spec.uid)
            for path, _, _ in os.walk(places.home):
                os.chown(path, spec.uid, spec.uid)

    def _join(
        self, uid: int, limits: Limits, confinement: Confinement, workspace: Directory, packages: Directory, scratch: Directory
    ) -> list[int]:
        privileged = os.geteuid() == 0
        with step("raise oom score"):
            root.raise_oom_score()
        if privileged:
            with step("bounding set"):
                linux.drop_bounding_set()
            with step("user id"):
                helper.become(uid)
        with step("new keyring"), contextlib.suppress(OSError):
            linux.join_new_keyring()  # a container may forbid it, and the filter forbids their use
        with step("no new privileges"):
            linux.no_new_privileges()
        with step("capabilities"):
            linux.drop_capabilities()
        with step("limits"):
            limits.apply_processes()
        with step("landlock"):
            granted = [*_system(self._said), *_own_view(privileged), (self._beneath(packages), landlock.READ)]
            granted += [(self._beneath(scratch) + sub, landlock.ALL) for sub in ("/home", "/tmp")]
            granted.append((self._beneath(workspace), landlock.ALL))
            landlock.fence(confinement.landlock, granted, alone=True)
        listeners = []
        if confinement.modes:
            with step("filter of modes"):
                listeners.append(linux.filter_calls_to(confinement.modes))
        with step("system call filter"):
            linux.filter_calls(confinement.calls)
        with step("verify"):
            _verify(os.geteuid(), privileged)
        return listeners

    def _beneath(self, directory: Directory) -> str:
        """The path of a directory below that of all sessions, verified to be the one that was handed over."""
        sessions = os.open(self._said.sessions, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fd = linux.open_beneath(sessions, directory.path, os.O_PATH | os.O_DIRECTORY)
            try:
                found = os.fstat(fd)
            finally:
                os.close(fd)
        finally:
            os.close(sessions)
        if (found.st_dev, found.st_ino) != (directory.device, directory.inode):
            raise RuntimeError(f"{directory.path} is not the directory that was handed over")
        return f"{self._said.sessions}/{directory.path}"


def _system(said: Park) -> Iterator[tuple[str, int]]:
    """The files that everybody may read."""
    for path in (*_SYSTEM, *root.etc(), *("/etc/" + n for n in _OWN_ETC), *said.prefixes, said.library, said.cache):
        if path and os.path.exists(path):
            yield path, landlock.READ


def _own_view(terminals: bool) -> Iterator[tuple[str, int]]:
    """The terminals of an ordinary user belong to everything that the user runs."""
    yield os.path.realpath("/proc/self"), landlock.READ
    for path in ("/proc/" + name for name in _PROC):
        if os.path.exists(path):
            yield path, landlock.READ
    devices = [f"/dev/{name}" for name in _DEVICES]
    for path in (*devices, *(_TERMINALS if terminals else ())):
        if os.path.exists(path):
            yield path, landlock.CHANGE


def _verify(uid: int, privileged: bool) -> None:
    """An ordinary user cannot drop the bounding set, which gives nothing without new privileges."""
    sets = ("Inh", "Prm", "Eff", "Amb", "Bnd") if privileged else ("Inh", "Prm", "Eff", "Amb")
    wanted = (
        f"Uid:{f'{chr(9)}{uid}' * 4}".encode(),
        *(f"Cap{set}:\t{0:016x}".encode() for set in sets),
        b"NoNewPrivs:\t1",
        b"Seccomp:\t2",
    )
    missing = linux.lines_missing("/proc/self/status", wanted)
    if missing:
        raise RuntimeError(f"/proc/self/status does not say {', '.join(missing)}")
    landlock.verify(places.temporary)
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        return
    raise RuntimeError("pid 1 could be signalled")
