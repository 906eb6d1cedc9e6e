"""How a function is called, as one line of text, read from its code object and not from the function itself."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.introspection import lookup, tabular
from talaria_runner.introspection.classes import qualified_name
from talaria_runner.introspection.documentation import documentation
from talaria_runner.introspection.lookup import MISSING, Found
from talaria_runner.introspection.preview import class_name, preview

_LINE = 88
_DEFAULT = 60  # characters of a default
_HEADER = 2000  # characters that a signature in C code takes at most
_VARARGS, _VARKEYWORDS = 0x04, 0x08  # flags of a code object
_text_signature = type.__dict__["__text_signature__"].__get__


class Parameter:
    __slots__ = ("name", "kind", "default", "annotation")

    def __init__(self, name: str, kind: str, default: object = MISSING, annotation: object = MISSING) -> None:
        self.name = name
        self.kind = kind  # "/" positional only, "" either, "*" and "**" the rest, "=" keyword only
        self.default = default
        self.annotation = annotation

    def __str__(self) -> str:
        text = self.name if self.kind in ("/", "", "=") else self.kind + self.name
        if self.annotation is not MISSING:
            text += f": {_annotation(self.annotation, 0)}"
        if self.default is not MISSING:
            text += f" = {_default(self.default)}" if self.annotation is not MISSING else f"={_default(self.default)}"
        return text


def parameters(found: Found) -> list[Parameter] | None:
    """The parameters of a callable; None if they cannot be seen."""
    function, bound = _callee(found)
    listed = _promised(function)
    if listed is None:
        function = lookup.function_of(function)
        listed = _of_code(function) if type(function) is lookup.Function else _of_c_code(function)
    if listed is None:
        return None
    return listed[1:] if bound and listed and listed[0].kind in ("/", "") else listed


def signature(name: str, found: Found) -> str | None:
    """The call as text: name(parameters) -> return type. A long one takes a line for each parameter."""
    listed = parameters(found)
    if listed is None:
        return None
    parts: list[str] = []
    before = None
    for parameter in listed:
        if before == "/" and parameter.kind != "/":
            parts.append("/")
        if parameter.kind == "=" and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(str(parameter))
        before = parameter.kind
    if before == "/":
        parts.append("/")
    function = lookup.function_of(_callee(found)[0])
    promised = lookup.get(lookup.annotations(function), "return") if type(function) is lookup.Function else MISSING
    end = f") -> {_annotation(promised, 0)}" if promised is not MISSING and not _is_class(found) else ")"
    line = f"{name}({', '.join(parts)}{end}"
    if len(line) <= _LINE or not parts:
        return line
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + end


def _is_class(found: Found) -> bool:
    return found.value is not MISSING and lookup.is_a(found.value, type)


def _callee(found: Found) -> tuple[object, bool]:
    """What is really called, and whether its first parameter is bound."""
    value = found.value
    if value is MISSING:
        return MISSING, False
    if lookup.is_a(value, type):
        return _maker(value)
    if type(value) is lookup.Method:
        return value.__func__, True
    if lookup.one_of(type(value), (lookup.Function, lookup.Builtin)) or lookup.function_of(value) is not value:
        return value, found.bound
    method = lookup.in_class(type(value), "__call__")
    return (method, True) if type(method) is lookup.Function else (value, found.bound)


def _maker(cls: type) -> tuple[object, bool]:
    for base in lookup.mro(cls):
        names = lookup.names_of_class(base)
        for name in ("__init__", "__new__"):
            method = names.get(name)
            if type(method) is staticmethod:
                method = method.__func__
            if type(method) is lookup.Function:
                return method, True
            if method is not None and base is not object:
                return cls, False
    return cls, False


def _promised(function: object) -> list[Parameter] | None:
    """A signature that somebody attached to it with inspect."""
    inspect = modules.get("inspect")
    if inspect is None or type(function) is not lookup.Function:
        return None
    made = lookup.get(lookup.own_names(function), "__signature__")
    if type(made) is not vars(inspect).get("Signature"):
        return None
    kinds = ("/", "", "*", "=", "**")
    empty = inspect._empty
    listed = []
    for p in made._parameters.values():
        default = MISSING if p._default is empty else p._default
        annotation = MISSING if p._annotation is empty else p._annotation
        listed.append(Parameter(p._name, kinds[int(p._kind)], default, annotation))
    return listed


def _of_code(function: object) -> list[Parameter]:
    code = function.__code__
    annotations = lookup.annotations(function)
    defaults = function.__defaults__ or ()
    keyword_defaults = function.__kwdefaults__ or {}
    names = code.co_varnames
    count = code.co_argcount
    listed = []
    for i, name in enumerate(names[:count]):
        at = i - (count - len(defaults))
        kind = "/" if i < code.co_posonlyargcount else ""
        listed.append(Parameter(name, kind, defaults[at] if at >= 0 else MISSING, lookup.get(annotations, name)))
    at = count + code.co_kwonlyargcount
    if code.co_flags & _VARARGS:
        listed.append(Parameter(names[at], "*", MISSING, lookup.get(annotations, names[at])))
        at += 1
    for name in names[count:count + code.co_kwonlyargcount]:
        default = lookup.get(keyword_defaults, name)
        listed.append(Parameter(name, "=", default, lookup.get(annotations, name)))
    if code.co_flags & _VARKEYWORDS:
        listed.append(Parameter(names[at], "**", MISSING, lookup.get(annotations, names[at])))
    return listed


class _Written:
    """A default written as text in the signature of C code."""

    def __init__(self, text: str) -> None:
        self.text = text


def _of_c_code(function: object) -> list[Parameter] | None:
    """The parameters of C code, which keeps them as a text such as "($self, a, b=1, /)", or begins its
    documentation with its name and such a text."""
    try:
        if lookup.is_a(function, type):
            text = _text_signature(function)
        else:
            descriptor = lookup.in_class(type(function), "__text_signature__")
            text = descriptor.__get__(function) if type(descriptor) is lookup.GetSet else None
    except Exception:
        return None
    if type(text) is not str:
        if type(function) is not lookup.Builtin and not _is_numpy_function(function):
            return None
        head, _, text = documentation(function)[:_HEADER].partition("(")
        if not head.isidentifier():
            return None
        text = "(" + text
    return _of_text(text, function)


def _is_numpy_function(function: object) -> bool:
    if tabular.is_genuine(function, "numpy", "ufunc"):
        return True
    return lookup.in_class(type(function), "_implementation") is not MISSING


def _of_text(text: str, function: object) -> list[Parameter] | None:
    end = _closing(text[:_HEADER])
    if end < 0:
        return None
    listed: list[Parameter] = []
    kind = ""
    for part in _split(text[1:end]):
        if part.startswith("$"):
            if part == "$self" and type(function) is not lookup.Builtin and not lookup.is_a(function, type):
                listed.append(Parameter("self", ""))
            continue
        if part == "/":
            for parameter in listed:
                parameter.kind = "/"
        elif part == "*":
            kind = "="
        elif part.startswith("**"):
            listed.append(Parameter(part[2:], "**"))
        elif part.startswith("*"):
            listed.append(Parameter(part[1:], "*"))
            kind = "="
        else:
            name, _, default = part.partition("=")
            if not name.strip().isidentifier():
                return None
            listed.append(Parameter(name.strip(), kind, _Written(default) if default else MISSING))
    return listed


def _closing(text: str) -> int:
    """Where the bracket that text begins with is closed; -1 if it is not, or text begins with something else."""
    depth = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        if depth <= 0:
            return at or -1
    return -1


def _split(text: str) -> list[str]:
    parts = [""]
    depth = 0
    quote = ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _default(value: object) -> str:
    if type(value) is _Written:
        return value.text
    if lookup.is_a(value, type):
        return class_name(value)
    return preview(value, _DEFAULT)


def _annotation(value: object, depth: int) -> str:
    if type(value) is str:
        return value[:200]
    if value is None or value is type(None) or value is Ellipsis:
        return "..." if value is Ellipsis else "None"
    if depth > 4:
        return "..."
    origin = args = MISSING
    if type(value) is type(list[int]):
        origin, args = value.__origin__, value.__args__
    elif type(value) is type(int | str):
        return " | ".join([_annotation(arg, depth + 1) for arg in value.__args__])
    elif lookup.is_a(value, type):
        return class_name(value)
    else:
        names = lookup.own_names(value)
        origin, args = lookup.get(names, "_name"), lookup.get(names, "__args__")
        if origin is None or origin is MISSING:
            origin = lookup.get(names, "__origin__")
        if origin is MISSING:
            origin = lookup.get(names, "__name__")
    name = origin if type(origin) is str else qualified_name(origin) if lookup.is_a(origin, type) else None
    if name is None:
        special = lookup.get(lookup.own_names(origin), "_name")
        name = special if type(special) is str else f"<{class_name(type(value))}>"
    if type(args) is tuple and args:
        return f"{name}[{', '.join([_annotation(arg, depth + 1) for arg in args[:20]])}]"
    return name
