"""Pickles values of cells: what cells define by value, what libraries define by name, and the memory of arrays apart.

pickle alone would name functions and classes of cells, which a new interpreter does not have, and would save a view of an
array as an array of its own.
"""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import _thread
import builtins
from _io import BytesIO, StringIO, _IOBase
from gc import get_referents
from marshal import dumps
from sys import builtin_module_names, modules, version_info

from _frozen_importlib_external import MAGIC_NUMBER

from talaria_runner.introspection.classes import derives, module_of, names_of_class
from talaria_runner.introspection.lookup import Function, GetSet, Member, Method, Module
from talaria_runner.own.stdlib import is_standard_path, load
from talaria_runner.saves import arrays, containers, enums, helpers, loggers, rebuild
from talaria_runner.saves.reasons import Refused, refused
from talaria_runner.tools import finder, functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FunctionType, ModuleType

_pickle = load("_pickle")
_functools = load("functools")

PROTOCOL = 5
ATOMS = frozenset((int, str, float, bool, type(None), bytes, complex))

Cell = type((lambda x: lambda: x)(1).__closure__[0])
_Code = type((lambda: None).__code__)
_Cached = type(_functools.lru_cache(int))
_Proxy = type(vars(type))
# Classes that are in no module under their own name, as that of functions.
_NAMELESS = {id(value): name for name, value in vars(load("types")).items() if type(value) is type}
_OF_C = (type(vars(list)["append"]), type(vars(object)["__repr__"]))  # what only C code adds to a class
_MADE_AGAIN = frozenset(("__dict__", "__weakref__", "_abc_impl", "__slots__", "__annotate_func__", "__annotations_cache__"))
_FIRST = ("__module__", "__doc__", "__slots__", "__orig_bases__", "__parameters__")  # that making a class depends on
_ABOUT = ("__qualname__", "__defaults__", "__kwdefaults__", "__doc__", "__module__", "__type_params__")
_LATE = version_info >= (3, 14)  # annotations are evaluated when they are asked for
_PYTHON = f"{version_info.major}.{version_info.minor}"


class Context:
    """What is known about the values of one namespace while they are saved."""

    def __init__(self, namespace: dict[str, object], streams: dict[str, object]) -> None:
        """streams are those that have names in sys."""
        self.namespace = namespace
        self.streams = {id(value): name for name, value in streams.items()}
        self._stream_classes = {id(type(value)) for value in streams.values()}
        self.losses: dict[str, str] = {}  # what is not saved of values that are, by its name, with the reason
        self.memories: dict[int, tuple[object, object]] = {}  # see arrays.reduce
        self.plain: set[type] = set(ATOMS)  # classes of which no object is ever referred to
        self.usual: set[type] = set()  # classes whose objects pickle saves by itself
        self._named: dict[int, tuple[bool, object]] = {}
        self._held: dict[str, dict[int, str]] = {}  # module -> what it holds, by id

    def is_named(self, value: object) -> bool:
        """Whether a function or class can be found by its name after a restart."""
        known = self._named.get(id(value))
        if known is None:
            known = self._named[id(value)] = (_is_named(value, self.namespace), value)
        return known[0]

    def held(self, value: object, cls: type) -> tuple[str, str] | None:
        """Where the standard library itself holds this object: it must stay the same, like dataclasses.MISSING."""
        if loggers.is_logger(cls):
            return None  # not as the root logger, which is in logging, but with what cells have made of it
        name = module_of(cls)
        found = self._held_by(name).get(id(value))
        return (name, found) if found is not None else None

    def learn(self, cls: type) -> None:
        """Makes cls plain, if it is."""
        if cls in (dict, Cell, type, arrays.Region) or derives(cls, Module) or self._held_by(module_of(cls)):
            return
        if id(cls) not in self._stream_classes:
            self.plain.add(cls)

    def _held_by(self, module: str) -> dict[int, str]:
        names = self._held.get(module)
        if names is None:
            names = self._held[module] = _held_by(module)
        return names


