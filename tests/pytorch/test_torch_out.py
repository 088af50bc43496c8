"""`out=` of another shape than the result, and resize_, beside PyTorch: what is written to which
memory."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch_if_there import torch

import lazyten as lt

Into = Callable[[Any, Any], Any]
VIEWS: dict[str, tuple[tuple[int, ...], Into]] = {
    "a matrix of as many elements": ((6,), lambda m, a: a.view(2, 3)),
    "a longer line": ((8,), lambda m, a: a[1:7]),
    "a shorter line with room behind it": ((8,), lambda m, a: a[2:4]),
    "every second element": ((7,), lambda m, a: a[::2]),
    "a transpose": ((3, 4), lambda m, a: a.t()),
    "nothing": ((8,), lambda m, a: a[3:3]),
    "a row of a matrix": ((3, 5), lambda m, a: a[1]),
    "the whole": ((2, 3), lambda m, a: a),
    "a column that is expanded": ((6, 1), lambda m, a: a.expand(6, 2)[:, 1]),
}
CALLS: dict[str, Into] = {
    "add": lambda m, v: m.add(m.ones(4), 1, out=v), "sum": lambda m, v: m.sum(
        m.ones(3, 4), 0, out=v), "cat": lambda m, v: m.cat([m.ones(1), m.ones(3)], out=v),
    "arange": lambda m, v: m.arange(1, 5, out=v), "matmul": lambda m, v: m.matmul(
        m.ones(2, 2), m.ones(2, 2), out=v), "where": lambda m, v: m.where(
        m.ones(4) > 0, m.ones(4), m.zeros(4), out=v), "resize_": lambda m, v: v.resize_(2, 2),
    "a sort": lambda m, v: m.sort(m.tensor([3.0, 1.0, 2.0, 4.0]), out=(
        v, m.zeros(1, dtype=m.int64)))[0],
    "norm": lambda m, v: m.linalg.vector_norm(m.ones(4, 2), dim=1, out=v),
}


def memory(m: Any, view: str, call: str, dtype: Any) -> list[Any]:
    """What is in the memory of a tensor when an operation has written to a view of it, and how the
    view lies there then."""
    shape, make = VIEWS[view]
    whole = (m.arange(24.0) + 10)[:torch.Size(shape).numel()].reshape(shape).to(dtype).clone()
    into = make(m, whole)
    result = CALLS[call](m, into)
    into.add_(100)
    return [whole.tolist(), into.tolist(), result.tolist(), result is into or call == "a sort",
            into.storage_offset(), into.stride()]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized",
                            "ignore:The number of elements in the out tensor")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_is_written_to_a_view_of_another_shape_is_in_its_memory(call: str,
                                                                     dtype: str) -> None:
    for view in VIEWS:
        try:
            expected = memory(torch, view, call, getattr(torch, dtype))
        except RuntimeError:  # complex numbers have no such operation
            continue
        assert memory(lt, view, call, getattr(lt, dtype)) == expected, view


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_a_view_without_room_for_a_result_is_refused(dtype: str) -> None:
    whole = lt.zeros(3, dtype=getattr(lt, dtype))
    with pytest.raises(lt.ShapeError, match=r"resize_ of a view .* are needed"):
        lt.add(lt.ones(4), 1, out=whole[2:])
    assert whole.tolist() == [0, 0, 0]
    assert lt.add(lt.ones(4), 1, out=whole) is whole
    assert whole.tolist() == [2, 2, 2, 2]
