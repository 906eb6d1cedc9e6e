"""Objects that report when any of their code runs, for code that must read objects without asking them."""

from __future__ import annotations

SOURCE = '''
class Everything:
    """Raises, prints and lies wherever it is asked."""

    def __init__(self):
        object.__setattr__(self, "field", 1)

    def _tell(self, *args, **kwargs):
        ran.append(1)
        raise RuntimeError("asked")

    __getattr__ = __getattribute__ = __repr__ = __str__ = __len__ = __iter__ = __eq__ = __hash__ = _tell
    __bool__ = __dir__ = __format__ = __sizeof__ = __getitem__ = __contains__ = __call__ = __fspath__ = _tell
    shape = dtype = columns = nbytes = __doc__ = prop = property(_tell)
    __class__ = property(_tell)


class Meta(type):
    def _tell(cls, *args):
        ran.append(1)
        raise RuntimeError("asked")

    __getattribute__ = __getattr__ = __repr__ = __instancecheck__ = __subclasscheck__ = __dir__ = _tell
    __eq__ = __call__ = _tell
    __hash__ = type.__hash__
    __name__ = __doc__ = __module__ = property(_tell)


class Ruled(metaclass=Meta):
    value = 3


class Slow:
    @property
    def shape(self):
        ran.append(1)
        import time
        time.sleep(3600)

    columns = property(lambda self: print("printed"))

    def __repr__(self):
        while True:
            ran.append(1)


class BadDict(dict):
    def _tell(self, *args):
        ran.append(1)
        raise RuntimeError("asked")

    keys = items = values = get = __iter__ = __len__ = __getitem__ = __contains__ = __repr__ = __reversed__ = _tell


class BadList(list):
    __len__ = __iter__ = __getitem__ = __repr__ = lambda self, *args: ran.append(1) or 1 << 60


class BadText(str):
    __str__ = __repr__ = __len__ = __eq__ = __getitem__ = startswith = lambda self, *args: ran.append(1) or self

    __hash__ = str.__hash__


class Held:
    pass


everything, ruled, slow = Everything(), object.__new__(Ruled), Slow()
bad_dict, bad_list, bad_text = BadDict({"key": 1}), BadList([1, 2]), BadText("text")
bad_held = Held()
object.__setattr__(bad_held, "__dict__", BadDict(inner=1))


def bad_default(first=everything, *, second: Ruled = ruled) -> Ruled:
    """Documented."""


bad_function = lambda: None
bad_function.__doc__ = bad_text
circle = []
circle.append(circle)
deep = []
for _ in range(100_000):
    deep = [deep]
huge_int = 1 << 4_000_000
huge_text = "x" * 3_000_000
huge_list = [0] * 3_000_000
'''


def namespace() -> tuple[dict[str, object], list[int]]:
    """The names of these objects, and a list that grows whenever their code runs."""
    ran: list[int] = []
    names: dict[str, object] = {"__name__": "__main__", "ran": ran}
    exec(compile(SOURCE, "<cell 1>", "exec", dont_inherit=True), names)
    del ran[:]
    return names, ran
