"""Where things are, as those inside see them. In a tree of our own that is always the same; without one, it is said
when the sandbox is made and when it is sealed."""

library = "/opt/talaria/lib"  # this package and the runner
cache = "/opt/talaria/cache"
workspace = "/workspace"
packages = "/packages"
home = "/home/user"
temporary = "/tmp"

_NAMES = ("library", "cache", "workspace", "packages", "home", "temporary")


def all() -> dict[str, str]:
    """To be handed to another process of the same sandbox, for change."""
    return {name: globals()[name] for name in _NAMES}


def change(**places: str) -> None:
    globals().update(places)
