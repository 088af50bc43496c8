"""Graphs that come once are interpreted, node by node, in place of being compiled for one run."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from changing_programs import ACTS, Program, Values, run
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_values import assert_alike, counted_plans

import lazyten as lt
from lazyten.execution import frame_runs, interpreted, node_by_node
from lazyten.support.errors import ArgumentError, IndexingError

pytestmark = pytest.mark.usefixtures("interpreting_as_users_do")


def memory(*shape: int) -> Any:
    """Numbers that are computed already."""
    return lt.tensor(np.random.default_rng(0).random(shape, np.float32))


def chain(x: Any, length: int) -> Any:
    """Another graph for each length."""
    for number in range(length):
        x = (x * 1.5 - number).tanh() if number % 2 else x + x.mean()
    return x


def test_a_line_that_asks_for_one_graph_after_the_other_plans_a_few() -> None:
    x = memory(3, 4)
    with counted_plans() as made:
        found = [chain(x, length).numpy() for length in range(1, 30)]
    assert len(made) == interpreted.GRAPHS
    for length, value in enumerate(found, 1):
        y = np.asarray(x.numpy(), np.float64)
        for number in range(length):
            y = np.tanh(y * 1.5 - number) if number % 2 else y + y.mean()
        np.testing.assert_allclose(value, y, rtol=1e-5, atol=1e-6)


def test_lines_that_ask_for_the_same_graphs_have_them_planned() -> None:
    x = memory(5, 4)
    with counted_plans() as made:
        for _ in range(20):
            for length in range(1, interpreted.GRAPHS + 1):
                chain(x, length).numpy()
    assert len(made) == interpreted.GRAPHS


@pytest.mark.slow
def test_graphs_that_take_turns_are_planned() -> None:
    x = memory(5, 2)
    for length in range(1, 10):
        chain(x, length).numpy()
    made_by_turn = []
    for _ in range(6):
        with counted_plans() as made:
            for length in range(10, 13):  # by another line: it has asked for nothing yet
                (chain(x, length) + 1).numpy()
        made_by_turn.append(len(made))
    assert made_by_turn == [3, 0, 0, 0, 0, 0]
    found = []
    for turn in range(7):
        with counted_plans() as made:
            for length in (range(20, 30) if turn == 0 else range(28, 30)):
                (chain(x, length) - 1).numpy()
        found.append(len(made))
    assert found == [interpreted.GRAPHS, 0, 0, 2, 0, 0, 0]


def test_texts_that_a_recurrence_reads_are_planned_once_their_lengths_came_again(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps are many nodes, of few elements."""
    monkeypatch.setattr(interpreted, "PLAN", 4e5)  # as of a network's
    lt.manual_seed(0)
    rnn = lt.nn.RNN(2, 3)
    texts = [memory(length, 1, 2) for length in range(290, 300)]
    made_by_turn = []
    with lt.no_grad():
        for _ in range(interpreted.SLOW_ONES + 1):
            with counted_plans() as made:
                found = [rnn(text)[1].numpy() for text in texts]
            made_by_turn.append(len(made))
        expected = [lt.jit(rnn)(text)[1].numpy() for text in texts]
    assert made_by_turn == [interpreted.GRAPHS, 0, len(texts) - interpreted.GRAPHS]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_short_loops_are_not_compiled_one_after_the_other() -> None:
    x = memory(7, 3)
    with counted_plans() as made:
        for length in range(1, 20):
            for _ in range(8):
                (chain(x, length) * 2).numpy()
    assert len(made) == interpreted.GRAPHS + 2  # a loop is one after 3, 6, 12 turns


def test_a_loop_that_mostly_repeats_has_a_new_graph_planned() -> None:
    x = memory(5, 3)
    with counted_plans() as made:
        for length in [1, 2, 3] * 60 + [4, 5, 6, 7, 8, 9]:
            chain(x, length).numpy()
    assert len(made) == 9


def test_looks_that_are_known_are_counted_as_what_a_line_asks_for() -> None:
    x = memory(7, 11)  # as no other test here
    with counted_plans() as made:
        for length in [1] * 200 + [*range(2, 12)]:
            chain(x, length).realize()
    assert len(made) == 11


def test_a_graph_that_comes_again_and_again_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreted, "PLAN", 0.0)
    monkeypatch.setattr(interpreted, "PLANNED_NODE", 10 * node_by_node.NODE)
    x = memory(3)
    late: list[list[object]] = []
    for _ in range(12):
        with counted_plans() as made:
            for length in range(1, interpreted.GRAPHS + 2):
                chain(x, length).numpy()
        late.append(made)
    assert [len(made) for made in late[1:]].count(1) == 1
    assert not late[-1]


def test_a_loop_that_nobody_looks_into_is_planned_once_it_took_as_long_to_interpret(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreted, "PLAN", 0.0)
    monkeypatch.setattr(interpreted, "PLANNED_NODE", 10 * node_by_node.NODE)
    x = memory(3)
    found = []
    for _ in range(2):
        with counted_plans() as made:
            for _ in range(4 * frame_runs.SHORTEST):  # of two operations
                x = x * 0.5 + 1
        found.append(len(made))
    assert found == [0, 1]
    np.testing.assert_allclose(x.numpy(), [2, 2, 2])


@pytest.mark.slow
def test_large_graphs_and_jitted_functions_are_planned() -> None:
    large, small = memory(300, 400), memory(4)
    with counted_plans() as made:
        for length in range(30, 36):
            chain(large, length).numpy()
    assert len(made) == 6
    with counted_plans() as made:
        for length in range(1, 8):
            lt.jit(chain)(small, length).numpy()
    assert len(made) == 7


