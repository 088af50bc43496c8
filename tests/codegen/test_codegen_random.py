"""Random programs give on the cpu what the interpreter says, for every dtype."""
from __future__ import annotations

import numpy as np
import pytest
from graphs import SIZES, arrays, compute, expressions, leaf
from hypothesis import given
from hypothesis import strategies as st
from slow_rows import OF_EACH_KIND, slow_but

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, substitute

LIMIT = 200
"""Whole numbers below this are exact in every dtype."""


def buffer_of(leaf: Node) -> Node:
    """The BUFFER that a leaf reshapes; a further reshape reads it directly."""
    return leaf.src[0] if leaf.src else leaf


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", slow_but(dt.ARITHMETIC, *OF_EACH_KIND), ids=lambda d: d.name)
@given(data=st.data())
def test_random_expressions_agree_with_the_interpreter(dtype: DType, data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.lists(SIZES, max_size=4).map(tuple), min_size=1, max_size=2))
    shapes = [s for s in shapes if np.prod(s) <= 2000] or [(3, 4)]
    values = [data.draw(arrays(dtype, s)) for s in shapes]
    here = [leaf(v, dtype, "cpu") for v in values]
    node = data.draw(expressions(dtype, here))
    there = [leaf(v, dtype, "interpreter") for v in values]
    oracle = {buffer_of(h): buffer_of(t) for h, t in zip(here, there, strict=True)}
    expected = compute(substitute([node], oracle)[0], "interpreter")
    got = compute(node, "cpu")
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got[np.abs(expected) < LIMIT], expected[np.abs(expected) < LIMIT])
    np.testing.assert_allclose(got, expected, rtol=2.0**-6 if dtype.is_half else 2.0**-18)
