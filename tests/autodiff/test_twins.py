"""Tensors of the same value have gradients, and hooks, of their own."""
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from changing_programs import anew

import lazyten as lt
from lazyten import nn
from lazyten.execution.plans.graph import Graph
from lazyten.frontend.core.gradients import FEW
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op

Course = Callable[[], list[float]]


def leaf() -> lt.Tensor:
    return lt.tensor([1.0, 2.0], requires_grad=True)


def in_a_loop() -> list[float]:
    w = leaf()
    for _ in range(3):
        y = w * 2
        y.register_hook(lambda g: g * 2)
        (y * y).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def together() -> list[float]:
    w, made = leaf(), []
    for k in range(3):
        made.append(w * w)
        made[-1].register_hook(lambda g, k=k: g * (k + 2))  # type: ignore[misc]
    (made[0] + made[1] + made[2]).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def beside_one_without() -> list[float]:
    w = leaf()
    y = w * 2
    y.register_hook(lambda g: g * 10)
    z = w * 2
    (y + z).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def of_what_is_made_of_it() -> list[float]:
    w = leaf()
    y = w * 2
    y.register_hook(lambda g: g * 10)
    (lt.cat([y]) + (y + 0).reshape(2, 1).reshape(2)).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def removed() -> list[float]:
    w = leaf()
    y = w * 2
    y.register_hook(lambda g: g * 10).remove()
    (y + w * 2).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def of_several_sources() -> list[float]:
    w, v = leaf(), leaf()
    for k in (2, 3):
        y = lt.where(w > v * 0, w, v) * w + lt.cat([w[1:], v[:1]])
        y.register_hook(lambda g, k=k: g * k)  # type: ignore[misc]
        y.sum().backward()
    return [*w.grad.tolist(), *v.grad.tolist()]  # type: ignore[union-attr]


EXPECTED: dict[Course, list[float]] = {
    in_a_loop: [48.0, 96.0], together: [18.0, 36.0], beside_one_without: [22.0, 22.0],
    of_what_is_made_of_it: [40.0, 40.0], removed: [4.0, 4.0],
    of_several_sources: [10.0, 25.0, 5.0, 0.0]}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("course", EXPECTED, ids=lambda course: course.__name__)
def test_gradients_are_those_of_tensors_of_their_own(course: Course, jitted: bool) -> None:
    for _ in range(3):  # looked up, too
        assert (lt.jit(course) if jitted else course)() == EXPECTED[course]


SAME: dict[str, Callable[[lt.Tensor], lt.Tensor]] = {
    "clone": lambda x: x.clone(), "view": lambda x: x.view_as(x), "slice": lambda x: x[:],
    "reshape": lambda x: x.reshape(2), "expand": lambda x: x.expand(2),
    "cat": lambda x: lt.cat([x]),
    "there and back": lambda x: x[None].squeeze(0), "flip": lambda x: x.flip(()),
    "transpose": lambda x: x.transpose(0, 0), "pad": lambda x: nn.functional.pad(x, (0, 0)),
    "a copy of a copy": lambda x: x.clone().clone(), "type": lambda x: x.to(x.dtype, copy=True)}
"""What gives another tensor of the same values."""


@pytest.mark.parametrize("name", SAME)
def test_a_copy_or_a_view_has_a_gradient_of_its_own(name: str) -> None:
    for x in (leaf(), leaf() * 1, leaf().exp().log()):
        for _ in range(2):
            copy, seen = SAME[name](x), list[list[float]]()
            loss = (x * x).sum() + (copy * 7).sum()
            assert lt.autograd.grad(loss, copy, retain_graph=True)[0].tolist() == [7.0, 7.0]
            assert lt.autograd.grad(copy.sum(), x, retain_graph=True)[0].tolist() == [1.0, 1.0]
            copy = SAME[name](x)
            copy.register_hook(lambda g, seen=seen: seen.append(g.tolist()))  # type: ignore[misc]
            copy.retain_grad()
            ((x * x).sum() + (copy * 7).sum()).backward()
            assert copy.grad is not None and copy.grad.tolist() == [7.0, 7.0]
            assert seen == [[7.0, 7.0]]


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
def test_a_hook_of_a_copy_changes_no_other_gradient(same: Callable[[lt.Tensor], lt.Tensor]) -> None:
    for x in (leaf(), leaf() * 1):
        x.retain_grad()
        copy = same(x)
        copy.register_hook(lambda g: -g)
        (x * 3 + copy * 7).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [-4.0, -4.0]


@pytest.mark.parametrize("view", [lambda x: x[:1], lambda x: x[1], lambda x: x.view(2, 1)])
def test_the_first_hook_of_a_view_is_called(view: Callable[[lt.Tensor], lt.Tensor]) -> None:
    seen = []
    copy = view(leaf())
    copy.register_hook(lambda g: seen.append(g.sum().item()))
    copy.sum().backward()
    assert seen == [copy.numel()]