def test_who_looks_at_kernels_sees_kernels() -> None:
    x = memory(6, 4)
    with lt.profile(), counted_plans() as made:
        for length in range(1, 9):
            chain(x, length).numpy()
    assert len(made) == 8


def test_a_wish_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_INTERPRET", "perhaps")
    with pytest.raises(ArgumentError, match="never, always, or not set"):
        lt.rand(3).exp().numpy()


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_INTERPRET", "always")


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8",
                                   "int64", "bool"])
def test_types_wrap_and_round_as_kernels_do(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = getattr(lt, dtype)

    def values() -> list[Any]:
        x = (lt.arange(24).reshape(4, 6) * 37 % 255).to(kind)
        y = lt.full((6,), 1, dtype=kind)
        made = [x.flip(1), lt.cat([x, x[1:3]], 0), x.roll(2, 1), x.T.reshape(3, 8), x > y,
                 x.float() @ y.float(), x.sum(0), y.expand(4, 6).sum(1), x.max(1).values,
                 x.to(lt.float16), lt.where(x > y, x, y), x.cumsum(1), x.any(), x.unfold(1, 3, 2)]
        if dtype != "bool":
            made += [x * x + y, x - 200, x // 3, x % 7, -x, x.prod(1)]
        return [value.numpy() for value in made]
    monkeypatch.setenv("LAZYTEN_INTERPRET", "never")
    planned = values()
    always(monkeypatch)
    with counted_plans() as made:
        found = values()
    assert not made
    for mine, other in zip(found, planned, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(mine, np.float64), np.asarray(other, np.float64),
                                   rtol=1e-2 if "float16" in dtype else 1e-6)


def test_what_repeats_along_an_axis_is_repeated_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    ones = lt.ones(3, 4)
    assert ones.sum().item() == 12
    assert (ones * 2 + 1).cumsum(0).tolist() == [[3.0] * 4, [6.0] * 4, [9.0] * 4]
    assert lt.zeros(0, 3).sum(0).tolist() == [0.0] * 3
    row = lt.tensor([[1.0, 2.0]])
    assert (row.expand(3, 2) * 2).prod(0).tolist() == [8.0, 64.0]
    assert lt.cat([row.expand(2, 2), row + 1]).tolist() == [[1, 2], [1, 2], [2, 3]]


def test_an_index_outside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    x, at = lt.rand(5), lt.tensor([1, 7])
    with pytest.raises(IndexingError, match="7"):
        x[at].numpy()
    assert x[at - 3].shape == (2,)


def test_an_update_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    x = lt.zeros(4)
    for number in range(5):
        x[number % 4] += number
    y = x * 2
    x.zero_()
    assert y.tolist() == [8.0, 2.0, 4.0, 6.0]
    assert x.tolist() == [0.0] * 4


@pytest.mark.slow
@settings(max_examples=8)
@given(courses=st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=8), min_size=1,
                        max_size=3),
       order=st.lists(st.integers(0, 2), min_size=3, max_size=8))
def test_programs_that_change_their_course_see_what_they_see_when_planned(
        courses: list[list[Callable[[Program], None]]], order: list[int]) -> None:
    found: list[Values] = []
    for wish in ("never", "always"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LAZYTEN_INTERPRET", wish)
            found.append(run(courses, order))
    assert_alike(found[1], found[0], rel=1e-8, abs=1e-9)


def episodes(lengths: list[int]) -> list[float]:
    lt.manual_seed(0)
    rng = np.random.default_rng(0)
    policy = lt.nn.Sequential(lt.nn.Linear(3, 8), lt.nn.Tanh(), lt.nn.Linear(8, 2))
    opt = lt.optim.Adam(policy.parameters(), lr=0.05)
    losses = []
    for length in lengths:
        found = []
        for _ in range(length):
            state = lt.tensor(rng.random((1, 3), np.float32))
            chances = lt.nn.functional.log_softmax(policy(state), 1)
            found.append(chances[0, int(chances.argmax())])
        rewards = lt.tensor(rng.random(length, np.float32))
        loss = -(lt.stack(found) * (rewards - rewards.mean())).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
def test_training_on_episodes_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 5, 12]
    with counted_plans() as made:
        found = episodes(lengths)
    assert len(made) < 2 * interpreted.GRAPHS + 2
    monkeypatch.setenv("LAZYTEN_INTERPRET", "never")
    np.testing.assert_allclose(found, episodes(lengths), rtol=1e-4, atol=1e-5)


def test_what_repeats_is_work_where_it_is_added_up() -> None:
    row = memory(1, 7)
    with counted_plans() as made:
        for rows in range(4_000_000, 4_000_006):
            row.expand(rows, 7).sum(0).numpy()
    assert len(made) == 6


def test_graphs_that_a_line_asks_for_by_turns_are_planned_soon(
        monkeypatch: pytest.MonkeyPatch) -> None:
    interpret, interpreted_ones = interpreted.interpret, list[int]()
    monkeypatch.setattr(interpreted, "interpret", lambda device, graph, inputs: (
        interpreted_ones.append(len(graph.order)), interpret(device, graph, inputs))[1])
    interpreted.forget()
    xs = [lt.ones(n, device="cpu").realize() for n in range(3, 12)]
    seen = []
    for _ in range(7):
        interpreted_ones.clear()
        for x in xs:
            assert (x * 2).exp().sum().item() > 0
        seen.append(len(interpreted_ones))
    assert seen[0] and not any(seen[-2:]), seen