class Pickling(_pickle.Pickler):
    """A pickler for some values that may share objects: what dump was given before is referred to. It remembers every object, also
    those that are made only to be pickled, and so nothing that it refers to may refer to it."""

    def __init__(self, file: object, context: Context, keep: Callable[[object], None] | None = None) -> None:
        """keep is called with each buffer, which is added to buffers otherwise."""
        self.context = context
        self.regions: list[arrays.Region] = []
        self.buffers: list[object] = []
        super().__init__(file, PROTOCOL, buffer_callback=keep or self.buffers.append)
        self._cells: dict[int, tuple[int, object]] = {}  # of functions
        self._filled: set[int] = set()  # those whose content is saved with a function

    def keep_region(self, region: arrays.Region) -> int:
        self.regions.append(region)
        return len(self.regions) - 1

    def persistent_id(self, value: object) -> object:
        cls = type(value)
        return None if cls in self.context.plain else self.token(value, cls)

    def token(self, value: object, cls: type) -> tuple[object, ...] | None:
        """What stands for value in the stream, if it is not saved there."""
        if cls is dict:
            if value is self.context.namespace:
                return ("globals",)
            return ("builtins",) if value is vars(builtins) else None
        if cls is Cell:
            known = self._cells.get(id(value))
            return ("cell", known[0]) if known is not None else None
        if derives(cls, Module):
            return _module(value)
        if id(value) in self.context.streams:
            return ("stream", self.context.streams[id(value)])
        if cls is type and id(value) in _NAMELESS:
            return ("held", "types", _NAMELESS[id(value)])
        if cls is arrays.Region:
            return ("region", self.keep_region(value))
        held = self.context.held(value, cls)
        if held is None:
            self.context.learn(cls)
            return None
        return ("held", *held)

    def reducer_override(self, value: object) -> object:
        cls = type(value)
        if cls in self.context.usual:
            return NotImplemented
        if cls is Function:
            return self._function(value)
        if derives(cls, type):
            return self._class(value)
        reduce = _OWN.get(cls)
        if reduce is not None:
            return reduce(value)
        if derives(cls, Module):
            return rebuild.new_module, (value.__name__,), vars(value), None, None, rebuild.set_attributes
        if module_of(cls) == "typing" and cls.__name__ in _TYPES and not _is_in_its_module(value):
            return _TYPES[cls.__name__](value)
        reduced = arrays.reduce(value, cls, self.context.memories)
        if reduced is not None:
            return reduced
        if loggers.is_logger(cls):
            reduced = loggers.reduce(value, cls, self.context.streams, self.context.losses)
            if reduced is not None:
                return reduced
        _refuse(cls)
        reduced = enums.member(value, cls)
        if reduced is not None:
            return reduced
        if cls is Cell:
            raise Refused("the variable of a closure cannot be saved without a function that uses it")
        base = _base_with_value(cls)
        if base is not None:
            state = object.__reduce_ex__(value, PROTOCOL)[2]
            return rebuild.with_value, (cls, base, *base.__getnewargs__(value)), state
        reduced = containers.reduce(value, cls) or helpers.reduce(value, cls)
        if reduced is not None:
            return reduced
        if not arrays.is_array(cls) and module_of(cls) != "typing":
            self.context.usual.add(cls)
        return NotImplemented

    def _function(self, value: FunctionType) -> object:
        names = value.__globals__
        tool = functions.origin(value)
        if tool is not None:
            return finder.function, tool
        if self.context.is_named(value):
            return NotImplemented
        if names is not self.context.namespace:
            module = modules.get(names.get("__name__"))
            if type(module) is Module and vars(module) is names and _is_importable(module.__name__):
                names = module.__name__
        cells = value.__closure__ or ()
        for cell in cells:
            self._cells.setdefault(id(cell), (len(self._cells), cell))
        content = []
        for name, cell in zip(value.__code__.co_freevars, cells):
            if id(cell) not in self._filled:
                self._filled.add(id(cell))
                try:
                    content.append((cell, _names_of_scope(cell.cell_contents) if name == "__classdict__" else cell.cell_contents))
                except ValueError:
                    pass  # it is empty
        own = {name: getattr(value, name) for name in _ABOUT if getattr(value, name, None) is not None}
        if _LATE:
            if value.__annotate__ is not None:
                own["__annotate__"] = value.__annotate__
        elif value.__annotations__:
            own["__annotations__"] = value.__annotations__
        made = (value.__code__, names, value.__name__, tuple(cells) or None)
        return rebuild.function, made, (own, vars(value), tuple(content)), None, None, rebuild.fill_function

    def _class(self, value: type) -> object:
        if self.context.is_named(value):
            return NotImplemented
        names = names_of_class(value)
        own = {}
        for name, attribute in names.items():
            kind = type(attribute)
            if name in _MADE_AGAIN or kind in (GetSet, Member) and attribute.__objclass__ is value:
                continue
            if kind in _OF_C and attribute.__objclass__ is value:
                raise Refused(f"the class {value.__qualname__} is written in C and belongs to no module")
            own[name] = attribute
        if _LATE and value.__annotate__ is not None:
            own["__annotate__"] = value.__annotate__
        first = {name: names[name] for name in _FIRST if name in names}
        first["__qualname__"] = value.__qualname__
        registered = _registered(value) if "_abc_impl" in names else ()
        made = (type(value), value.__name__, value.__bases__, first)
        if rebuild.is_enum(value):
            return enums.reduce(value, first, own, registered)
        return rebuild.make_class, made, (own, {}, registered), None, None, rebuild.fill_class


