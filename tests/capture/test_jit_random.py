"""jit equals no jit on random programs with in-place updates, views, gradients and randomness."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import lazyten as lt

Array = np.ndarray[Any, Any]
Registers = list[lt.Tensor]
Run = Callable[[Registers, int, int], None]

SHAPE = (2, 3)


def append(function: Callable[[lt.Tensor, lt.Tensor], lt.Tensor]) -> Run:
    def run(registers: Registers, i: int, j: int) -> None:
        registers.append(function(registers[i], registers[j]))
    return run


def update(function: Callable[[lt.Tensor, lt.Tensor], object]) -> Run:
    def run(registers: Registers, i: int, j: int) -> None:
        function(registers[i], registers[j])
    return run


def set_row(a: lt.Tensor, b: lt.Tensor) -> None:
    a[1] = b[0] * 0.5


def gradient(a: lt.Tensor, b: lt.Tensor) -> lt.Tensor:
    leaf = (a * 1).detach().requires_grad_()
    (leaf * leaf * b).sum().backward()
    assert leaf.grad is not None
    return leaf.grad


def swap(registers: Registers, i: int, j: int) -> None:
    registers[i], registers[j] = registers[j], registers[i]


INSTRUCTIONS: dict[str, Run] = {
    "add": append(lambda a, b: a + b), "mul": append(lambda a, b: a * b * 0.25),
    "sum": append(lambda a, b: a.sum(1, keepdim=True) - b), "where": append(
        lambda a, b: lt.where(a > b, a, b * 0.5)),
    "matmul": append(lambda a, b: a @ (b.T @ a) * 0.125), "flip": append(lambda a, b: a.flip(1)),
    "detach": append(lambda a, b: a.detach()), "rand": append(
        lambda a, b: a + lt.rand(*SHAPE, device=a.device)),
    "gradient": append(gradient), "add_": update(lambda a, b: a.add_(b * 0.5)),
    "copy_": update(lambda a, b: a.copy_(b)), "row": update(set_row),
    "uniform_": update(lambda a, b: a.uniform_(-1, 1)), "fill_": update(lambda a, b: a.fill_(0.5)),
    "transposed": update(lambda a, b: a.T.mul_(b.T * 0.5)),
    "realize": update(lambda a, b: a.realize()), "swap": swap,
}

Instruction = tuple[str, int, int]
instructions = st.tuples(st.sampled_from(sorted(INSTRUCTIONS)), st.integers(0, 99),
                         st.integers(0, 99))


class Program:
    """A random function of two arguments with two closed-over tensors, always from one start."""

    def __init__(self, device: str, code: list[Instruction], given_back: list[int]) -> None:
        self.device, self.code, self.given_back = device, code, given_back
        start = np.arange(6, dtype=np.float32).reshape(SHAPE) / 4
        self.closed = [lt.tensor(v, device=device) for v in (start - 1, 1 - start * 0.5)]
        self.arguments = [lt.tensor(v, device=device) for v in (start, -start)]

    def run(self, a: lt.Tensor, b: lt.Tensor) -> list[lt.Tensor]:
        registers = [*self.closed, a, b]
        for name, i, j in self.code:
            INSTRUCTIONS[name](registers, i % len(registers), j % len(registers))
        return [registers[i % len(registers)] for i in self.given_back]

    def history(self, function: Callable[..., list[lt.Tensor]], calls: int) -> list[Array]:
        """All values that can be seen in some calls, with changes from outside between them."""
        lt.manual_seed(7)
        results: list[lt.Tensor] = []
        seen: list[Array] = []
        for number in range(calls):
            results += function(*self.arguments)
            seen += [t.numpy() for t in self.closed + self.arguments]
            self.closed[number % 2].mul_(0.5)
            self.arguments[number % 2] = lt.full(SHAPE, number / 8, device=self.device)
        return seen + [t.numpy() for t in results]


programs = st.lists(instructions, min_size=1, max_size=10)
results = st.lists(st.integers(0, 99), min_size=1, max_size=3)
no_shrinking = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""Shrinking compiles thousands of programs."""


def both(device: str, code: list[Instruction], given_back: list[int]) -> Iterator[
        tuple[Array, Array]]:
    """What is seen with jit and without."""
    plain, captured = (Program(device, code, given_back) for _ in range(2))
    jitted = lt.jit(captured.run)
    yield from zip(captured.history(jitted, 4), plain.history(plain.run, 4), strict=True)
    assert jitted.cache_size == 1


@no_shrinking
@given(programs, results)
def test_jit_equals_no_jit(code: list[Instruction], given_back: list[int]) -> None:
    for a, b in both("interpreter", code, given_back):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@no_shrinking
@given(programs, results)
def test_jit_equals_no_jit_on_the_cpu_but_for_rounding(
        code: list[Instruction], given_back: list[int]) -> None:
    """Other kernels round elsewhere; a choice may then fall otherwise, so there is none here."""
    smooth = [c for c in code if c[0] != "where"]
    for a, b in both("cpu", smooth, given_back):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
