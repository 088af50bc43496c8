"""Functions at the points where their formulas end: zeros of both signs, kinks, ties, infinities,
NaN, the least and the greatest numbers. `test_special_points.py` compares them with PyTorch's.

A row is `name: function(m, F, *x)`, of a library, its nn.functional and tensors of one type.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
inf, nan = math.inf, math.nan


def words(text: str) -> list[str]:
    """The names in a text."""
    return text.split()


def method(name: str, *args: Any, **kwargs: Any) -> Function:
    return lambda m, F, x, *more: getattr(x, name)(*more, *args, **kwargs)


def activation(name: str, *args: Any, **kwargs: Any) -> Function:
    return lambda m, F, x, *more: getattr(F, name)(x, *more, *args, **kwargs)


def by(function: Function, number: float) -> Function:
    """Of x and a number."""
    return lambda m, F, x: function(x, number)


def of(number: float, function: Function) -> Function:
    """Of a number and x."""
    return lambda m, F, x: function(number, x)


def part(name: str, axis: int) -> Function:
    """The first of the tensors that a method gives."""
    return lambda m, F, x: getattr(x, name)(axis)[0]


def weighted(name: str, axis: int) -> Function:
    """A method, each of whose elements along the axis has another weight."""
    return lambda m, F, x: _weighted(m, getattr(x, name)(axis), axis)


def points(dtype: str) -> Array:
    """For functions of one number."""
    tiny, big = ENDS[dtype]
    return np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 6, -6, 2.5, -0.3, 20, 25, -100, 100,
                     1e-3, tiny, -tiny, big, -big, inf, -inf, nan])


def pairs(dtype: str) -> tuple[Array, Array]:
    """Each of some numbers beside each: for functions of two."""
    tiny, big = ENDS[dtype]
    few = np.array([0.0, -0.0, 1, -1, 0.5, 2, -2, 3, 2.5, -0.3, tiny, big, -big, inf, -inf, nan])
    a, b = np.meshgrid(few, few, indexing="ij")
    return a.reshape(-1), b.reshape(-1)


ENDS = {"float64": (5e-324, 1.7e308), "float32": (1e-45, 3e38)}
"""A number next to 0, and one near the greatest."""

ROWS = np.array([
    [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 2, 3], [inf, 1, 0, 2], [-inf, -inf, -inf, -inf],
    [nan, 1, 2, 3], [inf, -inf, 1, 2], [inf, inf, 1, 2], [-inf, 1, 2, 3], [0, 0, 5, 2],
    [0, 3, 5, -2], [-0.0, 0, -0.0, 0], [2, 2, 1, 1], [-1, -1, 3, 3], [1e-3, 1e-3, 1e-3, 1e-3],
    [5, -7, 2, -7], [1, nan, nan, 0], [inf, inf, inf, inf], [1e4, -1e4, 3, 2], [1, -inf, 2, inf],
    [3, 0, 2, 0]])
"""For functions of some axis."""
TIES_APART = ROWS[[2, 5, 8, 10, 18, 19]]
"""Those whose elements differ: of equal ones PyTorch's sort chooses any."""

UNARY: dict[str, Function] = {name: method(name) for name in words("""
    abs absolute acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp
    exp2 expm1 fix floor frac hardshrink isfinite isinf isnan isneginf isposinf lgamma log log10
    log1p log2 logical_not logit nan_to_num neg negative positive rad2deg reciprocal relu round
    rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc""")}
UNARY |= {f"F.{name}": activation(name) for name in words("""
    celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6
    rrelu selu silu softplus softshrink softsign tanhshrink""")}
UNARY |= {
    "round to 2 decimals": method("round", decimals=2),
    "round to tens": method("round", decimals=-1),
    "logit with eps": method("logit", 0.1), "gelu tanh": activation("gelu", approximate="tanh"),
    "softplus with beta": activation("softplus", 2.0, 1.0),
    "threshold": activation("threshold", 0.5, 2.0), "elu of -2": activation("elu", -2.0),
    "celu of 1/2": activation("celu", 0.5), "leaky_relu of -2": activation("leaky_relu", -2.0),
    "hardtanh to 3": activation("hardtanh", -0.5, 3.0),
    **{f"x ** {e}": by(operator.pow, e)
       for e in (0, 1, 2, 3, -1, 0.5, -0.5, 2.5, -2, inf, -inf, nan)},
    **{f"{e} ** x": of(e, operator.pow) for e in (0, 1, 2, -1, 0.5, inf, nan)},
    **{f"x % {e}": by(operator.mod, e) for e in (0.0, 1.0, -2.0, inf, nan)},
    **{f"fmod {e}": method("fmod", e) for e in (0.0, 1.0, -2.0, inf, nan)},
    **{f"x / {e}": by(operator.truediv, e) for e in (0.0, 1.0, -2.0, inf, nan)},
    **{f"{e} / x": of(e, operator.truediv) for e in (1.0, -2.0, nan)},
    **{f"xlogy {e}": method("xlogy", e) for e in (0.0, 1.0, -2.0, inf)},
    **{f"clamp {low} {high}": method("clamp", low, high) for low, high in (
        (-1, 1), (0, None), (None, 0), (nan, None), (None, nan), (2, 1), (-inf, inf), (inf, None))},
}

