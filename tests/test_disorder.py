"""What runs tests in any order beside nodes of others: it draws orders, and finds odd nodes."""
from __future__ import annotations

import subprocess
import sys
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import disorder
import numpy as np
import pytest
from disorder import are_of_one_kind, shuffled

import lazyten as lt

TESTS = """
import numpy as np
import pytest
from lazyten.ir import dtype as dt
from lazyten.ir import node
from lazyten.ir.kernel import Slot
from lazyten.ir.ops import Op

def total(axis):
    memory = node.make(Op.BUFFER, dt.float32, (), Slot(0, 7))
    return node.make(Op.REDUCE, dt.float32, (memory,), (Op.ADD, (axis,)))

def test_plain(): total(0)
def test_odd(): total(np.int64(0))

@pytest.mark.frees_nodes
def test_free():
    before = len(node._interned)
    node.const(1234.5, dt.float32)
    assert len(node._interned) == before
"""


def test_orders_follow_from_their_seeds() -> None:
    tests: list[Any] = [SimpleNamespace(path=path, number=number)
                        for path in ("a", "b", "c") for number in range(9)]
    orders = [shuffled(tests, seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0], key=tests.index) == tests != orders[0]
    assert len([*groupby(orders[0], lambda test: test.path)]) == 3  # each file's side by side


def test_a_node_of_other_numbers_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    frees_nodes: as in setup.cfg\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "disorder", "-p", "no:cacheprovider",
         "--tb=line", "--keep-nodes"], cwd=tmp_path, text=True, capture_output=True,
        env={"PYTHONPATH": str(Path(disorder.__file__).parent), "PATH": ""}, check=False)
    lines = done.stdout.splitlines()
    assert any("REDUCE of (Op.ADD, (np.int64(0),)) is one of (Op.ADD, (0,))" in s for s in lines)
    assert [s.partition("::")[2].split()[:2] for s in lines if s.startswith("test_it.py::")] == [
        ["test_plain", "PASSED"], ["test_odd", "FAILED"], ["test_free", "PASSED"]]


@pytest.mark.parametrize(("a", "b"), [
    ((1, (2,)), (1, (np.int64(2),))), ((1,), (True,)), ((0.0,), (-0.0,)), ((3, 4), lt.Size((3, 4))),
], ids=str)
def test_equal_arguments_of_other_classes_are_told_apart(a: object, b: object) -> None:
    assert a == b and not are_of_one_kind(a, b)
    assert are_of_one_kind(a, a)
