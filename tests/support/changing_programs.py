"""Programs that change their course, to be run with steps that are looked up and without."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import lazyten as lt
import lazyten.nn.functional as F
from lazyten.autograd.checkpointing import checkpoint
from lazyten.capture import jitted
from lazyten.frontend.recorded import gradients, keys, lookup, slots

Values = list[Any]
COUNT = 4
"""Rows and columns."""


@contextmanager
def anew() -> Iterator[None]:
    """Within this block nothing is looked up, and jitted functions know where views are."""
    before = lookup._found, keys.is_on
    in_pieces, jitted.of_pieces = jitted.of_pieces, lambda call: None
    lookup._found = lambda function, args, kwargs: function(*args, **kwargs)
    keys.is_on = gradients.is_on = slots.is_on = lambda: False
    try:
        yield
    finally:
        lookup._found, keys.is_on = before
        gradients.is_on = slots.is_on = keys.is_on
        jitted.of_pieces = in_pieces


class Program:
    """Tensors that acts work on: `w` requires gradients, `s` is written, `x` is new each step."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        lt.manual_seed(seed)
        self.w = lt.tensor(self.rng.normal(size=(COUNT, COUNT)), requires_grad=True)
        self.b = lt.nn.Parameter(lt.tensor(self.rng.normal(size=COUNT)))
        self.s = lt.tensor(self.rng.normal(size=(COUNT, COUNT)))
        self.optimizer = lt.optim.Adam([self.w, self.b], lr=0.01)
        self.kept: list[lt.Tensor] = []
        self.handles: list[Any] = []
        self.data = lt.tensor(self.rng.normal(size=(4 * COUNT, 2 * COUNT))).realize()
        self.carried = self.s.detach().clone()
        self.array = self.rng.normal(size=(COUNT, COUNT))
        self.outside = lt.from_numpy(self.array)
        self.fixed = lt.tensor(self.rng.normal(size=(COUNT, COUNT)))
        self.layer = lt.nn.Linear(COUNT, COUNT, dtype=lt.float64)
        self.seen: Values = []
        self.begin()

    def begin(self) -> None:
        self.x = lt.tensor(self.rng.normal(size=(COUNT, COUNT)))
        self.y = self.x

    def look(self, x: lt.Tensor) -> None:
        self.seen.append((tuple(x.shape), x.requires_grad, x.detach().numpy().tolist()))


def _product(p: Program) -> None:
    p.y = (p.y @ p.w + p.b).tanh()


def _sum(p: Program) -> None:
    p.y = p.y + p.x * 0.5


def _views(p: Program) -> None:
    p.y = lt.cat([p.y[1:], p.y[:1]]).transpose(0, 1)


def _write(p: Program) -> None:
    p.s.mul_(0.5).add_(p.y.detach())


def _write_view(p: Program) -> None:
    p.s[1:, ::2] = p.y.detach()[:-1, ::2] * 2


def _write_result(p: Program) -> None:
    p.y = p.y * 1.5
    p.y[0] = p.s[0]


def _use_state(p: Program) -> None:
    p.y = p.y - p.s


def _dropout(p: Program) -> None:
    p.y = F.dropout(p.y, 0.5) + lt.rand(COUNT, dtype=lt.float64)


def _norm(p: Program) -> None:
    p.y = F.layer_norm(p.y, (COUNT,)) + F.softmax(p.s, 0)


def _branch(p: Program) -> None:
    p.y = p.y * 2 if p.y.sum().item() > 0 else p.y.sin()


def _number(p: Program) -> None:
    p.y = p.y * float(p.rng.normal())


def _numbers(p: Program) -> None:
    limit, shift = float(p.rng.uniform(0.5, 2)), int(p.rng.integers(COUNT))
    p.y = (limit - p.y).clip(-limit, shift) / (1 + limit) + p.y.roll(shift, 0) * shift
    p.y = p.y + F.hardtanh(p.s, -limit, limit) - lt.where(p.x > limit, p.x, limit)


def _rows(p: Program) -> None:
    n, m = p.rng.integers(3 * COUNT, size=2).tolist()
    rows = p.data[n:n + COUNT]
    p.y = p.y + rows[:, :COUNT] * p.data[m, COUNT:]
    p.seen.append((rows[1:3].reshape(-1) * 2).sum().item())


def _write_rows(p: Program) -> None:
    n, m = p.rng.integers(3 * COUNT, size=2).tolist()
    rows = p.data[n:n + 2]
    p.seen.append(rows.mean().item())
    rows += float(p.rng.normal())
    p.data[m] = p.y.detach().reshape(-1)[:2 * COUNT]
    p.y = p.y * rows.sum()


def _write_parts(p: Program) -> None:
    n, m, k = p.rng.integers(COUNT, size=3).tolist()
    p.data[n] += p.data[m] * 0.5
    p.data[m, k] -= p.data[n].max()
    p.data[n:n + 2][1:, k] *= p.y.detach()[0, 0]
    p.data[:, k] += 1
    p.seen.append(p.data[m].sum().item())


