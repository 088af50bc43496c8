"""Graphs deeper than Python's recursion limit are recorded, differentiated, computed and freed."""
from __future__ import annotations

import re

import pytest

import lazyten as lt

LINKS = 100_000


@pytest.mark.slow
def test_a_chain_of_100_000_operations_and_its_gradient() -> None:
    x = lt.tensor([1.0, 2.0], dtype=lt.float64, requires_grad=True, device="cpu")
    step = lt.tensor([0.5, 0.25], dtype=lt.float64, device="cpu")
    y = x
    for _ in range(LINKS):
        y = y + step
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1]
    assert y.tolist() == [1 + LINKS * 0.5, 2 + LINKS * 0.25]
    del y


def test_a_long_chain_is_cut_into_kernels_that_share_one_program() -> None:
    x = lt.ones(3).contiguous().realize().requires_grad_()  # or it is not left to grow
    y = lt.zeros(3).contiguous().realize()
    for _ in range(5000):
        y = y * x
    plan = lt.explain(y)
    names = re.findall(r"^\d+: (\w+) stores", plan, re.MULTILINE)
    assert plan.count("operations deep") == 9
    assert len(names) == 10
    assert len(set(names)) <= 2  # the last is shorter
