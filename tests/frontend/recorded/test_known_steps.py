"""Steps that are looked up (frontend/recorded/) do what they do where all is recorded anew."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from changing_programs import ACTS, Program, Values, anew, run
from hypothesis import given, settings
from hypothesis import strategies as st
from own_optimizers import own_adam
from step_kinds import (
    adversarial,
    carried,
    gan,
    gradients_of_gradients,
    leaves_of_each_step,
    looked_at_without_gradients,
    routed,
    several_losses_of_one_graph,
    trained,
    written_masks,
)
from tensor_values import assert_alike, counted_plans

import lazyten as lt
from lazyten.autodiff.fixed_rules import holds_no_value
from lazyten.execution import frame_runs
from lazyten.frontend.recorded import gradients, keys, lookup, sayable
from lazyten.ir import node
from lazyten.ir.ops import Op
from lazyten.optim import recorded_step
from lazyten.storage import deferred, frames
from lazyten.storage.storage import Buffer, Storage
from lazyten.support import observers
from lazyten.support.observers import OnRun

# ---- programs that change their course -----------------------------------------------------------

@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(courses=st.lists(st.lists(st.sampled_from(ACTS), min_size=1, max_size=8), min_size=1,
                        max_size=3),
       order=st.lists(st.integers(0, 2), min_size=3, max_size=8))
def test_programs_that_change_their_course_see_what_they_see_without(
        courses: list[list[Callable[[Program], None]]], order: list[int]) -> None:
    with anew():
        expected = run(courses, order)
    assert_alike(run(courses, order), expected, rel=1e-8, abs=1e-9)


@pytest.mark.slow
def test_a_leaf_that_a_checkpoint_reads_twice_in_a_frame_has_its_gradient_once() -> None:
    acts = {act.__name__: act for act in ACTS}
    courses = [[acts[name] for name in course.split()] for course in (
        "_checkpointed_function _hook", "_product _input_gradient _write",
        "_checkpointed_function _loss_first")]
    with anew():
        expected = run(courses, [0, 1, 2])
    assert_alike(run(courses, [0, 1, 2]), expected, rel=1e-8, abs=1e-9)


# ---- what a known step does, and does not --------------------------------------------------------

def test_gradients_that_were_zeroed_are_no_program_of_their_own() -> None:
    lookup.forget()
    net = lt.nn.Linear(3, 2)
    optimizer, x = lt.optim.SGD(net.parameters(), lr=0.1), lt.ones(4, 3).realize()
    for step in range(6):
        runs: list[object] = []
        with observers.told(OnRun(lambda device, plan, runs=runs: runs.append(plan))):
            loss = net(x).square().mean()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
        assert step < 3 or len(runs) == 1
        expected = net.weight.grad.tolist()
        assert any(map(any, expected))
        optimizer.zero_grad(set_to_none=False)
        assert not any(map(any, net.weight.grad.tolist()))


def test_a_step_whose_values_become_leaves_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup.forget()
    w, counts = lt.tensor([1.0, -2.0, 0.5], requires_grad=True), []
    real: list[object] = []
    revealed = deferred.reveal

    def noted(storage: Storage) -> node.Node:
        real.append(storage)
        return revealed(storage)
    monkeypatch.setattr(deferred, "reveal", noted)
    for _ in range(5):
        x = (lt.tensor([0.5, 1.0, 2.0]) * (w * w + 1)).detach().requires_grad_()
        time = (w.detach()[0] * 2).requires_grad_()
        energy = (w * x * time).sin().sum()
        slope, = lt.autograd.grad(energy, [x], create_graph=True)
        (slope.square().sum() + energy).backward()
        assert x.grad is not None and time.grad is not None and w.grad is not None
        assert x.grad.shape == (3,) and time.grad.shape == ()
        with lt.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        counts.append(len(real))
    assert counts[2] == counts[-1]



def test_a_step_that_came_before_works_out_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    work_out = node.shape_of

    def counted(*args: Any) -> Any:
        nonlocal made
        made += 1
        return work_out(*args)

    monkeypatch.setattr(node, "shape_of", counted)
    counts = []
    for _ in trained(8, lambda loss: loss.item()):
        counts.append(made)
        made = 0
    assert counts[0] > 200
    # The nodes that read the data, and results in memory: none of an operation.
    assert max(counts[6:]) <= 8


@pytest.mark.usefixtures("interpreting_as_users_do")
def test_a_step_that_looks_at_values_often_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boxes are suppressed one by one: each look ends a frame, and all are one step."""
    lookup.forget()
    names: list[str] = []
    record = lookup.record
    monkeypatch.setattr(lookup, "record",
                        lambda *args: names.append(args[1].__name__) or record(*args))
    x, counts = lt.rand(3, 4).realize(), []
    for _ in range(3):
        for size in range(1, 100):
            assert x.expand(size, 3, 4).softmax(2).sum().item() == pytest.approx(3 * size)
        counts.append(len(names))
        names.clear()
    assert counts[0] >= 200
    assert counts[2] == 0, counts


