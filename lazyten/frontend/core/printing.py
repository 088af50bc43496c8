"""The text of a tensor, laid out as PyTorch lays it out: aligned, four decimals, long ones cut.

In: a NumPy array of the values. Out: text. `Tensor.__repr__` adds what is not a value.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lazyten.support.errors import ArgumentError

Array = np.ndarray[Any, Any]
Formatter = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Options:
    """How tensors are printed. edgeitems: elements at each end of an axis that is cut; threshold:
    tensors of more elements are cut; linewidth: characters a line; precision: decimals; sci_mode:
    powers of ten always, never, or where they are needed."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {"default": Options(), "short": Options(precision=2, edgeitems=2),
            "full": Options(threshold=math.inf)}
options = Options()


def set_printoptions(precision: int | None = None, threshold: float | None = None,
                     edgeitems: int | None = None, linewidth: int | None = None,
                     profile: str | None = None, sci_mode: bool | None = None) -> None:
    """How tensors are printed from now on; see `Options`. What is None stays as it is, but for
    sci_mode. profile: 'default', 'short' or 'full', which the others change. ArgumentError for
    another one, and for numbers below 0."""
    global options
    if profile is not None and not (isinstance(profile, str) and profile in PROFILES):
        raise ArgumentError(f"set_printoptions: there is no profile {profile!r}; use one of "
                            f"{', '.join(map(repr, PROFILES))}")
    given: dict[str, Any] = {"precision": precision, "threshold": threshold,
                             "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None and (not isinstance(value, int | float) or not value >= 0):
            raise ArgumentError(f"set_printoptions: {name}={value!r} must be a number, 0 or more")
    base = options if profile is None else PROFILES[profile]
    options = replace(base, sci_mode=sci_mode,
                      **{name: value for name, value in given.items() if value is not None})


def format_tensor(values: Array | None, suffixes: Sequence[str]) -> str:
    """`tensor(values, suffix, ...)`; `tensor(..., suffix)` for one without values."""
    prefix = "tensor("
    body = "..." if values is None else \
        format_values(values, len(prefix)) if values.size else "[]"
    text = prefix + body
    for suffix in suffixes:
        last = len(text) - text.rfind("\n") - 1
        fits = last + len(suffix) + 3 <= options.linewidth
        text += (", " if fits else ",\n" + " " * len(prefix)) + suffix
    return text + ")"


def format_values(values: Array, indent: int) -> str:
    """Nested brackets; continuation lines are indented by `indent`."""
    cut = values.size > options.threshold
    shown = _cut(values) if cut else values
    return _format(values, indent, cut, *_formatter(shown))


def _cut(values: Array) -> Array:
    """The elements that are shown, for their widths."""
    for axis, n in enumerate(values.shape):
        if n > 2 * options.edgeitems:
            kept = [*range(options.edgeitems), *range(n - options.edgeitems, n)]
            values = values.take(kept, axis)
    return values


def _format(values: Array, indent: int, cut: bool, one: Formatter, width: int) -> str:
    if values.ndim == 0:
        return one(values.item())
    edge = options.edgeitems
    shortened = cut and len(values) > 2 * edge
    rows = [*values[:edge], *values[len(values) - edge:]] if shortened else list(values)
    if values.ndim > 1:
        parts = [_format(np.asarray(r), indent + 1, cut, one, width) for r in rows]
        separator = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    else:
        parts = [one(v.item()) for v in rows]
        separator = ", "
    if shortened:
        parts[edge:edge] = ["..." if values.ndim > 1 else " ..."]
    if values.ndim > 1:
        return "[" + separator.join(parts) + "]"
    per_line = max(1, (options.linewidth - indent) // (width + 2))
    lines = [", ".join(parts[i:i + per_line]) for i in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _formatter(shown: Array) -> tuple[Formatter, int]:
    """How each value is written, and the width of all but -0.0 and infinities."""
    if shown.dtype.kind == "c":
        return _of_parts(_formatter(shown.real), _formatter(shown.imag))
    if shown.dtype.kind != "f":
        width = max((len(str(v)) for v in shown.reshape(-1).tolist()), default=0)
        return lambda v: str(v).rjust(width), width
    finite = [abs(v) for v in shown.reshape(-1).tolist() if math.isfinite(v) and v != 0]
    whole = all(v == math.floor(v) for v in finite)
    most, least = max(finite, default=1.0), min(finite, default=1.0)
    spell: Formatter
    powers = options.sci_mode
    if powers is None:
        powers = most / least > 1000 or most > 1e8 or not whole and least < 1e-4
    if powers and finite:
        spell = f"{{:.{options.precision}e}}".format
    elif whole:
        spell = _whole
    else:
        spell = f"{{:.{options.precision}f}}".format
    kept = [v for v in shown.reshape(-1).tolist() if math.isfinite(v) and v != 0]
    width = max((len(spell(v)) for v in kept), default=1)
    return lambda v: spell(v).rjust(width), width


def _of_parts(real: tuple[Formatter, int], imaginary: tuple[Formatter, int]
              ) -> tuple[Formatter, int]:
    """How a complex number is written: each part as others of its kind."""
    def one(value: Any) -> str:
        second = imaginary[0](value.imag).lstrip()
        return real[0](value.real) + "+" * (second[0] != "-") + second + "j"
    return one, real[1] + imaginary[1] + 1


def _whole(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else str(value)
