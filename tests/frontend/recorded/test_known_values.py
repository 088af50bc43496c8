"""What a step has computed, or others have, is what it reads later: the same bits, and once."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from changing_programs import anew

import lazyten as lt
from lazyten.execution import frame_runs, realization
from lazyten.execution.plans.graph import Graph
from lazyten.frontend.recorded import lifting, lookup
from lazyten.ir import node
from lazyten.ir.node import Node, elementwise, toposort
from lazyten.ir.ops import Op
from lazyten.storage.frames import lengths


def test_inputs_of_a_checkpoint_that_are_one_over_memory_have_their_gradient_once() -> None:
    c = lt.tensor([0.5, 1.0, 2.0]).contiguous().realize()
    same = c.clone().realize()  # the same memory
    (c + 1).sum().item()  # ends the frame in which they are one
    for _ in range(3):
        w = lt.tensor([1.0, 2.0, 3.0], requires_grad=True)
        loss = lt.checkpoint(lambda a, b: a * b, w * c, w * same).sum()
        assert loss.node.shape == ()  # asked for, it is a graph over memory
        loss.backward()
        assert w.grad is not None and w.grad.tolist() == [0.5, 4.0, 24.0]


SUMS = {"rows": 1, "columns": 0}


@pytest.mark.parametrize("axis", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("shape", [(4, 8), (6, 12)], ids=str)
def test_what_a_step_has_decided_by_is_what_is_read_later(shape: tuple[int, int],
                                                          axis: int) -> None:
    for seed in range(8):  # of which a few sums depend on the kernel that they are a part of
        lookup.forget()
        lt.manual_seed(seed)
        x = lt.rand(*shape).realize()
        sums = x.exp().sum(axis)
        most = sums.max().item()
        assert (sums == most).any().item()


@pytest.mark.parametrize("axis", SUMS.values(), ids=SUMS)
@pytest.mark.parametrize("shape", [(4, 8), (6, 12)], ids=str)
def test_what_others_have_computed_is_read_by_a_step_and_not_computed_again(
        shape: tuple[int, int], axis: int) -> None:
    for seed in range(8):
        lookup.forget()
        lt.manual_seed(seed)
        w = lt.rand(*shape).realize().requires_grad_(True)
        with anew():
            sums = w.exp().sum(axis)
            sums.realize()
        most = sums.max().item()
        assert (sums.detach() == most).any().item()


def test_what_is_read_from_an_earlier_frame_is_computed_alone(
        monkeypatch: pytest.MonkeyPatch) -> None:
    lookup.forget()
    monkeypatch.setattr(frame_runs, "PATIENCE", 1)
    monkeypatch.setattr(lengths, "usual", 40)
    sizes: list[int] = []
    checked = realization._checked_graph

    def noted(roots: Sequence[Node], device: str) -> Graph:
        graph = checked(roots, device)
        sizes.append(len(graph.order))
        return graph
    monkeypatch.setattr(realization, "_checked_graph", noted)
    times, w = lt.linspace(0, 1, 181).realize(), lt.ones(4, requires_grad=True)
    y = w * 0.5
    for begin, end in pairwise(times):
        step = end - begin
        y = y + w * (y + step).tanh() * (step / 2)  # whose graph is long, and read anew each time
    assert len(sizes) > 100 and max(sizes) < 20


def test_values_of_other_frames_that_share_a_part_are_copied_with_it_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """What an episode looks at between its steps ends frames; two values of each step go on."""
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    a, b = np.array([0.5, -1.0]), np.array([1.5, 0.25])
    w, v = (lt.tensor(x, requires_grad=True) for x in (a, b))
    counts = []
    for _ in range(8):
        made.clear()
        state, values = lt.tensor([1.0, 2.0], dtype=lt.float64), list[lt.Tensor]()
        for _ in range(3):
            trunk = (state * w).tanh()
            values += [trunk.sum(), (trunk * v).sum()]
            assert values[-1].item() < 4
            state = state * 0.5
            assert state.sum().item() > 0
        total = lt.zeros((), dtype=lt.float64)
        for value in values:
            total = total + value
        total.backward()
        counts.append(len(made))
        assert w.grad is not None and v.grad is not None
        states = np.array([[1.0, 2.0]]) * [[1.0], [0.5], [0.25]]
        trunks = np.tanh(states * a)
        np.testing.assert_allclose(w.grad.numpy(), (states * (1 - trunks ** 2) * (1 + b)).sum(0))
        np.testing.assert_allclose(v.grad.numpy(), trunks.sum(0))
        w.grad = v.grad = None
    assert max(counts[4:]) <= 4, counts


def test_the_gradient_of_what_was_computed_and_read_before_is_looked_up(
        monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    w, row = lt.tensor([0.5, -1.0], requires_grad=True), lt.tensor([1.0, 2.0]).realize()
    for turn in range(6):
        made.clear()
        h = (w * row).tanh()
        assert h.sum().item() < 1
        h.sum().backward()  # another tensor of the same value
        assert turn < 3 or not made
        assert w.grad is not None
        slopes = row.numpy() * (1 - np.tanh(w.numpy() * row.numpy()) ** 2)
        np.testing.assert_allclose(w.grad.numpy(), slopes, rtol=1e-5)
        w.grad = None


def test_values_that_a_program_does_not_read_are_no_reason_for_another(
        monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = frame_runs._made
    monkeypatch.setattr(frame_runs, "_made", lambda *args: made.append(1) or make(*args))
    x = lt.tensor([1.0, 2.0])
    counts = []
    for number in range(1, 8):
        made.clear()
        y = x * 3
        others = lt.ones(number).exp() + y.sum()  # which nobody asks for
        assert (y + 1).tolist() == [4, 7]
        counts.append(len(made))
        del others
    assert counts[2:] == [0] * 5


def test_a_program_reads_again_what_this_frame_has_in_memory() -> None:
    for number in range(12):
        x = lt.tensor([1.0, float(number)], requires_grad=True)
        y = x * 2
        z = y.exp() if number % 3 == 1 else y
        assert z.max().item() >= 2
        if number % 2:
            lt.ones(number).sum().item()
        loss = (y * y).sum()
        assert loss.item() == 4 + 4 * number ** 2
        loss.backward()
        assert x.grad.tolist() == [8, 8 * number]


def test_what_has_many_nodes_below_is_too_long_to_be_lifted_and_nothing_else(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifting, "LONGEST", 6)
    made = [lt.tensor([1.0, 2.0]).node]
    for number in range(30):
        made.append(elementwise(Op.ADD, made[-1], made[number // 2]))
    lifting._note_long(toposort(made[-1:]))
    noted = [n for n in made if n in lifting._unsayable]
    assert noted == made[-len(noted):]
    assert 20 <= len(noted) <= len(made) - 6
