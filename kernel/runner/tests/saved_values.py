"""Kinds of values, and what becomes of each when a session's variables are saved and loaded, and when it goes back to a
live checkpoint.

docs/saved-variables.md is made from this table."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    kind: str  # as users call it
    code: str  # a cell that makes it; its variables begin with the number of the row: v7, v7_other
    check: str = ""  # an expression that is true after loading; for a variable that is gone it says why, in words
    outcome: str = "same"  # "same", "gone", or what differs
    needs: str = ""  # a library
    live: str = ""  # an expression that is true after going back, where check is not the one
    back: str = "same"  # after going back: "same", or why the checkpoint names it
    damage: str = ""  # a cell that changes, before going back, what is not in the variables themselves


# A variable V_named holds the name that a checkpoint gives to a loss, if that is not the variable's.
def gone(kind: str, code: str, why: str, live: str = "", back: str = "same", damage: str = "", needs: str = "") -> Row:
    return Row(kind, code, why, "gone", needs, live, back, damage)


_GENERATOR = "a generator cannot be saved: its function has not finished"
_COROUTINE = "a coroutine cannot be saved: its function has not finished"
_FILE = "an open file cannot be saved"
_CONNECTION = "a connection cannot be saved"
_LOCK = "a lock that is held cannot be saved"
_THREAD = "a thread cannot be saved"
_WEAK = "a weak reference cannot be saved"


_NO_THREAD = "threads do not run in a copy of the interpreter; start it again"
_NO_SOCKET = "a connection cannot be open twice; open it again"
_NO_PIPE = "a pipe to another process or thread; open it again"
_NO_CHILD = "a child process is not part of the checkpoint"
_NO_DATABASE = "an SQLite connection; the contents of the file, and an open transaction, are not part of the variables; connect again"
_SHARED = "memory that processes share keeps its current contents"
_OUTSIDE = "a file outside the workspace keeps its current contents"
_CLOSED = "__import__('os').readlink(f'/proc/self/fd/{%s.fileno()}') == '/dev/null'"


def _none(name: str) -> str:
    return f"Python cannot save objects of type {name}"


# V stands for the variable.
SECTIONS: dict[str, list[Row]] = {
    "Numbers and text": [
        Row("int, even very large", "V = [0, -7, 1 << 5000]", "V == [0, -7, 1 << 5000]"),
        Row("bool and None", "V = (True, False, None, ..., NotImplemented)", "V == (True, False, None, ..., NotImplemented)"),
        Row("float, including nan and inf", "V = [1.5, float('nan'), float('-inf'), -0.0]",
            "V[0] == 1.5 and V[1] != V[1] and V[2] == -float('inf') and str(V[3]) == '-0.0'"),
        Row("complex", "V = 1 + 2j", "V == 1 + 2j"),
        Row("Decimal", "import decimal\nV = decimal.Decimal('1.50')", "str(V) == '1.50'"),
        Row("Fraction", "import fractions\nV = fractions.Fraction(1, 3)", "V * 3 == 1"),
        Row("str, including surrogates", "V = 'ä\\ud800\\n'", "V == 'ä\\ud800\\n'"),
        Row("bytes", "V = bytes(range(256))", "V == bytes(range(256))"),
        Row("bytearray", "V = bytearray(b'ab'); V_too = V", "V is V_too and V == b'ab' and (V.append(1) or len(V)) == 3"),
        Row("memoryview of a whole object", "V = bytearray(b'abcd'); V_view = memoryview(V)",
            "(V.__setitem__(0, 66) or bytes(V_view)) == b'Bbcd'"),
        gone("memoryview of a part of an object", "V = memoryview(bytearray(b'abcd'))[1:3]", "a memoryview of this kind cannot be saved",
             "bytes(V) == b'bc'"),
        Row("range and slice", "V = (range(3, 9, 2), slice(1, None, 2))", "V == (range(3, 9, 2), slice(1, None, 2))"),
        Row("array.array", "import array\nV = array.array('d', [1, 2])", "V.typecode == 'd' and list(V) == [1, 2]"),
    ],
    "Containers": [
        Row("list, tuple, dict, set", "V = [1, (2, {'k': {3, frozenset([4])}})]", "V == [1, (2, {'k': {3, frozenset([4])}})]"),
        Row("dict, with its order", "V = {'b': 1, 'a': 2, (1, 2): 3}", "list(V) == ['b', 'a', (1, 2)]"),
        Row("a list that contains itself", "V = []; V.append(V)", "V[0] is V"),
        Row("a dict and a list that contain each other", "V = {}; V['l'] = [V]", "V['l'][0] is V"),
        Row("an object that two variables share", "V = [1]; V_holder = {'list': V}", "V_holder['list'] is V"),
        Row("an unnamed object that variables share",
            "import collections\nclass V_C: pass\ndef V_make(wrap):\n    x = [1]\n    return wrap(x), wrap(x)\n"
            "def V_own(x): o = V_C(); o.x = x; return o\n"
            "V_a, V_b = V_make(lambda x: (x,)); V_c, V_d = V_make(lambda x: [x]); V_e, V_f = V_make(lambda x: {0: x})\n"
            "V_g, V_h = V_make(V_own); V_i, V_j = V_make(lambda x: collections.deque([x])); V_k, V_l = V_make(lambda x: lambda: x)",
            "V_a[0] is V_b[0] and V_c[0] is V_d[0] and V_e[0] is V_f[0] and V_g.x is V_h.x and V_i[0] is V_j[0] and V_k() is V_l()"),
        Row("an object that two values share", "V = [{}] * 2", "V[0] is V[1]"),
        Row("deque", "import collections\nV = collections.deque([1, 2], 2)", "V.maxlen == 2 and list(V) == [1, 2]"),
        Row("OrderedDict", "import collections\nV = collections.OrderedDict(b=1, a=2)", "list(V) == ['b', 'a']"),
        Row("Counter", "import collections\nV = collections.Counter('aab')", "V.most_common(1) == [('a', 2)]"),
        Row("defaultdict with a lambda", "import collections\nV = collections.defaultdict(lambda: [7])", "V['x'] == [7]"),
        Row("ChainMap", "import collections\nV_own = {'a': 1}; V = collections.ChainMap(V_own, {'b': 2})",
            "V['b'] == 2 and V.maps[0] is V_own"),
        Row("heap, queue.Queue", "import queue\nV = queue.Queue(); V.put(5)", "V.get() == 5"),
        Row("MappingProxyType", "import types\nV_own = {'a': 1}; V = types.MappingProxyType(V_own)",
            "(V_own.update(b=2) or V['b']) == 2"),
        Row("SimpleNamespace", "import types\nV = types.SimpleNamespace(a=1)", "V.a == 1"),
        Row("an instance of a dict subclass, with attributes", "class V_Dict(dict): pass\nV = V_Dict(a=1); V.note = 'n'",
            "type(V) is V_Dict and V == {'a': 1} and V.note == 'n'"),
        Row("subclasses of dict, list and set with methods of their own",
            "import collections\nclass V_D(dict):\n    def __init__(self, unit): self.unit = unit\n    def __setitem__(self, k, v): super().__setitem__(k, (v, self.unit))\n"
            "    def items(self): return [('a', 0)]\nclass V_L(list):\n    def append(self, x): raise ValueError\n    extend = append\n    def __iter__(self): return iter('xy')\n"
            "class V_S(set):\n    def __init__(self, x): super().__init__([-x, x])\n    def add(self, x): super().add(2 * x)\nclass V_F(frozenset):\n    def __new__(cls, n): return super().__new__(cls, range(n))\n"
            "class V_O(collections.OrderedDict):\n    def __setitem__(self, k, v): super().__setitem__(k, v + 1)\n"
            "class V_C(collections.Counter):\n    def __init__(self, a, b): super().__init__(a + b)\n    def update(self, *a): super().update(*a); self['n'] += 1\n"
            "class V_M(collections.defaultdict):\n    def __init__(self): super().__init__(self.new)\n    def new(self): return [self]\n    def __setitem__(self, k, v): super().__setitem__(k.upper(), v)\n"
            "class V_Q(collections.deque):\n    def append(self, x): super().append(-x)\n"
            "V = [V_D('m'), V_L([1, 2]), V_S(3), V_F(3), V_O(a=1, b=2), V_C('a', 'b'), V_M(), V_Q([1, 2], 2)]\n"
            "V[0]['k'] = 1; V[1].note = V; V[4].move_to_end('a'); V[6]['a'] = V_same = V[6]['b']",
            "dict.items(V[0]) == {'k': (1, 'm')}.items() and V[0].unit == 'm' and list.__eq__(V[1], [1, 2]) and V[1].note is V and V[2] == {3, -3} and "
            "V[3] == {0, 1, 2} and [*V[4].items()] == [('b', 3), ('a', 2)] and V[5] == {'a': 1, 'b': 1, 'n': 1} and V[6]['A'] is V_same and "
            "V[6]['A'][0] is V[6] and V[7].maxlen == 2 and [*V[7]] == [1, 2] and [type(v) for v in V] == [V_D, V_L, V_S, V_F, V_O, V_C, V_M, V_Q]"),
        gone("the keys of a dict, without cloudpickle or dill", "V = {'a': 1}.keys()", _none("dict_keys"), "list(V) == ['a']",
             needs="no cloudpickle"),
        gone("a list nested 100,000 deep", "V = []\nfor V_i in range(100_000): V = [V]", "it is nested too deeply, or its code calls itself",
             "__import__('functools').reduce(lambda l, _: l[0], range(100_000), V) == []"),
    ],
    "Values of the standard library": [
        Row("date, time, timedelta, time zone",
            "import datetime as dt\nV = [dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc), dt.date(2024, 1, 2), dt.timedelta(1)]",
            "V == [dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc), dt.date(2024, 1, 2), dt.timedelta(1)]"),
        Row("regular expression", "import re\nV = re.compile(r'a+(b)', re.I)", "V.match('AAB')[1] == 'B'"),
        gone("regular expression match", "import re\nV = re.match('a', 'ab')", _none("re.Match"),
             "V[0] == 'a' and V.string == 'ab'"),
        Row("Path", "import pathlib\nV = pathlib.Path('a') / 'b.txt'", "V.name == 'b.txt'"),
        Row("UUID", "import uuid\nV = uuid.UUID(int=5)", "V.int == 5"),
        Row("IP address", "import ipaddress\nV = ipaddress.ip_network('10.0.0.0/8')", "V.prefixlen == 8"),
        Row("Random, with its state", "import random\nV = random.Random(3); V.random(); V_next = random.Random(); "
            "V_next.setstate(V.getstate()); V_next = V_next.random()", "V.random() == V_next"),
        Row("StringIO and BytesIO, at their position", "import io\nV = io.StringIO('a\\nb\\n'); V.readline()", "V.readline() == 'b\\n'"),
        Row("exception", "V = ValueError('why', 3); V.note = 'n'", "V.args == ('why', 3) and V.note == 'n'"),
        Row("raised exception", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    V = e",
            "V.args == ('division by zero',) and V.__traceback__ is None", "without its traceback, cause and context",
            live="V.__traceback__.tb_lineno == 2"),
        Row("partial", "import functools\nV = functools.partial(int, base=2)", "V('11') == 3"),
        Row("itemgetter", "import operator\nV = operator.itemgetter(1)", "V('ab') == 'b'"),
        Row("ctypes number", "import ctypes\nV = ctypes.c_int(5)", "V.value == 5"),
        gone("ctypes structure", "import ctypes\nclass V(ctypes.Structure): _fields_ = [('x', ctypes.c_int)]",
             "the class PyCStructType is written in C and belongs to no module",
             'V(5).x == 5'),
        gone("ctypes pointer", "import ctypes\nV = ctypes.pointer(ctypes.c_int(5))",
             "ValueError: ctypes objects containing pointers cannot be pickled",
             'V.contents.value == 5'),
        Row("lock that is not held", "import threading\nV = threading.Lock()", "V.acquire(False) and not V.acquire(False)", damage="V.acquire()"),
        Row("RLock, Event, Condition", "import threading\nV = (threading.RLock(), threading.Event(), threading.Condition())\nV[1].set()",
            "V[0].acquire(False) and V[1].is_set()"),
        Row("logger", "import io, logging, sys\nclass V_H(logging.Handler):\n    def emit(self, r): V_got.append(self.format(r))\nV_got = []\n"
            "V = logging.getLogger('saved'); V_h = logging.StreamHandler(sys.stdout); V_h.setFormatter(logging.Formatter('%(levelno)s %(message)s'))\n"
            "V_o = V_H(logging.INFO); V.handlers = [V_h, V_o]; V.setLevel(5); V.propagate = False; V.disabled = True",
            "V is logging.getLogger('saved') and V.handlers == [V_h, V_o] and V_h.stream is sys.stdout and V_h.formatter._fmt == '%(levelno)s %(message)s' and "
            "(V.level, V.propagate, V.disabled) == (5, False, True) and (setattr(V, 'disabled', False) or V_o.handle(V.makeRecord('', 30, '', 1, 'm', (), None)))"
            " and V_got == ['m'] and not V.isEnabledFor(4)"),
        Row("logger with handlers that write elsewhere", "import io, logging, sys\nV = logging.getLogger('V'); V.addHandler(logging.FileHandler('V')); "
            "V.addHandler(logging.StreamHandler(io.StringIO())); V.addHandler(logging.StreamHandler()); V.setLevel(30)",
            "V.level == 30 and [h.stream for h in V.handlers] == [sys.stderr]", "without these handlers; those that write to standard output or error, "
            "or are of a class of cells, come back; a library adds those of its own loggers again", live="V.level == 30 and len(V.handlers) == 3"),
        Row("os.environ", "import os\nV = os.environ", "V is os.environ"),
        Row("list iterator, at its position", "V = iter([1, 2, 3]); next(V)", "list(V) == [2, 3]"),
        Row("nested iterators, half consumed", "V = enumerate(map(str, [1, 2, 3])); next(V)", "list(V) == [(1, '2'), (2, '3')]"),
        Row("typing", "import typing\nV = typing.Optional[typing.List[int]]", "V == typing.Optional[typing.List[int]]"),
    ],
    "Functions": [
        Row("function", "def V(a, b=[2], *c, k: int = 3) -> str:\n    'doc'\n    return (a, b, c, k)",
            "V(1) == (1, [2], (), 3) and V.__doc__ == 'doc' and V.__annotations__.keys() == {'k', 'return'}"),
        Row("lambda", "V = lambda x: x + 1", "V(1) == 2"),
        Row("recursive function", "def V(n): return 1 if n < 2 else n * V(n - 1)", "V(5) == 120"),
        Row("mutually recursive functions", "def V(n): return n == 0 or V_odd(n - 1)\ndef V_odd(n): return n != 0 and V(n - 1)", "V(10)"),
        Row("function that uses a variable", "V_rate = 2\ndef V(): return V_rate", "V() == 2 and (globals().update(V_rate=9) or V()) == 9"),
        Row("function that uses a variable that is gone", "V_g = (i for i in 'ab')\ndef V(): return V_g",
            "callable(V) and 'V_g' not in globals()", "the function comes back; the variable does not",
            live="V() is V_g and list(V_g) == ['a', 'b']"),
        Row("functions that share a variable", "def V_make():\n    n = 0\n    def add():\n        nonlocal n; n += 1; return n\n"
            "    return add, lambda: n\nV, V_get = V_make(); V()", "V() == 2 and V_get() == 2"),
        Row("recursive function inside a function", "def V_make():\n    def f(n): return 1 if n < 2 else n * f(n - 1)\n    return f\nV = V_make()", "V(5) == 120"),
        Row("decorated function", "import functools\ndef V_twice(f):\n    @functools.wraps(f)\n    def g(*a): return 2 * f(*a)\n    return g\n"
            "@V_twice\ndef V(x): 'doc'; return x", "V(3) == 6 and V.__wrapped__(3) == 3 and V.__doc__ == 'doc'"),
        Row("function with lru_cache", "import functools\n@functools.lru_cache(maxsize=5)\ndef V(n): return n if n < 2 else V(n-1) + V(n-2)\nV(9)",
            "V.cache_info()[2:] == (5, 0) and V(9) == 34", "its cache is empty",
            live="V.cache_info()[2:] == (5, 5) and V(9) == 34", damage="V.cache_clear()"),
        Row("function with attributes", "def V(): pass\nV.calls = [1]", "V.calls == [1]"),
        Row("generator function, async function", "def V(): yield 1\nasync def V_a(): return 2", "list(V()) == [1] and V_a().close() is None"),
        Row("function of a library", "import json\nV = json.dumps", "V is json.dumps"),
        Row("built-in function and method", "V = (len, [3, 1].index)", "V[0] is len and V[1](1) == 1"),
        Row("bound method", "class V_C:\n    def m(self): return self\nV_o = V_C(); V = V_o.m", "V() is V_o"),
        Row("partial of a lambda", "import functools\nV = functools.partial(lambda a, b: a - b, 5)", "V(3) == 2"),
        Row("code object", "V = compile('1 + 1', 'x', 'eval')", "eval(V) == 2"),
        gone("generator, half consumed", "V = (i for i in range(3)); next(V)", _GENERATOR, "list(V) == [1, 2]"),
        gone("coroutine", "async def V_f(): pass\nV = V_f()", _COROUTINE, "V.cr_frame is not None and V.close() is None"),
        gone("async generator", "async def V_f(): yield 1\nV = V_f()", _GENERATOR, "V.ag_frame is not None and V.aclose() is not None"),
        gone("frame", "import sys\nV = sys._getframe()", "a frame cannot be saved: it belongs to a running function",
             "V.f_globals is globals()"),
    ],
    "Classes and their instances": [
        Row("class with inheritance and super()", "class V_A:\n    def who(self): return 'A'\nclass V(V_A):\n    def who(self): return 'B' + super().who()\nV_o = V()",
            "V_o.who() == 'BA' and type(V_o) is V and isinstance(V_o, V_A)"),
        Row("property, classmethod, staticmethod", "class V:\n    n = 3\n    @property\n    def p(self): return self.n\n    @p.setter\n"
            "    def p(self, n): self.n = n\n    @classmethod\n    def c(cls): return cls\n    @staticmethod\n    def s(): return 5\nV_o = V()",
            "V_o.p == 3 and V.c() is V and V.s() == 5"),
        Row("class with __slots__", "class V:\n    __slots__ = ('a', '__b')\n    def __init__(self): self.a = 1; self.__b = 2\n"
            "    def both(self): return self.a, self.__b\nV_o = V()", "V_o.both() == (1, 2) and not hasattr(V_o, '__dict__')"),
        Row("class that refers to itself", "class V: pass\nV.me = V; V.made = [V()]", "V.me is V and type(V.made[0]) is V"),
        Row("class with cached_property", "import functools\nclass V:\n    @functools.cached_property\n    def p(self): return [1]\nV_o = V(); V_p = V_o.p",
            "V_o.p is V_p and V().p == [1]"),
        Row("class with a metaclass", "class V_M(type):\n    made = 0\n    def __new__(m, *a):\n        m.made += 1\n        return super().__new__(m, *a)\n"
            "    def hello(cls): return 'hi'\nclass V(metaclass=V_M): pass", "V.hello() == 'hi' and V_M.made == 1"),
        Row("class that registers its subclasses", "class V:\n    all = []\n    def __init_subclass__(cls, *, tag, **k): V.all.append((tag, cls))\n"
            "class V_S(V, tag='s'): pass", "V.all == [('s', V_S)]"),
        Row("abstract class", "import abc\nclass V(abc.ABC):\n    @abc.abstractmethod\n    def m(self): ...\nclass V_S(V):\n    def m(self): return 1\nV.register(int)",
            "V.__abstractmethods__ == {'m'} and V_S().m() == 1 and isinstance(3, V)"),
        Row("generic class", "import typing\nV_T = typing.TypeVar('V_T')\nclass V(typing.Generic[V_T]): pass\nV_o = V[int]()",
            "V.__parameters__ == (V_T,) and type(V_o) is V and V[int].__args__ == (int,)"),
        Row("protocol", "import typing\n@typing.runtime_checkable\nclass V(typing.Protocol):\n    def close(self): ...", "isinstance(open, V) is False"),
        Row("dataclass", "import dataclasses\n@dataclasses.dataclass(order=True)\nclass V:\n    x: int\n    y: list = dataclasses.field(default_factory=list)\nV_o = V(1)",
            "V_o == V(1) and V(1) < V(2) and dataclasses.asdict(V_o) == {'x': 1, 'y': []} and dataclasses.replace(V_o, x=3).x == 3"),
        Row("class with annotations of its own names", "class V:\n    Inner = dict\n    x: Inner", "V.__annotations__ == {'x': dict}"),
        Row("frozen dataclass with slots", "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass V:\n    x: int = 0\nV_o = {V(1): 'one'}",
            "V_o[V(1)] == 'one'"),
        Row("enum", "import enum\nclass V(enum.Enum):\n    RED = 1; BLUE = 2; AZURE = 2\n    def hot(self): return self is V.RED\nV_o = V.RED",
            "V_o is V.RED and list(V) == [V.RED, V.BLUE] and V.AZURE is V.BLUE and V(2) is V.BLUE and V_o.hot()"),
        Row("Flag, IntEnum, string enum", "import enum\nclass V(enum.Flag): A = 1; B = 2\nclass V_I(enum.IntEnum): ONE = 1\n"
            "class V_S(str, enum.Enum): A = 'a'\nV_o = (V.A | V.B, V_I.ONE, V_S.A)", "V_o == (V.A | V.B, 1, 'a') and V_o[1] is V_I.ONE"),
        Row("enum whose members have attributes", "import enum\nclass V(enum.Enum):\n    EARTH = (5.9, 6.3)\n    def __init__(self, mass, radius): self.mass = mass",
            "V.EARTH.mass == 5.9 and V((5.9, 6.3)) is V.EARTH"),
        Row("enum with __new__ or a data type", "import datetime as dt, dataclasses, enum\nclass V_N(enum.Enum):\n"
            "    def __new__(cls, n, text): o = object.__new__(cls); o._value_ = 2 * n; o.text = text; return o\n    ONE = 1, 'one'; TWO = 2, 'two'; UNO = 1, 'uno'\n"
            "class V_S(str, enum.Enum):\n    def __new__(cls, s, n): o = str.__new__(cls, s.upper()); o._value_ = s; o.n = n; o.on = []; return o\n    A = 'a', 1\n"
            "class V_I(int, enum.Enum):\n    def __init__(self, *a): self.made = [a]\n    TEN = '10', 16; F = 15\n"
            "class V_D(dt.date, enum.Enum): DAY = 2024, 1, 2\nclass V_T(tuple, enum.Enum): PAIR = 1, 2\n"
            "@dataclasses.dataclass\nclass V_Data:\n    x: int\n    y: list\nclass V_E(V_Data, enum.Enum): ONE = 1, [2]\n"
            "class V_B(enum.Enum):\n    def __new__(cls, n): o = object.__new__(cls); o._value_ = -n; return o\n    def _generate_next_value_(name, *a): return 7\n"
            "class V_X(V_B): A = 5; B = enum.auto()\nclass V_K(enum.Flag, boundary=enum.KEEP): MANY = 6; ONE = 1\n"
            "class V_L(enum.Enum): A = []; B = float('nan'); C = {}; D = C\nV_N._value2member_map_['one'] = V_N.ONE\n"
            "V = [V_N.ONE, V_S.A, V_I.TEN, V_D.DAY, V_T.PAIR, V_E.ONE, V_X.A, V_K.MANY, V_L.A, V_L.B]; V_S.A.on.append(V)",
            "V == [V_N.ONE, V_S.A, V_I.TEN, V_D.DAY, V_T.PAIR, V_E.ONE, V_X.A, V_K.MANY, V_L.A, V_L.B] and all(v is type(v)[v.name] for v in V) and "
            "[(m.name, m.value, m.text) for m in V_N] == [('ONE', 2, 'one'), ('TWO', 4, 'two')] and V_N.UNO is V_N.ONE is V_N(2) is V_N('one') and "
            "(V_S.A + '', V_S.A.value, V_S.A.n, V_S.A.on[0] is V, V_S('a') is V_S.A) == ('A', 'a', 1, True, True) and "
            "[(m + 0, m.value, m.made) for m in V_I] == [(16, 16, [('10', 16)]), (15, 15, [(15,)])] and V_D.DAY.year == 2024 and V_T.PAIR[1] == 2 and "
            "(V_E.ONE.x, V_E.ONE.y) == (1, [2]) and (V_X.A.value, V_X.B.value, V_X(-7)) == (-5, -7, V_X.B) and V_K(9).value == 9 and "
            "V_L.D is V_L.C and V_L([]) is V_L.A and '__init__' not in vars(V_N) and V_N.__reduce_ex__ is enum.Enum.__reduce_ex__ and "
            "V_X.__new_member__ is V_B.__new_member__ and V_B('V_Y', {'A': 3}).A.value == -3"),
        Row("namedtuple", "import collections\nV = collections.namedtuple('V', 'a b', defaults=[2]); V_o = V(1)",
            "V_o == (1, 2) and V_o.b == 2 and V_o._replace(a=3)._asdict() == {'a': 3, 'b': 2} and type(V_o) is V"),
        Row("NamedTuple and TypedDict", "import typing\nclass V(typing.NamedTuple):\n    a: int = 1\nclass V_D(typing.TypedDict):\n    a: int\nV_o = V()",
            "V_o.a == 1 and V_D(a=1) == {'a': 1} and V_D.__required_keys__ == {'a'}"),
        Row("exception class", "class V(ValueError):\n    def __init__(self, a): super().__init__(a); self.a = a\nV_o = V(3)", "V_o.a == 3 and type(V_o) is V"),
        Row("instance of a class that was redefined", "class V: n = 1\nV_o = V()\nclass V: n = 2", "V_o.n == 1 and V.n == 2"),
        Row("instance with __getstate__ and __setstate__", "class V:\n    def __getstate__(self): return {'s': 1}\n    def __setstate__(self, s): self.t = s\nV_o = V()",
            "V_o.t == {'s': 1}", live="type(V_o) is V and not vars(V_o)"),
        Row("instance whose loading calls a function", "def z_V(s): return s + 1\nclass V:\n    def __getstate__(self): return 1\n    def __setstate__(self, s): self.t = z_V(s)\nV_o = V()",
            "V_o.t == 2", live="type(V_o) is V and not vars(V_o)"),
        Row("instance with __reduce__, like a tensor", "class V_Storage:\n    def __init__(self, d): self.d = d\n"
            "def V_rebuild(storage, offset): o = V(); o.s, o.o = storage, offset; return o\n"
            "class V:\n    def __reduce_ex__(self, p): return V_rebuild, (self.s, self.o)\nV_a = V_rebuild(V_Storage([1, 2]), 0); V_b = V_rebuild(V_a.s, 1)",
            "V_a.s is V_b.s and V_b.o == 1 and type(V_b) is V"),
        Row("set of instances with __hash__", "import math\nclass V:\n    def __init__(self, x): self.x = x\n    def __hash__(self): return math.floor(self.x)\n"
            "    def __eq__(self, o): return self.x == o.x\nV_o = {V(1.5), V(2)}", "V(1.5) in V_o and len(V_o) == 2"),
        Row("descriptor with __set_name__", "class V_D:\n    def __set_name__(self, o, n): self.n = n\n    def __get__(self, o, c): return self.n\nclass V: field = V_D()", "V.field == 'field'"),
        Row("tuple subclass with its own __new__",
            "class V(tuple):\n    def __new__(cls, *a): return super().__new__(cls, a)\nV_o = V(1, 2); V_o.note = 'n'",
            "V_o == (1, 2) and type(V_o) is V and V_o.note == 'n'"),
        gone("instance whose __getattr__ needs an attribute", "class V_P:\n    def __init__(self): self.inner = []\n"
             "    def __getattr__(self, name): return getattr(self.inner, name)\nV = V_P()",
             "it was saved, but could not be loaded: it is nested too deeply, or its code calls itself",
             "vars(V) == {'inner': []}"),
        Row("bare object()", "V = object(); V_same = [V]", "V_same[0] is V"),
        gone("instance whose __reduce__ raises", "class V_C:\n    def __reduce__(self): raise KeyError('no')\nV = V_C()", "KeyError: 'no'",
             'type(V) is V_C'),
        gone("instance that cannot be recreated", "class V_C(Exception):\n    def __init__(self, a, b): super().__init__(a)\nV = V_C(1, 2)",
             "it was saved, but could not be loaded: TypeError: V_C.__init__() missing 1 required positional argument: 'b'",
             'V.args == (1,)'),
    ],
    "Modules": [
        Row("module", "import os.path as V", "V.join('a', 'b') == 'a/b'"),
        Row("module of a package", "import xml.dom as V", "V.__name__ == 'xml.dom'"),
        Row("module created by hand", "import types\nV = types.ModuleType('V_made'); V.x = [1]", "V.x == [1] and V.__name__ == 'V_made'"),
        Row("module modified by hand", "import colorsys as V\nV.added = 1", "not hasattr(V, 'added') and V.rgb_to_hsv", "imported again, without the changes",
            live="V.added == 1", damage="del V.added"),
        Row("the module of the cells", "import __main__ as V", "vars(V) is globals()"),
    ],
    "What belongs to the running process": [
        gone("open file, at its position", "V = open('V', 'w+'); V.write('0123456789'); V.flush(); V.seek(2)", _FILE, "V.read(3) == '234'"),
        gone("open binary file", "V = open('/dev/null', 'rb')", _FILE, "V.read() == b''"),
        gone("list that contains an open file", "V = [1, open('/dev/null')]", _FILE, "V[1].read() == ''"),
        gone("open file outside the workspace", "import tempfile\nV = tempfile.TemporaryFile('w+'); V.write('abc'); V.flush()", _FILE, "V.tell() == 3 and V.seek(0) == 0 and V.read() == ''", _OUTSIDE,
             "V.truncate(0)"),
        gone("locked file", "import fcntl, os\nV = open('V', 'w'); fcntl.flock(V, fcntl.LOCK_EX); V_path = os.path.realpath('V')", _FILE,
             "fcntl.flock(open(V_path), fcntl.LOCK_EX | fcntl.LOCK_NB) is None", "a file lock is released; acquire it again"),
        Row("temporary folder outside the workspace", "import os, tempfile\nV = tempfile.TemporaryDirectory()", "not os.path.exists(V.name)",
            "without its files", "", "not os.path.exists(V.name)",
            "a folder outside the workspace keeps its current contents", "V.cleanup()"),
        gone("socket", "import socket\nV, V_other = socket.socketpair()", _CONNECTION, _CLOSED % "V", _NO_SOCKET),
        gone("list that contains a socket", "import socket\nV = [socket.socket()]; V_named = f'descriptor {V[0].fileno()}'", _CONNECTION,
             _CLOSED % "V[0]", _NO_SOCKET),
        gone("pipe", "import os\nV_r, V_w = os.pipe(); V = open(V_r)", _FILE, _CLOSED % "V", _NO_PIPE),
        gone("multiprocessing connection", "import multiprocessing\nV, V_other = multiprocessing.Pipe(); V_named = f'descriptor {V.fileno()}'",
             _CONNECTION, _CLOSED % "V", _NO_SOCKET),
        gone("sqlite3 connection", "import sqlite3\nV = sqlite3.connect('V'); V.execute('create table t(x)'); V.execute('insert into t values (5)')",
             _CONNECTION, "", _NO_DATABASE, "V.rollback(); V.close()"),
        gone("sqlite3 cursor", "import sqlite3\nV = sqlite3.connect(':memory:').cursor()", _CONNECTION, "", _NO_DATABASE),
        gone("held lock", "import threading\nV = threading.Lock(); V.acquire()", _LOCK, "V.locked()", damage="V.release()"),
        gone("thread that has not been started", "import threading\nV = threading.Thread(target=int)", _THREAD,
             "V.start() or V.join() or not V.is_alive()"),
        gone("thread", "import threading\nV = threading.Thread(target=threading.Event().wait, daemon=True); V.start()", _THREAD,
             "not V.is_alive()", _NO_THREAD),
        gone("thread without a variable", "import threading\nV = [threading.Thread(target=threading.Event().wait, daemon=True, name='V_t')]; V[0].start()\n"
             "V_named = 'thread V_t'", _THREAD, "not V[0].is_alive()", _NO_THREAD),
        gone("thread pool", "import concurrent.futures\nV = concurrent.futures.ThreadPoolExecutor(1); V.submit(int).result()", _none("_queue.SimpleQueue"),
             "not any(t.is_alive() for t in V._threads)", "the threads of a pool are gone, and work submitted to it will never run"),
        gone("thread-local data", "import threading\nV = threading.local(); V.x = 1", _none("_thread._local"), "V.x == 1", damage="V.x = 2"),
        gone("process that has ended", "import subprocess\nV = subprocess.Popen(['true']); V.wait()", "a process cannot be saved", "V.returncode == 0"),
        gone("process", "import subprocess\nV = subprocess.Popen(['cat'], stdin=subprocess.PIPE)", "a process cannot be saved",
             "V.poll() is not None", _NO_CHILD, "V.stdin.close(); V.wait()"),
        gone("process without a variable", "import subprocess\nV = [subprocess.Popen(['cat'], stdin=subprocess.PIPE)]; V_named = f'process {V[0].pid}'",
             "a process cannot be saved", "V[0].poll() is not None", _NO_CHILD, "V[0].stdin.close(); V[0].wait()"),
        gone("task of the event loop", "import asyncio\nasync def V_f(): await asyncio.sleep(3600)\n"
             "try: V = asyncio.get_running_loop().create_task(V_f())\nexcept RuntimeError: V = asyncio.new_event_loop().create_task(V_f())",
             _none("_asyncio.Task"), "not V.done()", damage="V.cancel()"),
        gone("event loop of the cells", "import asyncio\ntry: V = asyncio.get_running_loop()\nexcept RuntimeError: V = asyncio.new_event_loop()",
             "an event loop cannot be saved", "V.run_until_complete(V.run_in_executor(None, int)) == 0"),
        gone("another event loop", "import asyncio\nV = asyncio.new_event_loop()", "an event loop cannot be saved", _CLOSED % "V._csock",
             "an event loop other than the cells' own; its connections are closed; create another", "V.close()"),
        gone("mmap", "import mmap\nV = mmap.mmap(-1, 10); V[0] = 66", "a mapped file cannot be saved", "V[0] == 0", _SHARED),
        gone("multiprocessing shared memory", "from multiprocessing import shared_memory\nV = shared_memory.SharedMemory('V', True, 10); V.unlink()",
             "it was saved, but could not be loaded: FileNotFoundError: [Errno 2] No such file or directory: '/V'",
             "V.buf[0] == 66", _SHARED, "V.buf[0] = 66"),
        gone("multiprocessing lock", "import multiprocessing\nV = multiprocessing.Lock()",
             "RuntimeError: Lock objects should only be shared between processes through inheritance", "not V.acquire(False)", _SHARED, "V.acquire()"),
        gone("weak reference", "import weakref\nclass V_C: pass\nV_o = V_C(); V = weakref.ref(V_o)", _WEAK, "V() is V_o"),
        gone("traceback", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    V = e.__traceback__",
             "a traceback cannot be saved: it refers to the frames of functions", "V.tb_lineno == 2"),
        gone("ContextVar", "import contextvars\nV = contextvars.ContextVar('v'); V.set(3)", _none("_contextvars.ContextVar"), "V.get() == 3",
             damage="V.set(4)"),
        gone("hash object", "import hashlib\nV = hashlib.sha256(b'a')", _none("_hashlib.HASH"),
             "V.digest() == hashlib.sha256(b'a').digest()", damage="V.update(b'b')"),
    ],
    "Settings of the interpreter": [
        Row("state of random", "import random\nV = random.getstate()", "random.getstate() == V", damage="random.seed(5)"),
        Row("state of numpy.random", "import numpy as np\nV = np.random.get_state()", "all(map(np.array_equal, np.random.get_state(), V))",
            needs="numpy", damage="np.random.seed(5)"),
        Row("environment variable", "import os\nos.environ['V'] = V = '1'", "os.environ['V'] == V and os.getenv('V') == V",
            damage="del os.environ['V']"),
        Row("working directory", "import os\nos.mkdir('V'); os.chdir('V'); V = os.getcwd()", "os.getcwd() == V", damage="os.chdir('..')"),
        Row("sys.path", "import sys\nV = '/V'; sys.path.append(V)", "V in sys.path", damage="sys.path.remove(V)"),
        Row("levels and handlers of loggers without a variable", "import logging, sys\nlogging.basicConfig(level=12, stream=sys.stdout, format='V %(message)s'); "
            "logging.getLogger('V.b').setLevel(40); logging.getLogger('unittest').setLevel(20); V = 'V %(message)s'",
            "logging.root.level == 12 and [h.stream for h in logging.root.handlers] == [sys.stdout] and logging.root.handlers[0].formatter._fmt == V and "
            "logging.getLogger('V.b').level == 40 and logging.getLogger('unittest').level == 20",
            damage="logging.getLogger('V.b').setLevel(0); logging.root.handlers.clear(); logging.root.setLevel(30)"),
        Row("signal handler", "import signal\ndef V(*a): pass\nsignal.signal(signal.SIGUSR2, V)", "signal.getsignal(signal.SIGUSR2) is not V",
            "the function comes back, but is not installed as a handler", live="signal.getsignal(signal.SIGUSR2) is V",
            damage="signal.signal(signal.SIGUSR2, signal.SIG_DFL)"),
        Row("signal timer", "import signal\nV = signal.setitimer(signal.ITIMER_REAL, 3600)", "signal.getitimer(signal.ITIMER_REAL)[0] == 0",
            "it does not run", live="3000 < signal.getitimer(signal.ITIMER_REAL)[0] < 3600", damage="signal.alarm(0)"),
        Row("decimal context", "import decimal\ndecimal.getcontext().prec = V = 5", "decimal.getcontext().prec == 28", "as at the start",
            live="decimal.getcontext().prec == 5", damage="decimal.getcontext().prec = 9"),
        Row("matplotlib rcParams", "import matplotlib\nmatplotlib.rcParams['lines.linewidth'] = V = 7.0",
            "matplotlib.rcParams['lines.linewidth'] == 7", needs="matplotlib", damage="matplotlib.rcdefaults()"),
        Row("pandas options", "import pandas as pd\npd.options.display.max_rows = V = 7", "pd.options.display.max_rows == 60", "as at the start",
            "pandas", "pd.options.display.max_rows == 7", damage="pd.reset_option('display.max_rows')"),
    ],
    "numpy": [
        Row("array", "import numpy as np\nV = np.arange(6.0).reshape(2, 3)", "V.tolist() == [[0, 1, 2], [3, 4, 5]] and (V.fill(1) or V.sum()) == 6", needs="numpy"),
        Row("resizable array", "V = np.arange(3)", "V.flags.owndata and (V.resize(5, refcheck=False) or V.shape) == (5,)", needs="numpy"),
        Row("view of an array", "V = np.arange(10); V_v = V[2:8:2]; V_r = V[::-1]; V_t = V.reshape(2, 5).T",
            "V_v.base is V and (V.__setitem__(4, 99) or (V_v[1], V_r[5], V_t[4, 0])) == (99, 99, 99)", needs="numpy"),
        Row("view of an unnamed array", "V = np.arange(10)[:5]; V_v = V[1:]", "(V.__setitem__(1, 99) or V_v[0]) == 99", needs="numpy"),
        Row("view with a different type", "V = np.zeros(2, 'f8'); V_v = V.view('u1')", "(V_v.fill(255) or V[0]) != 0", needs="numpy"),
        Row("read-only array", "V = np.arange(3); V.flags.writeable = False", "not V.flags.writeable", needs="numpy"),
        Row("Fortran-ordered array", "V = np.asfortranarray(np.arange(6).reshape(2, 3))", "V.flags.f_contiguous and V[1, 2] == 5", needs="numpy"),
        Row("structured array, and a view of one field", "V = np.array([(1, 2.0)], dtype=[('a', 'i4'), ('b', 'f8')]); V_v = V['b']",
            "V.dtype.names == ('a', 'b') and (V.__setitem__('b', 7) or V_v[0]) == 7", needs="numpy"),
        Row("object array, and a view of it", "V_l = [1]; V = np.array([V_l, 'x', None], dtype=object); V_v = V[1:]",
            "V[0] is V_l and (V.__setitem__(1, 'y') or V_v[0]) == 'y'", needs="numpy"),
        Row("arrays of dates and of strings, empty array, zero-dimensional array", "V = [np.array(['2024-01-02'], 'M8[D]'), np.array(['a', 'bc']), np.zeros((0, 3)), np.array(5)]",
            "str(V[0][0]) == '2024-01-02' and V[1][1] == 'bc' and V[2].shape == (0, 3) and V[3] == 5", needs="numpy"),
        Row("numpy scalar, dtype", "V = [np.float32(1.5), np.dtype('i4')]", "type(V[0]) is np.float32 and V[1] == np.int32", needs="numpy"),
        Row("masked array, matrix", "V = [np.ma.array([1, 2], mask=[0, 1]), np.matrix([[1]])]", "V[0].sum() == 1 and type(V[1]) is np.matrix", needs="numpy"),
        Row("instances of array subclasses that share memory", "class V_A(np.ndarray):\n    def __array_finalize__(self, o): self.unit = getattr(o, 'unit', '')\n"
            "V = np.zeros(6); V_a = V.view(V_A); V_a.unit = 'm'; V_s = V_a[1:]; V_s.on = V\n"
            "V_o = V_A((2, 3)); V_o.fill(0); V_o.unit = 'kg'; V_t = V_o.T; V_p = np.ndarray.view(V_o, np.ndarray)[1]\n"
            "V_m = np.ma.array(np.zeros(3), mask=[0, 1, 0], copy=False, fill_value=7); V_d = V_m.data; V_k = V_m.mask\n"
            "V_r = np.rec.array([(1, 2.0)], dtype=[('a', 'i4'), ('b', 'f8')]); V_b = V_r.b; V_x = np.matrix([[1, 2]]); V_y = V_x[:, 1]\n"
            "V_l = np.array([[], None], dtype=object).view(V_A); V_ll = V_l[:1]; V_c = V_m[1:]; V_a.flags.writeable = False",
            "(V.fill(3) or (V_a[0], V_s[0], V_s.on is V, V_a.unit, V_s.unit, type(V_s) is V_A, V_a.flags.writeable, V_s.flags.writeable)) == (3, 3, True, 'm', 'm', True, False, True) and "
            "(V_o.fill(4) or (V_t[0, 0], V_p[0], V_t.unit, type(V_t) is V_A, type(V_p) is np.ndarray, V_t.shape)) == (4, 4, 'kg', True, True, (3, 2)) and "
            "(V_d.fill(5) or (V_m[0], V_c[1], V_m[1] is np.ma.masked, V_m.fill_value, type(V_m.mask))) == (5, 5, True, 7, np.ndarray) and "
            "V_m._mask is not None and (V_m.__setitem__(1, 9) or V_m[1]) == 9 and "
            "(V_r.b.fill(6) or (V_b[0], V_r.a[0], type(V_r) is np.recarray, type(V_r[0]) is np.record)) == (6, 1, True, True) and "
            "(V_x.fill(8) or (V_y[0, 0], type(V_y) is np.matrix)) == (8, True) and V_ll[0] is V_l[0] and (V_l.fill(2) or V_ll[0]) == 2", needs="numpy"),
        Row("random generator", "V = np.random.default_rng(3); V.random(); V_n = np.random.default_rng(3).random(2)[1]", "V.random() == V_n", needs="numpy"),
        Row("memory-mapped array", "import os\nV = np.memmap(os.path.realpath('V'), 'i4', 'w+', shape=3); V[1] = 7; V.flush()",
            "V[1] == 7 and type(V) is np.memmap", "mapped again, from the current file", "numpy", "V[1] == 0", _SHARED),
    ],
    "pandas and matplotlib": [
        Row("DataFrame", "import pandas as pd\nV = pd.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': pd.to_datetime(['2024-01-02'] * 2)}, index=['r', 's'])",
            "V.loc['s', 'a'] == 2 and V.c.dt.year.tolist() == [2024, 2024] and (V.__setitem__('a', 5) or V.a.sum()) == 10", needs="pandas"),
        Row("DataFrame with categories and time zones", "V = pd.DataFrame({'k': pd.Categorical(['a', 'b']), 't': pd.date_range('2024', periods=2, tz='UTC'), 'i': pd.array([1, None], 'Int64')})",
            "V.k.cat.categories.tolist() == ['a', 'b'] and str(V.t.dt.tz) == 'UTC' and V.i.isna().tolist() == [False, True]", needs="pandas"),
        Row("Series, Index, Timestamp, NA", "V = [pd.Series([1.5], name='s'), pd.MultiIndex.from_tuples([(1, 'a')]), pd.Timestamp('2024'), pd.NA, pd.NaT]",
            "V[0].name == 's' and V[1][0] == (1, 'a') and V[2].year == 2024 and V[3] is pd.NA and V[4] is pd.NaT", needs="pandas"),
        Row("intervals of pd.cut", "V = pd.DataFrame({'x': range(8)}); V['bin'] = pd.cut(V.x, 4)",
            "V.bin.cat.categories[0].right == 1.75 and V.groupby('bin', observed=False).x.sum().tolist() == [1, 5, 9, 13]", needs="pandas"),
        Row("groupby object", "V = pd.DataFrame({'k': [1, 1, 2], 'v': [1, 2, 3]}).groupby('k')", "V.v.sum().tolist() == [3, 3]", needs="pandas"),
        Row("figure", "import matplotlib\nmatplotlib.use('agg')\nfrom matplotlib.figure import Figure\nV = Figure(); V.add_subplot().plot([1, 3])",
            "V.axes[0].lines[0].get_ydata().tolist() == [1, 3]", needs="matplotlib"),
        Row("pyplot figure", "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nV = plt.figure(); V.add_subplot().plot([1, 3])",
            "V.axes[0].lines[0].get_ydata().tolist() == [1, 3] and V.savefig('V') is None", needs="matplotlib"),
    ],
}
ROWS = [row for rows in SECTIONS.values() for row in rows]


def numbered(row: Row, text: str) -> str:
    """text with the names of that row's variables."""
    import re

    return re.sub(r"\bV(?=\b|_)|(?<=\bz_)V\b", f"v{ROWS.index(row)}", text)
