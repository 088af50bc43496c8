"""The node tests of the ONNX standard, as the package onnx has them: models, inputs, outputs."""
from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NAMES = (Path(__file__).parents[1] / "onnx" / "node_tests.txt").read_text().split()
"""All node tests of the package onnx in requirements-dev.txt, without `test_`."""
REFUSED = {"image_decoder": "lazyten does not have this operator"}
"""Beginnings of names, and what the error says."""
RANDOM = ("bernoulli", "training_dropout")
"""Beginnings of names of tests whose outputs hang on a generator: shapes and types are compared."""
FIXED = ("training_dropout_zero_ratio",)
NARROW = ("attention_4d_causal_bf16", "attention_4d_causal_fp16", "attention_4d_padded_kv_bf16",
          "attention_4d_causal_padded_kv_bf16", "attention_4d_attn_mask_causal_bf16",
          "attention_3d_causal_bf16")
"""Expected with each sum of 16-bit floats rounded at every addition, as NumPy does, while lazyten
rounds sums once: compared to two units of the last place."""
NOISE = {"dft_inverse": 1e-6}
"""Expected values have the rounding of another transform, 2e-7 where 0 is exact."""


@functools.cache
def cases() -> dict[str, Any]:
    """The package's tests by name; it computes them, which takes some seconds."""
    from onnx.backend.test.loader import load_model_tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name.removeprefix("test_"): case for case in load_model_tests(kind="node")}


def as_value(value: Any) -> Any:
    """A value of a test's data: some are messages."""
    from onnx import TensorProto, numpy_helper
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def compare(name: str, found: Any, wanted: Any, rtol: float, atol: float) -> None:
    """That an output is what a test wants: type, shape, elements."""
    if wanted is None or isinstance(wanted, list):
        assert type(found) is type(wanted) and len(found or []) == len(wanted or [])
        for one, other in zip(found or [], wanted or [], strict=True):
            compare(name, one, other, rtol, atol)
        return
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "UO":
        assert found.tolist() == wanted.tolist()
        return
    assert found.dtype == wanted.dtype
    if name.startswith(RANDOM) and not name.startswith(FIXED):
        return
    if name.startswith(NARROW):
        rtol = 2.0 ** -6 if str(wanted.dtype) == "bfloat16" else 2.0 ** -9
    atol = next((x for start, x in NOISE.items() if name.startswith(start)), atol)
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol, atol)


def selected() -> list[Any]:
    """The names as parameters: each twelfth is quick, the others are slow."""
    return [pytest.param(name, marks=() if number % 12 == 0 else (pytest.mark.slow,))
            for number, name in enumerate(NAMES)]
