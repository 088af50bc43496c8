"""The package's layers: runtimes -> codegen -> lazyten, and no import cycle anywhere."""
from __future__ import annotations

import ast
import graphlib

import pytest
from import_graph import import_graph, imports, source_files

ABOVE = ("lazyten.__main__", "lazyten.doctor", "lazyten.testing.conformance")
"""Programs that use the package as others do: they import anything, and nothing imports them."""


def is_above(module: str) -> bool:
    return module.startswith(ABOVE)


WHOLE = import_graph()
GRAPH = {name: others for name, others in WHOLE.items() if not is_above(name)}
FILES = source_files()


def folder(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[1:] and parts[1] in ("codegen", "runtimes") else "lazyten"


@pytest.mark.parametrize(("importer", "forbidden"), [
    ("lazyten", "codegen"), ("lazyten", "runtimes"), ("codegen", "runtimes")])
def test_imports_point_one_way(importer: str, forbidden: str) -> None:
    wrong = {(name, other) for name, others in GRAPH.items() for other in others
             if folder(name) == importer and folder(other) == forbidden}
    assert wrong == set()


def test_nothing_imports_the_programs_above() -> None:
    assert [name for name, others in GRAPH.items() if any(map(is_above, others))] == []


def test_there_is_no_import_cycle() -> None:
    graphlib.TopologicalSorter(WHOLE).prepare()  # raises CycleError with the cycle


def test_nothing_inside_imports_names_from_the_package_root() -> None:
    assert [name for name, others in GRAPH.items() if "lazyten" in others] == []


def test_only_device_imports_by_name() -> None:
    """importlib hides an import from the tests above."""
    dynamic = {name for name, path in FILES.items()
               for node in ast.walk(ast.parse(path.read_text("utf8")))
               if (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
               or (isinstance(node, ast.Attribute) and node.attr == "import_module")}
    assert dynamic <= {"lazyten.device"}


MODULES = {"lazyten", "lazyten.node", "lazyten.nn", "lazyten.nn.linear", "lazyten.ops"}


@pytest.mark.parametrize(("source", "found"), [
    ("import numpy as np", set()),
    ("import lazyten.ops", {"lazyten.ops"}),
    ("import lazyten", {"lazyten"}),
    ("from lazyten import ops as o", {"lazyten.ops"}),
    ("from lazyten import Tensor", {"lazyten"}),
    ("from lazyten.nn import Module", {"lazyten.nn"}),
    ("from . import linear", {"lazyten.nn.linear"}),
    ("from ..ops import Op", {"lazyten.ops"}),
    ("from .. import Tensor", {"lazyten"}),
    ("def f():\n    from lazyten import node", {"lazyten.node"}),
    ("if TYPE_CHECKING:\n    from lazyten.node import Node", {"lazyten.node"}),
])
def test_every_form_of_import_is_seen(source: str, found: set[str]) -> None:
    assert imports("lazyten.nn.conv", source, MODULES) == found


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert imports("lazyten.nn", "from .linear import Linear", MODULES, True) == {
        "lazyten.nn.linear"}
    assert imports("lazyten.nn", "from .. import ops", MODULES, True) == {"lazyten.ops"}
