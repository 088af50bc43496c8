"""Steps of optimizers that are about the same as the last one (optim/last_step.py) do what they do
where nothing is looked up, whatever a program does between them."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from changing_programs import anew
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_values import assert_alike

import lazyten as lt
from lazyten.optim import recorded_step
from lazyten.optim.step_numbers import HeldNumber

MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    "SGD": lambda ps: lt.optim.SGD(ps, lr=0.1),
    "momentum": lambda ps: lt.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "dampened": lambda ps: lt.optim.SGD(ps, lr=0.1, momentum=0.9, dampening=0.3),
    "AdamW": lambda ps: lt.optim.AdamW(ps, lr=0.05, betas=(0.8, 0.9)),
    "NAdam": lambda ps: lt.optim.NAdam(ps, lr=0.05),
    "some momentum": lambda ps: lt.optim.SGD([{**group, "momentum": 0.9 * n}
                                              for n, group in enumerate(ps)], lr=0.1),
}


class Training:
    """Two optimizers, the first of two groups of parameters."""

    def __init__(self, maker: str) -> None:
        self.rng = np.random.default_rng(7)
        self.ps = [lt.nn.Parameter(lt.tensor(self.rng.normal(size=(2, 3)))) for _ in range(4)]
        self.optimizer = MAKERS[maker]([{"params": self.ps[:2]}, {"params": [self.ps[2]],
                                                                   "weight_decay": 0.1}])
        self.other = lt.optim.Adam([self.ps[3]], lr=0.1)
        self.scheduler = lt.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.seen: list[Any] = []

    def loss(self) -> lt.Tensor:
        x = lt.tensor(self.rng.normal(size=(2, 3)))
        a, b, c, d = self.ps
        return (a * x + b).sin().sum() + (c * d * x).square().mean() + (a - d).tanh().sum()

    def take(self, before: Callable[[Training], object], between: Callable[[Training], object],
             closure: bool) -> None:
        """A step, with acts before its gradients are computed, and before the optimizers' steps."""
        before(self)

        def gradients() -> lt.Tensor:
            self.optimizer.zero_grad()
            self.other.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss
        if closure:
            self.seen.append(self.optimizer.step(gradients).item())
        else:
            gradients()
            between(self)
            self.optimizer.step()
        self.other.step()
        self.seen.append([p.detach().numpy().tolist() for p in self.ps])


def _states(t: Training) -> list[lt.Tensor]:
    return [v for s in t.optimizer.state.values() for v in s.values() if isinstance(v, lt.Tensor)]


def _write_states(t: Training) -> None:
    for x in _states(t):
        x.mul_(0.5)


def _read_states(t: Training) -> None:
    t.seen.append(sum((x.abs().sum() for x in _states(t)), lt.zeros(())).item())


def _write_states_outside(t: Training) -> None:
    for x in _states(t)[:2]:
        np.from_dlpack(x)[...] *= 0.5


def _replace_states(t: Training) -> None:
    for state in t.optimizer.state.values():
        state.update({n: v * 2 for n, v in state.items() if isinstance(v, lt.Tensor)})


def _rename_states(t: Training) -> None:
    """What one was called another is, in the same order."""
    for state in t.optimizer.state.values():
        named = [n for n, v in state.items() if isinstance(v, lt.Tensor) and v.ndim]
        values = [state.pop(n).abs() for n in named]
        state.update(zip(reversed(named), values, strict=True))


def _swap_names(t: Training) -> None:
    """The same without other tensors."""
    for state in t.optimizer.state.values():
        named = [n for n, v in state.items() if isinstance(v, lt.Tensor) and v.ndim]
        values = [state.pop(n) for n in named]
        state.update(zip(reversed(named), values, strict=True))


def _swap_states(t: Training) -> None:
    """Their memory, or the order that they have in a state."""
    first, *_, last = [s for s in t.optimizer.state.values() if s] or [{}, {}]
    for name in [n for n, v in first.items() if isinstance(v, lt.Tensor)]:
        first[name].data, last[name].data = last[name].data, first[name].data
        first[name] = first.pop(name)


