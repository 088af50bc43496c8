"""Steps of training through `autograd.Function`s that log what they do, for lazyten and PyTorch."""
from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

Log = list[Any]


def swish(m: Any, log: Log, how: str = "") -> Any:
    """A product and tanh: saves its arguments and what it gives, and keeps a mask and a number.
    how: "looks", backward() goes on by the value of a gradient; "looks first" and "carried",
    forward() does."""
    class Swish(m.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any, factor: float) -> Any:
            log.append(("forward", tuple(x.shape), ctx.needs_input_grad))
            y = (x * w).tanh()
            ctx.save_for_backward(x, w, y)
            ctx.factor, ctx.mask = factor, x > -1
            if how in ("looks first", "carried"):
                log.append(y.sum().item())
                if how == "looks first" and x[:, 0].sum().item() > 0:
                    y = y * 2
            return y * factor

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, w, y = ctx.saved_tensors
            log.append(("backward", ctx.factor))
            if how == "looks":
                log.append(g.sum().item())
                if x[:, 0].sum().item() > 0:
                    g = g * 2
            slope = g * (1 - y * y) * ctx.factor * ctx.mask
            return slope * w, slope * x, None  # summed up over the rows by apply()
    return Swish


def several(m: Any, log: Log) -> Any:
    """Four outputs, of which one has no gradient and one is saved, and an argument that gets none.
    """
    class Several(m.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(a: Any, b: Any) -> Any:
            return a * b, (a > b).to(a.dtype), a.tanh(), (a > 0).float().sum()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs, output[2])
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, product: Any, mask: Any, tanh: Any, total: Any) -> Any:
            a, b, y = ctx.saved_tensors
            log.append(("several", *[g is None or g.dtype.itemsize for g in
                                     (product, mask, tanh, total)], ctx.needs_input_grad))
            slope = a * 0 if product is None else product * b
            slope = slope if tanh is None else slope + tanh * (1 - y * y)
            return slope if total is None else slope + total.double(), None
    return Several


def within(m: Any, log: Log, inner: Any) -> Any:
    """Its backward() differentiates another Function."""
    class Within(m.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            ctx.save_for_backward(x, w)
            return inner.apply(x, w, 0.5)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            given = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            with m.enable_grad():
                y = inner.apply(*given, 0.5)
            log.append("within")
            return m.autograd.grad(y, given, g)
    return Within


def trained(m: Any, log: Log, how: str) -> Iterator[None]:
    """Steps of a kind; what they do, and gradients and parameters, are logged."""
    rng = np.random.default_rng(0)
    w = m.nn.Parameter(m.tensor(rng.normal(size=3)))
    v = m.nn.Parameter(m.tensor(rng.normal(size=(4, 3))))
    optimizer = m.optim.Adam([w, v], lr=0.05)
    if how == "leaf hooked":
        w.register_hook(lambda g: g.clamp(-0.5, 0.5))
        v.register_hook(lambda g: log.append(("hook", g.sum().item())))
    own, silent = swish(m, log, how), swish(m, [])
    for number in count():
        x = m.tensor(rng.normal(size=(4, 3)))
        optimizer.zero_grad()
        y = own.apply(own.apply(x + v, w, 1.5), w.detach() if how == "detached" else w, 0.5)
        loss = (y ** 2).mean()
        if how in ("several", "second of several"):
            y, mask, tanh, total = several(m, log).apply(y, v * 2)
            losses = (y * mask).sum(), tanh.exp().sum(), total
            loss = sum(losses[number % 3:], start=losses[0] * (number % 2))
            if how == "second of several":
                slope, = m.autograd.grad(loss.sin(), v, create_graph=True)
                loss = loss + (slope ** 2).sum()
        elif how == "twice":
            loss.backward(retain_graph=True)
        elif how == "second":
            slope, = m.autograd.grad(loss, v, create_graph=True)
            loss = (slope ** 2).sum() + y.sum()
        elif how == "checkpointed":  # (PyTorch calls the function again, and logs that)
            again = import_module(f"{m.__name__}.utils.checkpoint").checkpoint
            y = again(lambda y: [v.sin(), silent.apply(y * v, w, 0.5)], y, use_reentrant=False)
            loss = (y[0] * y[1]).sum()
        elif how == "hooked":
            z = y * 2
            z.register_hook(lambda g: g * 0.5)
            z.register_hook(lambda g: log.append(("hook", g.tolist())))
            z.reshape(12).register_hook(lambda g: log.append("not on the way"))
            z.register_hook(lambda g: g + 1).remove()
            loss = (z ** 2).mean()
        elif how == "within":
            loss = within(m, log, own).apply(y, w).sum()
        elif how == "carried":
            for row in x:
                y = own.apply(0.5 * y + row, w, 0.5)
                log.append(y.norm().item())
            loss = (y ** 2).mean()
        elif how == "evaluated":
            with m.no_grad():
                log.append(own.apply(y, w, 2.0).sum().item())
        loss.backward()
        log.append([g is not None and g.tolist() for g in (w.grad, v.grad)])
        optimizer.step()
        log.append([w.tolist(), v.tolist()])
        yield


KINDS = ["plain", "looks", "looks first", "carried", "detached", "several", "twice", "second",
         "second of several", "within", "evaluated", "checkpointed",
         "hooked", "leaf hooked"]
