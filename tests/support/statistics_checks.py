"""More of what PyTorch says and lazyten must say too, as in `semantic_checks.py`: counting,
functions of statistics, and functions that arrange tensors."""
from __future__ import annotations

import math
from typing import Any

from semantic_checks import Check, error_of, gradient_of, written

PAIRS = [[1, 2, 2], [1, 2, 2], [3, 1, 0], [1, 2, 2]]
HOLES = [[1.0, float("nan"), 3.0, 2.0], [float("nan")] * 4, [4.0, 3.0, 2.0, 1.0]]


def pairs(m: Any, t: Any) -> Any:
    return m.tensor(PAIRS)


def holes(m: Any, t: Any) -> Any:
    return m.tensor(HOLES)


COUNTING: dict[str, Check] = {
    "histogram of limits that are equal": lambda m, t: (
        m.histogram(t.v, bins=3, range=(2.0, 2.0)), m.histogram(t.v, 3, range=(0.0, 0.0)),
        m.histogram(t.v * 0 + 1, bins=2), m.histogram(t.v[:0], bins=3),
        m.histogram(t.v[:0], bins=3, range=(1.0, 2.0))),
    "histogram of limits without end": lambda m, t: [error_of(lambda r=r: m.histogram(
        t.v, bins=3, range=r)) for r in ((1.0, math.inf), (-math.inf, 0.0), (math.nan, 1.0))],
    "histc at the limits of its parts": lambda m, t: [m.histc(
        m.arange(11.0) / 10 + k / 10, bins=7, min=0.1, max=0.8) for k in range(7)],
    "unique along an axis": lambda m, t: (
        *pairs(m, t).unique(return_inverse=True, return_counts=True, dim=0),
        pairs(m, t).unique(dim=1), t.c.unique(dim=1)),
    "unique keeps every NaN": lambda m, t: t.n.unique(return_counts=True),
    "unique_consecutive along an axis": lambda m, t: (
        *pairs(m, t).unique_consecutive(return_inverse=True, return_counts=True, dim=0),
        pairs(m, t).unique_consecutive(dim=1)),
    "unique of a zero-dim tensor": lambda m, t: t.z.unique(),
    "mode": lambda m, t: (t.s.mode().values, *pairs(m, t).mode(1), *pairs(m, t).mode(0, True)),
    "mode of a zero-dim tensor": lambda m, t: tuple(t.z.mode()),
    "the gradient of mode": lambda m, t: gradient_of(t.e[0], lambda x: x.mode(1)[0] ** 2),
    "nanmedian": lambda m, t: (holes(m, t).nanmedian(), holes(m, t).nanmedian(1).values,
                               holes(m, t).nanmedian(0, True).values, t.i.nanmedian(1).values),
    "where nanmedian is": lambda m, t: holes(m, t)[::2].nanmedian(1).indices,
    "the gradient of nanmedian": lambda m, t: gradient_of(
        holes(m, t)[0], lambda x: x.nanmedian(0)[0] * 3),
    "nanquantile": lambda m, t: (holes(m, t).nanquantile(0.3, 1), holes(m, t).nanquantile(0.5),
                                 holes(m, t).nanquantile(m.tensor([0.0, 0.6, 1.0]), 0, True)),
    "histc": lambda m, t: (t.f.histc(4, -1, 3), t.v.histc(5), t.z.histc(3), t.p.histc(2, 1, 1)),
    "histc of integers": lambda m, t: error_of(lambda: t.i.histc(4, 0, 3)),
    "histc the wrong way round": lambda m, t: error_of(lambda: t.f.histc(4, 3, 0)),
    "histogram": lambda m, t: (*t.f.histogram(4), *t.f.histogram(3, range=(-1.0, 2.0)),
                               *t.f.histogram(3, weight=t.p, density=True)),
    "histogram between limits": lambda m, t: tuple(t.d.histogram(t.d)),
    "searchsorted row by row": lambda m, t: (
        m.searchsorted(t.c[:, 1], t.c[:, 1] + 0.5), m.searchsorted(t.f.sort()[0], t.g, right=True),
        m.searchsorted(t.f.sort()[0], t.g, side="left", out_int32=True)),
    "searchsorted by an order": lambda m, t: m.searchsorted(t.g, t.f, sorter=t.g.argsort()),
    "searchsorted in rows that are not there": lambda m, t: error_of(
        lambda: m.searchsorted(t.f, t.v)),
    "searchsorted on both sides": lambda m, t: error_of(
        lambda: m.searchsorted(t.d, t.d, right=True, side="left")),
    "bucketize numbers and in int32": lambda m, t: (m.bucketize(t.v.double(), t.d, right=True),
                                                    m.bucketize(t.d, t.d, out_int32=True)),
}

