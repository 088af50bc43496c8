"""What is wrong with an array, and what in a runtime is the likely cause, in plain words."""
from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np

from lazyten.ir import ops
from lazyten.ir.dtype import DType

Array = np.ndarray[Any, Any]

NOT_WAITED = (
    "Read again a moment later, the values are right: copy_out came before the launch was done. It "
    "waits for all launches and copies before it; on a queue that runs things in order, wait for "
    "the copy itself.")
NAN_LOST = (
    "Where a NaN should come out there is a number: the kernels are compiled as if there were no "
    "NaN. Leave out -ffast-math, -ffinite-math-only and options like them.")
ONLY_ZEROS = (
    "All values are 0: the kernel did not run, or wrote to other memory, or the copy read other "
    "memory. Check that the handles reach the kernel as pointers to device memory.")
SHIFTED = (
    "The values are right, but {by} elements too {where}: somewhere an offset is left out, added "
    "twice, or counted in elements where it is bytes.")
TAIL = (
    "The first {right:,} of {size:,} elements are right and the others are not: the last block "
    "does not run. Launch all work items, with the number of groups rounded up; kernels do nothing "
    "in work items that are too many.")
MOST_SHIFT = 64
LEAST_BLOCK = 8
"""Fewer elements than this that are right, before others, may be so by chance."""
SECONDS = 0.2
"""How long after a wrong result it is read again."""


class Nonconformance(AssertionError):
    """A device gave something else than it should. advice: the likely cause."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice


class Readable(Protocol):
    """A tensor, for its values."""

    def numpy(self) -> Array: ...


def expect(got: Array, want: Array, what: str, wrong: Array | None = None) -> None:
    """Nonconformance unless two arrays hold the same values, NaN where NaN is.

    wrong: where they do not, if another comparison than equality decides.
    """
    expect_read(lambda: got, want, what, wrong)


def expect_values(tensor: Readable, want: Array, what: str) -> None:
    """Nonconformance unless a tensor has these values; a wrong one is read a second time."""
    expect_read(tensor.numpy, want, what)


def expect_read(read: Any, want: Array, what: str, wrong: Array | None = None) -> None:
    """Nonconformance unless what `read` gives is as wanted; if it is not, it is called again."""
    got = np.asarray(read())
    if got.shape != want.shape:
        raise Nonconformance(f"{what}: shape {got.shape}, not {want.shape}")
    wrong = differs(got, want) if wrong is None else wrong
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    message = (f"{what}: {int(wrong.sum()):,} of {want.size:,} values are wrong, the first at "
               f"{list(at)}: {got[at]!r}, not {want[at]!r}")
    time.sleep(SECONDS)
    if not differs(np.asarray(read()), want).any():
        raise Nonconformance(message, NOT_WAITED)
    raise Nonconformance(message, likely_cause(got.ravel(), want.ravel(), wrong.ravel()))


def differs(got: Array, want: Array) -> Array:
    """Where two arrays are not the same; a NaN is the same as any other."""
    with np.errstate(all="ignore"):
        different: Array = (got != want) & ~((got != got) & (want != want))
    return different


def likely_cause(got: Array, want: Array, wrong: Array) -> str:
    """Advice for flat arrays that differ at `wrong`; empty if there is none."""
    with np.errstate(all="ignore"):
        lost = (want != want) & (got == got)
    if lost.any() and not (wrong & ~lost).any():
        return NAN_LOST
    if got.size > 1 and not got.any() and want.any():
        return ONLY_ZEROS
    for by in range(1, min(MOST_SHIFT, got.size // 2) + 1):
        if _same(got[by:], want[:-by]):
            return SHIFTED.format(by=by, where="late")
        if _same(got[:-by], want[by:]):
            return SHIFTED.format(by=by, where="early")
    right = int(np.argmax(wrong))
    # What memory holds behind them may happen to be right.
    if right >= LEAST_BLOCK and wrong[right:].mean() > 0.5:
        return TAIL.format(right=right, size=got.size)
    return ""


def _same(a: Array, b: Array) -> bool:
    """Whether two arrays are equal, and not all one value, which would be no evidence."""
    return a.size > 3 and not differs(a, b).any() and bool(differs(a, a[:1]).any())


LEAST_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}
"""Of normal numbers."""


def errors_in_ulp(got: Array, exact: Array, dtype: DType, scale: Array | None = None) -> Array:
    """|got - exact| in units in the last place of `exact`, or of `scale`, as numbers of `dtype`;
    inf where only one is finite, or NaN. What rounds to infinity may as well be the largest number.

    got: values of dtype's compute type. exact: of a wider type.
    """
    wide = exact.dtype
    with np.errstate(all="ignore"):
        rounded = ops.round_to(exact.astype(dtype.compute), dtype).astype(wide)
        found = got.astype(wide)
        finite = np.isfinite(rounded) & np.isfinite(found)
        size = np.abs(np.where(finite, rounded if scale is None else scale, 1).astype(wide))
        exponent = np.maximum(np.frexp(size)[1] - 1, LEAST_EXPONENT[dtype.name])
        unit = np.ldexp(np.ones((), wide), exponent - (dtype.significand_bits - 1))
        distance = np.abs(found - exact) / unit
    return np.where(finite, distance, np.where(differs(found, rounded), np.inf, 0))


def is_subnormal(values: Array, dtype: DType) -> Array:
    """Where floats are so small that some devices take them for 0."""
    least = np.ldexp(1.0, LEAST_EXPONENT[dtype.name])
    with np.errstate(all="ignore"):
        small: Array = (values != 0) & (np.abs(values.astype(np.float64)) < least)
    return small
