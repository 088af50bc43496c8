"""What two libraries saw of one program, compared: rounding is no difference, all else is."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fuzz.libraries import Array, Observation, Seen, Stirred
from fuzz.program import Program

STIRRED_RUNS = 6
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 1e-2, "bfloat16": 4e-2}
"""Differences below that, relative to the largest element, need no closer look."""


@dataclass(frozen=True)
class Difference:
    """One thing that two libraries see differently."""

    name: str
    kind: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.name}: {self.expected} expected, {self.found} found"


DERIVED = frozenset({"autograd.grad", "grad", "jvp", "hessian", "per-example gradient",
                     "backward with a graph"})
"""Rows that give derivatives. A derivative that is constant requires a gradient in one library and
none in another, and so does a quotient that is rounded down."""


def differences(program: Program, expected: Observation, found: Observation,
                foreign: bool = False) -> Iterator[Difference]:
    """How `found` differs. Values that are not exact differ where stirring does not explain it.
    foreign: beside PyTorch, which has NaN where others have none in some gradients.

    Raises nothing: errors are differences, too, unless both end in one.
    """
    rows = set(program.rows)
    derived = not DERIVED.isdisjoint(rows) or {"vmap", "floor division"} <= rows
    if expected.error is not None or found.error is not None:
        if (expected.error is None) != (found.error is None):
            yield Difference(found.row or expected.row, "error", _error(expected), _error(found))
        return
    stirred: list[Observation] = []
    for name, mine in expected.tensors.items():
        other = found.tensors.get(name)
        if mine is None or other is None:
            # Two equal views are one here, so that one may depend on what another was made of.
            if mine is not other and not (mine is None and foreign and "autograd.grad" in rows):
                yield Difference(name, "presence", str(mine), str(other))
            continue
        yield from _facts(name, mine, other, derived)
        if mine.value.shape == other.value.shape and not _same_bits(mine.value, other.value):
            exact = name in program.exact
            if exact or not _close(mine, other) and not _explained(
                    program, name, mine, other, stirred, foreign):
                yield Difference(name, "values", _text(mine.value), _text(other.value))


def _facts(name: str, mine: Seen, other: Seen, derived: bool) -> Iterator[Difference]:
    """Everything but values."""
    pairs: dict[str, tuple[object, object]] = {
        "dtype": (mine.dtype, other.dtype), "shape": (mine.value.shape, other.value.shape)}
    if not derived:
        pairs["requires_grad"] = mine.requires_grad, other.requires_grad
    if mine.value.size and not name.endswith(".grad"):
        large = [a for a, n in enumerate(mine.value.shape) if n > 1]
        if mine.value.shape == other.value.shape:
            pairs["strides"] = (tuple(mine.strides[a] for a in large),
                                tuple(other.strides[a] for a in large))
            pairs["offset"] = (mine.offset, other.offset)
        pairs["alias"] = (mine.root, other.root)
    for kind, (a, b) in pairs.items():
        if a != b:
            yield Difference(name, kind, str(a), str(b))


def _same_bits(a: Array, b: Array) -> bool:
    """Equal, NaN too; 0.0 and -0.0 are taken for one."""
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f"))


def _close(a: Seen, b: Seen) -> bool:
    if a.value.dtype.kind != "f" or b.value.dtype.kind != "f":
        return False
    tolerance = TOLERANCE.get(a.dtype, 0.0)
    finite = np.abs(a.value[np.isfinite(a.value)])
    scale = float(finite.max(initial=0))
    return bool(np.allclose(b.value.astype(float), a.value.astype(float), rtol=tolerance,
                            atol=tolerance * scale, equal_nan=True))


def _explained(program: Program, name: str, mine: Seen, other: Seen,
               stirred: list[Observation], foreign: bool) -> bool:
    """Whether rounding elsewhere takes the value as far. What is not finite in all runs has to be
    so in `other`, too."""
    if not stirred:
        stirred += [Stirred(seed).observe([program])[0] for seed in range(STIRRED_RUNS)]
    runs = [o.tensors.get(name) for o in stirred]
    values = [s.value for s in runs if s is not None and s.value.shape == mine.value.shape]
    if len(values) < len(runs):
        return any(s is not None for s in runs)  # its shape depends on rounding
    changed = any(not _same_bits(v, mine.value) for v in values)
    if mine.value.dtype.kind != "f" or other.value.dtype.kind != "f":
        return changed
    stack = np.stack([mine.value, *values]).astype(np.float64)
    finite, theirs = np.isfinite(stack[0]), other.value.astype(np.float64)
    if not (np.isfinite(stack) == finite).all():
        return changed  # whether it is finite depends on rounding
    if not np.array_equal(theirs[~finite], stack[0][~finite], equal_nan=True) or \
            not np.isfinite(theirs[finite]).all():
        return foreign and changed
    low, high = stack.min(0)[finite], stack.max(0)[finite]
    room = 8 * (high - low) + 4 * np.max(high - low, initial=0) + _ulp(mine)[finite]
    return bool(np.all((theirs[finite] >= low - room) & (theirs[finite] <= high + room)))


def _ulp(seen: Seen) -> Array:
    digits = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}[seen.dtype]
    return np.abs(seen.value.astype(np.float64)) * 8 * 2.0 ** -digits


def _error(o: Observation) -> str:
    return "none" if o.error is None else f"{type(o.error).__name__}: {o.error}"


def _text(array: Array) -> str:
    return np.array2string(array, precision=9, threshold=40).replace("\n", "\n    ")