def _names_of_scope(names: dict[str, object]) -> dict[str, object]:
    """The names of a class that its annotations may mean, which Python keeps in a variable of a closure. It is the dictionary of the
    class itself."""
    return {name: value for name, value in names.items() if name not in _MADE_AGAIN and type(value) not in (GetSet, Member)}


def _code(value: CodeType) -> object:
    return rebuild.code, (_PYTHON, MAGIC_NUMBER, dumps(value))


def _property(value: property) -> object:
    return rebuild.property_of, (value.fget, value.fset, value.fdel, value.__doc__)


def _wrapper(value: classmethod[object, ..., object] | staticmethod[..., object]) -> object:
    return type(value), (value.__func__,)


def _method(value: object) -> object:
    return Method, (value.__func__, value.__self__)


def _cached(value: object) -> object:
    wrapped = getattr(value, "__wrapped__", None)
    if type(wrapped) is not Function or _is_named(value, {}):
        return NotImplemented
    settings = value.cache_parameters()
    return rebuild.cached, (wrapped, settings["maxsize"], settings["typed"]), vars(value), None, None, rebuild.set_attributes


def _cached_property(value: object) -> object:
    return rebuild.cached_property, (value.func, value.attrname, value.__doc__)


def _lock(value: object) -> object:
    owned = getattr(value, "_is_owned", None)
    if owned is not None and owned() or not value.acquire(False):
        raise refused(value)
    value.release()
    return (rebuild.lock if owned is None else rebuild.rlock), ()


def _proxy(value: object) -> object:
    return _Proxy, (get_referents(value)[0],)


def _memory(value: memoryview) -> object:
    owner = value.obj
    if not value.contiguous or value.nbytes != memoryview(owner).nbytes:
        raise refused(value)
    return rebuild.view_of_memory, (owner, value.format, value.shape, value.readonly)


_OWN = {
    _Code: _code,
    property: _property,
    classmethod: _wrapper,
    staticmethod: _wrapper,
    Method: _method,
    _Cached: _cached,
    _functools.cached_property: _cached_property,
    type(_thread.allocate_lock()): _lock,
    _thread.RLock: _lock,
    memoryview: _memory,
    _Proxy: _proxy,
}


