"""Graphs without their numbers, and with them again."""
from __future__ import annotations

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Slot
from lazyten.ir.node import make, reshape
from lazyten.ir.numbers import numbers_of, put_together
from lazyten.ir.ops import Op


def test_a_shape_that_is_a_size_is_one_like_any_other() -> None:
    x = make(Op.BUFFER, dt.float32, (), Slot(1, 12))
    own = make(Op.RESHAPE, dt.float32, (x,), lt.Size((3, 4)))  # interned, with this argument
    skeleton, numbers = numbers_of([own])
    assert put_together(skeleton, iter(numbers.integers), iter(numbers.floats)) == [own]
    assert skeleton == numbers_of([reshape(x, (2, 6))])[0]
