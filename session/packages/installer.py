"""The one cell of an installer: it makes the next layer of a session's packages.

ORDER, a dictionary, is assigned before it: "index" is the URL of a simple index with the token of this installation,
"requirements" a list of names with versions, and "remove", "upgrade", "reinstall", "no_deps", "pre" and "quiet" are flags.

The present layer is PRESENT, which may be missing and is only read. The working directory is an empty stage. Afterwards
"layer" in it is the complete new layer; there is none where nothing was to do. What fails ends with SystemExit and one
line, and what is in the stage then means nothing.
"""

import collections
import contextlib
import ctypes
import errno
import importlib.metadata
import importlib.util
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator

PRESENT = "/packages/current"
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
PYTHON = "Python " + ".".join(map(str, sys.version_info[:2]))
OLDEST_PIP = (22, 2)  # the first that tells what it would install
LONGEST_LINE = 4000
MOST_LINES = 5000  # that are looked at of one program, errors aside
PATIENCE = 5.0  # s between two looks at what builds have left
DRAIN = 1.0  # s for which output of a program that has ended is read
PR_SET_CHILD_SUBREAPER = 36
BUILD_LINES = 40  # the last of a failed build, which are shown
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NO_ROOM_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large")
UNCHANGED = "nothing was changed"

# pip with the layer where the kernels of the session have it: behind the standard library, ahead of the environment.
START_PIP = """import runpy, sys
site, sys.argv = sys.argv[1], ["pip", *sys.argv[2:]]
ends = ("site-packages", "dist-packages")
sys.path.insert(next((i for i, p in enumerate(sys.path) if p.endswith(ends)), len(sys.path)), site)
runpy.run_module("pip", run_name="__main__", alter_sys=True)"""

# --- requirements ---------------------------------------------------------------------------------------------------

NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
VERSIONS = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
REQUIREMENT = re.compile(
    rf"({NAME})\s*(?:\[\s*(?:{NAME}\s*(?:,\s*{NAME}\s*)*)?\])?\s*"
    rf"(?:{VERSIONS}(?:\s*,\s*{VERSIONS})*|\(\s*{VERSIONS}(?:\s*,\s*{VERSIONS})*\s*\))?\s*(?:;[^\n\r@]*)?"
)
# What pip says and nobody needs, or what is said better at the end.
DULL = re.compile(
    r"\s*(Looking in|Would install|Successfully|Created wheel|Stored in directory|note: |hint: |\[notice\]|DEPRECATION: )"
    r"|.*: finished with status 'done'|\s*ERROR: .*HTTP error|.*See above for output"
)
BUILD_FAILED = re.compile("did not run successfully|Failed building|Failed to build|metadata-generation-failed|build backend")
ARCHIVES = (".whl", ".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".egg")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def check(requirements: list[str]) -> list[str]:
    """The requirements, each of which is a name of the index with versions at most."""
    if not requirements:
        raise SystemExit(f"no package is named; {UNCHANGED}")
    for text in requirements:
        match = REQUIREMENT.fullmatch(text.strip())
        if match is None or match[1].lower().endswith(ARCHIVES):
            raise SystemExit(f"{text[:100]!r} is not a package name with versions, such as 'pandas>=2'; {UNCHANGED}")
    return [text.strip() for text in requirements]


def name_of(requirement: str) -> str:
    match = re.match(NAME, requirement)
    return match[0] if match else requirement


# --- layers ---------------------------------------------------------------------------------------------------------


def distributions(site: str) -> dict[str, importlib.metadata.Distribution]:
    """What is installed in a directory, by canonical name."""
    found: dict[str, importlib.metadata.Distribution] = {}
    for one in importlib.metadata.distributions(path=[site]):
        with contextlib.suppress(Exception):  # what was installed may be broken
            found.setdefault(canonical(one.metadata["Name"]), one)
    return found


def versions(installed: dict[str, importlib.metadata.Distribution]) -> dict[str, str]:
    return {name: str(one.version) for name, one in installed.items()}


def copy_tree(source: str, target: str) -> None:
    """Copies files, folders and links; no link is followed, and what is none of these is left out."""
    os.makedirs(target, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            to = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), to)
            elif entry.is_dir(follow_symlinks=False):
                copy_tree(entry.path, to)
            elif entry.is_file(follow_symlinks=False):
                shutil.copy2(entry.path, to, follow_symlinks=False)