BINARY: dict[str, Function] = {name: method(name) for name in words("""
    add atan2 copysign div eq float_power fmax fmin fmod ge gt hypot ldexp le logaddexp logaddexp2
    lt maximum minimum mul ne pow remainder sub xlogy""")}
BINARY |= {
    "div floor": method("div", rounding_mode="floor"),
    "div trunc": method("div", rounding_mode="trunc"),
    "clamp from": lambda m, F, x, y: x.clamp(y), "clamp to": lambda m, F, x, y: x.clamp(None, y),
    "clamp between": lambda m, F, x, y: x.clamp(y, y + 1),
    "lerp": lambda m, F, x, y: x.lerp(y, 0.3), "lerp far": lambda m, F, x, y: x.lerp(y, 0.7),
    "lerp by a tensor": lambda m, F, x, y: x.lerp(y, x),
    "addcmul": lambda m, F, x, y: x.addcmul(x, y), "addcdiv": lambda m, F, x, y: x.addcdiv(x, y),
    "where": lambda m, F, x, y: m.where(x > y, x * y, x - y),
}


def _weighted(m: Any, x: Any, axis: int) -> Any:
    """x with another weight for each element of an axis, so that their gradients differ."""
    n = x.shape[axis]
    weights = m.arange(1, n + 1, dtype=x.dtype, device=x.device)
    return x * weights.reshape((1, n) if axis else (n, 1))


def _along(axis: int) -> dict[str, Function]:
    found: dict[str, Function] = {name: method(name, axis) for name in words("""
        all amax amin any argmax argmin cumsum diff logsumexp mean nanmean nansum prod std sum var
        """)}
    found |= {name: part(name, axis)
              for name in words("cummax cummin max median min nanmedian")}
    found |= {name: weighted(name, axis)
              for name in ("softmax", "log_softmax")}
    found |= {f"norm {p}": method("norm", p, axis)
              for p in (0, 1, 2, 3, inf, -inf, -1)}
    return found | {
        "var of all": lambda m, F, x: x.var(axis, correction=0),
        "std of all": lambda m, F, x: x.std(axis, correction=0),
        "var_mean": lambda m, F, x: m.var_mean(x, axis)[0],
        "std_mean": lambda m, F, x: m.std_mean(x, axis)[0],
        "aminmax": lambda m, F, x: x.aminmax(dim=axis)[0],
        "softmin": lambda m, F, x: _weighted(m, F.softmin(x, axis), axis),
        "normalize": lambda m, F, x: F.normalize(x, dim=axis)}


REDUCTIONS: dict[str, Function] = {f"{name} along {axis}": function for axis in (0, 1)
                                   for name, function in _along(axis).items()}
REDUCTIONS |= {
    "max of all": lambda m, F, x: x[:4].max(), "min of all": lambda m, F, x: x[:3].min(),
    "max of ties": lambda m, F, x: x[12:14].max(), "amin of ties": lambda m, F, x: x[12:14].amin(),
    "prod of all": lambda m, F, x: x[:3].prod(), "prod of one 0": lambda m, F, x: x[2].prod(),
    "std of equals": lambda m, F, x: x[1].std(), "norm of zeros": lambda m, F, x: x[0].norm(),
    "std of one": lambda m, F, x: x[:, :1].std(1, correction=0),
    "cumprod": lambda m, F, x: x[[0, 1, 2, 9, 10, 20]].cumprod(1),
    "logcumsumexp": lambda m, F, x: x[[0, 1, 2, 8, 9, 10]].logcumsumexp(1),
    "layer_norm": lambda m, F, x: F.layer_norm(x, (4,)), "glu": lambda m, F, x: F.glu(x),
    "group_norm": lambda m, F, x: F.group_norm(x[:, :, None], 2),
    "tril": lambda m, F, x: x.tril(), "flip": lambda m, F, x: x.flip(1),
    "masked_fill": lambda m, F, x: x.masked_fill(x > 1, 0.0),
    "where of NaN": lambda m, F, x: m.where(x == x, x, m.zeros_like(x)),
    "pad": lambda m, F, x: F.pad(x, (1, 2), value=3.0),
}

ORDERED: dict[str, Function] = {
    "sort": lambda m, F, x: _weighted(m, x.sort(1)[0], 1), "topk": lambda m, F, x: x.topk(2, 1)[0],
    "kthvalue": lambda m, F, x: x.kthvalue(2, 1)[0],
    "quantile": lambda m, F, x: x.quantile(0.3, 1),
    "far quantile": lambda m, F, x: x.quantile(0.9, 1),
    "nanquantile": lambda m, F, x: x.nanquantile(0.3, 1),
    "quantiles": lambda m, F, x: x[[0, 3]].quantile(x[0] / 4, 1),
}
"""Of rows without ties."""


