"""Where things are, as seen from inside. In a tree of our own that is always the same; without one, the host
says so when the sandbox is made and when it is sealed."""

import sys

library = "/opt/talaria/lib"  # this package and the runner
cache = "/opt/talaria/cache"
workspace = "/workspace"
packages = "/packages"
home = "/home/talaria"
temporary = "/tmp"

_NAMES = ("library", "cache", "workspace", "packages", "home", "temporary")


def layer() -> str:
    """The modules of the session's packages; the directory may be missing."""
    version = sys.version_info
    return f"{packages}/current/lib/python{version.major}.{version.minor}/site-packages"


def installs() -> str:
    """Where programs ask the runner for packages."""
    return home + "/.talaria"


def programs() -> str:
    """Replacements for programs of the environment."""
    return library + "/programs"


def all() -> dict[str, str]:
    """All places, to be handed to another process of the same sandbox."""
    return {name: globals()[name] for name in _NAMES}


def change(**places: str) -> None:
    globals().update(places)
