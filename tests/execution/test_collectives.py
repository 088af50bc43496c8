"""Collectives in plans and in jitted functions, of ranks that all have the same."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_ranks import Simulated

import lazyten as lt
from lazyten.distributed import functional as F
from lazyten.execution import realization
from lazyten.execution.plans import making
from lazyten.storage import collectives
from lazyten.storage.device import executor

Array = np.ndarray[Any, Any]
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "exchange")


def _call(kind: str, x: lt.Tensor, group: Simulated) -> lt.Tensor:
    extra: tuple[Any, ...] = {"broadcast": (0,), "exchange": (2, 0)}.get(kind, ())
    result: lt.Tensor = getattr(F, kind)(x, *extra, group=group)
    return result


def _wanted(kind: str, x: Array, group: Simulated) -> Array:
    if kind == "all_reduce":
        return 3 * x
    if kind == "all_gather":
        return np.stack([x] * 3)
    if kind == "reduce_scatter":
        return 3 * x[1]
    return np.stack([x[1]] * 3) if kind == "all_to_all" else x


STEP = st.tuples(st.sampled_from(["together", "add", "sum", "scale"]), st.sampled_from(KINDS),
                 st.integers(0, 50), st.integers(0, 50))


def _run(steps: list[Any], x: lt.Tensor, group: Simulated) -> list[lt.Tensor]:
    """A program: each step makes a (3, 4) of earlier ones."""
    made = [x]
    for what, kind, a, b in steps:
        first, second = made[a % len(made)], made[b % len(made)]
        if what == "together":
            found = _call(kind, first, group)
            made.append(found[0] if found.ndim == 3 else found.expand(3, 4))
        elif what == "add":
            made.append(first * 0.5 + second.flip(0))
        elif what == "sum":
            made.append(first.sum(1, keepdim=True) * 0.1 + second)
        else:
            made.append((first * 0.25).contiguous())
    return made


def _by_numpy(steps: list[Any], x: Array, group: Simulated) -> list[Array]:
    made = [x]
    for what, kind, a, b in steps:
        first, second = made[a % len(made)], made[b % len(made)]
        if what == "together":
            found = _wanted(kind, first, group)
            made.append(found[0] if found.ndim == 3 else np.broadcast_to(found, (3, 4)))
        elif what == "add":
            made.append(first * 0.5 + second[::-1])
        elif what == "sum":
            made.append(first.sum(1, keepdims=True) * 0.1 + second)
        else:
            made.append(first * 0.25)
    return made


@pytest.mark.few(2)
@given(steps=st.lists(STEP, min_size=1, max_size=9), order=st.randoms(use_true_random=False))
@pytest.mark.parametrize("jitted", [False, True])
def test_programs_with_collectives_are_those_of_numpy(device: str, jitted: bool, steps: list[Any],
                                                      order: Any) -> None:
    """Whatever is looked at, in whatever order: all collectives are begun once, as recorded."""
    group = Simulated()
    begun = [kind for what, kind, _, _ in steps if what == "together"]
    program = lt.jit(lambda x: _run(steps, x, group)) if jitted else \
        (lambda x: _run(steps, x, group))
    for number in range(3):
        values = np.arange(12.0).reshape(3, 4) - number
        made, wanted = program(lt.tensor(values, device=device)), _by_numpy(steps, values, group)
        for place in order.sample(range(len(made)), len(made)):
            np.testing.assert_allclose(made[place].numpy(), wanted[place], rtol=1e-12)
    realization.carry_out()
    assert [kind for kind in group.log if kind != "end"] == begun * 3
    assert group.log.count("end") == len(begun) * 3


def test_what_nobody_looks_at_is_done_by_a_later_look() -> None:
    group = Simulated()
    _call("all_gather", lt.ones(3), group)
    later = _call("all_reduce", lt.ones(3), group)
    assert group.log == []
    _call("broadcast", lt.ones(3), group)
    assert later.tolist() == [3.0] * 3
    assert group.log == ["all_gather", "all_reduce", "end", "end"]
    realization.carry_out()
    assert group.log[4:] == ["broadcast", "end"] and collectives.waiting() == []


def test_many_are_done_though_nobody_looks() -> None:
    group = Simulated()
    for _ in range(2 * collectives.MOST):
        _call("all_reduce", lt.ones(2), group)
    assert len(group.log) >= collectives.MOST
    realization.carry_out()
    assert group.log.count("all_reduce") == 2 * collectives.MOST


def test_a_jitted_function_does_what_it_drops_too() -> None:
    group = Simulated()

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        _call("all_gather", x, group)
        return _call("all_reduce", x, group) + 1

    for number in range(6):
        assert step(lt.full((2,), float(number))).tolist() == [3.0 * number + 1] * 2
    assert [k for k in group.log if k != "end"] == ["all_gather", "all_reduce"] * 6


def test_a_jitted_function_comes_after_what_was_recorded_before() -> None:
    group = Simulated()
    step = lt.jit(lambda x: _call("all_reduce", x, group))
    for _ in range(3):
        _call("all_gather", lt.ones(3), group)
        step(lt.ones(3))
    assert [k for k in group.log if k != "end"] == ["all_gather", "all_reduce"] * 3


def test_values_travel_through_memory_that_is_not_the_hosts(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(executor("cpu")), "view", lambda *given: None)
    group = Simulated()
    x = lt.tensor([1.0, 2.0]) + 1
    for kind in ("all_reduce", "all_gather", "broadcast"):
        np.testing.assert_array_equal((_call(kind, x, group) + 0).numpy(),
                                      _wanted(kind, np.array([2.0, 3.0]), group))


@pytest.mark.slow
def test_who_looks_on_sees_collectives_among_kernels(
        tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    group = Simulated()
    x = lt.rand(3, 4).realize()

    def step() -> lt.Tensor:
        return _call("all_reduce", x * 2, group) + 1

    with lt.profile() as record, lt.dump_kernels(tmp_path):
        step().realize()
    assert "all_reduce_begin_0" in record.table()
    monkeypatch.setenv("DEBUG", "5")
    step().realize()
    monkeypatch.delenv("DEBUG")
    assert "all_reduce_end_0" in capsys.readouterr().out
    lt.tune(step, seconds=0.1)
    lt.view(step(), path=tmp_path / "page.html")
    assert (tmp_path / "page.html").exists()
    realization.carry_out()


def test_kernels_that_need_nothing_of_it_run_while_a_collective_is_under_way() -> None:
    group = Simulated()
    x = lt.rand(64, 64).realize()
    total = _call("all_reduce", x, group)
    text = lt.explain(total, total + (x @ x).exp(), x @ x)
    names = [line.split()[1] for line in text.splitlines() if line[:1].isdigit() and ":" in line]
    assert names[0] == "all_reduce_begin_0" and names.index("all_reduce_end_0") >= 1
    realization.carry_out()
    first, second = _call("all_reduce", x, group), _call("all_gather", x + 1, group)
    lt.realize(first, second)
    assert group.log[2:] == ["all_reduce", "all_gather", "end", "end"]
    realization.carry_out()


def test_an_index_that_is_outside_does_not_repeat_a_collective() -> None:
    group = Simulated()
    total = _call("all_reduce", lt.ones(3), group)
    wrong = total[lt.tensor([5])]
    with pytest.raises(lt.IndexingError):
        wrong.item()
    assert total.tolist() == [3.0] * 3 and group.log == ["all_reduce", "end"]


def test_a_step_with_collectives_is_planned_once() -> None:
    group = Simulated()
    counts = []
    for number in range(4):
        x = lt.tensor([1.0 * number] * 3)
        assert (_call("all_reduce", x, group) * 2).sum().item() == 18.0 * number
        counts.append(len(making._plans))
    assert counts[1] == counts[-1]


def test_gradients_go_through_collectives_of_this_group() -> None:
    group = Simulated()
    for device in ("cpu", "interpreter"):
        x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
        (_call("all_reduce", x, group) * _call("broadcast", x, group)).sum().backward()
        assert x.grad is not None
        # through the sum x comes back from each rank; through the broadcast all goes to rank 0
        assert x.grad.tolist() == [3.0, 6.0]


def test_a_collective_cannot_be_exported(tmp_path: Any) -> None:
    group = Simulated()
    with pytest.raises(lt.LazytenError, match="collective of several processes"):
        lt.export(lambda x: _call("all_reduce", x, group), (lt.ones(3),), tmp_path / "f.c")


@pytest.mark.parametrize("early", [False, True])
def test_a_jitted_function_looks_at_indices_beside_collectives(device: str, early: bool) -> None:
    """Nothing is written where an index is outside, before or after a collective."""
    group, state = Simulated(), lt.zeros(4, device=device).realize()

    @lt.jit
    def step(x: lt.Tensor, at: lt.Tensor) -> lt.Tensor:
        total = _call("all_reduce", x[at] if early else x, group)
        picked = total if early else total[at]
        state.add_(picked)
        return picked * 2

    x = lt.tensor([1.0, 2.0, 3.0, 4.0], device=device)
    for number in range(8):
        if number % 3 == 2:
            with pytest.raises(lt.IndexingError):
                step(x, lt.tensor([0, 1, 2, 9], device=device))
        else:
            assert step(x, lt.tensor([3, 2, 1, 0], device=device)).tolist() == [24, 18, 12, 6]
    assert state.tolist() == [72.0, 54.0, 36.0, 18.0]


def test_a_collective_of_constants_in_a_jitted_function_is_of_its_calls_alone() -> None:
    group, weight = Simulated(), lt.ones(3, requires_grad=True)

    def step() -> lt.Tensor:
        weight.grad = None
        made = weight * 2
        F.exchange(made.detach(), 1, None, group=group)
        came = F.exchange(lt.ones(3), None, 1, group=group)
        lt.autograd.backward([made], [came])
        assert weight.grad is not None
        return weight.grad.sum()
    call = lt.jit(step)
    for _ in range(3):
        assert call().item() == 6
        assert group.log == ["exchange", "exchange", "end", "end"]
        group.log.clear()
