"""Integers are moved, and stored, in the fewest bytes that hold them
(lazyten/symbolic/narrow_moves.py)."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.execution.plans.graph import Graph
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.nn import functional as F
from lazyten.schedule.schedule import Schedule, schedule

SMALL = {lt.int8: np.int8, lt.uint8: np.uint8, lt.int16: np.int16}


def plan(*values: lt.Tensor) -> Schedule:
    """The steps that would compute tensors."""
    graph = Graph([value._storage.value for value in values], values[0].device)
    return schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers])


def numbers(kind: type[np.integer], *shape: int) -> np.ndarray:
    """Random integers of all values of a type, its ends among them."""
    info = np.iinfo(kind)
    made = np.random.default_rng(len(shape)).integers(info.min, info.max + 1, shape)
    made.flat[:2] = info.min, info.max
    return made.astype(kind)


def between(made: Schedule) -> list[DType]:
    """Types of what is neither given nor a result."""
    return [dtype for n, (dtype, _) in enumerate(made.arrays)
            if n >= made.inputs and n not in made.outputs]


def test_a_quantized_image_less_its_zero_point_is_padded_in_16_bits() -> None:
    x, w = numbers(np.uint8, 1, 8, 20, 20), numbers(np.int8, 16, 8, 3, 3)
    zero = lt.tensor([131], dtype=lt.uint8)
    centred = lt.tensor(x).int() - zero.int()
    found = F.conv2d(centred, lt.tensor(w).int(), padding=1)
    assert between(plan(found)) == [dt.int16]
    want = F.conv2d(lt.tensor(x.astype(np.float64) - 131), lt.tensor(w.astype(np.float64)),
                    padding=1)
    np.testing.assert_array_equal(found.numpy(), want.numpy().astype(np.int32))


def test_what_a_result_is_a_view_of_is_stored_once_in_its_own_type() -> None:
    x = lt.tensor(numbers(np.int8, 4, 6)).int() - 3
    made = plan(x, x.reshape(24))
    assert [dtype for dtype, _ in made.arrays[made.inputs:]] == [dt.int32]


MOVES: dict[str, Callable[[lt.Tensor], lt.Tensor]] = {
    "pad": lambda x: F.pad(x, (1, 2)), "flip": lambda x: x.flip(0), "transpose": lambda x: x.mT,
    "part": lambda x: x[1:], "expand": lambda x: x[:, None].expand(-1, 2, -1).reshape(-1, 6)}


@given(kind=st.sampled_from(sorted(SMALL, key=str)), wide=st.sampled_from([lt.int32, lt.int64]),
       steps=st.lists(st.tuples(st.sampled_from("+-*^m"), st.integers(-130, 130)), max_size=4),
       moves=st.lists(st.sampled_from(sorted(MOVES)), max_size=3))
def test_values_are_those_of_the_wide_type(
        kind: DType, wide: DType, steps: list[tuple[str, int]], moves: list[str]) -> None:
    """Whatever is computed between movements, and read by a sum over an axis."""
    x = lt.tensor(numbers(SMALL[kind], 4, 6), device="cpu")

    def of(x: lt.Tensor) -> lt.Tensor:
        x = x.to(wide)
        for number, (op, value) in enumerate(steps):
            x = {"+": x + value, "-": value - x, "*": x * value, "^": x ^ value,
                 "m": x.clamp(-abs(value), abs(value))}[op]
            x = MOVES[moves[number]](x) if number < len(moves) and x.shape[-1] == 6 else x
        return (x[:, None] * x[None]).sum(-1, dtype=wide)
    np.testing.assert_array_equal(of(x).numpy(), of(x.to("interpreter")).numpy())


@pytest.mark.parametrize("kind", sorted(SMALL, key=str))
@pytest.mark.parametrize(("channels", "size"), [(4, 3), (6, 2), (2, 1), (3, 4)])
@pytest.mark.parametrize("less", [0, 1])
def test_convolutions_of_integers_wrap_as_sums_do(
        kind: DType, channels: int, size: int, less: int) -> None:
    """One less than a number of 16 bits may have 17."""
    x, w = numbers(SMALL[kind], 1, channels, 19, 23), numbers(SMALL[kind], 5, channels, size, size)
    found = F.conv2d(lt.tensor(x, device="cpu").int() - less, lt.tensor(w, device="cpu").int())
    windows = np.lib.stride_tricks.sliding_window_view(
        x.astype(np.int64) - less, (size, size), (2, 3))
    want = np.einsum("bchwij,ocij->bohw", windows, w.astype(np.int64))
    np.testing.assert_array_equal(found.numpy(), want.astype(np.int32))
