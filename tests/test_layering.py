"""The package's layers: runtimes -> codegen -> lazyten, and no import cycle anywhere."""
from __future__ import annotations

import ast
import graphlib
import re
from functools import cache

import pytest
from import_graph import CHECKOUT, import_graph, imports, source_files

ABOVE = ("lazyten.__main__", "lazyten.run", "lazyten.doctor", "lazyten.testing.conformance",
         "lazyten.onnx", "lazyten.ahead", "lazyten.exported_program")
"""Programs that use the package as others do: they import anything, and nothing imports them."""


def is_above(module: str) -> bool:
    return module.startswith(ABOVE)


@cache
def whole() -> dict[str, set[str]]:
    """What each module imports: reading it takes longer than to collect most files of tests."""
    return import_graph()


def graph() -> dict[str, set[str]]:
    """The same below what may import anything."""
    return {name: others for name, others in whole().items() if not is_above(name)}


FILES = source_files()


def folder(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[1:] and parts[1] in ("codegen", "runtimes") else "lazyten"


def test_no_two_files_of_tests_share_a_name() -> None:
    names = [path.name for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)  # pytest collects one of them, and ends


@pytest.mark.parametrize(("importer", "forbidden"), [
    ("lazyten", "codegen"), ("lazyten", "runtimes"), ("codegen", "runtimes")])
def test_imports_point_one_way(importer: str, forbidden: str) -> None:
    wrong = {(name, other) for name, others in graph().items() for other in others
             if folder(name) == importer and folder(other) == forbidden}
    assert wrong == set()


ROOMS = [
    "version", "support", "pytorch", "ir", "symbolic", "autodiff", "operators", "operators.math",
    "operators.arrays", "devices", "storage", "random", "sharding", "schedule", "execution.sizes",
    "execution.plans", "execution", "diagnostics",
    "frontend.core", "frontend.recorded", "frontend.methods", "frontend",
    "frontend.complexes", "sparse", "saving", "distributed", "distributed.tensor",
    "nn.functions",
    "nn.functions.spatial", "nn.criteria", "autograd", "linalg",
    "testing", "nn", "nn.modules", "nn.sequence", "nn.utils", "nn.parallel",
    "func", "nn.attention", "nn.__init__", "distributed.tensor.parallel", "distributed.pipelining",
    "optim", "optim.lr_scheduler", "optim.__init__", "distributed.optim",
    "distributed.checkpoint", "distributed.fsdp", "distributions", "amp",
     "functorch", "autograd.functional", "fx",
     "capture.state", "capture", "capture.sizes", "utils.data", "utils", "tuning", "seeing",
     "quantization",
    "special", "fft", "signal", "masked", "cuda", "backends", "hub", "multiprocessing",
    "profiler", "platform",
    "lazyten", "einops_backend",
    "codegen.targets", "codegen.numerics", "codegen.loops", "codegen.instructions",
    "codegen.verify", "codegen.checks", "codegen.model", "codegen.gpu", "codegen.optimize",
    "codegen.render", "codegen",
    "runtimes.host", "runtimes.checks", "runtimes", "runtimes.memory", "runtimes.meta",
    "runtimes.interpreter",
    "runtimes.cpu", "runtimes.opencl", "runtimes.cuda",
    "doctor", "run", "__main__", "testing.conformance", "ahead",
    "onnx", "onnx.operators", "onnx.operators.special", "onnx.operators.microsoft", "onnx.writing",
    "onnx.__init__", "exported_program"]
"""Folders, and files beside them, the lowest first: each imports only from those before it. Where
the front of a folder shows what stands in rooms above the folder's other files it has a place of
its own."""
PACKAGES = {name for name, path in FILES.items() if path.name == "__init__.py"}


def room(module: str) -> str:
    """The folder of a module; a file in the root is a room of its own."""
    found = module if module in PACKAGES else module.rpartition(".")[0]
    name = (module if found == "lazyten" else found).removeprefix("lazyten.")
    front = f"{name}.__init__"
    return front if module in PACKAGES and front in ROOMS else name


def test_rooms_are_all_there_are() -> None:
    assert sorted(ROOMS) == sorted({room(module) for module in FILES})


def test_a_room_imports_only_from_rooms_below_it() -> None:
    place = {name: number for number, name in enumerate(ROOMS)}
    wrong = {(name, other) for name, others in whole().items() for other in others
             if place[room(other)] > place[room(name)]}
    assert wrong == set()


@pytest.mark.parametrize("package", sorted(PACKAGES - {"lazyten"}))
def test_a_room_says_what_is_in_it(package: str) -> None:
    """Its docstring names each of its files, and no file that is gone."""
    path = FILES[package]
    text = ast.get_docstring(ast.parse(path.read_text("utf8"))) or ""
    listed = text.partition("in reading order:\n\n")[2].partition("\n\n")[0]
    named = re.findall(r"^- ([a-z_0-9]+\.py): ", listed, re.MULTILINE)
    there = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
    assert sorted(named) == sorted(there)
    assert len(there) <= 16, "a room is to be read in one sitting"


def test_the_compiler_in_one_sitting_is_as_long_as_the_map_says() -> None:
    page = (CHECKOUT / "ARCHITECTURE.md").read_text("utf8")
    listed = re.findall(r"^\d+\. \[(.*?)\]\((.*?)\): ", page, re.MULTILINE)
    files, lines, whole = (int(n.replace(",", "")) for n in re.findall(
        r"these ([\d,]+) files, ([\d,]+) lines of all ([\d,]+)", page)[0])
    assert all(name == target for name, target in listed) and len(listed) == files
    found = sum(len((CHECKOUT / name).read_text("utf8").splitlines()) for name, _ in listed)
    total = sum(len(path.read_text("utf8").splitlines()) for path in FILES.values())
    assert found == pytest.approx(lines, rel=0.02)
    assert total == pytest.approx(whole, rel=0.02)


def test_the_map_names_what_is_where_it_says() -> None:
    page = (CHECKOUT / "ARCHITECTURE.md").read_text("utf8").partition("## Where is it?")[2]
    places = re.findall(r"`([\w/]+\.py)`: `(\w+)`", page.partition("\n## ")[0])
    assert len(places) > 10
    for path, name in places:
        body = ast.parse((CHECKOUT / path).read_text("utf8")).body
        assert name in {found for node in body for found in _defined(node)}, f"{path}: {name}"


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else \
        [node.target] if isinstance(node, ast.AnnAssign) else []
    return [x.id for x in targets if isinstance(x, ast.Name)]


def test_files_that_are_named_are_there() -> None:
    """Of pages about the code and of docstrings: files by a part of their path at least."""
    there = {f"/{path.relative_to(CHECKOUT)}" for path in CHECKOUT.rglob("*.*")
             if ".venv" not in path.parts and "build" not in path.parts}
    texts = {name: (CHECKOUT / name).read_text("utf8") for name in (
        "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/porting.md", "docs/cost_models.md")}
    for name, path in FILES.items():
        nodes = ast.walk(ast.parse(path.read_text("utf8")))
        texts[name] = "\n".join(
            ast.get_docstring(node) or "" for node in nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef))
    gone = {(where, named) for where, text in texts.items()
            for named in re.findall(r"(?<![\w/.*])(?:\w+/)+\w+\.(?:py|md|h)\b", text)
            if not any(path.endswith(f"/{named}") for path in there)}
    assert gone == set()


def test_nothing_imports_the_programs_above() -> None:
    assert [name for name, others in graph().items() if any(map(is_above, others))] == []


def test_there_is_no_import_cycle() -> None:
    graphlib.TopologicalSorter(whole()).prepare()  # raises CycleError with the cycle


def test_nothing_inside_imports_names_from_the_package_root() -> None:
    assert [name for name, others in graph().items() if "lazyten" in others] == []


def test_only_device_imports_by_name() -> None:
    """importlib hides an import from the tests above. (autograd finds autograd.functional by it,
    which is under it by its name only: it is made of func. pytorch.modules gives what others import
    PyTorch's names.)"""
    sources = {name: path.read_text("utf8") for name, path in FILES.items()}
    dynamic = {name for name, text in sources.items() if "import_" in text
               for node in ast.walk(ast.parse(text))
               if (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
               or (isinstance(node, ast.Attribute) and node.attr == "import_module")}
    assert dynamic <= {"lazyten.storage.device", "lazyten.run", "lazyten.autograd",
                       "lazyten.pytorch.modules"}


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