@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_follows_an_operation_that_cannot_be_looked_up_is_looked_up(
        requires_grad: bool) -> None:
    """As an index of more of NumPy's numbers than are part of a key."""
    x = lt.ones(100, requires_grad=requires_grad)
    taken = (x * 2)[list(np.arange(keys.LONGEST + 1))]
    assert not isinstance(taken._storage, deferred.Deferred)
    found = taken * 3
    assert isinstance(found._storage, deferred.Deferred)
    assert found.tolist() == [6] * (keys.LONGEST + 1)


def test_each_device_has_a_frame_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    w = lt.ones(3, device="interpreter", requires_grad=True)
    x = lt.tensor([1.0, 2.0, 3.0], device="interpreter")
    total, counts, used = lt.zeros(2, device="cpu").realize(), [], set()
    optimizer = lt.optim.SGD([w], lr=0.01)
    for _ in range(8):
        made.clear()
        optimizer.zero_grad()
        total = total + 1  # is not computed before the end
        loss = ((x * w).tanh() ** 2).sum()
        loss.backward()
        total = total * 2
        optimizer.step()
        counts.append(len(made))
        used.add(total._storage._frame)
    assert counts[0] > 20
    assert max(counts[3:]) <= 8
    assert len(used) == 1 and None not in used
    assert total.tolist() == [510.0] * 2
    assert not (w == 1).any().item()


def test_what_a_user_keeps_in_a_group_is_no_option() -> None:
    w = lt.ones(2, requires_grad=True)
    optimizer = lt.optim.SGD([{"params": [w], "notes": {"seen": [1]}, "count": 0}], lr=0.5)
    for number in range(4):
        (w * lt.tensor([1.0, 2.0])).sum().backward()
        optimizer.param_groups[0]["count"] = number
        optimizer.step()
        optimizer.zero_grad()
    assert w.tolist() == [-1, -3]
    assert len(optimizer._steps.again) == 1


def test_gradients_of_several_passes_are_added() -> None:
    w, x = lt.tensor([1.0, 2.0], requires_grad=True), lt.tensor([3.0, 4.0])
    for _ in range(4):
        w.grad = None
        losses = [(w * x).sum(), (w * w).sum()]
        for loss in losses:
            loss.backward()  # the second finds a gradient that is not computed
        assert w.grad is not None
        assert w.grad.tolist() == [5, 8]
        w.grad.add_(1)
        (w * x).sum().backward()
        assert w.grad.tolist() == [9, 13]


def test_memory_that_others_write_to_is_read_when_an_operation_is_called() -> None:
    values = np.ones(3, np.float32)
    x = lt.from_numpy(values)
    for k in range(4):
        y = x * 2
        values += 1
        z = x * 3
        assert y.tolist() == [2 * (k + 1)] * 3
        assert z.tolist() == [3 * (k + 2)] * 3


@pytest.mark.few(6)
@pytest.mark.parametrize(("steps", "most"), [
    (gan, 10), (adversarial, 10), (carried, 8), (looked_at_without_gradients, 8),
    (written_masks, 30), (leaves_of_each_step, 12), (several_losses_of_one_graph, 4),
    (gradients_of_gradients, 24), (routed, 30)])
