"""Settings: %matplotlib, %config, %load_ext and what there is nothing to set of."""

from __future__ import annotations

from talaria_runner.own.pristine import builtins as __builtins__  # noqa: F401

from sys import modules

from talaria_runner.ipython.magics import as_it_is
from talaria_runner.ipython.magics.usage import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from talaria_runner.ipython.contract import Shell

_INLINE = ("inline", "agg", "auto", "notebook", "")
_BACKENDS = "inline, agg"


def line_matplotlib(shell: Shell, line: str) -> None:
    """%matplotlib inline: figures are shown in the cell's output, as they are anyway."""
    words = line.split()
    if words[:1] in (["-l"], ["--list"]):
        print(f"Available matplotlib backends: {_BACKENDS}")
        return
    backend = (words[0] if words else "").lower()
    if backend not in _INLINE:
        raise UsageError(f"%matplotlib {backend}: there are no windows here; figures are shown in the cell's output "
                         "(%matplotlib inline)")  # fmt: skip


def line_pylab(shell: Shell, line: str) -> None:
    """%pylab: imports numpy and pyplot with all their names."""
    names = shell.user_ns
    code = "import numpy\nimport matplotlib\nfrom matplotlib import pylab, mlab, pyplot\nnp = numpy\nplt = pyplot\n"
    if "--no-import-all" not in line:
        code += "from pylab import *\nfrom numpy import *\n"
    exec(code, names)


@as_it_is
def line_config(shell: Shell, line: str) -> object:
    """%config InlineBackend.figure_format = 'svg': sets an option; without a value, returns it."""
    text = line.strip()
    name, equals, value = text.partition("=")
    section, _, key = name.strip().partition(".")
    if not text:
        print("Available objects for config:\n    InlineBackend\n    InteractiveShell")
        return None
    if section == "InlineBackend":
        return _inline(shell, key, value.strip() if equals else None)
    if section != "InteractiveShell":
        raise UsageError(f"%config supports InlineBackend and InteractiveShell, not {section!r}")
    if not equals:
        return getattr(shell, key, None) if key else None
    setattr(type(shell).__mro__[1], key, _value(shell, value))
    return None


def _inline(shell: Shell, key: str, value: str | None) -> object:
    settings = shell.config.InlineBackend
    if value is None:
        return settings.get(key) if key else dict(settings)
    found = _value(shell, value)
    if key in ("figure_format", "figure_formats"):
        try:
            shell.figures.set_formats([found] if isinstance(found, str) else list(found))
        except (TypeError, ValueError) as e:
            raise UsageError(f"%config InlineBackend.{key}: {e}") from None
    elif key == "rc":
        if "matplotlib" in modules:
            modules["matplotlib"].rcParams.update(found)
    settings[key] = found
    return None


def _value(shell: Shell, text: str) -> object:
    try:
        return eval(text, shell.user_ns)
    except (NameError, SyntaxError):
        return text.strip()


def line_precision(shell: Shell, line: str) -> str:
    """%precision 3 or %precision %.3e: sets how floats are shown; without a value, resets it."""
    text = line.strip()
    formatter = shell.display_formatter.formatters["text/plain"]
    form = f"%.{text}f" if text.isdecimal() else text
    if form:
        try:
            _ = form % 3.14
        except (TypeError, ValueError):
            raise UsageError(f"%precision takes a number of digits, or a format such as %.3e, not {text!r}") from None
        formatter.for_type(float, lambda value, printer, cycle: printer.text(form % value))
    else:
        formatter.pop(float, None)
    if "numpy" in modules:
        modules["numpy"].set_printoptions(precision=int(text) if text.isdecimal() else 8)
    return form or "%r"


def line_load_ext(shell: Shell, line: str) -> None:
    """%load_ext NAME: loads an extension, such as autoreload."""
    name = line.strip()
    if not name:
        raise UsageError("%load_ext needs the name of an extension")
    said = shell.extension_manager.load_extension(name)
    if said == "already loaded":
        print(f"The {name} extension is already loaded. To reload it, use:\n  %reload_ext {name}")
    elif said == "no load function":
        print(f"The {name} module is not an IPython extension.")


def line_reload_ext(shell: Shell, line: str) -> None:
    """%reload_ext NAME: loads an extension, even if it is already loaded."""
    if shell.extension_manager.reload_extension(line.strip()) == "no load function":
        print(f"The {line.strip()} module is not an IPython extension.")


def line_unload_ext(shell: Shell, line: str) -> None:
    """%unload_ext NAME: unloads an extension."""
    said = shell.extension_manager.unload_extension(line.strip())
    if said == "not loaded":
        print(f"The {line.strip()} extension is not loaded.")
    elif said:
        print(f"The {line.strip()} extension cannot be unloaded.")


def line_autoreload(shell: Shell, line: str) -> None:
    """Imports changed modules again. It is an extension: %load_ext autoreload, then %autoreload 2."""
    raise UsageError("%autoreload is an extension: run %load_ext autoreload first")


line_aimport = line_autoreload


def _nothing(why: str) -> Callable:
    def line_magic(shell: Shell, line: str) -> None:
        pass

    line_magic.__doc__ = f"Accepted and ignored: {why}."
    return line_magic


line_colors = line_xmode = _nothing("tracebacks have one form, without colours")
line_autosave = _nothing("the session keeps everything as it happens")
line_gui = _nothing("there are no windows")


def line_automagic(shell: Shell, line: str) -> None:
    """%automagic on or off: whether a cell of one line may leave out the %."""
    word = line.strip().lower()
    shell.automagic = word in ("1", "on", "true") if word else not shell.automagic
    print(f"Automagic is {'ON, % prefix IS NOT needed' if shell.automagic else 'OFF, % prefix IS needed'} "
          "for line magics.")  # fmt: skip


def line_pdb(shell: Shell, line: str) -> None:
    """The debugger after an error is started by hand."""
    raise UsageError("%pdb needs IPython; after an error, run: import pdb; pdb.pm()")
