"""jit equals no jit on random programs with in-place updates, views, gradients and randomness."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
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
    "detach": append(lambda a, b: a.detach()), "rand": append(lambda a, b: a + lt.rand(*SHAPE)),
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

    def __init__(self, code: list[Instruction], given_back: list[int]) -> None:
        self.code, self.given_back = code, given_back
        start = np.arange(6, dtype=np.float32).reshape(SHAPE) / 4
        self.closed = [lt.tensor(start - 1), lt.tensor(1 - start * 0.5)]
        self.arguments = [lt.tensor(start), lt.tensor(-start)]

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
            self.arguments[number % 2] = lt.full(SHAPE, number / 8)
        return seen + [t.numpy() for t in results]


@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])  # shrinking compiles for minutes
@given(st.lists(instructions, min_size=1, max_size=10),
       st.lists(st.integers(0, 99), min_size=1, max_size=3))
def test_jit_equals_no_jit(code: list[Instruction], given_back: list[int]) -> None:
    plain, captured = Program(code, given_back), Program(code, given_back)
    jitted = lt.jit(captured.run)
    for a, b in zip(captured.history(jitted, 4), plain.history(plain.run, 4), strict=True):
        np.testing.assert_array_equal(a, b)
    assert jitted.cache_size == 1