def test_a_step_of_any_kind_is_known(steps: Callable[[], Iterator[None]], most: int,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    counts = []
    for _, _ in zip(range(12), steps(), strict=False):
        counts.append(len(made))
        made.clear()
    assert max(counts[8:]) <= most, counts


def test_what_was_recorded_of_a_value_reads_it_though_it_was_computed_apart() -> None:
    x, w = lt.rand(40, 70).realize(), lt.rand(70, 30).realize()
    y = x @ w
    template, most = y._storage._template, y.max()
    frame = most._storage._frame
    assert y._storage._node.op is not Op.BUFFER  # asked for, it is a graph as without frames
    y.realize()
    assert template in frame.realized
    assert (y == most).any().item()


def test_training_gives_the_same_losses() -> None:
    found: Values = []
    expected: Values = []
    for _ in trained(8, lambda loss: found.append(loss.item())):
        pass
    with anew():
        for _ in trained(8, lambda loss: expected.append(loss.item())):
            pass
    assert found == pytest.approx(expected, rel=1e-5)


def test_numbers_that_look_equal_are_told_apart() -> None:
    x = lt.tensor([4, -4])
    for _ in range(3):
        assert [(x * k).dtype for k in (True, 1, 1.0)] == [lt.int64, lt.int64, lt.float32]
        assert [(1 / (x.float() * 0 + k)).tolist()[0] for k in (0.0, -0.0)] == [
            float("inf"), float("inf")]
        assert [lt.where(x > 0, k, x).dtype for k in (1, 1.0)] == [lt.int64, lt.float32]
        assert str((lt.zeros(1) + 1).copysign(-0.0).item()) == "-1.0"
        assert str((lt.zeros(1) + 1).copysign(0.0).item()) == "1.0"


def test_two_tensors_of_one_value_are_not_taken_for_one() -> None:
    second_of = lookup.recorded(lambda a, b: b)
    x = lt.ones(3).contiguous().realize()
    for _ in range(3):
        a = x * 2
        b = a.clone()
        again, second = second_of(a, a), second_of(a, b)
        second += 1
        assert a.tolist() == again.tolist() == [2, 2, 2]
        assert b.tolist() == [3, 3, 3]


def test_hooks_of_a_value_from_another_frame_are_its_own() -> None:
    called: list[lt.Tensor] = []
    x, w = [lt.tensor([1., 2.], requires_grad=True) for _ in range(2)]
    first = x * w
    both = first * 2
    assert (both.detach() * 2).sum().item() == 20
    second = x * w  # in a frame that gets to know the first one later
    first.register_hook(called.append)
    first.retain_grad()
    second.sum().backward(retain_graph=True)
    assert not called and first.grad is None
    both.sum().backward()
    assert [g.tolist() for g in called] == [[2, 2]]


def test_a_line_that_fails_is_named_though_the_same_was_done_elsewhere() -> None:
    x = lt.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        x[lt.tensor([0, 2])].tolist()
    here = inspect.currentframe()
    assert here is not None
    line = here.f_lineno + 2
    with pytest.raises(lt.IndexingError, match=rf"index 5 is .* at test_known_steps\.py:{line}$"):
        x[lt.tensor([0, 5])].tolist()


def test_an_index_outside_is_an_error_of_what_reads_it_alone() -> None:
    x, places = lt.tensor([1.0, 2.0, 3.0]), [[0, 1], [0, 1], [0, 7], [0, 1]]
    for chosen in places:
        s = lt.zeros(2).contiguous().realize()
        s.copy_(x[lt.tensor(chosen)])
        assert (x * 2).tolist() == [2, 4, 6]  # though what was written in place is due with it
        if 7 in chosen:
            with pytest.raises(lt.IndexingError, match="index 7 is outside"):
                s.tolist()
        else:
            assert s.tolist() == [1, 2]


def test_a_frame_keeps_no_memory_alive_once_its_tensors_are_gone() -> None:
    x = lt.rand(100_000).realize()

    def make() -> None:
        y = x * 2
        z = y + lt.rand(100_000).realize()
        assert frames.here.current() is not None
        del y, z
    make()  # what is known of random numbers keeps memory for a few
    x.sum().item()
    before = lt.memory_stats("cpu").in_use
    make()
    assert lt.memory_stats("cpu").in_use == before


def test_what_an_operation_depends_on_besides_its_arguments() -> None:
    x = lt.tensor([1, 2])
    try:
        for _ in range(3):
            for dtype in (lt.float64, lt.float32):
                lt.set_default_dtype(dtype)
                assert (x / 2).dtype is lt.rand(2).dtype is dtype
    finally:
        lt.set_default_dtype(lt.float32)
    for _ in range(3):
        y = lt.rand(2)
        with lt.device("interpreter"):
            assert lt.rand(2).device == "interpreter"
        assert y.device == lt.rand(2).device == lt.ones(1).device
        with lt.autocast("cpu", dtype=lt.bfloat16):
            low = (lt.ones(2, 2, device="cpu") @ lt.ones(2, 2, device="cpu")).dtype
        assert (low, (lt.ones(2, 2) @ lt.ones(2, 2)).dtype) == (lt.bfloat16, lt.float32)
        w = lt.tensor([1.0, 2.0], requires_grad=True)
        with lt.no_grad():
            assert not (w * 2).requires_grad
        assert (w * 2).requires_grad


def test_what_holds_a_value_of_one_step_is_not_remembered() -> None:
    def rule(x: object) -> Callable[[], object]:
        return lambda: x

    x = lt.tensor([1.0]).realize()
    memory = x._storage.buffer
    assert memory is not None
    of_one_step, of_all = x._storage._node, keys.begun("cpu", None).source(memory, (1,))
    assert sayable.are_sayable([of_all]) and not sayable.are_sayable([of_one_step])
    for value in (2, "a", lt.float32, (1.5, None), partial(keys.begun, 3), sayable.is_clean):
        assert holds_no_value(partial(keys.begun, value))
    for value in (x, of_one_step, [x], object(), partial(keys.begun, x), rule(1)):
        assert not holds_no_value(partial(keys.begun, value))
    held = node.make(Op.CUSTOM_GRADIENT, lt.float32, (of_all, of_all), rule(x))
    with pytest.raises(sayable.Unsayable):
        sayable.are_clean([held], 1 << 62)


def test_random_numbers_go_on() -> None:
    lt.manual_seed(3)
    found = [lt.rand(2).tolist() for _ in range(4)]
    lt.manual_seed(3)
    with anew():
        assert [lt.rand(2).tolist() for _ in range(4)] == found
    assert len({str(x) for x in found}) == 4


def test_a_leaf_that_was_none_for_a_while_is_another_one(device: str) -> None:
    x = lt.ones(2, device=device, requires_grad=True)
    for _ in range(3):
        before = (x * 2).sum()
        x.requires_grad_(False)
        x.requires_grad_(True)
        found, = lt.autograd.grad((x * 3).sum(), x, allow_unused=True)
        assert found is not None and found.tolist() == [3, 3]
        del before


def test_a_leaf_that_was_none_for_a_while_has_the_hooks_that_it_gets_then(device: str) -> None:
    x = lt.ones(2, device=device, requires_grad=True)
    for _ in range(3):
        before = (x * 2).sum()
        x.requires_grad_(False)
        x.requires_grad_(True)
        x.grad, loss = None, (x * 3).sum()
        hook = x.register_hook(lambda gradient: gradient * 10)
        loss.backward()
        assert x.grad is not None and x.grad.tolist() == [30, 30]
        hook.remove()
        del before


def test_leaves_that_are_read_after_another_tensor_than_before_have_their_own_gradients() -> None:
    """A leaf is the second thing that is read in each step, and the second leaf in one of them."""
    p, q = (lt.ones(3, requires_grad=True) for _ in range(2))
    x = lt.ones(3)
    lt.realize(p, q, x)
    for others in ([p], [x, p], [p], [x, p]):
        p.grad = q.grad = None
        first, *rest = others
        loss = (first * 2).sum() + (q * 3).sum()
        for other in rest:
            loss = loss + (other * 2).sum()
        loss.backward()
        assert p.grad is not None and p.grad.tolist() == [2, 2, 2]
        assert q.grad is not None and q.grad.tolist() == [3, 3, 3]


def test_an_optimizer_that_counts_as_another_did_compiles_nothing() -> None:
    def plans() -> list[object]:
        w = lt.tensor([1.0, 2.0], requires_grad=True)
        optimizer = own_adam(lt)([w], lr=0.1)
        found: list[object] = []
        for _ in range(6):
            optimizer.zero_grad()
            (w ** 2).sum().backward()
            with counted_plans() as made:
                optimizer.step()
            found += made
        return found
    plans()
    plans()  # begins with numbers that are known to vary
    for _ in range(3):  # the same numbers again, which operations of the first are known by
        assert not plans()


def test_steps_are_known_again_once_a_hook_is_removed() -> None:
    w = lt.tensor([1.0, 2.0], requires_grad=True)
    w.register_hook(lambda gradient: gradient * 2).remove()
    w.register_post_accumulate_grad_hook(lambda leaf: None).remove()
    loss = (w ** 2).sum()
    assert gradients.backward(loss, retain_graph=False)
    assert w.grad is not None and w.grad.tolist() == [2, 4]


def test_memory_is_one_source_for_graphs_and_one_for_each_tensor() -> None:
    frame = frames.Frame("cpu", None)
    first, second = (Buffer.from_numpy(np.zeros(2), lt.float64, "cpu") for _ in range(2))
    own = frame.source(first, (2,))
    assert frame.source_in_graph(first, (2,)) is own  # a parameter's, which a graph reads, too
    read = frame.source_in_graph(second, (2,))
    assert frame.source_in_graph(second, (2,)) is read and frame.source(second, (2,)) is read
    assert frame.source(second, (2,)) not in (own, read)  # it may have another the next time
    assert frame.sources == [first, second, second]


@pytest.mark.few(1)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_long_step_is_one_program_and_recorded_once(momentum: float,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    model = lt.nn.Sequential(*[lt.nn.Linear(4, 4) for _ in range(40)])
    optimizer = lt.optim.SGD(model.parameters(), lr=0.01, momentum=momentum)
    calls: list[str] = []

    def called(does: Callable[..., Any], *args: Any) -> Any:
        calls.append(does.__name__)
        return does(*args)
    for module, name in ((recorded_step, "_record"), (frame_runs, "_compute")):
        monkeypatch.setattr(module, name, partial(called, getattr(module, name)))
    counts = []
    for _ in range(8):
        model(lt.ones(2, 4)).sum().backward()
        lt.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for p in model.parameters():  # long, and nobody looks
            p.grad.mul_(0.5).add_(0.1).clamp_(-1, 1).mul_(2.0)
        optimizer.step()
        optimizer.zero_grad()
        counts.append((calls.count("_record"), calls.count("_compute")))
        calls.clear()
    assert counts[0][1] > 1 and counts[-3:] == [(0, 1)] * 3, counts


def test_a_step_is_one_program_from_the_first_on_however_long(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames.lengths, "usual", 40)  # which is put back
    monkeypatch.setattr(frame_runs, "SHORTEST", 40)
    model = lt.nn.Sequential(*[lt.nn.BatchNorm1d(4) for _ in range(20)])
    optimizer = lt.optim.SGD(model.parameters(), lr=0.01)
    x = lt.rand(2, 4).realize()

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    counts = []
    for _ in range(4):
        with counted_plans() as plans:
            step()
        counts.append(len(plans))
    assert counts[1:] == [0, 0, 0], counts


def _attends() -> Values:
    """Gradients and results of some steps of attention, which gives None for the weights."""
    lt.manual_seed(0)
    layer, found = lt.nn.MultiheadAttention(8, 2, batch_first=True), []
    for _ in range(3):
        x = lt.rand(2, 3, 8).requires_grad_(True)
        y, weights = layer(x, x, x, need_weights=False)
        assert weights is None
        y.square().sum().backward()
        assert x.grad is not None and layer.out_proj.weight.grad is not None
        found += [y.tolist(), x.grad.tolist(), layer.out_proj.weight.grad.tolist()]
    return found


def test_what_gives_none_beside_a_tensor_is_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    with anew():
        expected = _attends()
    lookup.forget()
    names: list[str] = []
    look_up = lookup._found

    def counted(function: Callable[..., Any], *args: Any) -> Any:
        names.append(function.__qualname__)
        return look_up(function, *args)
    monkeypatch.setattr(lookup, "_found", counted)
    assert_alike(_attends(), expected, rel=1e-5, abs=1e-6)
    assert names.count("multi_head_attention_forward") == 3
    assert names.count("scaled_dot_product_attention") <= 1  # as the first has new parameters


OTHERS: dict[str, Callable[[], Any]] = {
    "double": lambda: lt.tensor([3.0, 4.0], dtype=lt.float64), "rows": lambda: lt.ones(3, 2) * 5,
    "column": lambda: lt.tensor([[6.0], [7.0]]), "shared": lambda: lt.from_numpy(np.ones(2)),
    "transposed": lambda: lt.arange(6.0).reshape(2, 3).T}


@pytest.mark.parametrize("kind", OTHERS)
def test_memory_of_another_kind_is_not_what_the_step_before_has_read(kind: str) -> None:
    x, y = lt.tensor([1.0, 2.0]), lt.tensor([0.5])
    for _ in range(2):
        assert (x * y).tolist() == [0.5, 1.0]
    other = OTHERS[kind]().realize()
    expected = other.numpy() * 0.5
    x.data = other
    for _ in range(2):
        found = x * y
        assert (found.dtype, found.tolist()) == (other.dtype, expected.tolist())
