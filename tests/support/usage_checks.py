"""What programs written for PyTorch do with tensors and lazyten must do too, as in
`semantic_checks.py`: names and kinds of arguments, tensors without axes, Python's own protocols,
gradients, transforms."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from semantic_checks import Check, error_of, gradient_of, leaf, written

INF = float("inf")

REDUCTIONS: dict[str, Check] = {
    "std of a bool is unbiased or not": lambda m, t: (
        t.f.std(False), t.f.std(True), t.f.var(0, False), t.f.var(1, unbiased=False),
        t.f.std(unbiased=False)),
    "var_mean of a bool is unbiased or not": lambda m, t: (
        *m.var_mean(t.f, False), *m.std_mean(t.f, dim=1, unbiased=False)),
    "a correction of None is 1": lambda m, t: (
        t.f.var(dim=1, correction=None), *m.std_mean(t.f, dim=None, correction=None)),
    **{f"norm of order {p}": lambda m, t, p=p: (
        t.f.norm(p), t.f.norm(p, 1), m.norm(t.c, p=p, dim=(0, 2), keepdim=True))
       for p in (0, 1, 1.5, 2, 3, INF, -INF, -1, "fro")},
    "norm in another dtype": lambda m, t: t.f.norm(dtype=m.float64),
    "norm of integers": lambda m, t: error_of(lambda: t.i.norm()),
    "the gradient of a norm of zeros": lambda m, t: (
        gradient_of(t.p * 0, lambda x: x.norm()), gradient_of(t.p * 0, lambda x: x.norm(3)),
        gradient_of(t.f, lambda x: x.norm(2, 1))),
    "max and min with another tensor": lambda m, t: (
        m.max(t.f, t.g), t.f.min(t.g), t.f.max(other=t.v), t.i.max(t.s[0])),
    "mean, nansum and cumulative products in a dtype": lambda m, t: (
        t.i.mean(dtype=m.float64), t.f.nansum(dtype=m.float64), t.i.cumprod(1, dtype=m.float32)),
    "cumulative sums in a narrow dtype wrap": lambda m, t: (
        (t.i * 50).cumsum(1, dtype=m.uint8), (t.i * 50).cumprod(0, dtype=m.int8)),
    "quantiles by other interpolations": lambda m, t: [
        f(t.e, m.tensor([0.1, 0.4, 0.9], device=t.e.device), 2, interpolation=way)
        for f in (m.quantile, m.nanquantile)
        for way in ("lower", "higher", "nearest", "midpoint")],
    "quantile by an unknown interpolation": lambda m, t: error_of(
        lambda: t.f.quantile(0.5, interpolation="best")),
    "diff with something before and after": lambda m, t: (
        t.f.diff(prepend=t.g), t.i.diff(append=t.f), t.f.diff(2, 0, t.f, t.g)),
    "cov and corrcoef of one row": lambda m, t: (t.f[:1].cov(), t.f[:1].corrcoef()),
    "dist of halves does not overflow": lambda m, t: (t.p * 100).half().dist(t.g.half()).float(),
    "histogram of equal elements": lambda m, t: tuple((t.v[:1] * 2).expand(5).histogram(2)),
    "softmax of halves without elements or axes": lambda m, t: (
        t.o[:, :, None].half().softmax(0).shape == (0, 3, 1), t.z.half().softmax(0),
        t.z.half().log_softmax(0), t.o.half().softmax(0)),
}

ELEMENTWISE: dict[str, Check] = {
    "div with rounding": lambda m, t: [m.div(a, b, rounding_mode=way) for way in (
        None, "floor", "trunc") for a, b in ((t.f, t.g), (t.i, t.j))],
    "the gradient of div with rounding is 0": lambda m, t: [0 + gradient_of(
        t.f, lambda x, way=way: x.div(t.g, rounding_mode=way) + x.div(2, rounding_mode=way))
        for way in ("floor", "trunc")],
    "div_ with rounding": lambda m, t: written(t.f, lambda x: x.div_(t.g, rounding_mode="floor")),
    "round to decimals": lambda m, t: (
        (t.u * 1.2345).round(decimals=2), m.round(t.f * 123.4, decimals=-1),
        written(t.u, lambda x: x.round_(decimals=1))),
    "logit with eps": lambda m, t: (t.u.logit(0.2), m.logit(t.p, eps=1e-6)),
    "exponents and limits by name": lambda m, t: (
        m.pow(t.p, exponent=2), t.i.float_power(exponent=2), t.f.clamp_min(min=0),
        t.f.clamp_max(max=1)),
    "rsub": lambda m, t: (m.rsub(t.f, 3), m.rsub(t.f, t.g, alpha=2)),
    "square of bools": lambda m, t: t.b.square(),
    "isposinf of halves": lambda m, t: (t.n.half().isposinf(), t.n.half().isneginf()),
    "tril and triu of bools": lambda m, t: (t.b.tril(), t.b.triu()),
    "addbmm of narrow integers": lambda m, t: m.addbmm(
        t.m.to(m.int8), t.c.to(m.int8), t.c.mT.to(m.int8)),
    "unravel_index of narrow integers": lambda m, t: m.unravel_index(t.s.to(m.uint8), (2, 3)),
    "diag_embed in other axes": lambda m, t: (
        t.f.diag_embed(dim1=0, dim2=2), t.c.diag_embed(1, 1, 2), t.f.diag_embed(0, -1, 0)),
    "isin of numbers": lambda m, t: (
        m.isin(t.s, 3), m.isin(t.s, t.x, invert=True), m.isin(t.s, t.x, assume_unique=True)),
    "where with names, and alone": lambda m, t: (
        m.where(t.b, input=t.f, other=0), *m.where(t.b)),
    "masked_fill by a tensor": lambda m, t: (
        t.f.masked_fill(t.b, t.z), t.f.masked_fill(t.b, t.s[0]), t.d.masked_fill(t.d > 1, t.z),
        error_of(lambda: t.f.masked_fill(t.b, t.v))),
    "fill_ by a tensor": lambda m, t: (
        written(t.f, lambda x: x[0].fill_(t.z)), error_of(lambda: t.f.clone().fill_(t.v))),
    "the gradient for what fills": lambda m, t: (
        gradient_of(t.z, lambda z: t.f.masked_fill(t.b, z)),
        gradient_of(t.z, lambda z: t.f.index_fill(1, t.x[:2], z)),
        gradient_of(t.z, lambda z: written(t.f, lambda x: x[0].fill_(z)) * 3)),
}

ARGUMENTS: dict[str, Check] = {
    "functions take input and dims by name": lambda m, t: (
        m.flip(input=t.f, dims=(0, 1)), m.permute(t.c, dims=(2, 0, 1)), m.tile(t.v, dims=(2, 1)),
        m.sum(input=t.f, dim=0), m.clamp(input=t.f, min=0)),
    "stride of an axis": lambda m, t: (t.c.stride(0), t.c.stride(-1), t.c.mT.stride(-1)),
    "to makes a copy if asked": lambda m, t: (
        t.f.to(m.float32, copy=True) is t.f, t.f.to(m.float32) is t.f,
        t.f.to(m.float64, non_blocking=True)),
    "numpy by force": lambda m, t: leaf(t.f).detach().cpu().numpy(force=True).tolist(),
    "arange of whole numbers cuts its limits": lambda m, t: (
        m.arange(3.1, dtype=m.int64), m.arange(1.0, 5.5, 2.0, dtype=m.int32),
        m.arange(0.1, -7.9, -4, dtype=m.int64), m.arange(end=3)),
    "made to require gradients": lambda m, t: (
        m.arange(3.0, requires_grad=True).requires_grad, m.eye(2, requires_grad=True).is_leaf,
        m.linspace(0, 1, 3, requires_grad=True).requires_grad,
        m.zeros_like(t.f, requires_grad=True).requires_grad,
        t.f.clone().requires_grad_(requires_grad=True).requires_grad),
    "randperm in a dtype": lambda m, t: m.randperm(4, dtype=m.int32).sort()[0],
    "dtypes have short names": lambda m, t: [
        m.ones(1, dtype=kind) for kind in (m.half, m.float, m.double, m.short, m.int, m.long,
                                           m.bool)],
    "constants": lambda m, t: (m.pi, m.e, m.inf, m.nan != m.nan, m.newaxis),
    "scatter of a named value, and added": lambda m, t: (
        t.f.scatter(1, t.x[None], value=7), m.scatter(t.f, 1, t.x[None] * 0, t.g, reduce="add"),
        written(t.f, lambda x: x.scatter_(1, t.x[None] * 0, 2.0, reduce="add"))),
    "scatter_reduce to means": lambda m, t: [
        a.scatter_reduce(1, (t.s.reshape(2, 3) - 1).remainder(3), b, "mean", include_self=own)
        for own in (True, False) for a, b in ((t.f, t.g), (t.i, t.j))],
    "put_": lambda m, t: (
        written(t.f, lambda x: x.put_(t.x, t.v)),
        written(t.f.T, lambda x: x.put_(t.x * 0 - 1, t.v, accumulate=True))),
    "diagonal_scatter": lambda m, t: (
        t.m.diagonal_scatter(t.v), m.diagonal_scatter(t.m, t.v[:2], 1),
        error_of(lambda: t.m.diagonal_scatter(t.v, 1))),
    "split_with_sizes and tensor_split by a tensor": lambda m, t: (
        t.c.split_with_sizes([1, 2], 1), t.c.tensor_split(m.tensor([1, 3]), 2)),
    "repeat_interleave of a known size": lambda m, t: t.f.repeat_interleave(
        t.x, 1, output_size=3),
    "H, real, conj": lambda m, t: (t.f.H, t.f.real, t.f.conj(), error_of(lambda: t.c.H)),
    "addmv of integers by a fraction is no float": lambda m, t: m.addmv(
        t.s[:2], t.i, t.x, alpha=2, beta=3),
}

NO_AXES: dict[str, Check] = {
    "gather and scatter": lambda m, t: (
        t.z.gather(0, t.s[0] * 0), t.z.gather(0, t.s[:2] * 0), t.z.scatter(0, t.s[0] * 0, 3.0),
        t.z.scatter_add(0, t.s[0] * 0, t.z)),
    "index_select, index_add and their kind": lambda m, t: (
        t.z.index_select(0, t.s[:1] * 0), t.z.index_fill(0, t.s[:1] * 0, 4),
        t.z.index_add(0, t.s[:1] * 0, t.z), t.z.index_copy(0, t.s[:1] * 0, t.z)),
    "index_select by one number keeps the axis": lambda m, t: t.c.index_select(1, t.s[1]),
    "masked_select": lambda m, t: (t.z.masked_select(t.z > 0), t.z.masked_select(t.z < 0)),
    "nonzero as a tuple": lambda m, t: (t.z.nonzero(as_tuple=True), t.z.nonzero()),
    "unfold": lambda m, t: (t.z.unfold(0, 1, 1), t.z.unfold(0, 0, 1)),
    "squeeze of no axes": lambda m, t: t.v.reshape(1, 3, 1).squeeze(()),
    "an index that is a bool": lambda m, t: (
        t.f[True], t.f[False], t.f[t.z > 0], t.z[True], t.z[t.z < 0]),
    "a write where a bool says": lambda m, t: (
        written(t.f, lambda x: x.__setitem__(True, 3)),
        written(t.f, lambda x: x.__setitem__(t.z < 0, 3)),
        written(t.f, lambda x: x[0].__setitem__(t.z > 0, t.v))),
    "bools without axes beside other indices": lambda m, t: (
        t.f[True, 0], t.f[0, t.z > 0], t.f[:, True], t.f[..., False], t.f[None, True, 1],
        t.f[t.x[:1], True], t.f[t.f > 0, True], t.f[True, t.z > 0, 0], t.f[1, True, :, t.z < 0]),
    "a write where a bool beside other indices says": lambda m, t: (
        written(t.f, lambda x: x.__setitem__((True, 0), 3)),
        written(t.f, lambda x: x.__setitem__((slice(None), t.z < 0, 0), 3)),
        written(t.f, lambda x: x.__setitem__((t.z > 0, ..., 1), 3))),
    "an index of an empty list": lambda m, t: t.f[[]],
    "what is assigned may have more axes of size 1": lambda m, t: (
        written(t.f, lambda x: x.__setitem__(0, t.v[None, None])),
        written(t.f, lambda x: x.__setitem__(t.x[:1], t.v[None, None]))),
}

PYTHON: dict[str, Check] = {
    "a sequence so many times as a tensor says": lambda m, t: [
        x for n in (t.i.sum() * 0 + 2, m.tensor([2]), m.tensor(True))
        for x in ([0] * n, n * [1, 2], (1,) * n, "ab" * n, n * "ab", [[]] * n)],
    "sizes and axes that are tensors without axes": lambda m, t: [
        x for n in (m.tensor(2), m.tensor(1, dtype=m.int32))
        for x in (m.zeros(n), m.ones(n, 3), m.full((n,), 1.5), m.eye(n), m.arange(n),
                  t.f[:n], t.f.new_zeros(n), t.f.sum(n - 1), t.f.amax((n - 1,)),
                  m.nn.functional.max_pool2d(t.f[None], n), t.f.repeat(n, 1))],
    "in": lambda m, t: (3 in t.f, 99 in t.f, t.z in t.f, 2.0 in t.v),
    "comparison with None and text": lambda m, t: (
        t.f == None, t.f != None, t.f == "a", t.f in [None, t.f]),  # noqa: E711
    "format of a number": lambda m, t: (f"{t.z:.2f}", f"{t.z}", f"{t.s[0]:03d}",
                                        error_of(lambda: f"{t.f:.2f}")),
    "views of the tensor itself": lambda m, t: (
        written(t.f, lambda x: x.t_()), written(t.c, lambda x: x.transpose_(0, 2)),
        written(t.f, lambda x: x.unsqueeze_(1)), written(t.f[:, :1], lambda x: x.squeeze_(1)),
        written(t.c, lambda x: x.swapaxes_(0, 1)), written(t.c, lambda x: x.swapdims_(0, -1))),
    "a write after t_ shows in all views": lambda m, t: written(
        t.f, lambda x: x[1:].t_().mul_(2)),
    "t_ of a leaf": lambda m, t: error_of(lambda: leaf(t.f).t_()),
    "detach_": lambda m, t: (leaf(t.f) * 2).detach_().requires_grad,
    "data shares": lambda m, t: written(t.f, lambda x: x.data.zero_()),
    "data of a leaf": lambda m, t: new_data(leaf(t.v), t.f),
    "no_grad without brackets": lambda m, t: m.no_grad(lambda x: x * 2)(leaf(t.f)).requires_grad,
}


def new_data(x: Any, value: Any) -> Any:
    """What a leaf is after a write to its data, and after its data is replaced."""
    x.sum().backward()
    x.data.mul_(2)
    before = x.detach().clone()
    x.data = value
    return before, x, x.requires_grad, x.is_leaf


def backward(x: Any, function: Callable[[Any], Any], *args: Any, **kwargs: Any) -> Any:
    """The gradient of a leaf after backward() with these arguments."""
    x = leaf(x)
    function(x).backward(*args, **kwargs)
    return x.grad


def only_for(first: Any, second: Any) -> Any:
    """Gradients of a product, asked for one factor."""
    first, second = leaf(first), leaf(second)
    (first * second).sum().backward(inputs=[first])
    return first.grad, second.grad is None


def set_to_zero(m: Any, x: Any) -> Any:
    """A gradient that an optimizer has made 0."""
    x = leaf(x)
    x.sum().backward()
    m.optim.SGD([x], 0.1).zero_grad(set_to_none=False)
    return x.grad


def hooked(x: Any) -> Any:
    """backward() through a hook that gives a number."""
    x = leaf(x)
    x.register_hook(lambda g: 3)
    x.sum().backward()


GRADIENTS: dict[str, Check] = {
    "of an element that is read several times": lambda m, t: (
        gradient_of(t.v, lambda x: x[t.x * 0]), gradient_of(t.v, lambda x: x[t.x[:1].expand(5)]),
        gradient_of(t.v, lambda x: x[m.zeros(4, dtype=m.int64, device=x.device)])),
    "weighted in another float type": lambda m, t: backward(
        t.v, lambda x: x * 2, t.w.double()),
    "for some inputs only": lambda m, t: only_for(t.v, t.w),
    "made 0 by an optimizer": lambda m, t: set_to_zero(m, t.v),
    "a hook that gives a number": lambda m, t: error_of(lambda: hooked(t.v)),
    "of scatter_reduce to means": lambda m, t: gradient_of(t.f, lambda x: x.scatter_reduce(
        1, t.x.expand(2, 3), x * x, "mean")),
    "of diff with something before": lambda m, t: gradient_of(
        t.f, lambda x: x.diff(prepend=x * 2) ** 2),
}

TRANSFORMS: dict[str, Check] = {
    "vmap by its short name": lambda m, t: m.vmap(lambda x: x.sum())(t.f),
    "vmap over an index without axes": lambda m, t: (
        m.vmap(lambda x, i: x[i])(t.c, t.x[:2]), m.vmap(lambda x, i: x[..., i])(t.c, t.x[:2]),
        m.vmap(lambda i: t.f[:, i])(t.x)),
    "the Hessian of a norm": lambda m, t: m.func.hessian(lambda x: x.norm())(t.v),
    "jvp through scatter_reduce": lambda m, t: m.func.jvp(
        lambda x: x.scatter_reduce(1, t.x[None], x * x, "mean"), (t.f,), (t.g,)),
    "np.float64 times a tensor": lambda m, t: np.float64(2) * t.f,
}

ALL: dict[str, Check] = {
    **REDUCTIONS, **ELEMENTWISE, **ARGUMENTS, **PYTHON,
    **{f"without axes: {name}": check for name, check in NO_AXES.items()},
    **{f"gradients {name}": check for name, check in GRADIENTS.items()}, **TRANSFORMS}