def discard(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def move_tree(source: str, target: str, rename: Callable[[str], str] = lambda name: name) -> None:
    """Moves the files, folders and links in a folder into another one, over what is there."""
    if os.path.islink(target) or not os.path.isdir(target):
        discard(target)
        os.makedirs(target)
    for name in os.listdir(source):
        here, there = os.path.join(source, name), os.path.join(target, rename(name))
        if os.path.isdir(here) and not os.path.islink(here):
            move_tree(here, there)
        else:
            discard(there)
            if os.path.islink(here) or os.path.isfile(here):
                os.replace(here, there)


def adopt(prefix: str, layer: str) -> None:
    """Moves what was installed below a prefix into a layer, from wherever this Python's installer has put it."""
    for top in (os.path.join(prefix, "local"), prefix):  # the first is Debian's
        for library in ("lib64", "lib"):
            versioned = os.path.join(top, library, os.path.dirname(SITE).partition("/")[2])
            for packages in ("dist-packages", "site-packages"):
                if os.path.isdir(os.path.join(versioned, packages)):
                    move_tree(os.path.join(versioned, packages), os.path.join(layer, SITE))
                    shutil.rmtree(os.path.join(versioned, packages))
        if os.path.isdir(top):
            move_tree(top, layer, lambda name: "lib" if name == "lib64" else name)
            shutil.rmtree(top)


def take_away(layer: str, one: importlib.metadata.Distribution, name: str) -> None:
    """Removes the files of a distribution from a layer, and the folders that are empty then."""
    site, folders = os.path.join(layer, SITE), set()
    with contextlib.suppress(OSError, UnicodeError, ValueError):
        for file in one.files or []:
            path = os.path.normpath(os.path.join(site, str(file)))
            folder = os.path.realpath(os.path.dirname(path))
            if (folder + "/").startswith(layer + "/") and (os.path.islink(path) or os.path.isfile(path)):
                os.unlink(os.path.join(folder, os.path.basename(path)))
                folders.add(folder)
    for entry in os.listdir(site):
        stem, dot, kind = entry.rpartition(".")
        if dot and kind in ("dist-info", "egg-info") and canonical(stem.partition("-")[0]) == name:
            discard(os.path.join(site, entry))
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # it is not empty
            while folder not in (layer, site):
                os.rmdir(folder)
                folder = os.path.dirname(folder)


def next_layer(gone: set[str], prefix: str | None = None) -> None:
    """Makes the layer: the present one without the distributions of these names, and what is installed below prefix."""
    layer = os.path.join(os.getcwd(), "layer")
    discard(layer)  # which builds may have left
    os.mkdir(layer)
    if os.path.isdir(PRESENT):
        copy_tree(os.path.realpath(PRESENT), layer)
    if os.path.isdir(os.path.join(layer, SITE)):
        for name, one in distributions(os.path.join(layer, SITE)).items():
            if name in gone:
                take_away(layer, one, name)
    if prefix is not None:
        adopt(prefix, layer)
    os.makedirs(os.path.join(layer, SITE), exist_ok=True)


# --- programs -------------------------------------------------------------------------------------------------------


class Programs:
    """Runs other programs, shows what they print as far as a user wants to see it, and remembers what went wrong."""

    def __init__(self, order: dict) -> None:
        self.order = order
        index = urllib.parse.urlsplit(order["index"])
        self.root = order["index"].rpartition("/simple")[0]  # of all that the gateway answers
        self.token = "/" + self.root.rpartition("/")[2]
        self.folder = os.path.join(os.getcwd(), "tmp")
        self.shown: set[str] = set()
        self.log: collections.deque[str] | None = None  # of a failed build, while it is told
        self.left_out = 0
        self.errors: collections.deque[str] = collections.deque(maxlen=20)
        self.subject = ""  # what was looked at last
        os.makedirs(os.path.join(self.folder, "home"))
        kept = {k: v for k, v in os.environ.items() if not k.upper().startswith(("PYTHON", "PIP_", "UV_", "VIRTUAL_ENV"))}
        self.environment = kept | {
            "HOME": os.path.join(self.folder, "home"), "TMPDIR": self.folder, "COLUMNS": "200", "NO_COLOR": "1",
            "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": order["index"], "PIP_TRUSTED_HOST": index.hostname or "",
            "PIP_NO_CACHE_DIR": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off", "PIP_TIMEOUT": "120", "PIP_RETRIES": "2",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_NO_WARN_SCRIPT_LOCATION": "1",
            "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_NO_PYTHON_VERSION_WARNING": "1",
            "UV_INDEX_URL": order["index"], "UV_DEFAULT_INDEX": order["index"], "UV_INSECURE_HOST": index.hostname or "",
            "UV_NO_CONFIG": "1", "UV_NO_CACHE": "1", "UV_NO_PROGRESS": "1", "UV_BREAK_SYSTEM_PACKAGES": "1",
            "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy", "UV_COMPILE_BYTECODE": "1", "UV_HTTP_TIMEOUT": "120",
        }  # fmt: skip

    def run(self, command: list[str], again: bool = False, hidden: bool = False) -> tuple[int, list[str]]:
        """Runs a program to its end, whoever may still hold its output then, and returns its status and its lines."""
        lines: list[str] = []
        ended, end = os.pipe()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder,
            env=self.environment, start_new_session=True,
        )  # fmt: skip
        waiter = threading.Thread(target=lambda: (process.wait(), os.close(end)))
        try:
            waiter.start()
            for line in lines_until(process.stdout.fileno(), ended, Leftovers(process.pid).look):
                if len(lines) < MOST_LINES or line.startswith("ERROR:") and len(lines) < 2 * MOST_LINES:
                    lines.append(line)
                if not hidden:
                    self.show(line, again)
            self.end_log()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            waiter.join()
            process.stdout.close()
            os.close(ended)
        return process.returncode, lines

    def show(self, line: str, again: bool) -> None:
        line = line.replace(self.root, "").replace(self.token, "").rstrip()
        if self.log is not None:
            self.left_out += len(self.log) == BUILD_LINES
            self.log.append(line)
            if line.endswith("[end of output]"):
                self.end_log()
            return
        line = re.sub(r"^( *Downloading )/files/\S*/(\S+)", r"\1\2", line)
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if line.startswith(("ERROR:", "error:", "  × ", "× ")):
            self.errors.append(line.partition(":")[2].strip() or line)
        if match := re.match(rf"Collecting ({NAME})|Building wheel for ({NAME})", line.strip()):
            self.subject = match[1] or match[2]
        if DULL.match(line):
            return
        if again and (word in ("Collecting", "Requirement", "Using", "Obtaining") or line in self.shown):
            return
        if len(self.shown) < MOST_LINES:
            self.shown.add(line)
        if re.search(r"\[\d+ lines of output\]$", line):
            self.log, self.left_out = collections.deque(maxlen=BUILD_LINES), 0
        if not self.order["quiet"] or line.startswith("ERROR:"):
            print(line, flush=True)

    def end_log(self) -> None:
        """Shows the last lines of what a failed build said: the first ones are many, and of little use."""
        lines, self.log = self.log or (), None
        if lines:
            print(*([f"      [{self.left_out} lines were left out]"] if self.left_out else []), *lines, sep="\n", flush=True)

    def reasons(self) -> list[str]:
        """What the gateway to the index refused, or could not get."""
        try:
            with urllib.request.urlopen(self.root + "/reasons", timeout=30) as answer:
                return [str(one) for one in json.load(answer)]
        except (OSError, ValueError):
            return []

    def fail(self, status: int, lines: list[str], requirements: list[str]) -> SystemExit:
        """Why a program failed and what to do, in one line."""
        text = "\n".join(lines)
        if any(one in text for one in NO_ROOM_TEXTS):
            return no_room()
        if status < 0:
            return SystemExit(f"the installer was killed by {signal.Signals(-status).name}, as happens when it needs more memory "
                              f"than the session has; raise limits.memory_bytes; {UNCHANGED}")  # fmt: skip
        if BUILD_FAILED.search(text) and "install build dependencies did not run" not in text:
            if match := re.search(rf"Failed building wheel for ({NAME})|Failed to build `?({NAME})", text):
                self.subject = match[1] or match[2]
            return SystemExit(f"{self.subject} could not be built; the output of its build is above; choose a version that has "
                              f"a wheel for {PYTHON}, or another package; {UNCHANGED}")  # fmt: skip
        said = self.reasons()[:4]
        if "conflicting dependencies" in text or "ResolutionImpossible" in text or "No solution found" in text and not said:
            said.append(f"{', '.join(requirements)} cannot be installed together: their requirements conflict, as shown "
                        "above; ask for other versions")  # fmt: skip
        if said:
            return SystemExit("; ".join([*said, UNCHANGED]))
        if match := re.search(r"Could not find a version that satisfies the requirement (.+?) \(from versions: (.*)\)", text):
            there = [one for one in match[2].split(", ") if one and one != "none"]
            if not there:
                return SystemExit(f"{match[1]}: the package index has no file for {PYTHON}; {UNCHANGED}")
            few = ", ".join((["…"] if len(there) > 10 else []) + there[-10:])
            return SystemExit(f"{match[1]}: there is no such version for {PYTHON}; available: {few}; {UNCHANGED}")
        why = self.errors[-1] if self.errors else f"the installer ended with status {status}"
        if why == "Exception:":
            why = f"the environment's pip failed: {lines[-1].strip()}"
        return SystemExit(f"{why}; {UNCHANGED}")


