"""The runner's modules import one way, from folder to folder, and keep their private names to themselves."""

from __future__ import annotations

import ast
import pathlib
import sys
import unittest
from collections.abc import Iterator

PACKAGE = "talaria_runner"
ROOT = pathlib.Path(__file__).resolve().parent.parent / PACKAGE

# A folder imports from itself and from those before it. Modules outside all folders put the parts together.
FOLDERS = ("own", "run", "wire", "streams", "tools", "introspection", "saves", "packages", "errors", "rendering", "parallel", "ipython",
           "engines", "checkpoints", "")
# Well-known third-party modules that a reader could confuse with ours.
FAMOUS = {"attr", "click", "flask", "jinja2", "numpy", "pandas", "pydantic", "pytest", "requests", "rich", "yaml"}


def _name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def _imports(module: str) -> Iterator[tuple[str, str]]:
    """Each module of ours that is imported, wherever the statement is, with the name imported from it."""
    for node in ast.walk(MODULES[module]):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: a relative import"
            if node.module and node.module.partition(".")[0] == PACKAGE:
                source = node.module.removeprefix(PACKAGE).removeprefix(".")
                for alias in node.names:
                    full = f"{source}.{alias.name}".removeprefix(".")
                    yield (full, "") if full in MODULES else (source, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith(f"{PACKAGE}."):
                    yield alias.name.removeprefix(f"{PACKAGE}."), ""


def _folder(module: str) -> str:
    first, dot, _ = module.partition(".")
    return first if dot or first in FOLDERS else ""


class Graph(unittest.TestCase):
    def test_imports_point_one_way(self) -> None:
        for module in MODULES:
            for imported, _ in _imports(module):
                with self.subTest(module=module, imports=imported):
                    self.assertIn(imported, MODULES)
                    self.assertLessEqual(FOLDERS.index(_folder(imported)), FOLDERS.index(_folder(module)))

    def test_no_module_imports_itself_by_way_of_others(self) -> None:
        edges = {module: {imported for imported, _ in _imports(module)} - {module} for module in MODULES}
        while leaves := [module for module, further in edges.items() if not further & edges.keys()]:
            for leaf in leaves:
                del edges[leaf]
        self.assertEqual(edges, {}, "these import each other, or are imported by some that do")

    def test_private_names_stay_in_their_module(self) -> None:
        for module in MODULES:
            modules = {imported.rpartition(".")[2] for imported, name in _imports(module) if not name}
            for imported, name in _imports(module):
                with self.subTest(module=module, imports=imported):
                    self.assertFalse(name.startswith("_"), name)
            for node in ast.walk(MODULES[module]):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                    with self.subTest(module=module, line=node.lineno):
                        self.assertFalse(node.attr.startswith("_"), node.attr)

    def test_no_module_is_called_like_one_of_a_library(self) -> None:
        names = {module.rpartition(".")[2] for module in MODULES}
        self.assertFalse(names & (sys.stdlib_module_names | FAMOUS))

    def test_every_folder_says_what_it_is_for(self) -> None:
        for folder in FOLDERS:
            self.assertTrue(ast.get_docstring(MODULES[folder]), folder)
