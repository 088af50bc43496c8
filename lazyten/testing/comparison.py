"""`assert_close`: tensors that are equal but for rounding, under PyTorch's name and tolerances."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.support.errors import ArgumentError

Message = str | Callable[[str], str] | None
_NEAR: dict[DType, tuple[float, float]] = {
    dt.float16: (1e-3, 1e-5), dt.bfloat16: (1.6e-2, 1e-5), dt.float32: (1.3e-6, 1e-5),
    dt.float64: (1e-7, 1e-7)}
"""PyTorch's rtol and atol of each element type, and of complex numbers whose parts are of it;
others must be equal."""


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True,
                 rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
                 check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False, msg: Message = None) -> None:
    """AssertionError unless |actual - expected| <= atol + rtol * |expected|, in tensors, arrays and
    numbers, and in sequences and mappings of them.

    Shapes, and what the check_ options name, must be equal. rtol and atol: PyTorch's for the less
    exact of the two element types, unless both are given.
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError("assert_close: give both rtol and atol, or neither")

    def differ(where: str, what: str) -> None:
        text = f"assert_close{where}: {what}"
        raise AssertionError(msg(text) if callable(msg) else msg or text)

    def compare(a: Any, b: Any, where: str) -> None:
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            if a.keys() != b.keys():
                differ(where, f"the keys are {list(a)} and {list(b)}")
            for key in a:
                compare(a[key], b[key], f"{where}[{key!r}]")
        elif isinstance(a, Sequence) and isinstance(b, Sequence):
            if len(a) != len(b):
                differ(where, f"there are {len(a)} and {len(b)}")
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                compare(x, y, f"{where}[{i}]")
        else:
            both(a, b, where)

    def both(a: Any, b: Any, where: str) -> None:
        x: Any
        y: Any
        of_tensors = isinstance(a, Tensor) and isinstance(b, Tensor)
        x, y = (v if isinstance(v, Tensor) else tensor(v) for v in (a, b))
        for checked, name in ((True, "shape"), (check_dtype and of_tensors, "dtype"),
                              (check_device and of_tensors, "device"),
                              (check_layout and of_tensors, "layout")):
            if checked and getattr(x, name) != getattr(y, name):
                differ(where, f"{name} {getattr(x, name)} and {getattr(y, name)}")
        if check_stride and x.stride() != y.stride():
            differ(where, f"strides {x.stride()} and {y.stride()}")
        x, y = (v.to_dense() if is_sparse(v) else v for v in (x, y))
        found = _far(x, y, rtol, atol, equal_nan)
        if found:
            differ(where, found)

    compare(actual, expected, "")


def _far(x: Tensor, y: Tensor, rtol: float | None, atol: float | None,
         equal_nan: bool) -> str:
    """What is too far apart; nothing if all is close."""
    nearest = [max(_NEAR.get(t.dtype.component, (0.0, 0.0))[i] for t in (x, y)) for i in range(2)]
    relative, absolute = (given if given is not None else default
                          for given, default in zip((rtol, atol), nearest, strict=True))
    a, b = (t.detach().to(device="cpu", dtype=dt.float64 if t.dtype.is_float else None).numpy()
            for t in (x, y))
    close = np.isclose(a, b, rtol=relative, atol=absolute, equal_nan=equal_nan) \
        if relative or absolute else (a == b) | (equal_nan & (a != a) & (b != b))
    if close.all():
        return ""
    wide = np.result_type(a, b, np.float64)
    gap = np.abs(a.astype(wide) - b.astype(wide))
    return (f"{(~close).sum()} of {close.size} elements differ by more than {absolute} + "
            f"{relative} * |expected|, by {np.nanmax(gap, initial=0.0)} at most")


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None,
                    atol: float | None = None, equal_nan: bool = True, msg: Message = "") -> None:
    """`assert_close` under PyTorch's older name: of any element types, and NaN equals NaN."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 msg=msg or None)
