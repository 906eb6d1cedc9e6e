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


def reduce(value: object, cls: type, memories: dict[int, tuple[object, object]]) -> object:
    """As __reduce__; None for what is no array, or one that numpy itself saves just as well. memories are the arrays of subclasses that
    own memory, by id, each with the plain array of the same memory that it is saved as a view of."""
    numpy = modules.get("numpy")
    kinds = (getattr(numpy, "ndarray", None), getattr(numpy, "memmap", None))
    if numpy is None or cls not in kinds and not _is_subclass(cls, numpy):
        return None
    if cls is kinds[1] and not isinstance(value.base, kinds[0]) and value.filename is not None:
        return rebuild.mapped_array, _mapping(value)
    owner = value
    while isinstance(owner.base, kinds[0]):
        owner = owner.base
    if _is_subclass(type(owner), numpy):
        owner = memories.setdefault(id(owner), (owner, kinds[0].view(owner, kinds[0])))[1]
    if cls not in kinds:
        plain = memories[id(value)][1] if id(value) in memories else kinds[0].view(value, kinds[0])
        return rebuild.array_of_class, (cls, plain), vars(value), None, None, rebuild.set_attributes
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


def _is_subclass(cls: type, numpy: object) -> bool:
    """Whether an array of cls consists of its memory and attributes, and of nothing that it pickles in its own way."""
    if not issubclass(cls, numpy.ndarray) or cls is numpy.ndarray or cls is numpy.memmap:
        return False
    return any(
        all(getattr(cls, name) is getattr(known, name) for name in ("__reduce__", "__reduce_ex__", "__setstate__"))
        for known in (numpy.ndarray, numpy.ma.MaskedArray)
    ) and cls.__dictoffset__ != 0


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