def _mapped(p: Program) -> None:
    w, scale = p.w, p.s
    p.y = p.y + lt.func.vmap(lambda x, s: (x @ w).tanh() * s.sum())(p.y, scale)


@lt.jit
def _of_rows(rows: lt.Tensor, others: list[lt.Tensor], scale: float) -> lt.Tensor:
    return (rows[:, :COUNT] * scale).cumsum(0) - others[0][:COUNT]


@lt.jit
def _into_rows(rows: lt.Tensor, others: lt.Tensor) -> lt.Tensor:
    rows.mul_(0.5).add_(others)
    return rows[0]


def _jitted_rows(p: Program) -> None:
    n, m = p.rng.integers(3 * COUNT, size=2).tolist()
    p.y = p.y + _of_rows(p.data[n:n + COUNT], [p.data[m]], float(p.rng.normal()))
    p.seen.append(_into_rows(p.data[m:m + 3], p.data[n:n + 3]).sum().item())


def _positions(p: Program) -> None:
    p.y = p.y[:, p.y.argmax(0)] + p.y.sort(1)[0]


def _split(p: Program) -> None:
    first, second = p.y.chunk(2, 1)
    p.y = lt.cat([second * 2, first], 1)


def _keep(p: Program) -> None:
    p.kept = [*p.kept[-2:], p.y.mean().detach(), p.y]


def _read_kept(p: Program) -> None:
    for x in p.kept:
        p.look(x)


def _backward(p: Program) -> None:
    if p.y.requires_grad:
        (p.y ** 2).mean().backward()


def _loss_first(p: Program) -> None:
    if p.y.requires_grad:
        loss = (p.y ** 2).mean()
        p.seen.append(loss.item())
        loss.backward()


def _step(p: Program) -> None:
    p.optimizer.step()


def _by_hand(p: Program) -> None:
    with lt.no_grad():
        for q in (p.w, p.b):
            if q.grad is not None:
                q -= 0.01 * q.grad


def _clear(p: Program) -> None:
    p.optimizer.zero_grad()


def _zero(p: Program) -> None:
    p.optimizer.zero_grad(set_to_none=False)


def _no_grad(p: Program) -> None:
    with lt.no_grad():
        p.seen.append((p.y @ p.w).sum().item())


def _alias(p: Program) -> None:
    z = p.s.detach()
    z += 1
    p.look(p.s)
    p.s = p.s.clone()


def _hook(p: Program) -> None:
    if p.y.requires_grad:
        p.y = p.y * 1
        p.y.register_hook(lambda g: g * 0.5)


def _hooks(p: Program) -> None:
    """One of a view that looks at values and goes on by them, and one of a leaf, removed later."""
    for handle in p.handles[1:]:
        handle.remove()
    p.handles = [*p.handles[:1], p.w.register_hook(lambda g: g * 1.25)]
    if p.y.requires_grad:
        p.y = p.y + 0
        z = p.y.reshape(-1)
        z.register_hook(lambda g: p.seen.append(g.sum().item()))
        z.register_hook(lambda g: g.clone() if g[0].item() > 0 else g * p.s.mean())
        p.y = z.reshape(COUNT, COUNT) * p.x


def _double(p: Program) -> None:
    p.y = p.y.double().float().double()


def _shared(p: Program) -> None:
    p.y = p.y + lt.from_numpy(p.array)
    p.array += 1
    p.y = p.y * lt.from_numpy(p.array)
    p.outside.add_(0.5)


def _look(p: Program) -> None:
    p.look(p.y)


def _look_at_leaves(p: Program) -> None:
    """What is recorded afterwards reads them from other places in memory."""
    p.look(p.y)
    p.look(p.w)
    p.look(p.b)


def _hook_of_leaf(p: Program) -> None:
    """One that tells how often it is called, and with what."""
    for handle in p.handles[1:]:
        handle.remove()
    p.handles = [*p.handles[:1], p.w.register_hook(lambda g: p.seen.append(g.sum().item()))]


def _masked_write(p: Program) -> None:
    z = p.y.detach() * 2
    z[z > 0.5] = 0
    p.y = p.y * z[z.argmax(0)]


def _einsum(p: Program) -> None:
    p.y = lt.einsum("ij,kj->ik", p.y, p.w) + lt.einsum("ij->i", p.s)


def _carry(p: Program) -> None:
    p.y = (p.y + p.carried.detach()).tanh()
    p.carried = p.y


def _input_gradient(p: Program) -> None:
    z = p.y.detach().clone().requires_grad_()
    found, = lt.autograd.grad(((z @ p.w) ** 2).sum(), [z], create_graph=True)
    p.y = p.y + found


def _new_leaf(p: Program) -> None:
    leaf = p.y[1:].detach().requires_grad_()
    another = (leaf.detach() * 0.5).requires_grad_()
    ((leaf * another) @ p.w).tanh().sum().backward()
    assert leaf.grad is not None and another.grad is not None
    p.y = p.y + lt.cat([leaf.grad, another.grad[:1]])