ONES = lt.ones(2)


def copied(x: lt.Tensor) -> lt.Tensor:
    made = lt.zeros(2)
    made.copy_(x)
    return made


def written(x: lt.Tensor) -> lt.Tensor:
    made = x * 1
    made[:] = x
    return made


MADE: dict[str, Callable[[lt.Tensor], lt.Tensor]] = {
    "product": lambda x: x * 2, "exp": lambda x: x.exp(), "clone": lambda x: x.clone(),
    "softmax": lambda x: nn.functional.softmax(x, 0), "matrix": lambda x: x @ lt.eye(2),
    "vmap": lambda x: lt.func.vmap(lambda r: r * 2)(x),
    "vmap that closes over it": lambda x: lt.func.vmap(lambda r: r * x)(lt.ones(1, 2))[0],
    "vmap in chunks": lambda x: lt.func.vmap(lambda r: r * 2, chunk_size=1)(x),
    "vjp": lambda x: lt.func.vjp(lambda v: v * v * x, ONES)[1](ONES)[0],
    "the value of vjp": lambda x: lt.func.vjp(lambda v: v * x, ONES)[0],
    "jvp": lambda x: lt.func.jvp(lambda v: v * v * x, (ONES,), (ONES,))[1],
    "grad": lambda x: lt.func.grad(lambda v: (v * v * x).sum())(ONES),
    "jacrev": lambda x: lt.func.jacrev(lambda v: v * v * x)(ONES).sum(0),
    "hessian": lambda x: lt.func.hessian(lambda v: (v * v * x).sum())(ONES).sum(0),
    "linearize": lambda x: lt.func.linearize(lambda v: v * x, ONES)[0],
    "gradient": lambda x: lt.autograd.grad((x ** 3).sum(), x, create_graph=True)[0],
    "vjp of autograd": lambda x: lt.autograd.functional.vjp(
        lambda v: v * v * x, ONES, ONES, create_graph=True)[1],
    "checkpoint": lambda x: lt.checkpoint(lambda v: v.sin(), x),
    "a checkpoint of two": lambda x: lt.checkpoint(lambda v: (v * x).sin(), ONES),
    "a copy of a checkpoint": lambda x: copied(lt.checkpoint(lambda v: (v * x).sin(), ONES)),
    "copy_": copied, "a write": written}
"""What gives another tensor that is computed alike."""
PATHS = {"looked up": nullcontext, "anew": anew}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_hook_is_told_of_its_own_tensor_alone(
        made: Callable[[lt.Tensor], lt.Tensor], path: Callable[[], Any]) -> None:
    """Though it is registered after the other one was made, or before, or both have one."""
    def gradient(*factors: int, before: bool = False) -> list[float]:
        x = leaf()
        first = made(x)
        if before:
            first.register_hook(lambda g: g * 7)
        parts = [made(x) for _ in factors]
        if not before:
            first.register_hook(lambda g: g * 7)
        for part, factor in zip(parts, factors, strict=True):
            if factor > 1:
                part.register_hook(lambda g, factor=factor: g * factor)
        total = sum(part.sum() for part in parts)
        assert isinstance(total, lt.Tensor)
        total.backward()
        assert x.grad is not None
        return x.grad.tolist()

    with path():
        for _ in range(3):
            once = gradient(1)
            for before in (False, True):
                for factors in ((1,), (2,), (1, 2), (3, 2)):
                    assert gradient(*factors, before=before) == pytest.approx(
                        [sum(factors) * g for g in once])


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_what_is_computed_alike_has_a_gradient_of_its_own(
        made: Callable[[lt.Tensor], lt.Tensor], path: Callable[[], Any]) -> None:
    with path():
        _have_gradients_of_their_own(made)


def _have_gradients_of_their_own(made: Callable[[lt.Tensor], lt.Tensor]) -> None:
    for _ in range(2):
        x = leaf()
        parts = [made(x) for _ in range(4)]
        loss = sum((part * (k + 1)).sum() for k, part in enumerate(parts))
        assert isinstance(loss, lt.Tensor)
        found = lt.autograd.grad(loss, parts, retain_graph=True)
        assert [g.tolist() for g in found] == [[k + 1.0] * 2 for k in range(4)]
        whole, = lt.autograd.grad(loss, x)
        once, = lt.autograd.grad((made(x) * 10).sum(), x)
        assert whole.tolist() == pytest.approx(once.tolist(), rel=1e-5)


