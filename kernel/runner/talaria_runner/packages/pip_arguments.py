"""What an installation with pip asks for, read from its command line. Runs in the kernel and in the program pip."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
from stat import S_ISREG

from talaria_runner.own.stdlib import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 200  # requirements
LONGEST = 1 << 10  # bytes of one
_MOST_BYTES = 1 << 20  # of a file of requirements
_DEEPEST = 10  # files that include each other

_FLAGS = {
    "-U": "upgrade", "--upgrade": "upgrade", "--force-reinstall": "reinstall", "--reinstall": "reinstall",
    "--no-deps": "no_deps", "--no-dependencies": "no_deps", "--pre": "pre", "-q": "quiet", "--quiet": "quiet",
}  # fmt: skip
# These change nothing here: a session has one place for packages, and nobody to ask.
_WITHOUT_EFFECT = frozenset(
    "-y --yes -v --verbose --user --system --break-system-packages --no-cache-dir --no-cache --no-input --no-color "
    "--disable-pip-version-check --no-python-version-warning --no-warn-script-location --no-warn-conflicts".split()
)
_WITHOUT_EFFECT_VALUE = frozenset("--progress-bar --root-user-action --timeout --default-timeout --retries".split())
_OF_THE_INDEX = frozenset(
    "-i --index-url --pypi-url --extra-index-url --no-index -f --find-links --trusted-host --index --default-index "
    "--proxy --cert --client-cert".split()
)
_WITH_VALUE_SHORT = ("-r", "-c", "-e", "-i", "-f", "-t")
_ARCHIVES = (".whl", ".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz", ".txz")
_WORKS = (
    "use NAME, NAME[EXTRA], NAME==1.2 and the like, -r FILE, -U, --force-reinstall, --no-deps, --pre and -q"
)

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_CLAUSE = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9._*+!-]+"
_PATTERN = (
    rf"{_NAME}(?:\s*\[[A-Za-z0-9._,\s-]*\])?"
    rf"(?:\s*{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\s*,?|\s*\(\s*{_CLAUSE}(?:\s*,\s*{_CLAUSE})*\s*\))?(?:\s*;[^\r\n]+)?"
)


class Refused(Exception):
    """It asks for something that is not available here; the text says what is."""


class Change:
    """A change of the session's packages."""

    __slots__ = ("remove", "requirements", "upgrade", "reinstall", "no_deps", "pre", "quiet")

    def __init__(self) -> None:
        self.remove = self.upgrade = self.reinstall = self.no_deps = self.pre = self.quiet = False
        self.requirements: list[str] = []

    def fields(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in Change.__slots__}


def change_of(fields: object) -> Change:
    """The change that another program asks for, which has already resolved files of requirements. Raises
    Refused if it is not a change."""
    change = Change()
    if type(fields) is not dict or set(fields) != set(Change.__slots__):
        raise Refused("this is not a request for packages")
    for name, value in fields.items():
        if type(value) is not type(getattr(change, name)):
            raise Refused(f"{name} of a request for packages has the wrong type")
        setattr(change, name, value)
    if any(type(text) is not str for text in change.requirements):
        raise Refused("a requirement must be a string")
    _check_sizes(change)
    return change


def parse(words: list[str]) -> Change | None:
    """What the arguments of pip ask for; None if the environment's own pip can do that. Raises Refused."""
    change = Change()
    command = ""
    rest = iter(words)
    for word in rest:
        if word.startswith("-"):
            if word in ("-h", "--help", "-V", "--version"):
                return None
            if not command and not _is_known(word) and "install" not in words and "uninstall" not in words:
                return None
            _option(change, word, rest, command)
        elif not command:
            command = word
            if command not in ("install", "uninstall"):
                return None
            change.remove = command == "uninstall"
        else:
            change.requirements.append(word.strip())
    if not command:
        return None
    if not change.requirements:
        raise Refused(f"pip {command} needs the name of a package: pip {command} NAME")
    _check_sizes(change)
    for text in change.requirements:
        _check(text, change.remove)
    return change


def _is_known(word: str) -> bool:
    name = word.partition("=")[0]
    return name in _FLAGS or name in _WITHOUT_EFFECT or name in _WITHOUT_EFFECT_VALUE


