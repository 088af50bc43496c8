"""An argument that the jitted function knows by another way, too: an optimizer's parameter."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

Made = tuple[Callable[..., lt.Tensor], tuple[Any, ...]]


def train(s: lt.optim.Optimizer, w: lt.Tensor) -> lt.Tensor:
    loss = (w * w * 3).sum()
    s.zero_grad()
    loss.backward()
    s.step()
    return loss.detach()


FORMS: dict[str, Callable[[lt.optim.Optimizer, lt.Tensor], Made]] = {
    "both given": lambda s, w: (train, (s, w)),
    "in a dict": lambda s, w: (lambda s, p: train(s, p["w"]), (s, {"w": w})),
    "in a tuple": lambda s, w: (lambda both: train(*both), ((s, w),)),
    "a closure's optimizer": lambda s, w: (lambda w: train(s, w), (w,)),
}


@pytest.mark.parametrize("name", FORMS)
def test_an_optimizer_trains_the_parameter_that_the_function_is_given(name: str) -> None:
    def losses(wrap: Callable[[Any], Any]) -> list[float]:
        w = lt.ones(2, requires_grad=True)
        function, given = FORMS[name](lt.optim.SGD([w], lr=0.1), w)
        wrapped = wrap(function)
        return [wrapped(*given).item() for _ in range(3)]

    assert losses(lt.jit) == losses(lambda function: function)


def test_with_a_whole_graph_it_is_refused() -> None:
    w = lt.ones(2, requires_grad=True)
    s = lt.optim.SGD([w], lr=0.1)
    with pytest.raises(lt.JitError, match="in two ways"):
        lt.jit(lambda w: train(s, w), fullgraph=True)(w)


class Summing:
    """A total that is written in place, and the last summand, which each step assigns."""

    def __init__(self) -> None:
        self.total, self.last = lt.zeros(2).realize(), lt.zeros(2).realize()


def test_what_is_written_and_gets_another_name_is_traced_anew() -> None:
    s = Summing()

    def step(x: lt.Tensor) -> lt.Tensor:
        s.total += x
        y = s.last + x
        s.last = x * 1
        return y

    jitted, x = lt.jit(step, fullgraph=True), lt.tensor([1.0, 2.0])
    for _ in range(3):
        jitted(x)
    assert jitted.cache_size == 1
    for count in (4, 5):
        s.last = s.total
        assert jitted(x).tolist() == [count + 1, 2 * count + 2]
        assert s.total.tolist() == [count, 2 * count]
        assert jitted.cache_size == 2


@pytest.mark.parametrize("first", (0, 1, 2))
@pytest.mark.parametrize("writes", ("known", "given"))
@pytest.mark.parametrize("counts", (False, True))
def test_what_is_written_by_one_name_is_read_by_the_other(counts: bool, writes: str,
                                                          first: int) -> None:
    """Also where the trace ends later, for what a replay would not do. first: calls with others."""
    def found(wrap: Callable[[Any], Any]) -> list[Any]:
        known, state = lt.tensor([1.0, 2.0]), {"n": 0}

        def function(x: lt.Tensor) -> lt.Tensor:
            written, read = (known, x) if writes == "known" else (x, known)
            before = read * 2
            written.add_(1)
            after = read * 3
            if counts:
                state["n"] += 1
            return before + after

        call = wrap(function)
        given = [known * 1 for _ in range(first)] + [known] * 3
        return [(call(x).tolist(), known.tolist(), x.tolist()) for x in given]

    assert found(lt.jit) == found(lambda function: function)


def test_what_is_written_by_one_name_is_first_used_by_the_other_afterwards() -> None:
    known = lt.arange(3.0)

    @lt.jit
    def function(x: lt.Tensor) -> lt.Tensor:
        x.add_(1)
        known.mul_(2)
        return x + 1

    for whole in (known, known[:], known[1:]):
        before = known.tolist()
        result = function(whole).tolist()
        skipped = 3 - len(result)
        assert known.tolist() == [2 * (v + (i >= skipped)) for i, v in enumerate(before)]
        assert result == [v + 1 for v in known.tolist()[skipped:]]


@pytest.mark.parametrize("known", (True, False))
def test_what_is_written_shows_in_tensors_of_the_same_memory(known: bool) -> None:
    """As arguments and closed over; of one array, of parts that overlap, and in another type."""
    def found(wrap: Callable[[Any], Any]) -> list[Any]:
        array = np.arange(6, dtype=np.float32)
        x = lt.from_numpy(array)
        others = [lt.from_numpy(array), lt.from_numpy(array[::2]), x.view(lt.int32)]

        def function(written: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
            (x if known else written).add_(1)
            return y * 2
        call = wrap(function)
        given = lt.zeros(6) if known else x
        return [(call(given, y).tolist(), x.tolist()) for y in (lt.zeros(6), *others, *others)]

    assert found(lt.jit) == found(lambda function: function)


def test_with_a_whole_graph_the_same_memory_is_refused_where_it_overlaps_alone() -> None:
    array = np.zeros(6)
    function = lt.jit(lambda x, y: x.add_(1) * y, fullgraph=True)
    function(lt.from_numpy(array[:3]), lt.from_numpy(array[3:]))
    with pytest.raises(lt.JitError, match="in two ways"):
        function(lt.from_numpy(array[:3]), lt.from_numpy(array[2:5]))


def test_what_is_written_to_an_array_shows_beside_values_that_are_pending() -> None:
    array = np.ones(3)
    state = lt.from_numpy(array)
    step = lt.jit(lambda x: state.add_(x) * 2)
    for _ in range(3):
        array[:] = 5
        assert step(lt.ones(3)).tolist() == [12.0] * 3
        array[:] = 7
        assert step(lt.arange(3.0) + 1).tolist() == [16.0, 18.0, 20.0]
