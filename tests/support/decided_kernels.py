"""Kernels that decisions are given for."""
from __future__ import annotations

from functools import cache

import numpy as np

import lazyten as lt
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Kernel
from lazyten.schedule.schedule import schedule


def kernels_of(*tensors: lt.Tensor) -> list[Kernel]:
    graph = Graph([t._storage.value for t in tensors], tensors[0].device)
    inputs = [(b.dtype, b.size) for b in graph.buffers]
    return [s.kernel for s in schedule(graph.normalized(), inputs).steps]


def some(*shape: int, dtype: lt.DType = lt.float32) -> lt.Tensor:
    return lt.tensor(np.zeros(shape), dtype=dtype)


@cache
def kernels() -> list[Kernel]:
    x, w = some(3, 4, 11, 9), some(5, 4, 3, 3)
    a, b = some(24, 40), some(40, 33)
    return [kernel for result in (
        a @ b, b.t() @ a.t(), (a @ b).softmax(1), a.exp() + a.sum(0), lt.nn.Conv2d(4, 5, 3)(x),
        x.amax((2, 3)), (a @ a.t()).sum(), some(40, 40) @ some(40, 40).t(), b.var(0),
        some(50, 70, dtype=lt.int32).sum(1), some(9, dtype=lt.float64) * 2, some(30, 1) * some(50),
        lt.nn.CrossEntropyLoss()(a, lt.tensor(np.zeros(24, int))), x.cumsum(3), some(1) + 1,
        (x.flip(2) * w.sum()).mean(1), some(200, 200, dtype=lt.float16) @ some(200, 50).half(),
    ) for kernel in kernels_of(result)]


def product(size: int) -> tuple[lt.Tensor, lt.Tensor, Kernel]:
    rng = np.random.default_rng(size)
    a, b = (lt.tensor(rng.normal(size=(size, size)).astype(np.float32)) for _ in range(2))
    return a, b, kernels_of(a @ b)[0]


LINE = "tile(i0:2, i1:2) vector(i1:4)"
