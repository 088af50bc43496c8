"""Random functions of a tensor whose size varies: exported they are right at every size."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_if_there
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.nn import functional as F

onnx = onnx_if_there.needed()


def span(x: lt.Tensor) -> lt.Tensor:
    return lt.arange(x.shape[0], device=x.device)


Step = Callable[[lt.Tensor], lt.Tensor]
STEPS: dict[str, Step] = {
    "relu": lambda x: x.relu(), "scale": lambda x: x * 0.5, "flip": lambda x: x.flip(0),
    "size": lambda x: x / x.shape[0], "mean": lambda x: x - x.mean(0, keepdim=True),
    "softmax": lambda x: x.softmax(0), "more": lambda x: lt.cat([x, x[:1]]),
    "fewer": lambda x: x[1:] if x.shape[0] > 1 else x, "every other": lambda x: x[::2],
    "half": lambda x: x[: x.shape[0] // 2 + 1], "first": lambda x: x[:6], "last": lambda x: x[-6:],
    "pad": lambda x: F.pad(x, (0, 0, 1, 2)), "places": lambda x: x + span(x)[:, None],
    "twice": lambda x: lt.stack([x, -x], 1).flatten(0, 1), "products": lambda x: (x @ x.T) @ x / 9,
    "roll": lambda x: x.roll(1, 0), "sums": lambda x: x.cumsum(0) / x.shape[0],
    "pool": lambda x: F.avg_pool1d(F.pad(x.T, (1, 1)), 2).T, "order": lambda x: x.sort(0)[0],
    "windows": lambda x: F.pad(x, (0, 0, 2, 0)).unfold(0, 3, 1).amax(-1),
    "positive": lambda x: lt.where(x > 0, x, x[:, :1] * 0),
    "causal": lambda x: (span(x)[:, None] >= span(x)).to(x.dtype) @ x / x.shape[0],
    "flat": lambda x: x.reshape(-1)[: x.shape[0] * 3].reshape(-1, 3),
    "outer": lambda x: (x[:, None] * x[None]).sum(1) / x.shape[0],
    "upside down": lambda x: x.T.flip(1).T, "largest": lambda x: x - x[x.argmax(0)[:1]],
}


def composed(steps: Sequence[str]) -> Callable[[lt.Tensor], lt.Tensor]:
    def function(x: lt.Tensor) -> lt.Tensor:
        for name in steps:
            x = STEPS[name](x)
        return x
    return function


@given(steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
       least=st.sampled_from([1, 2, 7]), sizes=st.lists(st.integers(1, 40), min_size=2, max_size=3))
def test_a_random_function_is_right_at_every_size_or_an_error(
        steps: list[str], least: int, sizes: list[int]) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    function = composed(steps)
    try:
        proto = lt.onnx.export(function, lt.ones(9, 3),
                               dynamic={"x": {0: lt.Dim("n", least, 700)}})
    except lt.ArgumentError as error:
        event(f"refused: {str(error)[:60]}")
        assert "onnx.export(dynamic=...)" in str(error)
        return
    event("exported")
    onnx.checker.check_model(proto, full_check=True)
    options: Any = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(proto.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    for n in {least, *(max(n, least) for n in sizes)}:
        array = random.standard_normal((n, 3)).astype(np.float32)
        found = session.run(None, {"input_0": array})[0]
        wanted = function(lt.tensor(array, device="interpreter")).numpy()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", STEPS)
def test_no_single_step_is_refused(name: str) -> None:
    lt.onnx.export(STEPS[name], lt.ones(9, 3), dynamic={"x": {0: lt.Dim("n", 7)}})