def _type_variable(value: object) -> object:
    settings = {
        "bound": getattr(value, "__bound__", None),
        "covariant": getattr(value, "__covariant__", False),
        "contravariant": getattr(value, "__contravariant__", False),
        "infer_variance": getattr(value, "__infer_variance__", False),
    }  # fmt: skip
    settings = {name: setting for name, setting in settings.items() if setting}
    return rebuild.type_variable, (type(value), value.__name__, getattr(value, "__constraints__", ()), settings)


def _new_type(value: object) -> object:
    return rebuild.new_type, (value.__name__, value.__supertype__)


def _type_alias(value: object) -> object:
    return rebuild.type_alias, (value.__name__, value.__value__, value.__type_params__)


# Pickle saves these by their names. The parameters of def f[T]() claim to be in typing.
_TYPES = {
    "TypeVar": _type_variable, "ParamSpec": _type_variable, "TypeVarTuple": _type_variable,
    "NewType": _new_type, "TypeAliasType": _type_alias,
}  # fmt: skip


def _is_in_its_module(value: object) -> bool:
    name = value.__module__
    return type(name) is str and _is_importable(name) and vars(modules[name]).get(value.__name__) is value


# Their objects could be pickled, as nothing but a shell.
_ALIVE = (
    ("threading", "Thread", "a thread"),
    ("subprocess", "Popen", "a process"),
    ("multiprocessing.process", "BaseProcess", "a process"),
    ("multiprocessing.connection", "_ConnectionBase", "a connection"),
    ("asyncio.events", "AbstractEventLoop", "an event loop"),
)


def _refuse(cls: type) -> None:
    """Raises Refused for classes whose objects live outside Python."""
    if derives(cls, _IOBase) and not (derives(cls, BytesIO) or derives(cls, StringIO)):
        raise Refused("an open file cannot be saved")
    for module, name, what in _ALIVE:
        kind = getattr(modules.get(module), name, None)
        if kind is not None and derives(cls, kind):
            raise Refused(f"{what} cannot be saved")


def _base_with_value(cls: type) -> type | None:
    """The type like int that cls derives from, if cls has a __new__ that may take something else than such a value:
    pickle would call it with one."""
    if cls.__reduce_ex__ is object.__reduce_ex__ and cls.__reduce__ is object.__reduce__:
        for base in (tuple, str, int, float, bytes, complex):
            if derives(cls, base) and cls.__new__ is not base.__new__ and cls.__getnewargs__ is base.__getnewargs__:
                return None if hasattr(cls, "__getnewargs_ex__") else base
    return None


def _registered(cls: type) -> tuple[type, ...]:
    """The classes that were registered with an abstract class."""
    registry = load("_abc")._get_dump(cls)[0]
    return tuple(found for found in [reference() for reference in registry] if found is not None)


def _module(value: ModuleType) -> tuple[object, ...] | None:
    name = vars(value).get("__name__")
    if type(name) is not str or modules.get(name) is not value:
        return None
    if name == "__main__":
        return ("main",)
    return ("module", name) if _is_importable(name) else None


def _is_importable(name: str) -> bool:
    if name == "__main__":
        return False
    return name in builtin_module_names or getattr(modules.get(name), "__spec__", None) is not None


def _is_named(value: object, namespace: dict[str, object]) -> bool:
    if type(value) is Function and (value.__globals__ is namespace or functions.origin(value) is not None):
        return False  # a tool is found by its name where the host says that it is there: it is not asked here
    name = value.__qualname__
    module = module_of(value) if derives(type(value), type) else value.__module__
    if type(name) is not str or type(module) is not str or not _is_importable(module):
        return False
    found: object = modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _held_by(name: str) -> dict[int, str]:
    if name in ("builtins", "__main__", ""):
        return {}
    module = modules.get(name)
    file = getattr(module, "__file__", None)
    if type(module) is not Module or not _is_importable(name) or file is not None and not is_standard_path(file):
        return {}
    held = {}
    for key, value in list(vars(module).items()):
        if module_of(type(value)) == name:
            held[id(value)] = key
    return held