def _written_leaf(p: Program) -> None:
    leaf = p.y.detach().requires_grad_()
    before = (leaf * 2).sum()
    with lt.no_grad():
        leaf += p.x
        p.s.add_(leaf)
    found, = lt.autograd.grad(before + (leaf * p.w).square().sum(), [leaf])
    p.y = p.y - found * 0.1


class _Doubled(lt.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
        x, = ctx.saved_tensors
        return 2 * g + 0 * x


class _Halves(lt.autograd.Function):
    """Saves what it gives, keeps a tensor, has an output without gradient, and looks at values."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor, seen: Values) -> Any:
        y = x.tanh()
        ctx.save_for_backward(y, None)
        ctx.mask, ctx.seen = x > 0, seen
        rest = (x > 0.5).to(x.dtype)
        ctx.mark_non_differentiable(rest)
        return y, rest, y * 0.5

    @staticmethod
    def backward(ctx: Any, *given: lt.Tensor) -> Any:
        y, _ = ctx.saved_tensors
        g = given[0] + 0.5 * given[2]
        if ctx.mask[0, 0].item():
            ctx.seen.append(g.sum().item())
            g = g * 2
        return g * (1 - y * y) * ctx.mask, None


def _functions(p: Program) -> None:
    y, rest, half = _Halves.apply(p.y, p.seen)
    p.y = y * rest + half


def _function(p: Program) -> None:
    p.y = _Doubled.apply(p.y)


def _checkpoint(p: Program) -> None:
    p.y = checkpoint(lambda y: (y @ p.w).sin(), p.y, use_reentrant=False)


def _checkpointed_function(p: Program) -> None:
    def called(y: lt.Tensor) -> list[lt.Tensor]:
        return [_Doubled.apply(F.dropout(y, 0.5) * p.b), y.detach() * 2, (p.x * p.s) @ p.w]
    first, second, third = checkpoint(called, p.y * p.w)
    p.y = first.tanh() + second.sin() * third


def _no_graph(p: Program) -> None:
    with lt.no_grad():
        p.kept = [*p.kept[-2:], p.y.argmax(1), p.carried * 2]


def _attend(p: Program) -> None:
    p.y, weights = F.multi_head_attention_forward(
        p.y, p.y, p.y, COUNT, 2, lt.cat([p.w, p.s, p.fixed]), None, None, None, False, 0.0, p.w,
        None, need_weights=False)
    assert weights is None


def _clip(p: Program) -> None:
    p.y = p.y + lt.nn.utils.clip_grad_norm_([p.w, p.b], 0.5).log1p()  # or sines of it were chaos
    lt.nn.utils.clip_grad_value_([p.b], float(p.rng.uniform(0.01, 0.1)))


_averages = lt.optim.swa_utils.get_ema_multi_avg_fn(0.5)


def _average(p: Program) -> None:
    _averages([p.s, p.carried.detach()], [p.w.detach(), p.y.detach()], lt.tensor(1))


def _load(p: Program) -> None:
    p.layer.load_state_dict({"weight": p.w, "bias": p.b.detach() * 2})
    p.y = p.layer(p.y)


def _other_memory(p: Program) -> None:
    """A tensor that is read in each step has other memory, or gradients flow to it from now on."""
    match p.rng.integers(4):
        case 0:
            p.fixed.requires_grad_(not p.fixed.requires_grad)
        case 1:
            p.fixed.data = lt.tensor(p.rng.normal(size=(COUNT, COUNT)))
        case 2:
            p.fixed.data = p.fixed.data.float().double().realize().T
        case _:
            p.array[0] -= p.fixed.detach().numpy()[0]  # which shares its memory from now on
    p.y = p.y * p.fixed + p.fixed.sum(0)


ACTS: list[Callable[[Program], None]] = [
    _product, _sum, _views, _write, _write_view, _write_result, _use_state, _dropout, _norm,
    _branch, _number, _numbers, _rows, _write_rows, _write_parts, _mapped, _jitted_rows,
    _positions, _split, _keep,
    _read_kept, _backward, _loss_first, _step, _by_hand, _clear, _zero, _no_grad, _alias, _hook,
    _hooks, _double, _shared, _look, _masked_write, _einsum, _carry, _input_gradient, _function,
    _functions, _checkpoint, _checkpointed_function, _no_graph, _new_leaf, _written_leaf,
    _attend, _other_memory, _clip, _average, _load, _look_at_leaves, _hook_of_leaf]


def run(courses: list[list[Callable[[Program], None]]], order: list[int]) -> Values:
    """All that is seen in some steps, each of one of these courses."""
    p = Program(0)
    for number in order:
        p.begin()
        for act in courses[number % len(courses)]:
            act(p)
    for x in (p.y, p.w, p.b, p.s, *p.kept, *(q.grad for q in (p.w, p.b) if q.grad is not None)):
        p.look(x)
    return p.seen
