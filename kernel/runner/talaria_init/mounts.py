"""Directories of the host that a session asked for, bound while a sandbox is sealed."""

import os
from dataclasses import dataclass

from . import linux, root

_ATTRIBUTES = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
_TMPFS = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC


@dataclass
class Mount:
    """A directory beneath one of the roots, by its path and by the identity that it must have."""

    root: int
    path: str
    target: str
    writable: bool
    device: int
    inode: int


def bind(mounts: list[Mount]) -> None:
    """Binds them, and covers the roots in any case."""
    trees = [_open(mount) for mount in mounts]
    tops = sorted({top for m in mounts if (top := _top(m.target)) != m.target})
    for top in tops:
        # The tree is read-only, and may be shared by many sandboxes.
        linux.mount("tmpfs", top, "tmpfs", _TMPFS, "mode=755,size=64k,nr_inodes=1k")
    for mount, tree in zip(mounts, trees, strict=True):
        os.makedirs(mount.target, exist_ok=True)
        linux.move_mount(tree, mount.target)
        os.close(tree)
    for top in tops:
        linux.mount_setattr(top, linux.MOUNT_ATTR_RDONLY)
    if os.listdir(root.MOUNTS):
        linux.mount(root.EMPTY, root.MOUNTS, None, linux.MS_BIND)


def _open(mount: Mount) -> int:
    """A detached copy of the directory, with the attributes that it should have."""
    base = os.open(f"{root.MOUNTS}/{mount.root}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    source = -1
    try:
        source = linux.open_beneath(base, mount.path, os.O_PATH | os.O_DIRECTORY)
        found = os.fstat(source)
        if (found.st_dev, found.st_ino) != (mount.device, mount.inode):
            raise RuntimeError(f"the source of {mount.target} is no longer the directory that it was when the kernel was started")
        tree = linux.open_tree("", source, linux.AT_EMPTY_PATH)
        read_only = 0 if mount.writable else linux.MOUNT_ATTR_RDONLY
        linux.mount_setattr("", _ATTRIBUTES | read_only, tree, linux.AT_EMPTY_PATH | linux.AT_RECURSIVE)
        return tree
    finally:
        for fd in (source, base):
            if fd >= 0:
                os.close(fd)


def _top(target: str) -> str:
    return "/" + target.split("/")[1]