def _labels(m: Any, x: Any) -> Any:
    return m.arange(x.shape[0], device=x.device) % 4


def _regression(name: str, **kwargs: Any) -> Function:
    return lambda m, F, x, y, t: getattr(F, name)(x, y, reduction="none", **kwargs)


LOSSES: dict[str, Function] = {
    "mse_loss": _regression("mse_loss"), "l1_loss": _regression("l1_loss"),
    "huber_loss": _regression("huber_loss", delta=2.0),
    "smooth_l1_loss": _regression("smooth_l1_loss", beta=0.5),
    "smooth_l1_loss of 0": _regression("smooth_l1_loss", beta=0.0),
    "kl_div": lambda m, F, x, y, t: F.kl_div(x, t.detach(), reduction="none"),
    "kl_div of logs": _regression("kl_div", log_target=True),
    "poisson": lambda m, F, x, y, t: F.poisson_nll_loss(x, t.detach() * 4, reduction="none"),
    "binary_cross_entropy_with_logits": lambda m, F, x, y, t:
        F.binary_cross_entropy_with_logits(x, t, reduction="none"),
    "the same with pos_weight": lambda m, F, x, y, t: F.binary_cross_entropy_with_logits(
        x, t, reduction="none", pos_weight=m.zeros_like(t).detach() + 2),
    "cross_entropy": lambda m, F, x, y, t: F.cross_entropy(x, _labels(m, x), reduction="none"),
    "smoothed cross_entropy": lambda m, F, x, y, t: F.cross_entropy(
        x, _labels(m, x), reduction="none", label_smoothing=0.1),
    "cross_entropy of shares": lambda m, F, x, y, t: F.cross_entropy(x, t, reduction="none"),
    "nll_loss": lambda m, F, x, y, t: F.nll_loss(x, _labels(m, x), reduction="none"),
    "margin_ranking_loss": lambda m, F, x, y, t: F.margin_ranking_loss(
        x, y, m.ones_like(x).detach(), 0.5, reduction="none"),
    "hinge_embedding_loss": lambda m, F, x, y, t: F.hinge_embedding_loss(
        x, -m.ones_like(x).detach(), reduction="none"),
}
"""Of rows, of the same rows in reverse order, and of shares."""


@dataclass(frozen=True)
class Odd:
    """Where the two differ, and why: docs/tensors.md says it, too. where: of the arguments."""

    why: str
    where: Callable[..., Array]
    gradient_only: bool = False


def _tiny(x: Array) -> Array:
    return (x != 0) & (np.abs(x) < 1e-37)


def _big(x: Array) -> Array:
    return np.isfinite(x) & (np.abs(x) > 1e37)


def _all(*x: Array) -> Array:
    return np.ones_like(x[0], bool)


_NAN_SIGN = Odd("sign(NaN) is NaN, as in NumPy; PyTorch's is 0", np.isnan)
_FAR = Odd("what a quotient that is too large leaves; PyTorch gives NaN",
           lambda x, y: _tiny(y) | _big(x))
_ROOT = Odd("a power, not a square root: C's pow of -0.0 and -inf",
            lambda x: np.signbit(x) & ((x == 0) | np.isinf(x)))
_OVERFLOW = Odd("a step of one of the two formulas overflows", lambda x, y: _big(x) | _big(y))
_COARSE = Odd("PyTorch's constant, or series, is of less precision", _all, gradient_only=True)

ODD: dict[str, Odd] = {
    "sgn": _NAN_SIGN, "sign": _NAN_SIGN, "remainder": _FAR, "fmod": _FAR,
    "x ** 0.5": _ROOT, "x ** -0.5": _ROOT, "addcmul": _OVERFLOW, "addcdiv": _OVERFLOW,
    "lerp by a tensor": _OVERFLOW,
    "F.hardsigmoid": _COARSE, "digamma": _COARSE,
    "F.gelu": Odd("PyTorch's is NaN at infinity in float32", lambda x: np.isinf(x) | _big(x) | (
        x == -3)),
    "logit": Odd("the sign of an infinite slope at -0.0", lambda x: x == 0, gradient_only=True),
    "copysign": Odd("PyTorch divides infinity by itself", lambda x, y: np.isinf(x),
                    gradient_only=True),
    "div": Odd("0 over a number next to 0, in the slope", lambda x, y: _tiny(y),
               gradient_only=True),
    "clamp between": Odd("PyTorch drops the gradient where both bounds are equal",
                         lambda x, y: y == y + 1, gradient_only=True),
    "binary_cross_entropy_with_logits": Odd("PyTorch multiplies 0 with infinity",
                                            lambda x, y, t: np.isinf(x)),
    "the same with pos_weight": Odd("PyTorch multiplies 0 with infinity",
                                    lambda x, y, t: np.isinf(x)),
    "logcumsumexp": Odd("PyTorch's slope of -infinity itself is NaN, or 0",
                        lambda x: np.isneginf(x), gradient_only=True),
    "sinc": Odd("near 0 PyTorch's slope is a difference of near numbers",
                lambda x: np.abs(x) == 1e-3, gradient_only=True),
}
