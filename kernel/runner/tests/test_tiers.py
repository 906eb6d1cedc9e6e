"""Both tiers of isolation do what the rest of talaria_init asks of a tier."""

from __future__ import annotations

import ast
import inspect
import pathlib
import unittest

from talaria_init import tier
from talaria_init.landlock_tier import LandlockTier
from talaria_init.namespace_tier import NamespaceTier

_METHODS = {name: method for name, method in vars(tier.Tier).items() if inspect.isfunction(method) and name[0] != "_"}


class Tiers(unittest.TestCase):
    def test_have_all_methods_of_the_protocol(self) -> None:
        for kind in (NamespaceTier, LandlockTier):
            for name, declared in _METHODS.items():
                with self.subTest(kind=kind.__name__, name=name):
                    self.assertEqual(inspect.signature(getattr(kind, name)), inspect.signature(declared))

    def test_are_asked_for_nothing_else(self) -> None:
        declared = {*_METHODS, "name"}
        for path in pathlib.Path(tier.__file__).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "tier.current":
                    with self.subTest(file=path.name, line=node.lineno):
                        self.assertIn(node.attr, declared)