STATISTICS: dict[str, Check] = {
    "erfc, erfinv": lambda m, t: (t.f.erfc(), t.u.erfinv(), t.n.erfc(), t.n.erfinv(), t.i.erfc()),
    "erfc far out": lambda m, t: (t.f.double() * 6).erfc(),
    "lgamma": lambda m, t: (t.f.lgamma(), (t.e * 30).double().lgamma(), t.n.lgamma(), t.i.lgamma()),
    "digamma": lambda m, t: (t.f.digamma(), (t.e * 30).double().digamma(), t.n.digamma()),
    "the gradients of erfc, erfinv, lgamma, digamma": lambda m, t: (
        gradient_of(t.f, lambda x: x.erfc()), gradient_of(t.u, lambda x: x.erfinv()),
        gradient_of(t.f.double() + 0.1, lambda x: x.lgamma()),
        gradient_of(t.f.double() + 0.1, lambda x: x.digamma())),
    "logcumsumexp": lambda m, t: (t.f.logcumsumexp(1), t.n.logcumsumexp(0), t.z.logcumsumexp(0),
                                  (t.c * 40 - 400).logcumsumexp(0)),
    "the gradient of logcumsumexp": lambda m, t: gradient_of(
        t.c.double() * 40, lambda x: x.logcumsumexp(2) ** 2),
    "logaddexp2": lambda m, t: (m.logaddexp2(t.f, t.g), m.logaddexp2(t.f * 200, t.g)),
    "ldexp": lambda m, t: (t.f.ldexp(t.x), t.i.ldexp(t.x), t.f.ldexp(t.v)),
    "float_power": lambda m, t: (t.i.float_power(2), t.p.float_power(t.v)),
    "a number to the float_power": lambda m, t: [
        m.float_power(number, x) for number in (0.1, 1e200, 300, -2)
        for x in (t.v, t.v.half(), t.v.bfloat16(), t.i, t.s.byte(), t.z.half())],
    "a number divided by integers that do not hold it": lambda m, t: [
        f(number, x) for f in (m.div, m.divide, m.true_divide, m.xlogy) for number in (-2, 300)
        for x in (t.s.byte(), t.s[0].byte(), t.s.to(m.int8))],
    "a number divided by integers, rounded": lambda m, t: [
        m.div(7, x, rounding_mode=mode) for mode in ("floor", "trunc") for x in (t.s.byte(), t.j)],
    "hardshrink": lambda m, t: (t.f.hardshrink(), t.u.hardshrink(0.3), t.n.hardshrink()),
    "dist": lambda m, t: (t.f.dist(t.g), t.f.dist(t.v, 1), t.f.dist(t.g, 3), t.f.dist(t.g, 0),
                          t.f.dist(t.g, float("inf"))),
    "cov and corrcoef": lambda m, t: (t.f.cov(), t.c[0].cov(correction=0), t.v.cov(),
                                      t.m.pow(2).corrcoef(), t.v.corrcoef()),
    "cov with weights of another type": lambda m, t: [
        t.f.to(kind).cov(aweights=t.f[0].abs()) for kind in (m.float16, m.bfloat16, m.float64)],
    "positive, subtract, isreal": lambda m, t: (t.f.positive(), t.f.subtract(t.v, alpha=2),
                                                t.i.subtract(3), t.n.isreal()),
    "positive of bools": lambda m, t: error_of(lambda: t.b.positive()),
    "where as a method": lambda m, t: (t.f.where(t.b, t.g), t.f.where(t.b, 0.0)),
    "in-place statistics": lambda m, t: [written(t.u, w) for w in (
        lambda x: x.erfc_(), lambda x: x.erfinv_(), lambda x: x.sinc_(), lambda x: x.sgn_(),
        lambda x: x.ldexp_(t.x), lambda x: x.absolute_(), lambda x: x.arcsin_(),
        lambda x: x.subtract_(t.v), lambda x: x.true_divide_(2), lambda x: x.greater_(0))],
}

