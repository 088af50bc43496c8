"""The rows of the table, as data: what each computes, on what, and how much work that is.

measure.py times them and worker.py checks, before anything is timed, that every framework's result
is NumPy's. An expression is written once for all frameworks, against the `Framework` record.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from benchmarks.frameworks import Framework, Tensor
from benchmarks.lenet import training_step

MIB = 1 << 20
CHAIN = 25  # repetitions of four operations in the recording row
CONV1, CONV2 = 2 * 28 * 28 * 6 * 25, 2 * 10 * 10 * 16 * 150  # FLOP of one image, forward
DENSE = 2 * (400 * 120 + 120 * 84 + 84 * 10)
LENET_FLOPS = 2 * CONV1 + 3 * (CONV2 + DENSE)  # the images need no gradient


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `prepare(framework)` builds the inputs and returns the call that is timed. `work` is what one
    call does, in `unit`: floating-point operations (FLOP) or bytes read and written (B). `parts`
    divides the time of a call, for rows that report one operation of many. Where `waits` is false,
    a call's result is not waited for. `checked` calls in a row are compared with NumPy's, to a
    tolerance relative to the largest expected value.
    """

    name: str
    prepare: Callable[[Framework], Callable[[], Tensor]]
    work: float = 0
    unit: str = ""
    parts: int = 1
    waits: bool = True
    checked: int = 1
    tolerance: float = 1e-5


def expression(run: Callable[..., Tensor], *shapes: tuple[int, ...],
               compiled: bool = True) -> Callable[[Framework], Callable[[], Tensor]]:
    """A case's `prepare` for `run(framework, *tensors)` on float32 numbers in [-0.5, 1)."""

    def prepare(framework: Framework) -> Callable[[], Tensor]:
        random = np.random.default_rng(0)
        inputs = [framework.array((random.random(shape, dtype=np.float32) * 3 - 1) / 2)
                  for shape in shapes]

        def bound(*tensors: Tensor) -> Tensor:
            return run(framework, *tensors)

        call = framework.compile(bound) if compiled else bound
        return lambda: call(*inputs)

    return prepare


def matmul(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> Case:
    """a @ b; the work is a multiplication and an addition for each product."""
    return Case(f"matmul {name}", expression(lambda f, x, y: x @ y, a, b),
                work=2 * prod(a) * b[-1], unit="FLOP")


def elementwise(name: str, run: Callable[..., Tensor], inputs: int, size: int) -> Case:
    """run(f, *vectors); the work is each input read and the result written once."""
    return Case(f"{name}, {size // MIB}Mi", expression(run, *[(size,)] * inputs),
                work=4 * (inputs + 1) * size, unit="B")


def reduction(name: str, run: Callable[..., Tensor], *shape: int) -> Case:
    """A sum; the work is its input read once."""
    return Case(name, expression(run, shape), work=4 * prod(shape), unit="B")


def softmax(rows: int, width: int) -> Case:
    """Softmax of each row; the work is the input read and the result written once."""
    return Case(f"softmax {rows}x{width}", expression(lambda f, x: f.softmax(x), (rows, width)),
                work=8 * rows * width, unit="B")


def lenet(batch: int) -> Case:
    """One training step of LeNet-5: forward, backward, SGD with momentum, the loss fetched."""
    return Case(f"LeNet step, batch {batch}", lambda f: training_step(f, batch),
                work=LENET_FLOPS * batch, unit="FLOP", checked=4, tolerance=1e-4,
                waits=False)  # the loss is a number already


def small_operations(f: Framework, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """4 * CHAIN operations on tiny tensors, one after the other."""
    for _ in range(CHAIN):
        x = f.relu(x * a + b) - a
    return x


CASES = (
    *(matmul(f"{n}", (n, n), (n, n)) for n in (64, 256, 512, 1024)),
    matmul("32 x 128", (32, 128, 128), (32, 128, 128)),
    matmul("128x400 @ 400x120", (128, 400), (400, 120)),
    softmax(64, 10),
    softmax(4096, 1000),
    elementwise("relu(a*b+c)", lambda f, a, b, c: f.relu(a * b + c), 3, MIB),
    elementwise("sigmoid(a*b+1)*a-b", lambda f, a, b: f.sigmoid(a * b + 1) * a - b, 2, 32 * MIB),
    reduction("sum of 1Mi", lambda f, x: x.sum(), MIB),
    reduction("sum of 16Mi", lambda f, x: x.sum(), 16 * MIB),
    reduction("sum 4096x1024 over axis 0", lambda f, x: x.sum(0), 4096, 1024),
    reduction("sum 4096x1024 over axis 1", lambda f, x: x.sum(1), 4096, 1024),
    Case("layer norm 4096x768", expression(lambda f, *x: f.layer_norm(*x),
                                           (4096, 768), (768,), (768,)),
         work=8 * 4096 * 768, unit="B"),
    Case("conv2d, LeNet's second", expression(lambda f, *x: f.conv2d(*x), (128, 6, 14, 14),
                                              (16, 6, 5, 5), (16,)),
         work=2 * 128 * 16 * 100 * 150, unit="FLOP"),
    *(lenet(batch) for batch in (32, 128, 512)),
    Case("one small operation", expression(small_operations, *[(4, 4)] * 3, compiled=False),
         parts=4 * CHAIN, waits=False),
)