def _count_on(t: Training) -> None:
    for n, state in enumerate(t.optimizer.state.values()):
        if "step" in state:
            state["step"] += 1 + n


def _move_a_parameter(t: Training) -> None:
    """To the other group, in the order that all have."""
    first, second = (group["params"] for group in t.optimizer.param_groups)
    if len(first) > 1:
        second.insert(0, first.pop())
    else:
        first.append(second.pop(0))


def _load(t: Training) -> None:
    t.optimizer.load_state_dict(t.optimizer.state_dict())


def _freeze(t: Training) -> None:
    t.ps[1].requires_grad_(not t.ps[1].requires_grad)


def _no_gradient(t: Training) -> None:
    t.ps[0].grad = None


def _clip(t: Training) -> None:
    lt.nn.utils.clip_grad_norm_(t.ps, 0.5)


def _accumulate(t: Training) -> None:
    t.loss().backward()


def _write_gradient(t: Training) -> None:
    if t.ps[0].grad is not None:
        t.ps[0].grad = t.ps[0].grad * 0.5


def _one_gradient(t: Training) -> None:
    t.ps[0].grad = t.ps[2].grad


def _write_parameter(t: Training) -> None:
    with lt.no_grad():
        t.ps[0].mul_(0.5)
    t.ps[2].data = t.ps[2].data * 0.5


def _share_parameter(t: Training) -> None:
    array = t.ps[0].detach().numpy()
    t.ps[0].data = lt.from_numpy(array)
    array *= 0.5


def _schedule(t: Training) -> None:
    t.scheduler.step()


def _options(t: Training) -> None:
    t.optimizer.param_groups[1]["weight_decay"] += 0.1


def _option_that_looks_equal(t: Training) -> None:
    t.optimizer.param_groups[0]["maximize"] = int(not t.optimizer.param_groups[0]["maximize"])


def _rate(t: Training) -> None:
    t.optimizer.param_groups[0]["lr"] = 0 if t.optimizer.param_groups[0]["lr"] else 1e-2


def _other_first(t: Training) -> None:
    t.other.step()


def _look(t: Training) -> None:
    t.seen.append([None if p.grad is None else p.grad.sum().item() for p in t.ps])


def _nothing(t: Training) -> None:
    """As most steps are."""


def _pass_a_state_on(t: Training) -> None:
    states = t.optimizer.state
    if t.ps[2] in states:
        states[t.ps[0]] = states.pop(t.ps[2])


ACTS: list[Callable[[Training], None]] = [
    _pass_a_state_on,
    _write_states, _read_states, _write_states_outside, _replace_states, _swap_states, _count_on,
    _rename_states, _swap_names,
    _move_a_parameter, _load, _freeze, _no_gradient, _clip, _accumulate, _write_gradient,
    _one_gradient, _write_parameter, _share_parameter, _schedule, _options,
    _option_that_looks_equal, _rate, _other_first, _look]
SAME = (_nothing, _nothing, False)
STEPS = st.one_of(st.just(SAME), st.tuples(st.sampled_from([_nothing, *ACTS]),
                                           st.sampled_from([_nothing, *ACTS]), st.booleans()))


def _run(maker: str, steps: list[Any]) -> list[Any]:
    training = Training(maker)
    for step in steps:
        for taken in (SAME, SAME, SAME, step):
            training.take(*taken)
    return training.seen


