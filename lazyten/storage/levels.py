"""Which transforms of lazyten.func are under way in this thread, the outermost first.

`lazyten.func` and its mapping.py enter a level around each call of a user's function; `storage.py`
asks
before a write, `random.py` before it hands out numbers, `jitted.py` before it replays.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local

from lazyten.ir.movement import Shape
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.operators.math import gradients
from lazyten.operators.math.gradients import forward_only, forward_over
from lazyten.support.errors import TransformError
from lazyten.support.grad_mode import stops_tangents
from lazyten.support.location import user_location

FORWARD = frozenset({"jvp", "jacfwd", "linearize", "dual_level"})
"""Transforms of forward mode, which no_grad() does not end."""
serials = itertools.count()
"""Numbers of storages and levels, in the order in which they are made."""


@dataclass(slots=True, eq=False)
class Level:
    """One call of a function under a transform.

    Storages with a smaller number than `first` are from outside, and may not be written to. Under
    vmap there are `size` examples, `randomness` says what random numbers they get, and `examples`
    has the unknowns of one example, of what was given and of what was drawn, and the arrays of all
    that they stand for.
    `shared` are the draws that all examples share, which the first of several chunks of examples
    makes; `used` counts those that this call has asked for.
    """

    operation: str
    first: int
    size: int = 1
    randomness: str = "same"
    examples: dict[Node, Node] = field(default_factory=dict)
    shared: list[Node] = field(default_factory=list)
    used: int = 0


class _Stack(local):
    levels: tuple[Level, ...] = ()


_stack = _Stack()


def under_way() -> tuple[Level, ...]:
    """The levels that this thread is in, the outermost first."""
    return _stack.levels


def tangents_pass() -> bool:
    """Whether what is computed now without gradients, inside no_grad(), has tangents all the same:
    those of a forward mode under way. inference_mode() ends these, too."""
    return any(entered.operation in FORWARD for entered in _stack.levels) and not stops_tangents()


def without_gradient(node: Node) -> Node:
    """`node`, through which no gradient flows, and tangents do where they pass."""
    return forward_only(node) if _stack.levels and node.dtype.is_float and tangents_pass() else \
        make(Op.DETACH, node.dtype, (node,))


def written_over(old: Node, value: Node, by_itself: bool) -> Node:
    """`value`, written in place of `old` without gradients: those that passed it by still do, and
    so do tangents, unless it is written by the tensor itself where they pass."""
    return (forward_over if by_itself and tangents_pass() else gradients.written_over)(old, value)


@contextmanager
def level(operation: str, size: int = 1, randomness: str = "same",
          shared: list[Node] | None = None,
          examples: dict[Node, Node] | None = None) -> Iterator[Level]:
    """Within this block a function runs under the transform `operation`."""
    entered = Level(operation, next(serials), size, randomness,
                    {} if examples is None else examples, [] if shared is None else shared)
    with _standing((*_stack.levels, entered)):
        yield entered


@contextmanager
def outside(entered: Level) -> Iterator[None]:
    """Within this block the levels are those that one of them was entered in."""
    levels = _stack.levels
    with _standing(levels[:levels.index(entered)]):
        yield


@contextmanager
def _standing(levels: tuple[Level, ...]) -> Iterator[None]:
    before = _stack.levels
    _stack.levels = levels
    try:
        yield
    finally:
        _stack.levels = before


def check_write(serial: int, shape: Shape, how: str = "writes to") -> None:
    """TransformError if storage number `serial` is from outside of the function under way."""
    levels = _stack.levels
    if levels and serial < levels[-1].first:
        raise TransformError(f"a function under {levels[-1].operation} {how} a tensor of shape "
                             f"{shape} from outside of it at {user_location()}: that is an "
                             f"argument, or one it found by name, and must stay as it is; write to "
                             f"a clone() of it, or return the new value")
