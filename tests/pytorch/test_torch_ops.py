"""Elementwise operations and reductions beside PyTorch's, where NumPy has no such dtype or rule."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import FLOAT_EDGES, as_tensor, computed

import lazyten as lt
from lazyten.ir import dtype as dt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

FLOATS = [lt.float32, lt.float64, lt.float16, lt.bfloat16]
FLOAT_NAMES = [d.name for d in FLOATS]

UNARY = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal",
         "square", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "floor", "ceil", "trunc", "round",
         "relu", "neg", "abs", "isnan", "isinf", "isfinite", "logical_not"]  # sign(NaN) is NumPy's
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b, "maximum": lambda a, b: a.maximum(b), "eq": lambda a, b: a == b,
    "minimum": lambda a, b: a.minimum(b), "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b,
    "alpha": lambda a, b: a.add(b, alpha=2), "rsub": lambda a, b: 1 - a,
    "pow2": lambda a, b: a ** 2}
EXACT = {"add", "sub", "mul", "div", "maximum", "minimum", "eq", "lt", "ge", "rsub", "floor",
         "ceil", "trunc", "round", "relu", "neg", "abs", "isnan", "isinf", "isfinite",
         "logical_not", "square"}
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def torch_dtype(dtype: dt.DType) -> Any:
    return getattr(torch, dtype.name)


def values_of(theirs: Any) -> Any:
    """torch's values as NumPy's, bfloat16 as float32 as our numpy() gives it."""
    return (theirs.float() if theirs.dtype is torch.bfloat16 else theirs).numpy()


@pytest.mark.parametrize("dtype", FLOATS, ids=FLOAT_NAMES)
def test_floats_give_torchs_values(dtype: dt.DType, device: str) -> None:
    edges = torch.tensor(FLOAT_EDGES, dtype=torch_dtype(dtype))
    a, b = edges[:, None], edges[None, :]
    x, y = (as_tensor(values_of(t), device, dtype) for t in (a, b))
    expected = {n: getattr(a, n)() for n in UNARY} | {n: f(a, b) for n, f in BINARY.items()}
    found = computed({n: getattr(x, n)() for n in UNARY} | {n: f(x, y) for n, f in BINARY.items()})
    for name, theirs in expected.items():
        if name in EXACT:
            np.testing.assert_array_equal(found[name], values_of(theirs), err_msg=name)
        else:
            np.testing.assert_allclose(found[name], values_of(theirs), rtol=TOLERANCE[dtype.name],
                                       atol=TOLERANCE[dtype.name] / 10, err_msg=name)


@pytest.mark.parametrize("dtype", FLOATS, ids=FLOAT_NAMES)
def test_results_have_torchs_dtypes(dtype: dt.DType) -> None:
    ours, theirs = lt.ones(2, dtype=dtype), torch.ones(2, dtype=torch_dtype(dtype))
    for name in UNARY:
        assert torch_dtype(getattr(ours, name)().dtype) is getattr(theirs, name)().dtype, name
    for name, function in BINARY.items():
        assert torch_dtype(function(ours, ours).dtype) is function(theirs, theirs).dtype, name


INTEGERS = [lt.bool_, lt.uint8, lt.int8, lt.int32, lt.int64]
INTEGER_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // (b | 1), "mod": lambda a, b: a % (b | 1),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "invert": lambda a, b: ~a, "sqrt": lambda a, b: a.sqrt(), "logical_xor":
    lambda a, b: a.logical_xor(b), "scalar": lambda a, b: a * 2.5, "sum": lambda a, b: a.sum(),
    "cumsum": lambda a, b: a.cumsum(0), "maximum": lambda a, b: a.maximum(b)}


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integers_and_bools_give_torchs_values(dtype: dt.DType, device: str) -> None:
    below = [-1, -3, -8] if dtype.kind == "i" else []
    numbers = np.array([0, 1, 2, 3, 7, int(dtype.max), *below]).astype(dtype.numpy)
    theirs_a, theirs_b = torch.tensor(numbers)[:, None], torch.tensor(numbers)[None, :]
    a, b = as_tensor(numbers, device)[:, None], as_tensor(numbers, device)[None, :]
    names = [n for n in INTEGER_OPS if dtype is not lt.bool_ or n not in ("floordiv", "mod")]
    found = computed({n: INTEGER_OPS[n](a, b) for n in names})
    for name in names:
        expected = values_of(INTEGER_OPS[name](theirs_a, theirs_b))
        assert found[name].dtype == expected.dtype, name
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, err_msg=name)


def test_reductions_give_torchs_values(device: str) -> None:
    values = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    values[1, 2] = [1, np.nan, 3, 3, -np.inf]
    calls: dict[str, Callable[[Any], Any]] = {
        "max": lambda x: x.max(-1).values, "max at": lambda x: x.max(-1).indices,
        "min at": lambda x: x.min(0, True).indices, "argmax": lambda x: x.argmax(1, keepdim=True),
        "var": lambda x: x.var((0, 1)), "std": lambda x: x.std(correction=0),
        "sum": lambda x: x.sum((0, -1), keepdim=True), "lse": lambda x: x.logsumexp((1, 2)),
        "softmax": lambda x: x.softmax(1), "cumsum": lambda x: x.cumsum(2),
        "mean": lambda x: x.mean(1), "any": lambda x: x.any(0), "amin": lambda x: x.amin((0, 2)),
        "prod": lambda x: x.prod(2), "norm": lambda x: x.norm(dim=1)}
    x, theirs = as_tensor(values, device), torch.tensor(values)
    found = computed({n: f(x) for n, f in calls.items()})
    for name, function in calls.items():
        expected = values_of(function(theirs))
        assert found[name].shape == expected.shape and found[name].dtype == expected.dtype, name
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_halves_convert_as_torchs_do(device: str) -> None:
    wide = np.random.default_rng(1).normal(size=2000) * 10.0 ** np.arange(-10, 10).repeat(100)
    wide = np.concatenate([wide, [65504, 65519.99, 65520, 1e39, 2.0**-24, 2.0**-25, -0.0, np.nan,
                                  1.0009765625 / 2 + 0.5, 1 + 2.0**-8 + 2.0**-40]])
    for source in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            values = wide.astype(source)
        x, theirs = as_tensor(values, device), torch.tensor(values)
        found = computed({"half": x.half(), "bfloat16": x.bfloat16()})
        np.testing.assert_array_equal(found["half"], theirs.half().numpy())
        if source is np.float32:  # torch rounds float64 to bfloat16 twice, we once
            np.testing.assert_array_equal(found["bfloat16"], values_of(theirs.bfloat16()))