def lines_until(source: int, ended: int, look: Callable[[], None]) -> Iterator[str]:
    """The lines of a pipe until it ends, or the other one has ended and nothing more is in this one, or comes for longer
    than DRAIN. Every PATIENCE it looks."""
    os.set_blocking(source, False)
    rest = b""
    due, last = time.monotonic() + PATIENCE, float("inf")
    while time.monotonic() < last:
        ready = select.select([source, ended], [], [], max(0, min(due, last) - time.monotonic()))[0]
        if time.monotonic() >= due:
            look()
            due = time.monotonic() + PATIENCE
        if ended in ready:
            last = min(last, time.monotonic() + DRAIN)
        try:
            chunk = os.read(source, 1 << 16)
        except BlockingIOError:
            if ended in ready:
                break
            continue
        if not chunk:
            break
        *whole, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
        if len(rest) > LONGEST_LINE:
            whole, rest = [*whole, rest], b""
        for line in whole:
            yield line[:LONGEST_LINE].decode(errors="replace")
    if rest:
        yield rest[:LONGEST_LINE].decode(errors="replace")


class Leftovers:
    """Ends what builds have left running once an installer waits for that: its build has ended, and it reads on, since the
    output is still open somewhere."""

    def __init__(self, installer: int) -> None:
        self.installer = installer
        self.ended: set[int] = set()  # processes whose parent had not noticed their end when we looked last
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # so that what builds leave becomes our child

    def look(self) -> None:
        parents, ended = processes()
        ours = set()
        for pid in parents:
            line = [pid]
            while line[-1] in parents and line[-1] != self.installer:
                line.append(parents[line[-1]])
            if line[-1] == self.installer:
                ours.add(pid)
        ended &= ours - {self.installer}
        left = {pid for pid, parent in parents.items() if parent == os.getpid() and pid != self.installer}
        for pid in left if ended & self.ended else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self.ended = ended


