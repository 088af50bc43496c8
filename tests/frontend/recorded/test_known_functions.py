"""Steps through hand-written gradients are looked up, and users' code is run as it was written."""
from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from changing_programs import anew
from own_gradients import KINDS, Log, swish, trained
from tensor_values import assert_alike
from torch_if_there import torch

import lazyten as lt
from lazyten.ir import node


def logged(m: Any, how: str, steps: int = 6) -> Log:
    log: Log = []
    for _, _ in zip(range(steps), trained(m, log, how), strict=False):
        pass
    return log


@pytest.mark.torch
@pytest.mark.parametrize("how", KINDS)
def test_steps_do_what_pytorchs_do(how: str) -> None:
    assert_alike(logged(lt, how), logged(torch, how), rel=1e-9, abs=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("how", KINDS)
def test_steps_do_what_they_do_where_nothing_is_looked_up(how: str) -> None:
    with anew():
        expected = logged(lt, how)
    # (What is looked at on the way is computed with other values, so in kernels that round others.)
    assert_alike(logged(lt, how), expected, rel=1e-12, abs=1e-15)


@pytest.mark.few(7)
@pytest.mark.parametrize("how", ["plain", "looks", "looks first", "carried", "several", "twice",
                                 "evaluated", "checkpointed", "hooked", "leaf hooked"])
def test_a_known_step_works_out_no_node(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    counts = []
    for _, _ in zip(range(16), trained(lt, [], how), strict=False):
        counts.append(len(made))
        made.clear()
    # (By the tenth each branch was taken; some nodes read the data, and what is logged.)
    assert max(counts[10:]) <= 16, counts


def test_a_loop_that_begins_with_what_it_carries_on_is_one_step(
        monkeypatch: pytest.MonkeyPatch) -> None:
    class Square(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
            return 2 * ctx.saved_tensors[0] * g

    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    weights = np.array([0.5, -1.0])
    w = lt.tensor(weights, requires_grad=True)
    data = [lt.tensor([1.0, float(k)], dtype=lt.float64).realize() for k in range(4)]
    counts = []
    for _ in range(9):
        made.clear()
        h = lt.tensor([0.0, 0.0], dtype=lt.float64)
        value, slope = np.zeros(2), np.zeros(2)
        for k, row in enumerate(data):
            h = (Square.apply(w * row) + 0.5 * h).tanh()
            assert h.sum().item() < 10
            value = np.tanh((weights * [1.0, k]) ** 2 + 0.5 * value)
            slope = (1 - value ** 2) * (2 * weights * [1.0, k ** 2] + 0.5 * slope)
        h.sum().backward()
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), slope)
        w.grad = None
        counts.append(len(made))
    assert max(counts[6:]) <= 4, counts


def test_a_function_that_is_never_differentiated_leaves_no_memory() -> None:
    class Saving(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            result = x.exp()
            ctx.save_for_backward(x, result)
            return result

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
            return g * ctx.saved_tensors[1]

    def step(train: bool) -> None:
        loss = Saving.apply(lt.rand(10_000).realize() * w).sum()
        if train:
            loss.backward()
            w.grad = None
        loss.item()

    w = lt.ones(10_000, requires_grad=True)
    for train in (True, False):
        for _ in range(6):
            step(train)
        gc.collect()
        gc.disable()
        try:
            before = lt.memory_stats("cpu").in_use
            for _ in range(4):
                step(train)
            assert lt.memory_stats("cpu").in_use <= before
        finally:
            gc.enable()


def test_saved_tensors_of_a_call_whose_results_are_gone() -> None:
    kept: list[Any] = []

    class Kept(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            kept.append(ctx)
            ctx.save_for_backward(x)
            return x * 2

    w = lt.ones(2, requires_grad=True)
    y = Kept.apply(w * 3)
    assert kept[0].saved_tensors[0].tolist() == [3, 3]
    assert y.tolist() == [6, 6]
    assert kept[0].saved_tensors[0].tolist() == [3, 3]
    del y
    with pytest.raises(lt.GradientError, match="keep one of them"):
        kept[0].saved_tensors  # noqa: B018


def test_a_gradient_that_no_frame_knows_is_read_from_memory() -> None:
    """backward() gives a leaf that was written, one that another sees, and one of another graph."""
    other = lt.ones(3, requires_grad=True)
    shared = lt.from_numpy(lt.arange(3.0).numpy())

    class Given(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, what: int) -> lt.Tensor:
            ctx.what = what
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> Any:
            calls.append(ctx.what)
            with lt.enable_grad():
                retained = other * 3
                retained.retain_grad()
                again = lt.checkpoint(lambda x: x * 2, other)
            return [other, shared, retained, again][ctx.what], None

    calls: list[int] = []
    w = lt.ones(3, requires_grad=True)
    for what, expected in enumerate([[1.0] * 3, [0.0, 1.0, 2.0], [3.0] * 3, [2.0] * 3]):
        for step in range(3):
            w.grad = None
            with lt.no_grad():
                other.mul_(1)
            Given.apply(w + step, what).sum().backward()
            assert w.grad is not None and w.grad.tolist() == expected
    assert calls == [n for n in range(4) for _ in range(3)]


def test_users_code_runs_once_where_a_leafs_gradient_is_not_known() -> None:
    log: Log = []
    own = swish(lt, log)
    w, x = lt.ones(3, requires_grad=True), lt.tensor([0.5, 1.0, 2.0])
    view = w.reshape(3, 1)[:, 0]
    for step in range(4):
        w.grad = lt.ones(6)[::2] if step % 2 else lt.ones(3, requires_grad=True) * 2
        log.clear()
        own.apply(x, view * 1, 1.0).sum().backward()
        assert [name for name, *_ in log] == ["forward", "backward"]
        expected = x * (1 - x.tanh() ** 2) + (1 if step % 2 else 2)
        assert_alike(w.grad.tolist(), expected.tolist(), rel=1e-6, abs=0)


def test_an_error_in_backward_comes_up_and_leaves_nothing_behind() -> None:
    class Failing(lt.autograd.Function):
        fails = True

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
            if Failing.fails:
                raise ValueError("of a user")
            return g * 2

    w = lt.ones(3, requires_grad=True)
    for fails in (True, False, True, False):
        Failing.fails, w.grad = fails, None
        loss = Failing.apply(w * 3).sum()
        if fails:
            with pytest.raises(ValueError, match="of a user"):
                loss.backward()
            assert w.grad is None
        else:
            loss.backward()
            assert w.grad is not None and w.grad.tolist() == [6, 6, 6]


def test_a_gradient_of_another_device_is_refused() -> None:
    class Away(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
            return g.to("interpreter")

    w = lt.ones(3, device="cpu", requires_grad=True)
    with pytest.raises(lt.GradientError, match=r"on 'interpreter' for an argument of .* on 'cpu'"):
        Away.apply(w).sum().backward()


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_hook_is_one_of_the_graph_over_memory_too(is_asked_for: bool) -> None:
    w = lt.ones(3, requires_grad=True)
    for _ in range(3):
        h = w * 3
        if is_asked_for:
            assert h.node.shape == (3,)
        handle = h.register_hook(lambda g: g * 2)
        for expected in (6.0, 3.0):
            found, = lt.autograd.grad(h.sum(), w, retain_graph=True)
            assert found is not None and found.tolist() == [expected] * 3
            w.grad = None
            h.backward(lt.ones(3), retain_graph=True)
            assert w.grad is not None and w.grad.tolist() == [expected] * 3
            w.grad = None
            h.sum().backward()
            assert w.grad.tolist() == [expected] * 3
            handle.remove()


def test_grad_calls_hooks_of_recorded_values_until_they_are_removed() -> None:
    w = lt.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(4):
        y = w * 2
        handle = y.register_hook(lambda gradient: gradient * 3)
        loss = (y * y).sum()
        for expected in ([24, 48], [8, 16]):
            gradient, = lt.autograd.grad(loss, [w], retain_graph=True)
            assert gradient.tolist() == expected
            handle.remove()


def test_a_hook_gives_a_gradient_like_the_one_it_got() -> None:
    w = lt.ones(3, requires_grad=True)
    for hook in (lambda g: g.sum(), lambda g: g.double(), lambda g: 1):
        h = w * 3
        h.register_hook(hook)
        with pytest.raises(lt.GradientError, match=r"must be alike|a tensor, or None"):
            h.sum().backward()
        assert w.grad is None


def test_saved_tensors_require_gradients_as_those_that_were_saved_do() -> None:
    class Seen(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, w: lt.Tensor) -> lt.Tensor:
            result = (x * w).exp()
            ctx.save_for_backward(x, w, result)
            return result

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            x, w, result = ctx.saved_tensors
            seen.append([t.requires_grad for t in (x, w, result, g * result)])
            return g * result * w, g * result * x

    seen: list[list[bool]] = []
    x, w = lt.ones(3), lt.ones(3, requires_grad=True)
    for _ in range(6):
        w.grad = None
        Seen.apply(x, w).sum().backward()
    assert seen == [[False, True, True, False]] * 6


def test_a_detached_argument_that_is_saved_has_no_second_gradient() -> None:
    class Weighted(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, w: lt.Tensor) -> lt.Tensor:
            ctx.save_for_backward(x, w)
            return x * w * w

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            x, w = ctx.saved_tensors
            return g * w * w, g * x * w * 2

    x, w = (lt.tensor(v, requires_grad=True) for v in ([2.0, 3.0], [5.0, 7.0]))
    for argument in (x.detach(), (x * 1).detach()):
        for _ in range(3):
            loss = Weighted.apply(argument, w).sum()
            first, = lt.autograd.grad(loss, w, create_graph=True)
            of_x, of_w = lt.autograd.grad(first.sum(), [x, w], allow_unused=True)
            assert of_x is None and of_w is not None and of_w.tolist() == [4, 6]


def hooked_elsewhere(how: str) -> list[Any]:
    """What another model leaves behind, with a hook that was told once."""
    w = lt.ones(3, requires_grad=True)
    value = (w * 2).exp()
    told: list[Any] = [w, value]
    if how == "hook":
        value.register_hook(told.append)
    elif how == "retain_grad":
        value.retain_grad()
    else:
        w.register_post_accumulate_grad_hook(told.append)
    value.sum().backward()
    assert len(told) == (2 if how == "retain_grad" else 3)
    lt.realize(value, w.grad)
    return told


@pytest.mark.parametrize("how", ["hook", "retain_grad", "after"])
@pytest.mark.parametrize("asked", [False, True], ids=["backward", "grad"])
def test_hooks_of_another_model_do_not_work_steps_out_anew(
        how: str, asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = hooked_elsewhere(how)
    w = lt.ones(4, requires_grad=True)
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    counts = []
    for _ in range(12):
        loss = (w * 3).sigmoid().square().sum()
        if asked:
            lt.autograd.grad(loss, w)[0].realize()
        else:
            w.grad = None
            loss.backward()
            w.grad.realize()
        counts.append(len(made))
        made.clear()
    assert max(counts[6:]) <= 2, counts
    assert kept


@pytest.mark.parametrize("asked", [False, True], ids=["backward", "grad"])
def test_a_hook_of_a_value_from_another_step_is_told(asked: bool) -> None:
    w = lt.ones(2, requires_grad=True)
    for step in range(6):
        told: list[Any] = []
        h = (w * 3).exp()
        h.register_hook(lambda g, told=told: told.append(g.tolist()))
        h.detach().sum().item()
        other = lt.ones(2) * step
        other.sum().item()  # (which ends what is recorded together)
        for again in range(2):
            loss = (h * (other + 1)).sum()
            if asked:
                lt.autograd.grad(loss, w, retain_graph=True)
            else:
                loss.backward(retain_graph=True)
            assert told == [[step + 1.0] * 2] * (again + 1)


def test_numbers_of_numpy_that_change_are_looked_up_as_pythons(
        monkeypatch: pytest.MonkeyPatch) -> None:
    w = lt.ones(4, requires_grad=True)
    made: list[int] = []
    work_out = node.shape_of
    monkeypatch.setattr(node, "shape_of", lambda *args: made.append(1) or work_out(*args))
    counts = []
    for step in range(16):
        weight = np.cos(0.1 * step)
        assert type(weight) is np.float64
        w.grad = None
        loss = (w.sigmoid() * weight).add(w, alpha=weight).sum()
        loss.backward()
        assert w.grad.tolist() == pytest.approx([1.1966119 * float(weight)] * 4, rel=1e-5)
        counts.append(len(made))
        made.clear()
    assert max(counts[10:]) <= 2, counts
    assert lt.tensor(np.float64(2)).dtype is lt.float64


def test_a_gradient_may_be_a_row_of_what_is_in_memory() -> None:
    table = lt.arange(12.0).reshape(4, 3).contiguous().realize()

    class Row(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, number: int) -> lt.Tensor:
            ctx.number = number
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> tuple[lt.Tensor, None]:
            return table[ctx.number], None

    for i in range(4):
        x = lt.ones(3, requires_grad=True)
        Row.apply(x, i).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [3.0 * i, 3.0 * i + 1, 3.0 * i + 2]


def test_a_backward_may_differentiate_what_it_computes_of_saved_leaves() -> None:
    """As a root that is found by bisection: its gradients are those of the equation there."""
    class Doubled(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, equation: Any, y: lt.Tensor, *given: lt.Tensor) -> lt.Tensor:
            ctx.equation = equation
            x = y * 2
            ctx.save_for_backward(x, *given)
            return x

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> Any:
            x, *given = ctx.saved_tensors
            with lt.enable_grad():
                x = x.detach().requires_grad_()
                y = ctx.equation(x)
            slope, = lt.autograd.grad(y, x, lt.ones_like(y), retain_graph=True)
            return None, g / slope, *lt.autograd.grad(y, given, -g / slope, retain_graph=True)
    for create_graph in (False, False, True, False):
        w, y = lt.tensor([1.5, 2.0], requires_grad=True), lt.tensor([1.0, 2.0], requires_grad=True)
        for _ in range(2):
            w.grad = y.grad = None
            root = Doubled.apply(lambda x, w=w: (w * x)**3 + x, y, w)
            found = lt.autograd.grad((root * root).sum(), [y, w])
            np.testing.assert_allclose(found[0].numpy(), [0.0963855, 0.0207792], rtol=1e-4)
            np.testing.assert_allclose(found[1].numpy(), [-5.20482, -15.95844], rtol=1e-4)
            root = Doubled.apply(lambda x, w=w: (w * x)**3 + x, y, w)
            root.sum().backward(create_graph=create_graph)
            assert w.grad is not None
            np.testing.assert_allclose(w.grad.numpy(), [-1.3012, -1.9948], rtol=1e-4)


def test_a_gradient_that_a_hook_has_read_stays_what_it_is() -> None:
    """What backward() gives was computed in the hook, and keeps its graph."""
    class Cubed(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, w: lt.Tensor) -> lt.Tensor:
            ctx.save_for_backward(w)
            return w * w * w

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> Any:
            w, = ctx.saved_tensors
            with lt.enable_grad():
                slope, = lt.autograd.grad((w * w * w).sum(), w)
            return slope

    for _ in range(3):
        seen: list[object] = []
        w = lt.tensor([2.0, 3.0], requires_grad=True)
        w.register_hook(lambda g, seen=seen: seen.append(g.tolist()))  # type: ignore[misc]
        Cubed.apply(w).sum().backward()
        assert w.grad is not None and w.grad.tolist() == [12.0, 27.0]
        assert seen == [[12.0, 27.0]] * 2
