"""What nobody looks at does not pile up: a round of any loop costs the same, however many there
were. (Counted in nodes and plans, not in time.)"""
from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from endless_loops import LOOPS
from example_counts import QUICK
from hypothesis import settings

import lazyten as lt
from lazyten.devices.program import Program
from lazyten.frontend.recorded import lifting, lookup
from lazyten.ir import node
from lazyten.support import observers
from lazyten.support.observers import OnRun

ROUNDS = 100_000
"""In a thorough run; in others twice as many as a loop takes to repeat itself."""
NODES = 12_000
"""More than any loop here may have at a time, its plans with it. One step of them has up to 120."""
PLANS = 12
"""So many plans may a loop run before it repeats itself."""


def is_thorough() -> bool:
    return settings.default is not None and settings.default.max_examples > QUICK


@pytest.mark.frees_nodes
@pytest.mark.parametrize("name", [pytest.param(name, marks=(pytest.mark.slow,)) if name in (
    "views_in_rotation", "a_list_of_losses", "a_random_walk", "power_iteration",
    "a_total_of_losses", "a_tensor_and_its_view") else name for name in LOOPS])
def test_a_loop_that_nobody_looks_at_repeats_its_plans_and_holds_few_nodes(name: str) -> None:
    run, before = LOOPS[name]
    rounds = ROUNDS if is_thorough() else 2 * before
    lt.manual_seed(0)
    lookup.forget()
    start = len(node._interned)
    first: set[tuple[Program, ...]] = set()
    others: set[tuple[Program, ...]] = set()
    with observers.told(OnRun(lambda _, plan: seen.add(plan.programs))):
        seen = first
        for i, _ in enumerate(run(rounds)):
            if i == before:
                seen = others
            assert len(node._interned) - start < NODES  # at once: what piles up gets slow, too
            if i == rounds - 1:
                seen = set()  # the check at the end
    assert len(first) <= PLANS
    assert others <= first


# ---- what it must and must not do ----------------------------------------------------------------

def test_a_program_of_some_hundred_operations_computes_nothing_before_a_look() -> None:
    x = lt.ones(4).contiguous().realize()
    v = x[1:]

    def write() -> None:
        for _ in range(40):
            x.add_(1)
            v.add_(1)
    assert lt.testing.count_kernels(write) == 0
    assert x.tolist() == [41, 81, 81, 81]


@pytest.mark.parametrize("hooked", [False, True])
def test_a_step_by_hand_is_one_plan_with_the_update_as_that_of_an_optimizer_is(
        hooked: bool) -> None:
    x, w = lt.ones(8, 3).contiguous().realize(), lt.zeros(3, 1, requires_grad=True)
    handle = w.register_hook(lambda gradient: None) if hooked else None  # not looked up then

    def step() -> None:
        loss = ((x @ w - 1) ** 2).mean()
        loss.backward()
        assert w.grad is not None
        with lt.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad = None
        loss.item()
    for _ in range(4):  # from then on its results have memory of their own
        step()
    plans = []
    with observers.told(OnRun(lambda _, plan: plans.append(plan))):
        step()
        step()
        assert len(plans) == 2
        assert plans[0] is plans[1]
        w.numpy()
    assert len(plans) == 2
    if handle is not None:
        handle.remove()


def test_several_gradients_and_updates_by_hand_are_computed_together() -> None:
    x = lt.ones(8, 3).contiguous().realize()
    a, b = lt.ones(3, 4, requires_grad=True), lt.ones(4, 1, requires_grad=True)
    plans = []
    with observers.told(OnRun(lambda _, plan: plans.append(plan))):
        for _ in range(5):
            gradients = lt.autograd.grad(((x @ a).tanh() @ b).sum(), [a, b])
            with lt.no_grad():
                for p, g in zip((a, b), gradients, strict=True):
                    p -= 0.1 * g
    assert len(plans) == 4
    assert len(set(plans)) <= 2


def test_what_is_pending_through_looks_at_others_is_computed_with_one_of_them() -> None:
    x = lt.ones(4).contiguous().realize()
    y = x * 2
    for i in range(4):
        assert (y + i).sum().item() == 4 * (2 + i)
    assert lt.testing.count_kernels(y.realize) == 0


def test_what_shares_nothing_with_a_look_stays_pending() -> None:
    x = lt.ones(4).contiguous().realize()
    y = x * 2
    for i in range(4):
        assert (x + i).sum().item() == 4 * (1 + i)
    assert lt.testing.count_kernels(y.realize) == 1


def test_a_look_beside_a_wrong_index_that_nobody_asked_for_succeeds() -> None:
    x = lt.ones(4).contiguous().realize()
    y = x * 2
    wrong = y[lt.tensor([1, 7])]
    for i in range(4):
        assert (y + i).sum().item() == 4 * (2 + i)
    with pytest.raises(lt.IndexingError, match="index 7 is outside axis 0"):
        wrong.numpy()
    assert y.tolist() == [2, 2, 2, 2]