ARRANGING: dict[str, Check] = {
    "addr, addbmm": lambda m, t: (
        t.m.addr(t.v, t.w, beta=2, alpha=3), t.m[0].addr(t.v, t.w),
        m.zeros(3, 3).to(t.c.device).addbmm(t.c, t.c.transpose(1, 2), alpha=0.5),
        m.ones(3, 3).to(t.c.device).addbmm(t.c, t.c.mT, beta=2)),
    "matrix_power": lambda m, t: [t.m.matrix_power(n) for n in (0, 1, 2, 5)],
    "matrix_power of no square": lambda m, t: error_of(lambda: t.f.matrix_power(2)),
    "adjoint": lambda m, t: (t.c.adjoint(), t.c.mH),
    "argwhere": lambda m, t: (t.b.argwhere(), t.m.argwhere(), t.z.argwhere()),
    "diagflat": lambda m, t: (t.f.diagflat(), t.v.diagflat(-1)),
    "select_scatter": lambda m, t: (t.f.select_scatter(t.v, 0, -1), t.c.select_scatter(
        t.c[:, :, 0] * 2, 2, 1)),
    "select_scatter of another shape": lambda m, t: error_of(
        lambda: t.f.select_scatter(t.f, 0, 0)),
    "slice_scatter": lambda m, t: (t.c.slice_scatter(t.c[:, :, :2] * 2, 2, 1, None, 2),
                                   t.f.slice_scatter(t.v.reshape(1, 3), 0, -1)),
    "the gradient of slice_scatter": lambda m, t: gradient_of(
        t.f, lambda x: x.slice_scatter(x[:1] ** 2, 0, 1)),
    "atleast_1d and so on": lambda m, t: (
        m.atleast_1d(t.z), m.atleast_2d(t.z, t.v), m.atleast_3d([t.z, t.v, t.f, t.c])),
    "block_diag": lambda m, t: m.block_diag(t.f, t.z, t.v, t.g),
    "broadcast_shapes": lambda m, t: tuple(m.broadcast_shapes((2, 1), (3,), 1)),
    "cartesian_prod": lambda m, t: (m.cartesian_prod(t.v, t.w), m.cartesian_prod(t.v)),
    "column_stack, row_stack, concatenate": lambda m, t: (
        m.column_stack([t.v, t.w]), m.column_stack([t.m, t.v]), m.concatenate([t.f, t.g]),
        m.column_stack([t.v, t.w], out=t.v.new_zeros(0))),
    "combinations": lambda m, t: (m.combinations(t.v), m.combinations(t.x, 3),
                                  m.combinations(t.x, 2, True)),
    "combinations there are none of": lambda m, t: (
        m.combinations(t.v, 0), m.combinations(t.v, 4),
        gradient_of(t.v, lambda x: m.combinations(x, 4))),
    "tril_indices, triu_indices": lambda m, t: [
        f(3, 4, o) for f in (m.tril_indices, m.triu_indices) for o in (-1, 0, 2)],
    "logspace": lambda m, t: (m.logspace(-1, 2, 4), m.logspace(0, 3, 4, base=2)),
    "vander": lambda m, t: (m.vander(t.v), m.vander(t.x, 5, increasing=True), m.vander(t.v, N=1)),
    "unravel_index": lambda m, t: m.unravel_index(t.s, (2, 3)),
    "trapezoid": lambda m, t: (m.trapezoid(t.f), m.trapezoid(t.f, t.v), m.trapezoid(t.f, dx=0.5),
                               m.trapezoid(t.f, t.g, dim=0), m.trapz(t.c, dim=1)),
    "cdist of rows without elements": lambda m, t: [
        m.cdist(t.f[:, :0], t.m[:, :0], p) for p in (0.0, 1.0, 2.0, float("inf"))],
    "cumulative_trapezoid of nothing": lambda m, t: (
        m.cumulative_trapezoid(t.i[:0], dx=1, dim=0), m.trapezoid(t.o, dim=0)),
    "cumulative_trapezoid": lambda m, t: (m.cumulative_trapezoid(t.f), m.cumulative_trapezoid(
        t.f, t.v), m.cumulative_trapezoid(t.c, dim=0, dx=2)),
    "flip of no axes": lambda m, t: (t.f.flip(()), t.c.flip([]), t.f.flip(0, 1)),
    "diff of none": lambda m, t: (t.f.diff(0), t.f.diff(0, prepend=t.f), t.v.diff(
        n=0, append=t.w)),
    "cat with an empty vector": lambda m, t: (
        m.cat([t.f.new_zeros(0), t.f]), m.cat([t.f, t.f.new_zeros(0)], 1),
        m.cat([t.f.new_zeros(0), t.c], -1),
        m.cat([t.f.new_zeros(0), t.f.new_zeros(0)]), m.cat([t.f.new_zeros(0), t.f.new_zeros(0)], 1),
        m.cat([t.f.new_zeros(0), t.f.new_zeros(0, 3)], 1), m.hstack([t.f.new_zeros(0), t.f]),
        m.cat([t.d.new_zeros(0, dtype=m.float64), t.f]), m.cat([t.f.new_zeros(0), t.i])),
    "the gradient of cat with an empty vector": lambda m, t: gradient_of(
        t.f, lambda x: m.cat([t.f.new_zeros(0), x * 2, t.f.new_zeros(0)], 1)),
    "cat with an empty matrix of another size": lambda m, t: error_of(
        lambda: m.cat([t.f.new_zeros(0, 5), t.f])),
    "gather and scatter by no index": lambda m, t: [
        (t.f.gather(0, e), t.f.scatter(1, e, t.f), t.f.scatter_add(0, e, t.f), t.v.gather(0, e))
        for e in (t.i.new_zeros(0), t.i.new_zeros(2, 0))],
    "gather by an index of fewer axes": lambda m, t: error_of(
        lambda: t.f.gather(0, t.i.new_zeros(1))),
    "tensordot of axes of size 1": lambda m, t: (
        m.tensordot(t.f.new_ones(2, 1), t.m, ([1], [0])),
        m.tensordot(t.f, t.f.new_ones(1, 2), ([1], [0])),
        m.tensordot(t.c[:, :1], t.c, ([1, 2], [1, 2])), m.tensordot(t.f.new_ones(1), t.v, 1),
        m.tensordot(t.f.new_ones(3, 1), t.f.new_ones(1, 3), 2)),
    "the gradient of tensordot of axes of size 1": lambda m, t: gradient_of(
        t.f, lambda x: m.tensordot(x[:1], t.c, ([0], [0])).sum() + m.tensordot(
            x, t.f.new_ones(1), 1)),
    "a product of tensors from the right": lambda m, t: (
        gradient_of(t.m, lambda x: t.m.__rmatmul__(x * 2)), t.v.__rmatmul__(t.m)),
    "linspace and logspace of whole numbers": lambda m, t: (
        m.linspace(4.3, -3, 50, dtype=m.int64), m.linspace(-2.9, 7.9, 4, dtype=m.int32),
        m.logspace(0, 1.2, 2, dtype=m.int64), m.logspace(0.5, 3.9, 4, dtype=m.int32)),
    "numel, is_tensor": lambda m, t: (m.numel(t.c), m.is_tensor(t.c), m.is_tensor(3)),
}

ALL: dict[str, Check] = {**COUNTING, **STATISTICS, **ARRANGING}
