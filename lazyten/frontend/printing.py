"""The text of a tensor, laid out as PyTorch lays it out: aligned, four decimals, long ones cut.

In: a NumPy array of the values. Out: text. `Tensor.__repr__` adds what is not a value.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Formatter = Callable[[Any], str]

EDGE = 3
"""Elements shown at each end of an axis that is cut."""
THRESHOLD = 1000
"""Tensors of more elements are cut."""
LINE = 80
"""Characters a line."""
DECIMALS = 4


def format_tensor(values: Array, suffixes: Sequence[str]) -> str:
    """`tensor(values, suffix, ...)`."""
    prefix = "tensor("
    body = format_values(values, len(prefix)) if values.size else "[]"
    text = prefix + body
    for suffix in suffixes:
        last = len(text) - text.rfind("\n") - 1
        fits = last + len(suffix) + 3 <= LINE
        text += (", " if fits else ",\n" + " " * len(prefix)) + suffix
    return text + ")"


def format_values(values: Array, indent: int) -> str:
    """Nested brackets; continuation lines are indented by `indent`."""
    cut = values.size > THRESHOLD
    shown = _cut(values) if cut else values
    return _format(values, indent, cut, *_formatter(shown))


def _cut(values: Array) -> Array:
    """The elements that are shown, for their widths."""
    for axis, n in enumerate(values.shape):
        if n > 2 * EDGE:
            kept = [*range(EDGE), *range(n - EDGE, n)]
            values = values.take(kept, axis)
    return values


def _format(values: Array, indent: int, cut: bool, one: Formatter, width: int) -> str:
    if values.ndim == 0:
        return one(values.item())
    shortened = cut and len(values) > 2 * EDGE
    rows = [*values[:EDGE], *values[-EDGE:]] if shortened else list(values)
    if values.ndim > 1:
        parts = [_format(np.asarray(r), indent + 1, cut, one, width) for r in rows]
        separator = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    else:
        parts = [one(v.item()) for v in rows]
        separator = ", "
    if shortened:
        parts[EDGE:EDGE] = ["..." if values.ndim > 1 else " ..."]
    if values.ndim > 1:
        return "[" + separator.join(parts) + "]"
    per_line = max(1, (LINE - indent) // (width + 2))
    lines = [", ".join(parts[i:i + per_line]) for i in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _formatter(shown: Array) -> tuple[Formatter, int]:
    """How each value is written, and the width of all but -0.0 and infinities."""
    if shown.dtype.kind != "f":
        width = max((len(str(v)) for v in shown.reshape(-1).tolist()), default=0)
        return lambda v: str(v).rjust(width), width
    finite = [abs(v) for v in shown.reshape(-1).tolist() if math.isfinite(v) and v != 0]
    whole = all(v == math.floor(v) for v in finite)
    most, least = max(finite, default=0.0), min(finite, default=1.0)
    spell: Formatter
    if finite and (most / least > 1000 or most > 1e8 or not whole and least < 1e-4):
        spell = f"{{:.{DECIMALS}e}}".format
    elif whole:
        spell = _whole
    else:
        spell = f"{{:.{DECIMALS}f}}".format
    kept = [v for v in shown.reshape(-1).tolist() if math.isfinite(v) and v != 0]
    width = max((len(spell(v)) for v in kept), default=1)
    return lambda v: spell(v).rjust(width), width


def _whole(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else str(value)