@pytest.mark.parametrize("made", [lambda x: x * 2, lambda x: nn.functional.softmax(x, 0)])
def test_in_a_jitted_function_too(made: Callable[[lt.Tensor], lt.Tensor]) -> None:
    def gradients(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
        x = x.detach().requires_grad_()
        one, other = made(x), made(x)
        found: tuple[lt.Tensor, ...] = lt.autograd.grad(
            (one * one).sum() + (other * 3).sum(), [one, other])
        return found
    jitted, x = lt.jit(gradients), lt.tensor([1.0, 2.0])
    for _ in range(3):
        one, other = jitted(x)
        assert one.tolist() == pytest.approx((made(x) * 2).tolist())
        assert other.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_copies_of_one_checkpoint_have_its_gradient_each(path: Callable[[], Any]) -> None:
    with path():
        for _ in range(3):
            x = leaf()
            whole = lt.checkpoint(lambda v, x=x: v * x * x, ONES)
            first, second = copied(whole), copied(whole)
            first.register_hook(lambda g: g * 7)
            (second * 3).sum().backward()
            assert x.grad is not None and x.grad.tolist() == [6.0, 12.0]


def test_what_keeps_gradients_apart_is_not_computed() -> None:
    x = leaf()
    alike = x.exp() * x.exp() * x.clone().exp() * x.view(2).exp()
    whole = Graph([alike.node], "cpu").normalized()
    assert [n.op for n in toposort(whole)].count(Op.EXP) == 1


def test_a_layer_in_a_loop_tells_each_hook_once() -> None:
    layer, x, seen = nn.Linear(2, 2), leaf(), []
    for k in range(4):
        out = layer(x)
        out.register_hook(lambda g, k=k: seen.append((k, g.tolist())))  # type: ignore[misc]
        (out * (k + 1)).sum().backward()
    assert seen == [(k, [k + 1.0] * 2) for k in range(4)]


VIEWS: dict[str, Callable[[lt.Tensor], lt.Tensor]] = {
    "index": lambda x: x[0], "slice": lambda x: x[1:], "transpose": lambda x: x.T,
    "reshape": lambda x: x.reshape(4), "axis": lambda x: x.unsqueeze(0), "whole": lambda x: x[...],
    "expand": lambda x: x.expand(3, 2, 2), "chunk": lambda x: x.chunk(2)[0],
    "view of a view": lambda x: x.T[0]}


@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("is_leaf", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_equal_views_have_gradients_and_hooks_of_their_own(name: str, is_leaf: bool,
                                                           look: bool) -> None:
    view, seen = VIEWS[name], list[object]()
    for _ in range(3):
        x = lt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        x = x if is_leaf else x * 1
        one = view(x)
        if look:
            lt.eye(1).to_sparse()
        two, three = view(x), view(x)
        two.register_hook(lambda g: seen.append(g.sum().item()))
        three.retain_grad()
        if look:
            lt.eye(1).to_sparse()
        loss = (one * 2).sum() + (two * 3).sum() + (three * 5).sum()
        found = lt.autograd.grad(loss, [one, two, three], retain_graph=True)
        assert [g.reshape(-1)[0].item() for g in found] == [2.0, 3.0, 5.0]
        loss.backward()
        assert three.grad is not None and three.grad.reshape(-1)[0].item() == 10.0  # of both
        assert seen == [3.0 * two.numel()] * 2
        seen.clear()


def test_many_equal_views_are_kept_apart_without_looking_at_each() -> None:
    class Asked(dict[object, object]):
        count = 0

        def get(self, key: object, default: object = None) -> object:
            self.count += 1
            return super().get(key, default)

    x = lt.tensor([[1.0, 2.0]], requires_grad=True)
    rows = [x[0]]
    views = x._storage.views = Asked(x._storage.views or {})  # type: ignore[assignment]
    rows += [x[0] for _ in range(100)]
    assert views.count <= 100 * 16
    assert max(len(row._moves) for row in rows) <= len(rows[0]._moves) + 7  # that of 101, in bits
    found = lt.autograd.grad(sum(k * row.sum() for k, row in enumerate(rows)), rows)
    assert [g[0].item() for g in found] == [*range(101)]


def test_views_may_be_made_in_another_thread_while_those_that_are_gone_are_dropped() -> None:
    x = lt.zeros(FEW + 1, requires_grad=True)
    rows = [x[k:] for k in range(FEW)]
    views = x._storage.views
    assert views is not None and len(views) == FEW

    def gone() -> None:
        views[(Op.FLIP, ()),] = gone  # type: ignore[index,assignment]  # as that thread does

    views[rows[0]._moves] = gone  # type: ignore[assignment]
    rows.append(x[FEW:])
    assert rows[-1].shape == (1,) and x._storage.views is not views


def test_a_hook_of_a_view_that_is_gone_is_no_other_views() -> None:
    def told(x: lt.Tensor) -> lt.Tensor:
        row = x[0]
        row.register_hook(lambda g: g * 10)
        return row * 3
    for look in (False, True):
        for _ in range(2):
            x = lt.tensor([[1.0, 2.0]], requires_grad=True)
            y = x * 1
            first = told(y)
            if look:
                lt.eye(1).to_sparse()
            (first + told(y) + y[0]).sum().backward()
            assert x.grad is not None and x.grad.tolist() == [[61.0, 61.0]]


def test_what_an_operation_is_computed_by_is_no_tensor_of_the_users() -> None:
    for _ in range(2):
        w = leaf()
        x, y = w * 1, lt.tensor([1.0, 2.0])
        double, row, matrix = x * 2, x.unsqueeze(0), lt.ones(2, 2).requires_grad_()
        seen: list[object] = []
        for t in (double, row):
            t.register_hook(seen.append)
        (lt.add(y, x, alpha=2).sum() + lt.stack([x, x]).sum()).backward()
        assert not seen and w.grad is not None and w.grad.tolist() == [4.0, 4.0]
        column = matrix.T
        product = nn.functional.linear(matrix, matrix).sum()
        assert lt.autograd.grad(product, [column], allow_unused=True) == (None,)


@pytest.mark.parametrize(("made", "factor"), [
    (lambda x: x * 2, 2), (lambda x: x.view(2, 1), 2), (lambda x: x.exp(), 4)])
@pytest.mark.parametrize("retained", [False, True])
def test_gradients_of_gradients_go_to_what_a_tensor_is_computed_by(
        made: Callable[[lt.Tensor], lt.Tensor], factor: int, retained: bool) -> None:
    """Of sum(u**2) for x it is 2 u u', and of the sum of that for u it is 2 u'; 4 u for u' = u."""
    for _ in range(3):
        x = leaf()
        u = made(x)
        slope, = lt.autograd.grad((u * u).sum(), [x], create_graph=True)
        (expected,) = lt.autograd.grad(u.sum(), [x])
        if retained:
            u.retain_grad()
            slope.sum().backward()
            found = u.grad
        else:
            found, = lt.autograd.grad(slope.sum(), [u], allow_unused=True)
        assert found is not None
        assert found.reshape(2).tolist() == pytest.approx((factor * expected).tolist())


@pytest.mark.parametrize("write", [lambda v: v.zero_(), lambda v: v.mul_(2),
                                   lambda v: v.masked_fill_(v > 0, 1.0)])
def test_a_retained_gradient_is_that_of_the_value_that_was_written(
        write: Callable[[lt.Tensor], lt.Tensor]) -> None:
    for _ in range(2):
        w, rows = leaf(), lt.tensor([0])
        x = w * 3
        y = x.index_select(0, rows)
        y.retain_grad()
        write(y)
        (y * 5).sum().backward()
        assert y.grad is not None and y.grad.tolist() == [5.0]


@pytest.mark.parametrize("is_hooked", [False, True])
def test_a_look_between_does_not_take_one_tensor_for_another(is_hooked: bool) -> None:
    """What was computed before is known in the frame that begins after a look, too."""
    for _ in range(3):
        w = leaf()
        before = w * 2
        kept = before * 3
        if is_hooked:
            kept.register_hook(lambda g: None)
        (w + 1).tolist()
        other = lt.ones(2) + 1  # begins a frame
        kept = other * kept * 0.5
        after = w * 2
        found = lt.autograd.grad((kept + after * 5).sum(), [before, after])
        assert [g.tolist() for g in found] == [[3.0, 3.0], [5.0, 5.0]]


@pytest.mark.parametrize("made", [
    lambda w: w.reshape(1, 2) * 2, lambda w: (w * 2).tanh()[None], lambda w: (w * 2).reshape(1, 2),
    lambda w: w.reshape(1, 2), lambda w: (w * 2).reshape(2, 1).T, lambda w: (w * 2)[None, :]])
def test_a_look_after_the_hook_does_not_call_those_of_earlier_steps(
        made: Callable[[lt.Tensor], lt.Tensor]) -> None:
    """The value is a graph over real memory from there on, which earlier steps have, too."""
    w = leaf()

    def gradient(factor: int) -> list[float]:
        y = made(w)
        if factor > 1:
            y.register_hook(lambda g: g * factor)
        z = lt.eye(1).to_sparse() @ y
        (z * z).sum().backward()
        assert w.grad is not None
        found, w.grad = w.grad.tolist(), None
        return found
    once = gradient(1)
    for _ in range(3):
        assert gradient(2) == [2 * g for g in once]
    assert gradient(1) == once
