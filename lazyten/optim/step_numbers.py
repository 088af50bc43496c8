"""Numbers of a compiled step that change between steps: kernel inputs, by name.

`_update` of an optimizer asks for them, as formulas of the learning rate and the count of steps.
These are written in the functions below, of numbers and of zero-dim tensors alike.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np

from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.storage.held_memory import HeldMemory
from lazyten.storage.storage import Buffer

Formula = Callable[[Any, Any], Any]
Place = tuple[int, str, int]
"""Of an option: the number of its group, its name and its place in a tuple."""
Key = tuple[str, int, int, DType, str]
"""Of a number in memory: its name, its group, which of the counts of steps there it belongs to, its
type and its device."""


class Owner(Protocol):
    """What a step's numbers need of the optimizer (`CompiledOptimizer`)."""

    _varying: frozenset[Place]
    _ages: dict[tuple[int, int], int]

    def _count(self, state: State) -> None: ...
    def _count_on_device(self, state: State, like: Tensor, before: int) -> Tensor | None: ...
    def _input(self, name: str, number: int, age: int, like: Tensor,
               compute: Callable[[], float]) -> Tensor: ...


class Numbers:
    """Numbers of one parameter's step that change between steps, as zero-dim tensors."""

    def __init__(self, owner: Owner, p: Tensor, state: State, group: Group,
                 number: int) -> None:
        self._owner, self._p, self._state = owner, p, state
        self._group, self._number = group, number
        self._age = 0
        self._taken: Tensor | None = None
        if "step" in state:
            self.count()
            if self._taken is None:
                owner._count(state)
                self._age = owner._ages.setdefault((number, state["step"]), len(owner._ages))

    def count(self, before: int = 0) -> Tensor | None:
        """How many steps were taken, this one with it, if only the device knows. before: those of a
        state that has counted none."""
        if self._taken is None:
            self._taken = self._owner._count_on_device(self._state, self._p, before)
        return self._taken

    def __call__(self, name: str, formula: Formula) -> Tensor:
        """formula(lr, t), t being the count of steps, this one with it: of Python numbers, or, if a
        learning rate is a tensor or steps may be skipped, of tensors (see below)."""
        group, state = self._group, self._state  # what is called later must not hold this object
        rate, taken = group["lr"], self._taken
        if taken is None and not isinstance(rate, Tensor):
            return self.given(name, lambda: formula(float(group["lr"]), state.get("step")))
        t = taken
        if t is None and "step" in state:
            t = self.given("t", lambda: state["step"])
        lr = rate.detach().to(dtype=scalar_type(self._p), device=self._p.device) if isinstance(
            rate, Tensor) else self.given("lr", lambda: float(group["lr"]))
        result: Tensor = formula(lr, t)
        return result

    @property
    def options(self) -> Group:
        """The group, with tensors for numbers that vary."""
        owner, group = self._owner, self._group
        mine = {(name, i) for number, name, i in owner._varying if number == self._number}
        if not mine:
            return group
        found: Group = {}
        for name, value in group.items():
            if (name, 0) in mine and isinstance(value, int | float):
                found[name] = self.given(name, partial(group.__getitem__, name))
            elif isinstance(value, list | tuple) and any(n == name for n, _ in mine):
                found[name] = [self.given(f"{name}{i}", partial(_at, group, name, i))
                               if (name, i) in mine else v for i, v in enumerate(value)]
        return {**group, **found}

    @property
    def lr(self) -> Tensor:
        """The learning rate."""
        return self("lr", lambda lr, t: lr)

    def given(self, name: str, compute: Callable[[], float]) -> Tensor:
        """Another number that changes: the caller computes it."""
        return self._owner._input(name, self._number, self._age, self._p, compute)


class HeldNumber:
    """A number that changes, in memory that serves again where it may."""

    __slots__ = ("_device", "_dtype", "_held", "_stored", "_value")

    def __init__(self, dtype: DType, device: str) -> None:
        self._dtype, self._device = dtype, device
        self._value = math.nan
        self._stored = np.zeros(1, dtype.numpy)
        self._held = HeldMemory()

    def memory(self, value: float) -> Buffer:
        """Memory with this number."""
        if self._value == value:
            return self._held.present
        if -_LARGE < value < _LARGE:
            self._stored[0] = value
        else:
            self._stored = ops.encode(np.array([value]), self._dtype)
        self._value = value
        return self._held.filled(self._stored, self._dtype, self._device)


_LARGE = 1e38
"""NumPy warns where a number is too large for a type."""


def _at(group: Group, name: str, place: int) -> float:
    value: float = group[name][place]
    return value


def numbers_of(groups: list[Group], names: frozenset[str]) -> Iterator[tuple[Place, float]]:
    """Options that are numbers, by the number of their group, name and place in a tuple. Those of a
    group whose learning rate is a tensor are left out: its formulas are of tensors."""
    for number, group in enumerate(groups):
        if not isinstance(group["lr"], Tensor):
            for name in names & group.keys():
                listed = group[name] if isinstance(group[name], list | tuple) else [group[name]]
                for i, value in enumerate(listed):
                    if type(value) is float:
                        yield (number, name, i), value


def scalar_type(like: Tensor) -> DType:
    """What numbers beside a parameter are computed in."""
    return dt.float64 if like.dtype is dt.float64 else dt.float32


def count_type() -> DType:
    """What a state keeps counts and other numbers in, as PyTorch does."""
    return dt.float64 if dt.default_float is dt.float64 else dt.float32


# ---- what formulas are written in ---------------------------------------------------------------

def power(base: float, exponent: Any) -> Any:
    """base ** exponent, of a base that is 0 or more."""
    if not isinstance(exponent, Tensor):
        return base**exponent
    return (exponent * math.log(base)).exp() if base else exponent * 0


def lacking(beta: float, t: Any) -> Any:
    """1 - beta ** t, without the loss of the difference in 32 bits: what an average that began at 0
    has reached of its size after t steps."""
    if not isinstance(t, Tensor):
        return 1 - beta**t
    return -(t * math.log(beta)).expm1() if beta else t * 0 + 1


def root(x: Any) -> Any:
    """The square root; NaN of what is below 0."""
    if isinstance(x, Tensor):
        return x.sqrt()
    return math.sqrt(x) if x >= 0 else math.nan


def greater(x: Any, limit: float) -> Any:
    """x, but not below `limit`."""
    return x.clamp(min=limit) if isinstance(x, Tensor) else max(x, limit)


def lesser(x: Any, y: Any) -> Any:
    """The lesser of two."""
    if isinstance(x, Tensor):
        return x.minimum(y)
    return y.minimum(x) if isinstance(y, Tensor) else min(x, y)


def choice(condition: Any, x: Any, y: Any) -> Any:
    """x where a condition holds, else y."""
    return where(condition, x, y) if isinstance(condition, Tensor) else x if condition else y


def power_of(x: Any, exponent: float) -> Any:
    """x ** exponent, of an x that changes."""
    return x**exponent