def _option(change: Change, word: str, rest: Iterator[str], command: str) -> None:
    name, equals, value = word.partition("=")
    if not word.startswith("--") and len(word) > 2:
        if word[:2] in _WITH_VALUE_SHORT:
            name, equals, value = word[:2], "=", word[2:]
        else:  # several in one, as -qU
            for letter in word[1:]:
                _option(change, "-" + letter, rest, command)
            return
    if name in ("-r", "--requirement", "--requirements"):
        value = value if equals else _next(name, rest)
        change.requirements.extend(_read(value, "", 1))
    elif name in _FLAGS and not equals:
        setattr(change, _FLAGS[name], True)
    elif name in _WITHOUT_EFFECT and not equals:
        pass
    elif name in _WITHOUT_EFFECT_VALUE:
        if not equals:
            _next(name, rest)
    elif name in _OF_THE_INDEX:
        raise Refused(f"{name}: the operator of this server chooses where packages come from; leave it out")
    else:
        raise Refused(f"{name}: a session cannot do that; {_WORKS}")


def _next(name: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise Refused(f"{name} needs a value")
    return value


def _check_sizes(change: Change) -> None:
    if not 0 < len(change.requirements) <= MOST:
        raise Refused(f"{len(change.requirements)} requirements; 1 to {MOST} are allowed at a time")
    for text in change.requirements:
        if not 0 < len(text.encode("utf-8", "surrogatepass")) <= LONGEST:
            raise Refused(f"a requirement must have 1 to {LONGEST} bytes")


def _check(text: str, remove: bool) -> None:
    match = load("re").fullmatch(_NAME if remove else _PATTERN, text)
    if match is not None and not text.lower().endswith(_ARCHIVES):
        return
    if not remove and any(mark in text for mark in ("/", "\\", " @ ", "git+")) or text.startswith("."):
        raise Refused(f"{text}: packages are installed by name only, not from a path or a URL; {_WORKS}")
    if text.lower().endswith(_ARCHIVES):
        raise Refused(f"{text}: packages are installed by name only, not from a file; {_WORKS}")
    if remove:
        raise Refused(f"{text}: this is not a package name")
    raise Refused(f"{text}: this is not a requirement; write it in quotes and as one word, such as 'numpy>=1.24,<2'")


def _read(path: str, above: str, depth: int) -> list[str]:
    """The requirements in a file."""
    if not path or "://" in path:
        raise Refused(f"-r {path}: requirements are read only from files of the session")
    path = os.path.join(os.path.dirname(above), path)
    if depth > _DEEPEST:
        raise Refused(f"-r {path}: more than {_DEEPEST} requirements files refer to each other")
    found: list[str] = []
    for line in _lines(path):
        name, _, value = line.partition(" ")
        name, equals, joined = name.partition("=") if line.startswith("--") else (name, "", "")
        if line[:2] == "-r" and not line.startswith("--") or name in ("--requirement", "--requirements"):
            value = joined if equals else value if line.startswith("--") else line[2:]
            found += _read(value.strip(), path, depth + 1)
        elif line.startswith("-"):
            raise Refused(f"{path}: {name}: a requirements file may name packages and other requirements files, but no options")
        elif " --" in line:
            raise Refused(f"{path}: {line}: a requirement in a file may not have options")
        else:
            found.append(line)
        if len(found) > MOST:
            raise Refused(f"{path} has more than {MOST} requirements")
    return found


def _lines(path: str) -> list[str]:
    """The meaningful lines, without comments, and joined if one ends with a backslash."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            regular = S_ISREG(os.fstat(fd).st_mode)
            data = os.read(fd, _MOST_BYTES + 1) if regular else b""
        finally:
            os.close(fd)
    except OSError as e:
        raise Refused(f"-r {path}: {e.strerror}") from None
    if not regular or len(data) > _MOST_BYTES:
        raise Refused(f"-r {path}: a requirements file must be a regular file of at most {_MOST_BYTES >> 20} MiB")
    text = data.decode("utf-8-sig", "replace").replace("\\\r\n", " ").replace("\\\n", " ")
    lines = [load("re").sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]
