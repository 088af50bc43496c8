"""What derivatives are made with: products that are moved a factor at a time, axes that repeat."""
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from graphs import moves
from hypothesis import given
from hypothesis import strategies as st
from numeric_gradients import Inputs

from lazyten.autodiff.arithmetic import constant_axes, mul, sum_over
from lazyten.ir.movement import Shape, out_shape
from lazyten.ir.node import Node, expand, move, reduce
from lazyten.ir.ops import Op

SHAPES = st.lists(st.integers(1, 3), min_size=2, max_size=3).map(tuple)


@st.composite
def repeated(draw: st.DrawFn, inputs: Inputs, shape: Shape, steps: int) -> Node:
    """Values that are the same along some axes of a shape; then moved."""
    own = tuple(draw(st.sampled_from((1, n))) for n in shape)
    x = expand(inputs.array(np.arange(1, math.prod(own) + 1).reshape(own)), shape)
    return draw(moved(x, steps))


@st.composite
def moved(draw: st.DrawFn, x: Node, steps: int) -> Node:
    for _ in range(steps):
        op, arg = draw(moves(x.shape))
        if 0 < math.prod(out_shape(op, x.shape, arg)) <= 500:
            x = move(op, x, arg)
    return x


@pytest.mark.slow
@given(data=st.data(), shape=SHAPES)
@examples(200)
def test_values_are_the_same_along_constant_axes(data: st.DataObject, shape: Shape) -> None:
    inputs = Inputs()
    x = data.draw(repeated(inputs, shape, 4))
    values, = inputs.evaluate([x])
    for axis in constant_axes(x):
        assert (values == values.take([0], axis)).all()


@pytest.mark.parametrize("own", list(itertools.product((1, 3), repeat=3)), ids=str)
@pytest.mark.parametrize(("axis", "by"), list(itertools.permutations(range(3), 2)))
@pytest.mark.parametrize("factor", [-1, 0, 1])
def test_what_is_slid_is_the_same_along_an_axis_only_if_it_was(own: Shape, axis: int, by: int,
                                                              factor: int) -> None:
    inputs = Inputs()
    shape = tuple(5 if a == axis and n > 1 else n for a, n in enumerate(own))
    x = inputs.array(np.arange(math.prod(shape)).reshape(shape))
    x = expand(x, tuple(5 if a == axis else 3 for a in range(3)))
    slid = move(Op.SHEAR, x, (axis, by, factor, max(-2 * factor, 0), 3))
    values, = inputs.evaluate([slid])
    for a in constant_axes(slid):
        assert (values == values.take([0], a)).all()


@pytest.mark.slow
@given(data=st.data(), shape=SHAPES)
@examples(200)
def test_the_sum_of_a_moved_product_is_right_though_its_factors_are_moved(data: st.DataObject,
                                                                         shape: Shape) -> None:
    inputs = Inputs()
    x = mul(*(data.draw(repeated(inputs, shape, 0)) for _ in range(2)))
    if data.draw(st.booleans()):
        x = reduce(x, Op.ADD, data.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1)))
    x = data.draw(moved(x, 5))
    chosen = data.draw(st.lists(st.booleans(), min_size=len(x.shape), max_size=len(x.shape)))
    axes = tuple(axis for axis, is_summed in enumerate(chosen) if is_summed)
    found: list[np.ndarray[Any, Any]] = inputs.evaluate([sum_over(x, axes), x])
    np.testing.assert_allclose(found[0], found[1].sum(axes, keepdims=True), rtol=1e-12)