def processes() -> tuple[dict[int, int], set[int]]:
    """The parents of all processes in sight, and which of these have ended and nobody has noticed."""
    parents, ended = {}, set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            parents[int(name)] = int(parent)
            if state == b"Z":
                ended.add(int(name))
    return parents, ended


def no_room() -> SystemExit:
    return SystemExit("no room left: the packages need more than packages.max_bytes in the server's configuration or the "
                      f"session's limits.disk_bytes; {UNCHANGED}")  # fmt: skip


# --- pip and uv -----------------------------------------------------------------------------------------------------


class Pip:
    """The environment's pip."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        site = os.path.join(os.path.realpath(PRESENT), SITE)
        self.command = [sys.executable, "-I", "-c", START_PIP, site]
        try:
            version = importlib.metadata.version("pip")
        except importlib.metadata.PackageNotFoundError:
            version = "0"
        numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
        if numbers < OLDEST_PIP:
            raise SystemExit(f"pip {version} of this environment is older than 22.2; ask the operator to install a newer one")
        self.options = []
        if numbers < (23, 1) and importlib.util.find_spec("wheel") is None:  # else nothing says what it installed
            self.options.append("--use-pep517")

    def resolve(self, requirements: list[str]) -> dict[str, str]:
        order, report = self.programs.order, os.path.join(self.programs.folder, "report.json")
        flags = {"upgrade": "--upgrade", "reinstall": "--force-reinstall", "no_deps": "--no-deps", "pre": "--pre"}
        chosen = [flag for name, flag in flags.items() if order[name]]
        status, lines = self.programs.run(
            [*self.command, "install", "--dry-run", "--report", report, *self.options, *chosen, "--", *requirements]
        )
        if status != 0:
            raise self.programs.fail(status, lines, requirements)
        with open(report, encoding="utf-8") as file:
            return {one["metadata"]["name"]: one["metadata"]["version"] for one in json.load(file)["install"]}

    def install(self, chosen: dict[str, str], prefix: str) -> None:
        pins = [f"{name}=={version}" for name, version in chosen.items()]
        status, lines = self.programs.run(
            [*self.command, "install", "--no-deps", "--ignore-installed", "--prefix", prefix, *self.options, "--", *pins], again=True
        )
        if status != 0:
            raise self.programs.fail(status, lines, pins)


class Uv:
    """uv, which looks at the environment only: what the layer has is told to it."""

    def __init__(self, programs: Programs, command: list[str]) -> None:
        self.programs = programs
        self.command = [*command, "pip", "install", "--python", sys.executable]

    def resolve(self, requirements: list[str]) -> dict[str, str] | None:
        """None where this uv does not understand us."""
        order = self.programs.order
        present = versions(distributions(os.path.join(os.path.realpath(PRESENT), SITE)))
        asked = {canonical(name_of(one)) for one in requirements}
        kept = {} if order["upgrade"] or order["reinstall"] else {n: v for n, v in present.items() if n not in asked}
        pins = os.path.join(self.programs.folder, "present.txt")
        with open(pins, "w", encoding="utf-8") as file:
            file.writelines(f"{name}=={version}\n" for name, version in kept.items())
        flags = {"upgrade": "--upgrade", "reinstall": "--reinstall", "no_deps": "--no-deps", "pre": "--prerelease=allow"}
        chosen = [flag for name, flag in flags.items() if order[name]]
        begin = [*self.command, "--dry-run", *chosen]
        status, lines = self.programs.run([*begin, "-c", pins, "--", *requirements], hidden=True)
        if status == 1 and kept:  # then they need other versions of what is there
            status, lines = self.programs.run([*begin, "--", *requirements], hidden=True)
        wanted = dict(re.findall(rf"^ [+~] ({NAME})==(\S+)", "\n".join(lines), re.MULTILINE))
        if status == 2 or not wanted and any(line.startswith("Would install") for line in lines):
            return None
        for line in lines if status != 0 else []:
            self.programs.show(line, False)
        if status != 0:
            raise self.programs.fail(status, lines, requirements)
        if order["reinstall"]:
            return wanted
        return {name: version for name, version in wanted.items() if present.get(canonical(name)) != version}

    def install(self, chosen: dict[str, str], prefix: str) -> None:
        pins = [f"{name}=={version}" for name, version in chosen.items()]
        status, lines = self.programs.run([*self.command, "--no-deps", "--prefix", prefix, "--", *pins])
        if status != 0:
            raise self.programs.fail(status, lines, pins)


def choose(programs: Programs, requirements: list[str]) -> tuple["Pip | Uv", dict[str, str]]:
    """What installs, and what it is to install."""
    uv = shutil.which("uv")
    if uv or importlib.util.find_spec("uv"):
        tool = Uv(programs, [uv] if uv else [sys.executable, "-I", "-m", "uv"])
        chosen = tool.resolve(requirements)
        if chosen is not None:
            return tool, chosen
    if importlib.util.find_spec("pip") is None:
        raise SystemExit("this environment has no pip; ask the operator to install it (Debian: python3-pip; elsewhere: "
                         f"python -m ensurepip); {UNCHANGED}")  # fmt: skip
    tool = Pip(programs)
    return tool, tool.resolve(requirements)


# --- orders ---------------------------------------------------------------------------------------------------------


def environment_has(name: str) -> str | None:
    """The version of a distribution that the environment itself has."""
    present = os.path.realpath(PRESENT)
    paths = [p for p in sys.path if p and not os.path.realpath(p).startswith(present)]
    one = next(iter(importlib.metadata.distributions(name=name, path=paths)), None)
    return one and str(one.version)


def install(order: dict) -> None:
    requirements = check(order["requirements"])
    programs = Programs(order)
    tool, chosen = choose(programs, requirements)
    if not chosen:
        print("Everything is already installed.")
        return
    prefix = os.path.join(programs.folder, "new")
    tool.install(chosen, prefix)
    before = versions(distributions(os.path.join(os.path.realpath(PRESENT), SITE)))
    names = {canonical(name) for name in chosen}
    next_layer(names, prefix)
    for text in conflicts(programs, names) if names & before.keys() or any(map(environment_has, names)) else []:
        print("WARNING:", text)
    print("Successfully installed", " ".join(f"{name}-{version}" for name, version in sorted(chosen.items())))


def conflicts(programs: Programs, changed: set[str]) -> list[str]:
    """What is there and does not go together with what was changed."""
    if importlib.util.find_spec("pip") is None:
        return []
    site = os.path.join(os.getcwd(), "layer", SITE)
    _, lines = programs.run([sys.executable, "-I", "-c", START_PIP, site, "check"], hidden=True)
    return [one for one in lines if changed & {canonical(word) for word in re.findall(NAME, one)}][:20]


def remove(order: dict) -> None:
    names = {canonical(name_of(one)): one for one in check(order["requirements"])}
    present = distributions(os.path.join(os.path.realpath(PRESENT), SITE))
    for name, asked in names.items():
        if name not in present and (version := environment_has(name)) is not None:
            raise SystemExit(f"{asked} {version} belongs to the environment, which sessions cannot change; only what was "
                             f"installed in this session can be uninstalled; {UNCHANGED}")  # fmt: skip
        if name not in present:
            print(f"{asked} is not installed.")
    gone = names.keys() & present.keys()
    if not gone:
        return
    next_layer(set(gone))
    print("Successfully uninstalled", " ".join(f"{name}-{present[name].version}" for name in sorted(gone)))
    left = {name: one for name, one in present.items() if name not in gone}
    for name in sorted(gone):
        needing = sorted(other for other, one in left.items() if name in needs(one))
        if needing and environment_has(name) is None:
            print(f"WARNING: {', '.join(needing)} {'needs' if len(needing) == 1 else 'need'} {name}.")


def needs(one: importlib.metadata.Distribution) -> set[str]:
    return {canonical(name_of(text)) for text in one.requires or [] if "extra ==" not in text}


def main(order: dict) -> None:
    try:
        (remove if order["remove"] else install)(order)
    except OSError as e:
        if e.errno in NO_ROOM:
            raise no_room() from None
        raise
    finally:
        shutil.rmtree("tmp", ignore_errors=True)


main(ORDER)
