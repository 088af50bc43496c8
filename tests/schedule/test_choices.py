"""What was chosen at one size is right at others; no graph that is unlike the first takes it."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyten as lt
from lazyten.execution.plans.graph import Graph
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import choose, schedule, schedule_by

LIMITS = Limits(True, 0, 0, 1)


def graph(function: Callable[[lt.Tensor], lt.Tensor], *shape: int, dtype: DType = lt.float32
          ) -> tuple[tuple[Node, ...], list[tuple[DType, int]]]:
    x = function(lt.tensor(np.zeros(shape), dtype=dtype))
    found = Graph([x._storage.value], x.device)
    return found.normalized(), [*found.inputs]


def attention(x: lt.Tensor) -> lt.Tensor:
    scores = (x @ x.T).softmax(1)
    return (scores @ x + x.mean(0)) * scores.amax()


def test_by_its_own_choices_a_graph_has_its_own_schedule() -> None:
    roots, inputs = graph(attention, 70, 8)
    own, found = schedule(roots, inputs), schedule_by(choose(roots, inputs, LIMITS), roots, inputs,
                                                      LIMITS)
    assert found is not None
    for part in ("arrays", "inputs", "steps", "outputs", "aliases", "blocks", "launches"):
        assert getattr(found, part) == getattr(own, part)


@pytest.mark.parametrize("rows", [1, 3, 69, 200])
def test_at_another_size_the_same_is_stored_and_launched_together(rows: int) -> None:
    first = graph(attention, 70, 8)
    choices = choose(*first, LIMITS)
    found = schedule_by(choices, *graph(attention, rows, 8), LIMITS)
    if rows == 1:  # (of which the graph is another)
        assert found is None
        return
    assert found is not None
    assert found.launches == choices[0].launches
    assert [len(step.kernel.outputs) for step in found.steps] == list(map(len, choices[0].groups))


@pytest.mark.parametrize(("function", "shape"), [
    (lambda x: x.exp().prod(1), (9, 5)), (lambda x: x.exp().amax(1), (9, 5)),
    (lambda x: x.sin().sum(1), (9, 5)), (lambda x: x.exp().sum(1).exp(), (9, 5)),
    (lambda x: x.exp().sum(1), (3, 3, 3))])
def test_a_graph_that_is_unlike_the_first_is_not_scheduled_by_its_choices(
        function: Callable[[lt.Tensor], lt.Tensor], shape: tuple[int, ...]) -> None:
    choices = choose(*graph(lambda x: x.exp().sum(1), 7, 4), LIMITS)
    assert schedule_by(choices, *graph(lambda x: x.exp().sum(1), 9, 5), LIMITS) is not None
    assert schedule_by(choices, *graph(function, *shape), LIMITS) is None
    assert schedule_by(choices, *graph(lambda x: x.exp().sum(1), 9, 5, dtype=lt.float64),
                       LIMITS) is None


def test_a_graph_of_no_elements_is_not_scheduled_by_choices_for_some() -> None:
    choices = choose(*graph(lambda x: x[:, 2:].exp() * 2, 7, 4), LIMITS)
    assert schedule_by(choices, *graph(lambda x: x[:, 2:].exp() * 2, 7, 3), LIMITS) is not None
    assert schedule_by(choices, *graph(lambda x: x[:, 2:].exp() * 2, 7, 2), LIMITS) is None
