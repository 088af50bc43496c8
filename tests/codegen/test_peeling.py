"""What is past the end of a reduction is masked behind its loop, once, not in each iteration."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from graphs import compute, leaf
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.codegen.instructions.instructions import Block, Load, Loop, instructions_of
from lazyten.codegen.job import Job, Part
from lazyten.codegen.pipeline import DRIVER, PASSES
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, const, elementwise, expand, iota, make, reduce, reshape
from lazyten.ir.ops import Op

AVX512 = Target("avx512", 64, 32, threads=True, masked_loads=True, fuses=True)


def rows(count: int, length: int, dtype: DType = dt.float32) -> Node:
    return reshape(make(Op.BUFFER, dtype, (), Slot(1, count * length)), (count, length))


def instructions(output: Node, target: Target) -> tuple[Part, ...]:
    return DRIVER.run(PASSES[:-1], Job(Kernel("k", (output,), ()), target)).parts


def innermost(block: Block) -> Iterator[Block]:
    """The bodies of loops that have no loop inside."""
    for item in block.items:
        if isinstance(item, Loop):
            inner = [i for i in item.body.items if isinstance(i, Loop)]
            yield from innermost(item.body) if inner else [item.body]


def masks_in_loops(output: Node, target: Target) -> tuple[int, int]:
    """Loads under a mask in innermost loops of reductions, and such loads at all."""
    parts = instructions(output, target)
    bodies = chain.from_iterable(innermost(p.instructions.body) for p in parts)
    every = chain.from_iterable(instructions_of(p.instructions.body) for p in parts)
    return _masked(chain.from_iterable(b.items for b in bodies)), _masked(every)


def _masked(items: Iterator[Any]) -> int:
    return sum(isinstance(item, Load) and item.mask is not None for item in items)


def position_of_greatest(x: Node) -> Node:
    """As argmax is made: a reduction that needs another one over the same elements."""
    most = expand(reduce(x, Op.MAX, [1]), x.shape)
    places = expand(reshape(iota(x.shape[1]), (1, x.shape[1])), x.shape)
    none = const(-1, dt.int64, x.shape)
    other = elementwise(Op.CMPNE, x, most)
    return reduce(elementwise(Op.WHERE, other, none, places), Op.MAX, [1])


def exponentials(x: Node) -> Node:
    shifted = elementwise(Op.SUB, x, expand(reduce(x, Op.MAX, [1]), x.shape))
    return reduce(elementwise(Op.EXP, shifted), Op.ADD, [1])


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("length", [997, 1000, 1003, 10_007])
@pytest.mark.parametrize("made", [
    lambda x: reduce(x, Op.ADD, [1]), lambda x: reduce(x, Op.MAX, [1]), position_of_greatest,
    exponentials], ids=["sum", "max", "argmax", "exponentials"])
def test_loops_over_any_number_of_elements_have_no_masks(made: Any, length: int,
                                                         target: Target) -> None:
    inside, every = masks_in_loops(made(rows(64, length)), target)
    assert inside == 0
    assert every <= 2  # a vector a reduction


def test_few_elements_are_whole_vectors_and_one_that_is_masked() -> None:
    parts = instructions(reduce(rows(64, 33), Op.ADD, [1]), AVX512)
    loads = [i for i in instructions_of(parts[0].instructions.body) if isinstance(i, Load)]
    assert [load.mask is not None for load in loads].count(True) == 1
    assert len(loads) == -(-33 // loads[0].out.lanes)


def test_accumulators_of_both_parts_become_one_before_their_lanes_do() -> None:
    """The lanes of a row of 16 are combined in four steps, of one accumulator."""
    text = DRIVER.run(PASSES, Job(Kernel("k", (reduce(rows(64, 997), Op.ADD, [1]),), ()),
                                  AVX512)).parts[0].text
    assert text.count("fadd <8 x float>") == 1 and text.count("fadd <2 x float>") == 1


@pytest.mark.parametrize("end", [912, 920, 968, 1000, 1020])
def test_a_condition_of_the_program_is_no_mask(end: int) -> None:
    """What is past the condition is combined, too: leaving it out would be wrong."""
    x = np.random.default_rng(0).integers(-9, 10, (2, 1024)).astype(np.float32)
    found = lt.where(lt.arange(1024) < end, lt.tensor(x), 3.0).sum(1).numpy()
    np.testing.assert_array_equal(found, np.where(np.arange(1024) < end, x, 3.0).sum(1))


DTYPES = (dt.float32, dt.float64, dt.float16, dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8,
          dt.bool_)


@given(length=st.integers(2, 3000), count=st.integers(1, 3), dtype=st.sampled_from(DTYPES),
       combiner=st.sampled_from([Op.ADD, Op.MAX]), seed=st.integers(0, 99))
def test_reductions_of_any_length_are_those_of_the_interpreter(
        length: int, count: int, dtype: DType, combiner: Op, seed: int) -> None:
    combiner = Op.MAX if dtype is dt.bool_ else combiner
    values = np.random.default_rng(seed).integers(-1, 2, (count, length))
    x = leaf(values.astype(dtype.numpy), dtype, "cpu")
    found = compute(reduce(x, combiner, (1,)), "cpu")
    given_ = values.astype(dtype.numpy)
    expected = given_.max(1, keepdims=True) if combiner is Op.MAX else \
        given_.sum(1, keepdims=True, dtype=dtype.numpy)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(3, 5, 17), (7, 1, 49), (2, 33, 3)])
@pytest.mark.parametrize("axes", [(0, 2), (1, 2), (0, 1)])
def test_reductions_over_several_axes_take_each_element_once(shape: Sequence[int],
                                                             axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    t = lt.tensor(x)
    np.testing.assert_array_equal(t.sum(axes).numpy(), x.sum(axes))
    np.testing.assert_array_equal((t * t).amax(axes).numpy(), (x * x).max(axes))
