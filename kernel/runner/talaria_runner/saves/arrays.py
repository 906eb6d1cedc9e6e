"""Arrays of numpy: their memory is saved as it is, and views stay views."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.saves import rebuild


class Region:
    """The memory of an array, which is saved outside the pickle stream."""

    __slots__ = ("memory",)

    def __init__(self, memory: object) -> None:
        self.memory = memory


def is_dtype(cls: type) -> bool:
    numpy = modules.get("numpy")
    return numpy is not None and issubclass(cls, numpy.dtype)


def is_array(cls: type) -> bool:
    numpy = modules.get("numpy")
    return numpy is not None and issubclass(cls, numpy.ndarray)


def reduce(value: object, cls: type) -> object:
    """As __reduce__; None for what is no array, or one that numpy itself saves just as well."""
    numpy = modules.get("numpy")
    kinds = (getattr(numpy, "ndarray", None), getattr(numpy, "memmap", None))
    if numpy is None or cls not in kinds:
        return None
    if cls is kinds[1] and not isinstance(value.base, kinds[0]) and value.filename is not None:
        return rebuild.mapped_array, _mapping(value)
    owner = value
    while isinstance(owner.base, kinds[0]):
        owner = owner.base
    if owner is not value:
        view = _view(value, owner, kinds)
        if view is not None:
            return rebuild.array_view, view
    if cls is not kinds[0] or value.dtype.hasobject or not value.nbytes:
        return None
    order = _order(value)
    if not order:
        return None
    region = Region(rebuild.octets(value))
    return rebuild.array, (value.dtype, value.shape, order, value.flags.writeable, region)


def _mapping(value: object) -> tuple[object, ...]:
    mode = "r+" if value.mode in ("w+", "r+") else value.mode
    return str(value.filename), value.dtype, mode, value.offset, value.shape, _order(value) or "C"


def _view(value: object, owner: object, kinds: tuple[type, ...]) -> tuple[object, ...] | None:
    if type(owner) not in kinds or not value.size or not value.itemsize or not owner.nbytes or not _order(owner):
        return None
    if (value.dtype.hasobject or owner.dtype.hasobject) and value.dtype != owner.dtype:
        return None
    offset = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    spans = [(count - 1) * stride for count, stride in zip(value.shape, value.strides)]
    first = offset + sum([span for span in spans if span < 0])
    last = offset + sum([span for span in spans if span > 0]) + value.itemsize
    if first < 0 or last > owner.nbytes:
        return None
    return owner, value.dtype, value.shape, value.strides, offset, value.flags.writeable


def _order(value: object) -> str:
    return "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else ""
