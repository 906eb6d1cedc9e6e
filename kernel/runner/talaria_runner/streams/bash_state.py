"""What cells of %%bash --state leave to each other. Each runs in a bash of its own, which begins with what the one before left: so
one that is killed, or replaced by another program, costs nothing of what was there before."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import os
import sys
from posix import close, fstat, memfd_create, pread

from talaria_runner.streams.commands import environment
from talaria_runner.wire.descriptors import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from talaria_runner.run.namespaces import BashState
    from talaria_runner.streams.commands import Commands

_GIVEN, _LEFT = 251, 252  # descriptors of the shell
_MOST = 4 << 20  # bytes
# With this variable in its environment, bash reads no BASH_ENV. It belongs to the option posix, of which it is also the switch.
_POSIX = "POSIXLY_CORRECT"
# Variables that bash computes, or that are restored by other means.
_COMPUTED = (
    "BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_EXECUTION_STRING BASH_LINENO BASH_SOURCE "
    "BASH_SUBSHELL DIRSTACK EPOCHREALTIME EPOCHSECONDS FUNCNAME GROUPS HISTCMD LINENO PIPESTATUS POSIXLY_CORRECT PWD RANDOM SECONDS "
    "SRANDOM _"
)
_PASSING = (b"noexec", b"onecmd")  # options with which the next cell would not run
# A backslash keeps the user's aliases away.
_PARTS = (
    r"\builtin pwd", rf"\builtin set +o; \builtin declare -p {_POSIX}", r"\builtin umask -p; \builtin shopt -p",
    rf"\builtin unset -v {_COMPUTED}; \builtin declare -p", r"\builtin declare -f; \builtin declare -F", r"\builtin alias -p",
)  # fmt: skip
# A subshell, whose status counts for nothing, is free of the cell's traps and set -e, and changes nothing in the cell.
_LEAVE = "( " + "".join(rf"{part}; \builtin printf '\0'; " for part in _PARTS) + rf") 2>/dev/null >&{_LEFT} || \builtin :"


def run_bash(
    state: BashState, commands: Commands, arguments: list[str], cell: str, out: object, err: object
) -> int:
    """Runs a cell like Commands.run, with bash as the program."""
    variables = environment()
    given = left = code = -1
    try:
        given, left = _nameless(), _nameless()
        write_all(given, _beginning(state, variables))
        code = commands.run(
            arguments, cell, out, err,
            # Bash reads this file before its input, whose lines stay as they are.
            variables={**{name: value for name, value in variables.items() if name != _POSIX}, "BASH_ENV": f"/dev/fd/{_GIVEN}"},
            actions=((os.POSIX_SPAWN_DUP2, given, _GIVEN), (os.POSIX_SPAWN_DUP2, left, _LEFT)),
        )  # fmt: skip
        return code
    finally:
        if left >= 0:
            _take(state, pread(left, min(fstat(left).st_size, _MOST + 1), 0), variables, code >= 0)
        for fd in (given, left):
            if fd >= 0:
                close(fd)


def _beginning(state: BashState, variables: dict[str, str]) -> bytes:
    """Commands that restore the state and have it left again. Until most of it is there, a shell that is interrupted leaves
    none. The options come last: they would show and end what is ours, too."""
    begin = b"\\builtin exec %d<&-\n\\builtin unset -v BASH_ENV\n\\builtin shopt -s expand_aliases\n" % _GIVEN
    leave = b"\\builtin trap " + _quoted(_LEAVE.encode()) + b" EXIT\n"
    posix = changes(state.environment, variables, (_POSIX,))
    if not state.left:
        return begin + changes({}, variables, ("BASH_ENV",)) + leave + posix
    if state.folder:
        begin += b"\\builtin cd -- " + _quoted(state.folder) + b" 2>/dev/null || \\builtin printf '%s\\n' "
        begin += _quoted(b"bash: the working directory " + state.folder + b" is gone; this cell begins in ") + b'"$PWD" >&2\n'
    names = {*state.environment, *variables} - {_POSIX}
    settings = changes(variables, {}, names) + state.settings + changes(state.environment, variables, names)
    return begin + _silently(settings) + leave + _silently(state.options + state.aliases + posix + b"\\builtin :\n")


def _silently(commands: bytes) -> bytes:
    return b"\\builtin eval " + _quoted(commands) + b" >/dev/null 2>&1\n"


def _take(state: BashState, data: bytes, variables: dict[str, str], ended: bool) -> None:
    """Keeps what a cell has left, if that is all of it. If it is not although the shell has ended by itself, the cell says so."""
    if len(data) > _MOST:
        print(f"bash: this cell's state has more than {_MOST >> 20} MiB, and is not kept", file=sys.stderr)
        return
    parts = data.split(b"\0")
    if len(parts) != len(_PARTS) + 1:
        if ended:
            print("bash: this cell's state is not kept; the next cell starts with the previous state", file=sys.stderr)
        return
    folder, options, settings, own, functions, aliases, _ = parts
    state.folder = folder.removesuffix(b"\n")
    state.options = b"".join(
        b"\\builtin " + line + b"\n" for line in options.splitlines() if line.split()[-1] not in _PASSING
    )
    state.settings, state.aliases = settings + own + functions, aliases
    state.environment, state.left = variables, True


def changes(before: dict[str, str], after: dict[str, str], names: Iterable[str]) -> bytes:
    """Commands that make the changes of these variables of an environment in a shell."""
    text = b""
    for name in sorted(names):
        if not name.isidentifier() or not name.isascii() or before.get(name) == after.get(name):
            continue
        if name in after:
            text += b"\\builtin export " + os.fsencode(name) + b"=" + _quoted(os.fsencode(after[name])) + b"\n"
        else:
            text += b"\\builtin unset -v " + os.fsencode(name) + b"\n"
    return text


def _quoted(text: bytes) -> bytes:
    return b"'" + text.replace(b"'", b"'\\''") + b"'"


def _nameless() -> int:
    """A file without a name: in memory, or in the temporary directory if memory that no process maps is refused."""
    try:
        return memfd_create("state")
    except OSError:
        return os.open(os.environ.get("TMPDIR") or "/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
