"""Many kernels launched by one call: the same as one launch after the other."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten import realization


def test_a_plan_that_runs_often_gives_the_same_with_one_call_for_all_kernels(device: str) -> None:
    rng = np.random.default_rng(0)
    a, b = [rng.normal(size=(40, 70)).astype(np.float32) for _ in range(2)]

    def run(scale: float) -> list[np.ndarray[Any, Any]]:
        x, y = lt.tensor(a * scale, device=device), lt.tensor(b, device=device)
        product = (x @ y.T).softmax(1)
        parts = [product, product @ x, x.sum(0) + 1, product.max(1).values]
        lt.realize(*parts)
        return [p.numpy() for p in parts]

    scales = [1 + k / 4 for k in range(realization.RUNS + 3)]
    results = [run(np.float32(s)) for s in scales]
    joined = [p for (where, _), p in realization._plans.items()
              if where == device and p.launch is not None and len(p.programs) >= 4]
    assert joined
    for s, result in zip(scales, results, strict=True):
        scaled = a.astype(np.float64) * s
        scores = np.exp(scaled @ b.T - (scaled @ b.T).max(1, keepdims=True))
        product = scores / scores.sum(1, keepdims=True)
        for got, wanted in zip(result, [product, product @ scaled, scaled.sum(0) + 1,
                                        product.max(1)], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)
