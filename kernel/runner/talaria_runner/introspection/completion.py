"""What could be typed at a position in a cell: names, attributes, keys, arguments, modules, magics and paths."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

import builtins
from itertools import islice

from talaria_runner.introspection import expressions, facts, importable, lookup, paths, tabular
from talaria_runner.introspection.budget import Budget
from talaria_runner.introspection.lookup import MISSING, Namespace
from talaria_runner.introspection.scanner import Scanner
from talaria_runner.introspection.signatures import parameters
from talaria_runner.wire.outbox import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST = 500  # matches
_SIZE = 64 << 10  # characters of all matches
_LONGEST = 300  # of one
_KEYS = 20_000  # of a dict that are examined
_CONTEXT = 50_000  # characters before the position that are examined
_ENDINGS = tuple(")]}'\"")  # of text that no name can directly follow
_PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "debug")  # whose cells are Python


class Completer:
    """Completes from existing objects. It runs no code of the user. Its methods are safe in every thread."""

    def __init__(self, namespace: dict[str, object], magics: Callable[[], Iterable[str]] | None = None) -> None:
        self._namespace = Namespace(namespace)
        self._magics = magics

    def complete(self, code: str, cursor: int, budget: Budget) -> tuple[list[str], int, int]:
        """The matches, and the part of code that each would replace: from start to end, in characters."""
        cursor = max(0, min(cursor, len(code)))
        first = 0 if cursor <= _CONTEXT else code.find("\n", cursor - _CONTEXT, cursor) + 1 or cursor - _CONTEXT
        text = code[first:cursor]
        matches, length = self._matches(text, code[cursor:cursor + 2], budget, whole=first == 0)
        return _bounded(matches), cursor - length, cursor

    def _matches(self, text: str, behind: str, budget: Budget, whole: bool) -> tuple[list[str], int]:
        """The matches, and how many characters before the position they replace."""
        line = text[text.rfind("\n") + 1:].lstrip()
        head, newline, body = text.partition("\n")
        if whole and head.startswith("%%"):
            if not newline:
                return (self._magic(line, 2), len(line)) if " " not in line else self._path(line, budget)
            if head[2:].split(None, 1)[:1] not in [[name] for name in _PYTHON_MAGICS]:
                return self._path(line, budget)
            text = body
        if line.startswith("%") and " " not in line:
            return self._magic(line, 1), len(line)
        scanner = Scanner()
        scanner.feed(text)
        if scanner.quote and "f" in scanner.prefix and (inside := _in_braces(text[scanner.content:])) is not None:
            return self._matches(inside, behind, budget, whole=False)
        if scanner.comment:
            return [], 0
        if not scanner.quote and not scanner.brackets:
            if line.startswith("!") or line.startswith("%") and not line.startswith(("%time", "%timeit")):
                return self._path(line, budget)
            target, sign, value = text[scanner.statement:].partition("=")
            if sign and value.lstrip().startswith("%") and target.strip().isidentifier():
                return self._magic(value.lstrip(), 1), len(value.lstrip())
            imported = self._imported(text[scanner.statement:].lstrip(), budget)
            if imported is not None:
                return imported
        if scanner.brackets and scanner.brackets[-1][0] == "[":
            opened = scanner.brackets[-1][1]
            start = scanner.content - len(scanner.quote) - len(scanner.prefix) if scanner.quote else len(text)
            key = text[opened + 1:start]
            if not key.strip() and (scanner.quote or not text[opened + 1:].strip()):
                expression = expressions.before(text, opened)
                keys = self._keys(expression, text, scanner, behind)
                if keys or scanner.quote and expression:
                    return keys, len(text) - scanner.content if scanner.quote else 0
        if scanner.quote:
            partial = text[scanner.content:]
            columns = self._columns(text, scanner)
            if columns:
                return self._written(columns, text, scanner, behind, ""), len(partial)
            return self._path(partial, budget, quoted=True)
        return self._names(text, scanner, budget)

    def _names(self, text: str, scanner: Scanner, budget: Budget) -> tuple[list[str], int]:
        start = expressions.word_start(text, len(text))
        word = text[start:]
        if word[:1].isdigit():
            return [], 0
        dot = text[:start].rstrip()
        if dot.endswith("."):
            owner = expressions.before(text, len(dot[:-1].rstrip()))
            return self._attributes(owner, word, budget), len(word)
        if not word and text[-1:] in _ENDINGS:
            return [], 0
        found = self._arguments(text, word, scanner)
        groups = lookup.first(self._namespace.names), [*list(vars(builtins)), *expressions.KEYWORDS]
        for form in (str, str.lower):
            for names in groups:
                found += _matching(names, word, form, budget, hide=False)
            if found:
                break
        return found, len(word)

    def _attributes(self, expression: str, word: str, budget: Budget) -> list[str]:
        owner = self._namespace.find(expression) if expression and not expression.isdigit() else None
        if owner is None:
            return []
        names = list(lookup.each_name(owner))
        if owner.value is not MISSING:
            names += tabular.columns(owner.value)
            if lookup.is_a(owner.value, lookup.Module):
                names += importable.promised(owner.value)
        return _sorted(names, word, budget, hide=True)

    def _arguments(self, text: str, word: str, scanner: Scanner) -> list[str]:
        """The parameters of the function whose call is open, except those already given."""
        if not scanner.brackets or scanner.brackets[-1][0] != "(":
            return []
        opened = scanner.brackets[-1][1]
        expression = expressions.before(text, opened)
        found = self._namespace.find(expression) if expression else None
        if found is None:
            return []
        given = text[opened + 1:]
        if given.rstrip(" " + word)[-1:] == "=":
            return []  # a value is expected next
        given = given.replace(" =", "=")
        listed = [p.name + "=" for p in parameters(found) or () if p.kind in ("", "=") and p.name.startswith(word)]
        return [name for name in listed if name not in given]

    def _keys(self, expression: str, text: str, scanner: Scanner, behind: str) -> list[str]:
        """The keys of a dict or columns of a frame, as they are written between the brackets."""
        owner = self._namespace.find(expression) if expression else None
        if owner is None or owner.value is MISSING:
            return []
        keys: list[object] = list(facts.columns(owner.value))
        if lookup.in_class(type(owner.value), "__getitem__") is dict.__getitem__:
            keys = list(islice(dict.keys(owner.value), _KEYS))
        if scanner.quote:
            return self._written(keys, text, scanner, behind, "]")
        plain = [key for key in keys if lookup.one_of(type(key), (str, int, float, bool, bytes))]
        end = "" if behind.startswith("]") else "]"
        return [repr(key) + end for key in plain if type(key) is not str or len(key) <= _LONGEST]

    def _columns(self, text: str, scanner: Scanner) -> list[str]:
        """The columns of the frame that is subscripted, or whose method is called, around the string."""
        for bracket, opened in scanner.brackets[:-4:-1]:
            expression = expressions.before(text, opened)
            if bracket == "(" or expression.endswith((".loc", ".at")):
                expression = expression.rpartition(".")[0]
            found = self._namespace.find(expression) if expression and bracket != "{" else None
            if found is not None and found.value is not MISSING and (columns := facts.columns(found.value)):
                return columns
        return []

    def _written(self, keys: list[object], text: str, scanner: Scanner, behind: str, closing: str) -> list[str]:
        """The keys as they continue in the open string."""
        quote, partial = scanner.quote, text[scanner.content:]
        end = "" if behind.startswith(quote) else quote + ("" if behind.startswith("]") else closing)
        texts = [key for key in keys if type(key) is str and len(key) <= _LONGEST]
        written = [_within(key, quote, "r" in scanner.prefix) for key in texts]
        return [key + end for key in written if key is not None and key.startswith(partial)]

    def _imported(self, statement: str, budget: Budget) -> tuple[list[str], int] | None:
        """Modules and their names, if the statement is an import."""
        words = statement.replace(",", " , ").split()
        if not words or words[0] not in ("import", "from") or len(words) == 1 and statement[-1:] not in " \t":
            return None
        partial = statement[expressions.word_start(statement, len(statement)):]
        path = "" if statement[-1:] in " \t," else words[-1]
        if words[0] == "from" and "import" in words[1:]:
            if len(words) < 3 or words[1].startswith(".") or words[-1] == "import" and path:
                return [], 0
            names = [*importable.members(words[1]), *importable.submodules(words[1], partial, budget)]
            return _sorted(names, partial, budget, hide=True), len(partial)
        if words[0] == "from" and (len(words) > 2 or len(words) == 2 and not path):
            return ["import"] if "import".startswith(path if len(words) > 2 else "") else [], len(path)
        if len(words) > 2 and words[-1 if not path else -2] not in (",", "import", "from"):
            return [], 0  # after "as"
        package, dot, partial = path.rpartition(".")
        if dot:
            found = importable.submodules(package, partial, budget) if package else set()
        else:
            found = importable.top_level(partial, budget)
        return _sorted(found, partial, budget, hide=True), len(partial)

    def _magic(self, word: str, percents: int) -> list[str]:
        """Magics, which the engine lists with or without their signs."""
        try:
            names = [name for name in self._magics() if type(name) is str] if self._magics is not None else []
        except Exception:
            return []
        signed = {name if name.startswith("%") else "%" + name for name in names}
        if percents == 2:
            signed = {name for name in signed if name.startswith("%%")}
        return sorted(name for name in signed if name.startswith(word))

    def _path(self, text: str, budget: Budget, quoted: bool = False) -> tuple[list[str], int]:
        partial = text if quoted else text[max(text.rfind(" "), text.rfind("!"), text.rfind("=")) + 1:]
        return paths.paths(partial, budget), len(partial) - partial.rfind("/") - 1


def _sorted(names: Iterable[object], prefix: str, budget: Budget, hide: bool = False) -> list[str]:
    """The names that begin with prefix; if there are none, those that do so in any case."""
    return _matching(names, prefix, str, budget, hide) or _matching(names, prefix, str.lower, budget, hide)


def _matching(
    names: Iterable[object], prefix: str, form: Callable[[str], str], budget: Budget, hide: bool
) -> list[str]:
    """The names that begin with prefix in that form, those with underscores last. With hide, or without a
    prefix, these are left out if there are others."""
    matches = _beginning(names, form(prefix), form, budget)
    if hide or not prefix:
        underscores = "__" if prefix.startswith("_") else "_"
        shown = {name for name in matches if not name.startswith(underscores) or prefix.startswith(underscores)}
        matches = shown or (matches if prefix else set())
    return sorted(matches, key=lambda name: (name.startswith("__"), name.startswith("_"), name.lower(), name))


def _beginning(names: Iterable[object], prefix: str, form: Callable[[str], str], budget: Budget) -> set[str]:
    found = set()
    for number, name in enumerate(names):
        if type(name) is str and form(name).startswith(prefix) and name.isidentifier() and len(name) <= _LONGEST:
            found.add(name)
        if not number % 512 and budget.is_over:
            break
    return found


def _in_braces(content: str) -> str | None:
    """The open expression at the end of an f-string's content."""
    opened = content.rfind("{")
    if opened < 0 or "}" in content[opened:] or (opened and content[opened - 1] == "{"):
        return None
    return content[opened + 1:]


def _within(key: str, quote: str, raw: bool) -> str | None:
    """key as it is written between these quotes."""
    if raw:
        return None if quote[0] in key or "\\" in key or "\n" in key else key
    text = repr(key)
    inner = text[1:-1]
    if text[0] == quote[0]:
        return inner
    return inner.replace("\\'", "'").replace(quote[0], "\\" + quote[0])


def _bounded(matches: list[str]) -> list[str]:
    kept = []
    room = _SIZE
    for match in list(dict.fromkeys(matches))[:MOST]:
        room -= len(match)
        if room < 0:
            break
        kept.append(printable(match))
    return kept