def _are_as_without(maker: str, steps: list[Any]) -> None:
    with anew():
        expected = _run(maker, steps)
    assert_alike(_run(maker, steps), expected, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(maker=st.sampled_from([*MAKERS][:5]), steps=st.lists(STEPS, min_size=1, max_size=6))
def test_whatever_comes_between_steps_they_do_what_they_do_without(maker: str,
                                                                   steps: list[Any]) -> None:
    _are_as_without(maker, steps)


@pytest.mark.few(6)
@pytest.mark.parametrize("at", [0, 1], ids=["before", "between"])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("maker", ["momentum", "AdamW"])
def test_what_a_program_does_before_a_step_is_seen(maker: str, act: Any, at: int) -> None:
    step = (act, _nothing, False) if at == 0 else (_nothing, act, False)
    _are_as_without(maker, [step, SAME])


@pytest.mark.parametrize("at", [0, 1], ids=["before", "between"])
def test_a_state_of_another_parameter_is_none_of_the_last_step(at: int) -> None:
    step = (_pass_a_state_on, _nothing, False) if at == 0 else (_nothing, _pass_a_state_on, False)
    _are_as_without("some momentum", [step, SAME])


@pytest.mark.parametrize("act", [_schedule, _clip, _accumulate, _look])
def test_a_step_like_the_last_one_is_not_looked_up(act: Any,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    training, parts = Training("AdamW"), recorded_step._parts
    found: list[object] = []

    def look(optimizer: Any) -> Any:
        found.append(optimizer)
        return parts(optimizer)
    monkeypatch.setattr(recorded_step, "_parts", look)
    training.optimizer.step()  # which the scheduler wants to come first
    for step in range(10):
        training.take(_nothing, act, False)
        if step < 5:
            found.clear()  # the first are recorded, and looked up
    assert not found


def test_steps_of_batches_of_several_lengths_are_recorded_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    model, taken = lt.nn.Linear(3, 2), recorded_step._record
    optimizer, recorded = lt.optim.Adam(model.parameters()), []

    def record(*args: Any) -> Any:
        recorded.append(args)
        return taken(*args)
    monkeypatch.setattr(recorded_step, "_record", record)
    batches = [lt.ones(length, 3).realize() for length in range(1, 13)]
    for step in range(4):
        if step == 3:
            recorded.clear()  # the first are recorded
        for batch in batches:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    assert not recorded


def _changing(count: int) -> list[Any]:
    """Parameters after steps whose losses are other graphs each time, and the loss of some."""
    model, rng = lt.nn.Linear(3, 2), np.random.default_rng(3)
    with lt.no_grad():
        for p in model.parameters():
            p.copy_(lt.tensor(rng.normal(size=p.shape), dtype=lt.float32))
    optimizer, seen = lt.optim.Adam(model.parameters(), lr=0.1), list[Any]()
    for step in range(count):
        x = lt.tensor(rng.normal(size=(step + 1, 3)), dtype=lt.float32)
        if step % 5 or not step:
            optimizer.zero_grad()  # else gradients are added to those before
        loss = model(x).square().mean()
        loss.backward()
        if step % 4 == 1:
            seen.append(loss.item())
        if step % 3 == 1:
            lt.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        seen.append([p.detach().numpy().tolist() for p in model.parameters()])
    return seen


def test_steps_of_losses_that_are_other_graphs_each_time_do_what_they_do_without() -> None:
    with anew():
        expected = _changing(24)
    assert_alike(_changing(24), expected, rel=1e-5, abs=1e-6)


def test_steps_of_losses_that_are_other_graphs_each_time_are_recorded_a_few_times(
        monkeypatch: pytest.MonkeyPatch) -> None:
    taken, recorded = recorded_step._record, list[object]()

    def record(*args: Any) -> Any:
        recorded.append(args)
        return taken(*args)
    monkeypatch.setattr(recorded_step, "_record", record)
    _changing(24)
    assert len(recorded) <= recorded_step.KINDS + 2


def test_a_step_apart_from_gradients_that_cannot_be_computed_leaves_all_as_it_was() -> None:
    w = lt.nn.Parameter(lt.ones(4, 2))
    optimizer = lt.optim.Adam([w], lr=0.1)
    for step in range(recorded_step.KINDS + 3):
        optimizer.zero_grad()
        lt.nn.functional.embedding(lt.arange(step % 3 + 1), w * (step + 1)).sum().backward()
        optimizer.step()
    before, states = w.tolist(), [dict(state) for state in optimizer.state.values()]
    optimizer.zero_grad()
    loss = lt.nn.functional.embedding(lt.tensor([1, 2, 7, 0, 0, 0, 0]), w * 99).sum()
    with pytest.raises(lt.LazytenError):
        loss.backward()
        optimizer.step()
    assert w.tolist() == before
    assert [dict(state)["step"] for state in optimizer.state.values()] == [
        state["step"] for state in states]


SCALED: dict[str, Callable[[Any], Any]] = {
    **{name: maker for name, maker in MAKERS.items() if name != "some momentum"},
    "Adagrad": lambda ps: lt.optim.Adagrad(ps, lr=0.1),
    "amsgrad": lambda ps: lt.optim.Adam(ps, lr=0.05, amsgrad=True, weight_decay=0.1),
    "ASGD": lambda ps: lt.optim.ASGD(ps, lr=0.05, t0=2),
    "RMSprop": lambda ps: lt.optim.RMSprop(ps, lr=0.05, centered=True),
}


def _scaled(maker: str, order: str) -> list[Any]:
    """What steps see by a scaler, or without one, where gradients may be infinite, and parameters
    have none."""
    ps = [lt.nn.Parameter(lt.tensor([0.5, -1.0])), lt.nn.Parameter(lt.tensor([2.0]))]
    optimizer, seen = SCALED[maker](ps), list[Any]()
    scaler = lt.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for kind in order:
        factor = math.inf if kind == "i" else 0.5
        optimizer.zero_grad()
        loss = (ps[0] * factor).square().sum() + (ps[1].sum() if kind != "o" else 0.0)
        if kind == "p":
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if kind == "s":
            optimizer.load_state_dict(optimizer.state_dict())
        if kind == "r":
            optimizer.param_groups[0]["lr"] *= 0.5
        seen.append(([p.tolist() for p in ps], scaler.get_scale(),
                     [{k: float(lt.as_tensor(v).sum()) for k, v in optimizer.state[p].items()}
                      for p in ps]))
    return seen


@pytest.mark.few(4)
@pytest.mark.parametrize("maker", SCALED)
@pytest.mark.parametrize("order", ["......", "..i..i.", "p.p.i.p", "..o.p.o.", ".s..rr..s.i"])
def test_steps_of_a_scaler_do_what_they_do_without(maker: str, order: str) -> None:
    with anew():
        expected = _scaled(maker, order)
    assert_alike(_scaled(maker, order), expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("maker", SCALED)
def test_a_step_that_may_be_skipped_is_not_the_last_one_again(maker: str) -> None:
    """Though its parameters, gradients and states are what they were for steps that may not."""
    p = lt.nn.Parameter(lt.tensor([1.0, 2.0]))
    optimizer = SCALED[maker]([p])
    for number in range(9):
        optimizer.zero_grad()
        p.square().sum().backward()
        before = p.tolist()
        if number > 4:
            optimizer.step_unless(lt.tensor(number % 2 == 1))
        else:
            optimizer.step()
        assert (p.tolist() == before) == (number in (5, 7))


def test_steps_of_a_scaler_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    updates, original = [], lt.optim.Adam._update
    monkeypatch.setattr(lt.optim.Adam, "_update", lambda *args: updates.append(args)
                        or original(*args))
    model = lt.nn.Linear(3, 2)
    optimizer, scaler = lt.optim.Adam(model.parameters()), lt.amp.GradScaler("cpu")
    for step in range(8):
        if step == 4:
            updates.clear()  # the first are recorded
        optimizer.zero_grad()
        scaler.scale(model(lt.ones(4, 3)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert not updates and [state["step"].item() for state in optimizer.state.values()] == [8, 8]


def test_random_numbers_of_a_step_that_is_kept_stay_what_they_were() -> None:
    seen = []
    for look in (True, False):
        lt.manual_seed(3)
        kept = []
        for _ in range(6):
            kept.append(lt.nn.functional.dropout(lt.ones(50), 0.5))
            if look:
                kept[-1].realize()
        seen.append([x.tolist() for x in kept])
    assert seen[0] == seen[1] and len({str(x) for x in seen[0]}) == 6


def test_memory_of_a_number_serves_again_unless_somebody_knows_it() -> None:
    held = HeldNumber(lt.float32, "cpu")
    first = held.memory(1.5)
    assert held.memory(1.5) is first
    assert held.memory(2.5) is not first and first.numpy() == [1.5]
    number = id(held.memory(2.5))
    assert id(held.memory(1e300)) == number and np.isinf(held.memory(1e300).numpy())
    assert np.isnan(held.memory(float("nan")).numpy())