def test_a_wrong_index_in_a_write_that_nobody_looks_at_names_its_line_once_it_is_found() -> None:
    x = lt.zeros(4)
    x[lt.tensor([7])] = 1; line = here()  # noqa: E702
    with pytest.raises(lt.IndexingError, match=rf"index 7 .* test_endless_loops.py:{line}$"):
        for _ in range(2000):
            x += 1


def here() -> int:
    """The line that calls."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


@pytest.mark.slow
def test_a_graph_of_a_long_chain_is_kept_for_its_gradient() -> None:
    w, x = lt.ones(3, requires_grad=True), lt.ones(3)
    y = w * 1
    total = lt.zeros(())
    for _ in range(1500):
        y = y * x
        total += y.detach().sum()
    y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1, 1, 1]
    assert total.item() == 4500


def test_a_statistic_that_keeps_its_graph_costs_each_step_the_same(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """As in batch norms that programs write by hand. (PyTorch keeps all steps' graph, too.)"""
    monkeypatch.setattr(lifting, "LONGEST", 100)
    walked = counted_walks(monkeypatch)
    w, x = lt.ones(3, requires_grad=True), lt.ones(4, 3).contiguous().realize()
    running = lt.zeros(3)
    for step in range(120):
        mean = (x * w).mean(0)
        running = 0.5 * running + 0.5 * mean
        loss = ((x * w - mean) ** 2).sum() + w.sum()
        loss.backward()
        assert loss.item() == 3
        if step == 79:
            walked.clear()
    assert sum(walked) <= 40 * 20
    assert running.tolist() == [1] * 3
    assert w.grad is not None
    assert w.grad.tolist() == [120, 120, 120]


def counted_walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes each value that is lifted into a frame takes to go through, as it comes."""
    walked: list[int] = []

    def counted(roots: list[node.Node], *into: Any) -> list[node.Node]:
        found = node.toposort(roots, *into)
        walked.append(len(found))
        return found
    monkeypatch.setattr(lifting, "toposort", counted)
    return walked


def test_a_step_that_computes_on_the_host_costs_the_same_whenever_it_comes(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """As a filter's gain is: each step's rule for gradients holds its values, which no template
    can say, nor those of all steps after it."""
    walked, totals = counted_walks(monkeypatch), []
    for steps in (20, 80):
        walked.clear()
        q, x = lt.tensor([[0.5]], requires_grad=True), lt.eye(1)
        for _ in range(steps):
            x = lt.linalg.inv(x * q + 1) + x * 0.5
        x.sum().backward()
        totals.append(sum(walked))
        assert q.grad is not None
        assert q.grad.item() == pytest.approx(filtered(steps), rel=1e-4)
    assert totals[1] <= 5 * totals[0], totals


def filtered(steps: int) -> float:
    """The same filter's gradient, forwards."""
    x, slope = 1.0, 0.0
    for _ in range(steps):
        x, slope = 1 / (x / 2 + 1) + x / 2, -(slope / 2 + x) / (x / 2 + 1) ** 2 + slope / 2
    return slope


def test_a_jitted_function_computes_nothing_while_it_is_traced() -> None:
    x = lt.zeros(4).contiguous().realize()

    def loop(x: lt.Tensor) -> lt.Tensor:
        for _ in range(1200):
            x = x + 1
        return x
    run = lt.jit(loop)
    run(x)
    assert lt.testing.count_kernels(lambda: run(x)) <= 4
    assert run(x).tolist() == [1200] * 4


def test_a_loop_under_a_transform_computes_nothing_until_it_is_done() -> None:
    def loop(x: lt.Tensor) -> lt.Tensor:
        for _ in range(1200):
            x = x + 1
        return x.sum()
    x = lt.zeros(2, 4)
    assert lt.func.vmap(loop)(x).tolist() == [4800, 4800]
    assert lt.func.grad(loop)(x).tolist() == [[1] * 4] * 2


@pytest.mark.slow
def test_threads_write_to_what_others_look_at_and_no_write_is_lost() -> None:
    counts = [lt.zeros(3, dtype=lt.int64) for _ in range(2)]

    def write(count: lt.Tensor) -> None:
        for _ in range(1500):
            count += 1

    def look() -> None:
        while any(t.is_alive() for t in writers):
            for count in counts:
                (count + 1).sum().item()
    writers = [threading.Thread(target=write, args=[c]) for c in counts]
    reader = threading.Thread(target=look)
    for t in (*writers, reader):
        t.start()
    for t in (*writers, reader):
        t.join()
    assert [c.tolist() for c in counts] == [[1500] * 3] * 2
